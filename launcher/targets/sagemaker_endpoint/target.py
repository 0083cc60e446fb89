"""SageMaker endpoints: their facts."""

from launcher.model.enums import PurchaseOption, SavingsPlanKind, TargetKind
from launcher.model.target import HOSTING, SAGEMAKER, Guard, RoleUse, Runs, Target


class SageMakerEndpoint(Target):
    """A SageMaker endpoint, which serves one model."""

    kind = TargetKind.SAGEMAKER_ENDPOINT
    title = "a SageMaker endpoint"
    example = "serve/pinned/llama31-8b-inf2.yaml"
    serves = (PurchaseOption.ON_DEMAND, PurchaseOption.SAVINGS_PLAN)
    deployed = (Runs.SERVING,)
    savings_plans = (SavingsPlanKind.SAGEMAKER,)
    sagemaker = HOSTING
    policies = ("endpoint",)
    registry_types = ("AWS::SageMaker::Endpoint", "AWS::SageMaker::EndpointConfig", "AWS::SageMaker::Model")
    roles = (RoleUse(key="nodes", service=SAGEMAKER, needs=("containers",), joins_vpc=True),)
    guard = Guard(
        module="endpoint",
        variable="ENDPOINT",
        events=("SageMaker Endpoint State Change",),
        stops="the endpoint is deleted",
    )
