"""Facts about SageMaker endpoints."""

from launcher.model.enums import PurchaseOption, TargetKind
from launcher.model.target import HOSTING, SAGEMAKER, SAGEMAKER_PLANS, Guard, RoleUse, Runs, Target

FACTS = Target(
    kind=TargetKind.SAGEMAKER_ENDPOINT,
    title="a SageMaker endpoint",
    example="serve/pinned/llama31-8b-inf2.yaml",
    serves=(PurchaseOption.ON_DEMAND, PurchaseOption.SAVINGS_PLAN),
    deployed=(Runs.SERVING,),
    savings_plans=SAGEMAKER_PLANS,
    sagemaker=HOSTING,
    policies=("endpoint",),
    registry_types=("AWS::SageMaker::Endpoint", "AWS::SageMaker::EndpointConfig", "AWS::SageMaker::Model"),
    roles=(RoleUse(key="nodes", service=SAGEMAKER, needs=("containers",)),),
    guard=Guard(
        module="endpoint",
        variable="ENDPOINT",
        events=("SageMaker Endpoint State Change",),
        stops="the endpoint is deleted",
    ),
)
