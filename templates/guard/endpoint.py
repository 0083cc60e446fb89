# ruff: noqa: INP001 - one file that is shipped as it is; the folder is the function's code
"""The guard of a SageMaker endpoint: its differences from a cluster's guard.

SageMaker scales an endpoint with its traffic, and an alarm reports a time without requests. The guard deletes the
endpoint after its time to live, and never because it is idle. At the spending limit, an endpoint whose range allows
zero is scaled to zero and stays there; any other is deleted. SageMaker counts instances; starting ones are billed too.
"""

import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from announced import event_text
from boots import CHARACTERS, LINES
from guard import Guard, Node, Settings, aws, its, respond
from job_messages import Folder, plain
from state import State, mark_between_checks

MISSING = "ValidationException"
"""SageMaker's error code for the name of an endpoint that does not exist."""
NO_LOG = "ResourceNotFoundException"
"""CloudWatch's error code for a missing log group."""
IN_SERVICE = "InService"
AGAIN = timedelta(days=7)
"""Time between two notifications of one reason: SageMaker keeps it until the next change of the endpoint."""
SAME = timedelta(minutes=30)
"""Time in which an event and a check with the same reason report one failure."""
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
        self.description: Mapping[str, Any] = {}

    def nodes(self) -> list[Node]:
        """One entry for each instance of the endpoint; empty if the endpoint does not exist.

        SageMaker does not say when an instance started. As many as its range always keeps run since the endpoint began.
        """
        self.description, limit = self.describe_endpoint(), self.settings.sum
        count = sum(variant.get("CurrentInstanceCount", 0) for variant in self.variants)
        least = 0 if limit is None else min(limit.least, count)
        began = {"LaunchTime": self.description["CreationTime"]} if least else {}
        return [began] * least + [{}] * (count - least)

    @property
    def variants(self) -> list[Mapping[str, Any]]:
        """The variants of the endpoint that `nodes` has described."""
        return list(self.description.get("ProductionVariants", []))

    def describe_endpoint(self) -> Mapping[str, Any]:
        """The endpoint as SageMaker describes it; empty if it does not exist."""
        try:
            description: Mapping[str, Any] = self.sagemaker.describe_endpoint(EndpointName=self.settings.name)
        except self.sagemaker.exceptions.ClientError as refusal:
            if refusal.response["Error"]["Code"] != MISSING:
                raise
            return {}
        return description

    def announce(self, event: Mapping[str, Any]) -> None:
        """Notify users of an endpoint that fails or is rolled back, with the reason and the containers' last lines.

        Raises:
            GuardError: the reason could not be read; the message was sent without it.
        """
        subject, text = event_text(event["detail-type"], event["detail"])
        reason = (self.attempt("read why the endpoint fails", self.describe_endpoint) or {}).get("FailureReason")
        name, parameter = f"failed {reason}", self.settings.parameter
        sent = reason and self.attempt(
            "read its notifications", lambda: State.read(self.ssm, parameter).was_sent(name, self.now, SAME)
        )
        if not sent:
            self.notify(subject, self.with_lines(f"{text}: {plain(reason)}" if reason else text))
        if reason and not sent:
            self.attempt("store its state", lambda: mark_between_checks(self.ssm, parameter, name, self.now))
        self.raise_failures()

    def watch_idle(self, _nodes: list[Node], _began: datetime | None, _folder: Folder | None) -> None:
        """Report instances and copies that do not start. Nothing is idle: an hour without requests may be a night."""
        self.attempt("check for instances that do not start", self.watch_starts)

    def watch_starts(self) -> None:
        """Notify users of a failed start, also of a new instance beside running ones, and of missing instances.

        Raises:
            ClientError: SageMaker does not respond.
        """
        missing = [
            f"variant {variant['VariantName']} runs {current} of {its(desired, 'instances')}"
            for variant in self.variants
            if (current := variant.get("CurrentInstanceCount", 0)) < (desired := variant.get("DesiredInstanceCount", 0))
        ]
        reasons = [self.description.get("FailureReason", "")]
        # Only instances without a model of their own, for components, are managed by SageMaker (parts/endpoint.py).
        shared = any("ManagedInstanceScaling" in variant for variant in self.variants)
        for name in [component["InferenceComponentName"] for component in self.list_components()] if shared else []:
            component = self.sagemaker.describe_inference_component(InferenceComponentName=name)
            copies = component.get("RuntimeConfig", {})
            current, desired = copies.get("CurrentCopyCount", 0), copies.get("DesiredCopyCount", 0)
            reasons.append(component.get("FailureReason", ""))
            if component["InferenceComponentStatus"] == IN_SERVICE and current < desired:
                missing.append(f"component {name} runs {current} of {its(desired, 'copies')}")
        reasons = [reason for reason in reasons if reason]
        # The event of the same failure may have come before this check.
        recent = self.state is not None and any(
            self.state.was_sent(f"failed {reason}", self.now, SAME) for reason in reasons
        )
        fresh = [reason for reason in reasons if self.first(f"failed {reason}", AGAIN)]
        texts = [f"SageMaker says: {plain(reason)}" for reason in dict.fromkeys(fresh)]
        # While SageMaker changes the endpoint, its instances are still starting.
        if missing and self.description.get("EndpointStatus") == IN_SERVICE and not (recent and not fresh):
            texts += ["; ".join(missing)] if self.first(f"missing {missing}") else []
        if texts:
            self.notify("endpoint in trouble" if fresh else "instances missing", self.with_lines("\n  ".join(texts)))

    def list_components(self) -> list[Mapping[str, Any]]:
        """The endpoint's components, as SageMaker lists them.

        Raises:
            ClientError: SageMaker does not respond.
        """
        pages = self.sagemaker.get_paginator("list_inference_components").paginate(
            EndpointNameEquals=self.settings.name
        )
        return [component for page in pages for component in page["InferenceComponents"]]

    def with_lines(self, text: str) -> str:
        """The text, with the last lines of the container that wrote last."""
        lines = self.attempt("read the log of its containers", self.last_lines)
        return "\n  ".join((text, "the last lines of its containers:", *lines)) if lines else text

    def last_lines(self) -> list[str]:
        """The last lines of the container that wrote last; empty if none has written.

        Raises:
            ClientError: CloudWatch does not respond.
        """
        logs, streams = self.client("logs"), []
        for kind in ("Endpoints", "InferenceComponents"):
            group = f"/aws/sagemaker/{kind}/{self.settings.name}"
            try:
                answer = logs.describe_log_streams(
                    logGroupName=group, orderBy="LastEventTime", descending=True, limit=1
                )
            except logs.exceptions.ClientError as refusal:
                if refusal.response["Error"]["Code"] != NO_LOG:
                    raise
                continue
            streams += [
                (stream.get("lastEventTimestamp", 0), group, stream["logStreamName"]) for stream in answer["logStreams"]
            ]
        if not streams:
            return []
        _, group, stream = max(streams)
        answer = logs.get_log_events(logGroupName=group, logStreamName=stream, limit=LINES)
        return [plain(event["message"])[:CHARACTERS] for event in answer["events"] if event["message"].strip()]

    def end_service(self, reason: str, count: int | None) -> None:
        """Scale to zero if the plan allows zero, and limit the range to zero, so that no request starts an instance."""
        limit = self.settings.sum
        if limit is None or not limit.to_zero:
            self.end(reason, count)
            return
        autoscaling = self.client("application-autoscaling")
        pages = autoscaling.get_paginator("describe_scalable_targets").paginate(
            ServiceNamespace="sagemaker", ResourceIds=self.scaled_resources()
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
            self.keep_reason(reason)
            self.notify(
                "endpoint scaled to zero",
                f"{reason}. The endpoint {self.settings.name} goes from {its(count, 'instances')} to none and stays"
                f" there: requests fail or wait from now on.\nMake it answer again: raise the sum, then slipway down"
                f" {self.settings.cluster} and slipway deploy",
            )

    def keep_reason(self, reason: str) -> None:
        """Keep why the endpoint ended in the guard's state, which `slipway status` reads while the stack exists."""
        if self.state is not None:
            self.state.stop_reason, self.state.stopped_at = reason[:CHARACTERS], self.now
            self.attempt("record why it ended the endpoint", self.store)

    def scaled_resources(self) -> list[str]:
        """The scalable resources: the copies of the endpoint's component, or the instances of its variants."""
        name = self.settings.name
        return [
            f"inference-component/{name}",
            *(f"endpoint/{name}/variant/{variant['VariantName']}" for variant in self.variants),
        ]

    def stop(self, reason: str, count: int | None) -> None:
        """Delete the endpoint, its component first; the next call deletes the rest.

        Raises:
            ClientError: SageMaker refuses.
        """
        status = self.describe_endpoint().get("EndpointStatus", "Deleting")
        if status == "Deleting":
            return
        components = self.list_components()
        for component in components:
            if component["InferenceComponentStatus"] != "Deleting":
                self.sagemaker.delete_inference_component(InferenceComponentName=component["InferenceComponentName"])
        if components:
            return
        self.sagemaker.delete_endpoint(EndpointName=self.settings.name)
        self.keep_reason(reason)
        self.notify(
            "endpoint deleted",
            f"{reason}. The endpoint {self.settings.name} is being deleted with {its(count, 'instances')}; requests"
            f" fail from now on.\nCreate it again: slipway down {self.settings.cluster}, then slipway deploy",
        )
