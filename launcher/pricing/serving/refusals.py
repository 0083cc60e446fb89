"""What makes one serving candidate impossible, whatever it costs."""

from collections.abc import Iterator

from launcher.model.enums import Rollout, TargetKind
from launcher.model.finding import Finding, error
from launcher.model.plan import Place
from launcher.model.serving import ServingEstimate
from launcher.model.workload import ServingWorkload
from launcher.pricing.serving.traffic import Fleet

ANSWER_S = 60.0
"""Seconds in which a container has to answer an invocation that is not streamed (SageMaker developer guide)."""


def refusals(
    place: Place, serve: ServingWorkload, estimate: ServingEstimate | None, load: Fleet | None
) -> tuple[Finding, ...]:
    """Every reason against one candidate, or none; nothing stands against Bedrock."""
    if estimate is None or load is None:
        return ()
    return (*_count(serve, load), *_answer(place, serve, estimate), *_rollout(serve, load))


def _count(serve: ServingWorkload, load: Fleet) -> Iterator[Finding]:
    """A load that needs more instances than there may be."""
    most = serve.max_instances
    if most is not None and load.instances.most > most:
        message = f"the busiest hour needs {load.instances.most} instances, max_instances is {most}"
        yield error("max-instances", "workload.serve.max_instances", message, f"raise it to {load.instances.most}")


def _answer(place: Place, serve: ServingWorkload, estimate: ServingEstimate) -> Iterator[Finding]:
    """An answer that takes longer than an endpoint may."""
    if place.target is not TargetKind.SAGEMAKER_ENDPOINT or serve.streaming or serve.asynchronous:
        return
    seconds = ((estimate.ttft_ms or 0.0) + serve.answer_tokens * (estimate.tpot_ms or 0.0)) / 1000
    if seconds > ANSWER_S:
        message = f"an answer takes {seconds:.0f} s, and an endpoint has to give it within {ANSWER_S:.0f} s"
        yield error("answer-too-slow", "workload.serve.streaming", message, "set streaming or asynchronous to true")


def _rollout(serve: ServingWorkload, load: Fleet) -> Iterator[Finding]:
    """A deployment in parts of something that has no parts."""
    if serve.deployment in (Rollout.ROLLING, Rollout.CANARY) and load.instances.most <= 1:
        message = f"{serve.deployment} replaces a part of the instances, and there is one"
        yield error("rollout-of-one", "workload.serve.deployment", message, "set it to all-at-once or auto")
