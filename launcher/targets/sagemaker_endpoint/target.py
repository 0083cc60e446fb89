"""SageMaker endpoints: their facts, and training plans that do not fit them."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from launcher.model.enums import PurchaseOption, SavingsPlanKind, TargetKind
from launcher.model.finding import Finding, error
from launcher.model.instance_type import InstanceType
from launcher.model.plan import Place
from launcher.model.request import PlanRequest
from launcher.model.target import HOSTING, SAGEMAKER, Guard, RoleUse, Runs, Target
from launcher.targets.bases import training_plan_refusals


class SageMakerEndpoint(Target):
    """A SageMaker endpoint, which serves one model."""

    kind = TargetKind.SAGEMAKER_ENDPOINT
    title = "a SageMaker endpoint"
    example = "serve/pinned/llama31-8b-inf2.yaml"
    serves = (PurchaseOption.ON_DEMAND, PurchaseOption.SAVINGS_PLAN, PurchaseOption.TRAINING_PLAN)
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
    planned_for = "endpoint"
    # A training plan's instances are those of a Capacity Block, which EC2 ends 30 minutes early; no source says when
    # SageMaker takes back an endpoint's.
    plan_lost_minutes = 30
    # "The training plan must be in the Active status to be used by an inference endpoint" (developer guide, training
    # plans for inference endpoints, 2026-11).
    plan_states = ("Active",)

    def refusals(
        self, request: PlanRequest, place: Place, instances: Mapping[str, InstanceType]
    ) -> tuple[Finding, ...]:
        """Training plans that do not fit the endpoint."""
        return tuple(self._refusals(request, place, instances))

    @staticmethod
    def _refusals(request: PlanRequest, place: Place, instances: Mapping[str, InstanceType]) -> Iterator[Finding]:
        if place.option is not PurchaseOption.TRAINING_PLAN:
            return
        from launcher.model.endpoint import most_instances

        if not instances[place.instance_type].training_plans:
            message = f"{place.instance_type} is not available in training plans"
            yield error("no-training-plan", "target.instance_type", message, "set purchase.option to on-demand")
        bought, serve = request.purchase.training_plan, request.workload.serve
        most = place.nodes if serve is None else most_instances(serve, place.nodes)
        yield from training_plan_refusals(bought, replace(place, nodes=most), path="workload.serve.max_instances")
