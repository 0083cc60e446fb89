"""An estimate corrected by the user's measurements: a posterior of its error, in logarithms.

The prior is the fitted estimate: log(true rate / estimated rate) is 0 with the spread of the fit. A measurement is the
same quantity on another job, log(measured / estimated there), so that the estimate's knowledge of nodes, sequence,
batch and precision is used, and only its error is learned. Its variance is its own, plus a discount that grows with the
distance of that job from this one:

    measurements of one job   pooled by the inverse of their variances; never finer than RUN_TO_RUN
    a job's weight            1 / (pooled variance + RUN_TO_RUN^2 + discount^2)
    posterior                 the sum of prior and jobs, each weighted by the inverse of its variance

Measurements that contradict each other (Cochran's Q above its 99.7 % point, by Wilson and Hilferty) are named, and the
variance between them is added to each (DerSimonian and Laird 1986, Controlled Clinical Trials 7:177), which widens the
range. Without a contradiction no measurement ever widens the range.

The discounts are judgements; that of nodes is checked against the published scaling series (`benchmarks/scaling.py`).
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from launcher.model.learned import RUN_TO_RUN, Cell, Posterior
from launcher.model.measurement import Measurement
from launcher.model.training import TrainingFacts
from launcher.planning import flops, utilisation
from launcher.planning.shape import TrainingShape
from launcher.planning.start_up import WITHIN

MIN_OWN = 0.01
A_DOUBLING: Mapping[str, float] = {"nodes": 0.10, "sequence": 0.04, "batch": 0.04, "parameters": 0.06}
"""Discount, in logarithms, for each doubling between the measured job and the estimated one. The discount of nodes
is the smallest at which the ranges hold 89 % of the published series' larger counts (at 0.08: 78 %)."""
OTHERWISE: Mapping[str, float] = {"precision": 0.12, "method": 0.15, "recomputation": 0.06, "stack": 0.12}
"""Discount for a difference in kind."""
FARTHEST = 0.5
"""A measurement with a larger discount is ignored."""
UNLIKELY = 2.748
"""Quantile of the normal distribution: 99.7 % lie below."""


def posterior(shape: TrainingShape, facts: TrainingFacts, prior_scale: float) -> Posterior | None:
    """The error of an estimate; None if no measurement applies.

    Args:
        shape: the estimated job.
        facts: the coefficients and the measurements.
        prior_scale: the spread of the estimate without measurements.
    """
    cells = tuple(_cells(shape, facts))
    if not cells:
        return None
    between, contradiction = variance_between([cell.error for cell in cells], [cell.total_variance for cell in cells])
    weights = [1.0 / (cell.total_variance + between) for cell in cells]
    prior_weight = 1.0 / prior_scale**2
    together = prior_weight + sum(weights)
    shift = sum(weight * evidence.error for weight, evidence in zip(weights, cells, strict=True)) / together
    return Posterior(
        shift=shift,
        scale=math.sqrt(1.0 / together + between),
        prior_scale=prior_scale,
        cells=cells,
        contradiction=contradiction or any(cell.contradiction for cell in cells),
    )


def _cells(shape: TrainingShape, facts: TrainingFacts) -> Iterable[Cell]:
    """The measured jobs that apply to this one, the nearest first."""
    grouped: dict[TrainingShape, list[Measurement]] = {}
    for measurement in facts.measured:
        counts = measurement.tokens_per_s is not None and not measurement.simulated
        if measurement.accelerator == shape.accelerator.name and counts:
            grouped.setdefault(measured_shape(measurement, shape), []).append(measurement)
    cells = []
    for job, runs in grouped.items():
        apart = discount(job, shape)
        if apart <= FARTHEST:
            cells.append(_cell(job, runs, apart, facts))
    return sorted(cells, key=lambda cell: (cell.discount, cell.description))


def _cell(job: TrainingShape, runs: Sequence[Measurement], apart: float, facts: TrainingFacts) -> Cell:
    expected = estimated_tokens_per_s(job, facts)
    errors = [math.log(run.rate.mid / expected) for run in runs]
    variances = [own_scale(run) ** 2 for run in runs]
    # What two runs may differ by is no contradiction; it is added once more to the job as a whole.
    between, contradiction = variance_between(errors, [variance + RUN_TO_RUN**2 for variance in variances])
    weights = [1.0 / (variance + between) for variance in variances]
    pooled = sum(weight * error for weight, error in zip(weights, errors, strict=True)) / sum(weights)
    return Cell(
        runs=tuple(run.run for run in runs),
        description=job_description(runs[0]),
        error=pooled,
        variance=1.0 / sum(weights) + between,
        discount=apart,
        contradiction=contradiction,
    )


def measured_shape(measured: Measurement, shape: TrainingShape) -> TrainingShape:
    """The shape of the measured job, as input of the estimate; dimensions of the same model are retained."""
    same = math.isclose(measured.params_b, shape.params_b) and math.isclose(
        measured.active_params_b, shape.active_params_b
    )
    bare = (
        shape
        if same
        else replace(shape, layers=None, attention_layers=None, hidden=None, heads=None, kv_heads=None, vocab=None)
    )
    reported = dict(measured.parallelism or ()).get("tensor")
    return replace(
        bare,
        # A plan that leaves the layout open is of the layout that was measured.
        tensor_parallel=None if shape.tensor_parallel is None else reported or shape.tensor_parallel,
        params_b=measured.params_b,
        active_params_b=measured.active_params_b,
        sequence_length=measured.sequence_length,
        global_batch_tokens=measured.global_batch_tokens,
        precision=measured.precision,
        recompute=measured.recompute,
        method=measured.method,
        stack=measured.stack,
        chips=measured.accelerators,
        measured_tokens_per_s=None,
    )


def discount(job: TrainingShape, shape: TrainingShape) -> float:
    """The reduced weight of one job's measurement for another, in logarithms: the root of the sum of all squares."""
    doublings = {
        "nodes": job.chips / shape.chips,
        "sequence": job.sequence_length / shape.sequence_length,
        "batch": _batch(job) / _batch(shape),
        "parameters": job.active_params_b / shape.active_params_b,
    }
    kinds = {
        "precision": job.precision is shape.precision,
        "method": job.method is shape.method,
        "recomputation": job.recompute is shape.recompute,
        "stack": job.stack is shape.stack,
    }
    discounts = [A_DOUBLING[name] * math.log2(ratio) for name, ratio in doublings.items()]
    discounts += [0.0 if same else OTHERWISE[name] for name, same in kinds.items()]
    return math.hypot(*discounts)


def _batch(shape: TrainingShape) -> float:
    return utilisation.step_tokens(shape, shape.chips) * shape.chips


def estimated_tokens_per_s(shape: TrainingShape, facts: TrainingFacts) -> float:
    """The estimate without any measurement, for all chips together."""
    capacity = shape.chips * shape.accelerator.peak_bf16_tflops * 1e12 / flops.per_token(shape)
    return capacity * utilisation.estimate(shape, facts).mid


def own_scale(measured: Measurement) -> float:
    """The spread of one measurement, in logarithms."""
    rate = measured.rate
    return max(math.log(rate.high / rate.low) / (2.0 * WITHIN), MIN_OWN)


def job_description(measured: Measurement) -> str:
    """A short description of a measured job."""
    instances = f"{measured.nodes} x {measured.instance_type}"
    return f"{measured.model} {measured.method.value} {measured.precision.value} on {instances}"


def variance_between(errors: Sequence[float], variances: Sequence[float]) -> tuple[float, bool]:
    """The variance between values, and whether they contradict each other; 0 if they do not."""
    free = len(errors) - 1
    if free < 1:
        return 0.0, False
    weights = [1.0 / variance for variance in variances]
    whole = sum(weights)
    mean = sum(weight * error for weight, error in zip(weights, errors, strict=True)) / whole
    apart = sum(weight * (error - mean) ** 2 for weight, error in zip(weights, errors, strict=True))
    if apart <= unlikely(free):
        return 0.0, False
    return max(0.0, (apart - free) / (whole - sum(share**2 for share in weights) / whole)), True


def unlikely(free: int) -> float:
    """The 99.7 % point of chi squared (Wilson and Hilferty 1931).

    >>> round(unlikely(1), 1), round(unlikely(10), 1)
    (8.9, 26.7)
    """
    share = 2.0 / (9.0 * free)
    return free * (1.0 - share + UNLIKELY * math.sqrt(share)) ** 3
