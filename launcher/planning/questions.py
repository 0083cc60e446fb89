"""Open plan keys whose value would narrow the range most."""

from collections.abc import Iterator
from dataclasses import replace

from launcher.model.finding import Finding, info
from launcher.model.training import TrainingFacts
from launcher.planning import duration, utilisation
from launcher.planning.shape import TrainingShape

NARROWS = 2.0 / 3.0
"""Slipway suggests a key if its value leaves less than this share of the range, that is, narrows it by over a third."""


def questions(shape: TrainingShape, tokens: float, facts: TrainingFacts) -> Iterator[Finding]:
    """A finding for each open plan key whose value narrows the range of the hours.

    Args:
        shape: the job.
        tokens: tokens to train on.
        facts: the inputs of the estimate.
    """
    width = _width(shape, tokens, facts)
    answers = {
        "stack": (not shape.stack_known, shape.stack.value, replace(shape, stack_known=True)),
        "micro_batch": (
            shape.micro_batch is None,
            str(utilisation.DEFAULT_MICRO_BATCH),
            replace(shape, micro_batch=utilisation.DEFAULT_MICRO_BATCH),
        ),
        "expert_parallel": (
            utilisation.assumes_exchange(shape),
            str(min(utilisation.DEFAULT_EXPERT_PARALLEL, shape.chips)),
            replace(shape, expert_parallel=utilisation.DEFAULT_EXPERT_PARALLEL),
        ),
    }
    for key, (is_open, value, answered) in answers.items():
        narrowed = _width(answered, tokens, facts) if is_open else width
        if narrowed < NARROWS * width:
            message = f"the range of the hours is {width:.1f} x; with {value}, which is assumed, it is {narrowed:.1f} x"
            yield info("narrows-the-range", f"workload.train.{key}", message, f"say workload.train.{key}")


def _width(shape: TrainingShape, tokens: float, facts: TrainingFacts) -> float:
    hours = duration.numbers(shape, tokens, facts).expected_hours
    return hours.high / hours.low
