"""Open plan keys whose value would narrow the range of a training job's hours."""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from launcher.model.training import TrainingFacts
from launcher.model.workload import TrainingWorkload
from launcher.planning import utilisation
from launcher.planning.shape import TrainingShape


class AssumedValue(NamedTuple):
    """A key of `workload.train` that the plan leaves open, its assumed value, and the workload that states it."""

    key: str
    value: str
    train: TrainingWorkload


def open_answers(train: TrainingWorkload, shape: TrainingShape) -> Iterator[AssumedValue]:
    """The open keys of a job from tokens, each answered by what Slipway assumes.

    Args:
        train: the plan's workload.
        shape: the job on one number of nodes.
    """
    if not shape.stack_known:
        yield AssumedValue("stack", shape.stack.value, replace(train, stack=shape.stack))
    if shape.micro_batch is None and utilisation.has_micro_steps(shape):
        size = utilisation.DEFAULT_MICRO_BATCH
        yield AssumedValue("micro_batch", str(size), replace(train, micro_batch=size))
    if utilisation.assumes_exchange(shape):
        spread = min(utilisation.DEFAULT_EXPERT_PARALLEL, shape.chips)
        yield AssumedValue("expert_parallel", str(spread), replace(train, expert_parallel=spread))


def measured_width(facts: TrainingFacts) -> float:
    """The logarithm from the middle to either end of a rate that was measured on one node of the job's kind."""
    return facts.constants["measured_scale"].mid
