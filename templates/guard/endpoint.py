# ruff: noqa: INP001 - one file that is shipped as it is; the folder is the function's code
"""The guard of a SageMaker endpoint: its differences from a cluster's guard.

SageMaker scales an endpoint with its traffic, and an alarm reports a time without requests. The guard deletes the
endpoint after its time to live, and never because it is idle. At the spending limit, an endpoint whose range allows
zero is scaled to zero and stays there; any other is deleted. SageMaker counts instances; starting ones are billed too.
"""

import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from guard import Guard, Node, Settings, aws, its, respond

MISSING = "ValidationException"
"""SageMaker's error code for the name of an endpoint that does not exist."""
SUSPENDED = ("DynamicScalingOutSuspended", "ScheduledScalingSuspended")
"""The activities that would bring instances back: the alarm that starts one, and the schedule, which sets ranges."""


def handler(event: Mapping[str, Any], context: Any) -> None:
    """The Lambda handler."""
    settings = Settings.of({**os.environ, "HYPERPOD": os.environ["ENDPOINT"]})
    respond(EndpointGuard(settings, aws, datetime.now(UTC)), event, context)


class EndpointGuard(Guard):
    """One call of the guard of an endpoint, at the time `now`."""

    slurm = False
    boots_watched = False
    prepaid = "the instances of a training plan are left"

    def __init__(self, settings: Settings, client: Callable[[str], Any], now: datetime) -> None:
        """Use `client(service)` to reach AWS."""
        super().__init__(settings, client, now)
        self.sagemaker = client("sagemaker")
        self.variants: list[str] = []

    def nodes(self) -> list[Node]:
        """One entry for each instance of the endpoint; empty if the endpoint does not exist.

        SageMaker does not say when an instance started. As many as its range always keeps run since the endpoint began.
        """
        described, limit = self.described(), self.settings.sum
        variants = described.get("ProductionVariants", [])
        self.variants = [variant["VariantName"] for variant in variants]
        count = sum(variant.get("CurrentInstanceCount", 0) for variant in variants)
        least = 0 if limit is None else min(limit.least, count)
        began = {"LaunchTime": described["CreationTime"]} if least else {}
        return [began] * least + [{}] * (count - least)

    def described(self) -> Mapping[str, Any]:
        """The endpoint as SageMaker describes it; empty if it does not exist."""
        try:
            description: Mapping[str, Any] = self.sagemaker.describe_endpoint(EndpointName=self.settings.name)
        except self.sagemaker.exceptions.ClientError as refusal:
            if refusal.response["Error"]["Code"] != MISSING:
                raise
            return {}
        return description

    def all_idle(self, _nodes: list[Node]) -> bool:
        """Never: an hour without a request is a night, not the end of a service."""
        return False

    def end_service(self, reason: str, count: int | None) -> None:
        """Scale to zero if the plan allows zero, and limit the range to zero, so that no request starts an instance."""
        limit = self.settings.sum
        if limit is None or not limit.to_zero:
            self.end(reason, count)
            return
        autoscaling = self.client("application-autoscaling")
        pages = autoscaling.get_paginator("describe_scalable_targets").paginate(
            ServiceNamespace="sagemaker", ResourceIds=self.scaled()
        )
        # "It changes the resource's current capacity to a value that is inside of this range" (RegisterScalableTarget).
        open_ones = [target for page in pages for target in page["ScalableTargets"] if target["MaxCapacity"]]
        for one in open_ones:
            autoscaling.register_scalable_target(
                **{key: one[key] for key in ("ServiceNamespace", "ResourceId", "ScalableDimension")},
                MinCapacity=0,
                MaxCapacity=0,
                SuspendedState=dict.fromkeys(SUSPENDED, True),
            )
        if open_ones:
            self.notify(
                "endpoint scaled to zero",
                f"{reason}. The endpoint {self.settings.name} goes from {its(count, 'instances')} to none and stays"
                f" there: requests fail or wait from now on.\nMake it answer again: raise the sum, then slipway down"
                f" {self.settings.cluster} and slipway deploy",
            )

    def scaled(self) -> list[str]:
        """The scalable resources: the copies of the endpoint's component, or the instances of its variants."""
        name = self.settings.name
        return [f"inference-component/{name}", *(f"endpoint/{name}/variant/{variant}" for variant in self.variants)]

    def stop(self, reason: str, count: int | None) -> None:
        """Delete the endpoint, its component first; the next call deletes the rest.

        Raises:
            ClientError: SageMaker refuses.
        """
        status = self.described().get("EndpointStatus", "Deleting")
        if status == "Deleting":
            return
        pages = self.sagemaker.get_paginator("list_inference_components").paginate(
            EndpointNameEquals=self.settings.name
        )
        components = [component for page in pages for component in page["InferenceComponents"]]
        for component in components:
            if component["InferenceComponentStatus"] != "Deleting":
                self.sagemaker.delete_inference_component(InferenceComponentName=component["InferenceComponentName"])
        if components:
            return
        self.sagemaker.delete_endpoint(EndpointName=self.settings.name)
        self.notify(
            "endpoint deleted",
            f"{reason}. The endpoint {self.settings.name} is being deleted with {its(count, 'instances')}; requests"
            f" fail from now on.\nCreate it again: slipway down {self.settings.cluster}, then slipway deploy",
        )
