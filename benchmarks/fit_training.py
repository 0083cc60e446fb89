"""Fits the coefficients of the training estimate to the published runs that ship with the project.

    python -m benchmarks.fit_training            writes launcher/catalog/data/training/coefficients.json

A ridge regression of log(MFU) on the terms of `launcher.planning.utilisation`, towards the priors below, with Huber
weights (an outlier counts by its sign only). Every source family is weighted down by a power of its number of rows. A
coefficient with the wrong sign is fixed at its bound, and the others are fitted again. The priors are round numbers in
units of log(MFU), judged with the rows in view; they matter if a term has few rows. Leave-one-family-out error chose
the form of the terms and the constants in capitals; every choice is within the noise of its neighbours.

Spreads are the winsorised scale of the errors on rows whose family was left out of the fit, by class of job. The scale
of a small class is drawn towards the scale of all rows. Pure Python, a few seconds.
"""

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache
from typing import Any, NamedTuple

from benchmarks.training_rows import Row, read_rows
from launcher.catalog.training import COEFFICIENTS, FURTHER_RUNS, LATER_RUNS, RUNS, facts_from
from launcher.model.enums import Stack
from launcher.model.training import TrainingFacts
from launcher.planning import flops, goodput, utilisation

RUN_TERMS = ("run_framework", "run_tuned")
"""The losses of whole runs other than failures; they are no terms of MFU, but are fitted with them."""
COLUMNS = (*utilisation.TERMS, *RUN_TERMS)
PRIORS = {
    "base": (-0.5, 0.01),
    "balance": (0.4, 0.5),
    "card": (0.4, 1.0),
    "neuron": (0.3, 1.0),
    "fp8": (0.25, 1.0),
    "fp8_tuned": (0.3, 1.0),
    "tuned": (0.05, 2.0),
    "moe": (0.3, 1.0),
    "moe_routing": (1.0, 3.0),
    "moe_peak": (0.3, 2.0),
    "moe_fp8": (0.3, 1.0),
    "moe_fp8_unscaled": (0.2, 1.0),
    "recompute": (0.6, 2.0),
    "attention": (0.3, 2.0),
    "attention_fp8": (0.4, 2.0),
    "small": (0.3, 1.0),
    "step": (0.6, 2.0),
    "offload": (0.5, 1.0),
    "huggingface": (0.3, 1.0),
    "micro_step": (1.0, 2.0),
    "moe_rack": (0.3, 1.0),
    "exchange": (1.0, 1.0),
    "untuned": (0.7, 1.0),
    "wide_chip": (0.3, 1.0),
    "run_framework": (0.2, 1.0),
    "run_tuned": (0.05, 2.0),
}
"""The prior value of each coefficient, and its weight in rows of unit size."""
UPPER_BOUNDS = {"step": utilisation.MOST_STEP, "exchange": 1.0}
"""Upper bounds; see launcher.planning.utilisation."""
HUBER = 0.15
FAMILY_POWER = 0.4
ROUNDS = 12
WINSOR = 0.8
CLASS_PRIOR_ROWS = 10.0
FEW_SOURCES = utilisation.FEW_SOURCES
SPREADS = ("bf16", "fp8", "moe", "finetuning", "adapters", "quantised", "huggingface", "neuron")
RUN_SCALE_LEAST = 0.12
"""Minimum additional spread of whole runs compared with steady rates, whatever the rows show; judgement."""
COVERED = (0.76, 0.78, 0.8, 0.82, 0.84)
"""Shares of the errors inside the range, on families left out of the fit: the range is from the 10th to the 90th
percentile. Every family counts once, however many rows it has: a new plan is a new source. The quantiles are averaged,
because the tail has few rows. Both ends are as far from the middle in logarithms: of 58 sources, 6 lie beyond the slow
end and 4 beyond the fast one, and the medians of factors with equal ends multiply to the median of their product."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One row of the regression: the columns, the log of the published MFU, and its weight."""

    row: Row
    columns: tuple[float, ...]
    target: float
    weight: float


def observe(rows: Sequence[Row], facts: TrainingFacts) -> list[Observation]:
    """The rows as observations; the estimated goodput removes failures from whole runs first."""
    counts = Counter(row.family for row in rows)
    return [
        Observation(
            row=row,
            columns=_columns(row, facts),
            target=_target(row, facts),
            weight=counts[row.family] ** -FAMILY_POWER,
        )
        for row in rows
    ]


def _columns(row: Row, facts: TrainingFacts) -> tuple[float, ...]:
    tuned = row.shape.stack is Stack.TUNED
    run = (-1.0 if row.whole and not tuned else 0.0, -1.0 if row.whole and tuned else 0.0)
    return (*utilisation.terms(row.shape, facts), *run)


def _target(row: Row, facts: TrainingFacts) -> float:
    shape = row.shape
    mfu = (
        row.published_tokens_per_s * flops.per_token(shape) / (shape.chips * shape.accelerator.peak_bf16_tflops * 1e12)
    )
    lost = math.log1p(goodput.overhead(shape, facts).fraction) if row.whole else 0.0
    return math.log(mfu) + lost


def fit(observations: Sequence[Observation]) -> dict[str, float]:
    """The coefficients of all columns.

    Raises:
        ValueError: there are no observations.
    """
    if not observations:
        raise ValueError("no rows to fit")
    fixed: dict[str, float] = {}
    while True:
        values = _weighted(observations, fixed)
        bounded = {
            name: min(max(value, 0.0), UPPER_BOUNDS.get(name, math.inf))
            for name, value in values.items()
            if name != "base"
        }
        wrong = {name: bound for name, bound in bounded.items() if bound != values[name]}
        if not wrong:
            return values
        fixed |= wrong


def _weighted(observations: Sequence[Observation], fixed: Mapping[str, float]) -> dict[str, float]:
    """Iteratively reweighted ridge regression with some fixed coefficients."""
    free = [index for index, name in enumerate(COLUMNS) if name not in fixed]
    base_values = [fixed.get(name, PRIORS[name][0]) for name in COLUMNS]
    mean = sum(observation.weight for observation in observations) / len(observations)
    designs = [_filled([observation.columns[index] for index in free]) for observation in observations]
    rests = [observation.target - _dot(observation.columns, base_values) for observation in observations]
    steps = [0.0] * len(free)
    for _ in range(ROUNDS):
        weights = []
        for observation, design, rest in zip(observations, designs, rests, strict=True):
            error = abs(rest - sum([value * steps[index] for index, value in design]))
            weights.append(observation.weight / mean * min(1.0, HUBER / max(error, 1e-9)))
        steps = _solve(*_normal(designs, rests, weights, [PRIORS[COLUMNS[index]][1] for index in free]))
    values = dict(zip(COLUMNS, base_values, strict=True))
    for index, step in zip(free, steps, strict=True):
        values[COLUMNS[index]] += step
    return values


def _dot(left: Iterable[float], right: Iterable[float]) -> float:
    return sum(a * b for a, b in zip(left, right, strict=True))


def _filled(columns: Sequence[float]) -> list[tuple[int, float]]:
    """The columns that are not zero, with their numbers: rows are sparse."""
    return [(index, value) for index, value in enumerate(columns) if value]


def _normal(
    designs: Sequence[Sequence[tuple[int, float]]],
    rests: Sequence[float],
    weights: Sequence[float],
    ridge: Sequence[float],
) -> tuple[list[list[float]], list[float]]:
    """The normal equations of rows by their columns that are not zero."""
    size = len(ridge)
    matrix = [[ridge[i] if i == j else 0.0 for j in range(size)] for i in range(size)]
    right = [0.0] * size
    for design, rest, weight in zip(designs, rests, weights, strict=True):
        for i, a in design:
            line, scaled = matrix[i], weight * a
            right[i] += scaled * rest
            for j, b in design:
                line[j] += scaled * b
    return matrix, right


def _solve(matrix: list[list[float]], right: list[float]) -> list[float]:
    """Gaussian elimination; the ridge keeps the matrix positive definite, so no pivoting is needed."""
    size = len(right)
    for i in range(size):
        pivot = matrix[i]
        for k in range(i + 1, size):
            factor = matrix[k][i] / pivot[i]
            if factor:
                line = matrix[k]
                for j in range(i, size):
                    line[j] -= factor * pivot[j]
                right[k] -= factor * right[i]
    found = [0.0] * size
    for i in reversed(range(size)):
        found[i] = (right[i] - _dot(matrix[i][i + 1 :], found[i + 1 :])) / matrix[i][i]
    return found


def fits_left_out(observations: Sequence[Observation]) -> dict[str, dict[str, float]]:
    """The coefficients of a fit without each family."""
    return {
        family: fit([observation for observation in observations if observation.row.family != family])
        for family in sorted({observation.row.family for observation in observations})
    }


def errors_left_out(
    observations: Sequence[Observation], fits: Mapping[str, Mapping[str, float]] | None = None
) -> list[float]:
    """For each observation, log(estimated / published) from a fit without its family, in their order."""
    fits = fits_left_out(observations) if fits is None else fits
    return [_error(observation, fits[observation.row.family]) for observation in observations]


class ShippedFits(NamedTuple):
    """The shipped rows as observations, the fits without each of their families, and the errors of these fits."""

    observations: Sequence[Observation]
    left_out: Mapping[str, Mapping[str, float]]
    errors: Sequence[float]


@cache
def shipped_fits() -> ShippedFits:
    """The fits of the shipped rows, worked out once: they take seconds."""
    observations = observe(shipped_rows(), unfitted())
    fits = fits_left_out(observations)
    return ShippedFits(observations, fits, errors_left_out(observations, fits))


def _error(observation: Observation, values: Mapping[str, float]) -> float:
    return _dot(observation.columns, [values[name] for name in COLUMNS]) - observation.target


def fitted(observations: Sequence[Observation], errors: Sequence[float], values: Mapping[str, float]) -> dict[str, Any]:
    """The document of coefficients.json: a fit, and its spreads from the errors on left-out families."""
    rows = [observation.row for observation in observations]
    known = unfitted()
    by_chip: dict[str, Counter[str]] = {}
    by_instance: dict[str, Counter[str]] = {}
    for row in rows:
        name = utilisation.chip_traits(row.shape.accelerator, known).name
        by_chip.setdefault(name, Counter()).update(utilisation.spread_classes(row.shape))
        for family in row.instances:
            by_instance.setdefault(family, Counter()).update(utilisation.spread_classes(row.shape))
    document: dict[str, Any] = {
        "made_by": "python -m benchmarks.fit_training",
        "fitted_on": date.today().isoformat(),  # noqa: DTZ011 a note of the day, shown and never compared
        "fitted_rows": len(rows),
        "fitted_families": len({row.family for row in rows}),
        "coefficients": {name: round(values[name], 4) for name in utilisation.TERMS},
        "run_framework": round(values["run_framework"], 4),
        "run_tuned": round(values["run_tuned"], 4),
        "rows_by_chip": {name: dict(sorted(counts.items())) for name, counts in sorted(by_chip.items())},
        "rows_by_instance": {name: dict(sorted(counts.items())) for name, counts in sorted(by_instance.items())},
    }
    return document | _spreads(observations, errors, document)


def _spreads(
    observations: Sequence[Observation], errors: Sequence[float], document: Mapping[str, Any]
) -> dict[str, Any]:
    """Scales by class, the additional scale of whole runs, and the distance of the range's ends, in scales."""
    weighed = [(entry, max(-WINSOR, min(WINSOR, error))) for entry, error in zip(observations, errors, strict=True)]
    steady = [(entry, error) for entry, error in weighed if not entry.row.whole]
    pooled = _scale(steady)
    spreads = {}
    for name in SPREADS:
        members = [(entry, error) for entry, error in steady if name in utilisation.every_class(entry.row.shape)]
        share = len(members) / (len(members) + CLASS_PRIOR_ROWS)
        scale = math.sqrt(share * _scale(members) ** 2 + (1.0 - share) * pooled**2) if members else pooled
        means = _source_means(members)
        if 1 < len(means) < FEW_SOURCES:
            # The next source differs from the middle of so few by the spread between them.
            between = math.sqrt(sum(mean * mean for mean in means) / len(means) * (1.0 + 1.0 / len(means)))
            scale = max(scale, between)
        spreads[name] = {"scale": round(scale, 4), "rows": len(members), "sources": len(means)}
    runs = [(entry, error) for entry, error in weighed if entry.row.whole]
    run_scale = max(RUN_SCALE_LEAST, math.sqrt(max(0.0, _scale(runs) ** 2 - pooled**2)))
    found = {"spreads": spreads, "run_scale": round(run_scale, 4), "quantile": 1.0}
    facts = facts_from({**document, **found})
    counts = Counter(entry.row.family for entry, _ in weighed)
    ratios = [(1.0 / counts[entry.row.family], abs(error) / _range_scale(entry.row, facts)) for entry, error in weighed]
    found["quantile"] = round(_quantile(ratios), 3)
    return found


def _source_means(members: Sequence[tuple[Observation, float]]) -> list[float]:
    """The mean error of each source."""
    of_source: dict[str, list[float]] = {}
    for entry, error in members:
        of_source.setdefault(entry.row.family, []).append(error)
    return [sum(errors) / len(errors) for errors in of_source.values()]


def _range_scale(row: Row, facts: TrainingFacts) -> float:
    scale = utilisation.log_scale(row.shape, facts, later=False)
    return math.hypot(scale, facts.run_scale if row.whole else 0.0)


def _scale(weighed: Sequence[tuple[Observation, float]]) -> float:
    total = sum(entry.weight for entry, _ in weighed)
    return math.sqrt(sum(entry.weight * error * error for entry, error in weighed) / total) if weighed else 0.0


def _quantile(weighed: Sequence[tuple[float, float]]) -> float:
    """The mean of the quantiles at the shares in `COVERED`, by weight."""
    total = sum(weight for weight, _ in weighed)
    reached, found = 0.0, []
    shares = list(COVERED)
    for weight, value in sorted(weighed, key=lambda pair: pair[1]):
        reached += weight
        while shares and reached >= shares[0] * total:
            found.append(value)
            shares.pop(0)
    return sum(found) / len(found)


def unfitted() -> TrainingFacts:
    """Facts with the priors as coefficients: sufficient for terms and goodput, which no fit changes."""
    return facts_from(
        {
            "coefficients": {name: PRIORS[name][0] for name in utilisation.TERMS},
            "run_framework": 0.0,
            "run_tuned": 0.0,
            "rows_by_chip": {},
            "rows_by_instance": {},
            "spreads": {},
            "run_scale": 0.0,
            "quantile": 0.0,
            "fitted_on": "",
            "fitted_rows": 0,
            "fitted_families": 0,
        }
    )


def shipped_rows() -> list[Row]:
    """The rows of the shipped coefficients' fit."""
    return [*read_rows(RUNS), *read_rows(FURTHER_RUNS), *read_rows(LATER_RUNS)]


def main() -> None:
    """Fit, and write coefficients.json."""
    shipped = shipped_fits()
    document = fitted(shipped.observations, shipped.errors, fit(shipped.observations))
    COEFFICIENTS.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    print(f"{COEFFICIENTS}: {document['fitted_rows']} rows of {document['fitted_families']} families")


if __name__ == "__main__":
    main()
