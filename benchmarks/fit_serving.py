"""Fits the coefficients of the serving estimate to the measured rows that ship with the project.

    python -m benchmarks.fit_serving             writes launcher/catalog/data/serving/coefficients.json

Neuron, dense models on GPUs and mixtures of experts on GPUs are fitted separately: least squares on
log(estimated / measured) of output tokens per second, with Huber weights (an outlier counts by its sign only). A weak
pull of every coefficient towards its value in TERMS decides where rows give little information. Neuron rows of a
single batch also count their time per token and to first token.
The method is Levenberg-Marquardt on the logarithms of the coefficients, with numeric derivatives, in pure Python;
the fit needs seconds.

The spread is the error that eight in ten rows stay within if their model, or their source, is left out of the fit:
the larger of the two.
"""

import json
import math
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from operator import attrgetter
from typing import Any

from benchmarks.serving_rows import Row, read_rows
from launcher.catalog.serving import COEFFICIENTS, ROWS
from launcher.planning.serving import gpu, neuron, rate
from launcher.planning.serving.software import SCHEDULED

HUBER = 0.2
PRIOR = 0.05
"""Weight of the pull on the logarithm of a coefficient, in rows."""
TPOT_WEIGHT, TTFT_WEIGHT = 0.5, 0.25
ROUNDS = 60
STEP = 1e-4
COVERED = 0.8
MAX_DAMPING = 1e7
"""Maximum damping: the fit stops beyond it."""
FAMILIES = {
    "neuron": (neuron.TERMS, {}),
    "gpu": (gpu.TERMS, gpu.UPPER_BOUNDS),
    "mixture": (gpu.TERMS | gpu.EXPERT_TERMS, gpu.UPPER_BOUNDS),
}

Coefficients = Mapping[str, float]
Vector = list[float]


def estimated(row: Row, coefficients: Coefficients) -> rate.CopyRate:
    """The estimated rate of all copies of a row together, at the row's load."""
    step = neuron.times(row.copy, coefficients) if row.neuron else gpu.times(row.copy, coefficients)
    one = rate.rate_of(row.copy, step, coefficients["scheduling"], live=row.live)
    return one._replace(requests_per_s=one.requests_per_s * row.copies, tokens_per_s=one.tokens_per_s * row.copies)


def residuals(row: Row, coefficients: Coefficients) -> Vector:
    """Weighted logarithms of estimated over measured."""
    estimate = estimated(row, coefficients)
    found = [math.log(estimate.tokens_per_s / row.tokens_per_s)]
    alone = row.neuron and (row.copy.software not in SCHEDULED or row.live == 1)
    if alone and row.tpot_ms:
        step = neuron.times(row.copy, coefficients)
        found.append(TPOT_WEIGHT * math.log(1000 * step.decode_s / row.tpot_ms))
        if row.ttft_ms:
            prompts = step.prefill_s * row.live + step.shared_prefill_s
            found.append(TTFT_WEIGHT * math.log(1000 * prompts / row.ttft_ms))
    return found


def fit(rows: Sequence[Row], family: str) -> dict[str, float]:
    """The coefficients of a family.

    Raises:
        ValueError: `rows` is empty.
    """
    if not rows:
        raise ValueError("no rows to fit")
    terms, most = FAMILIES[family]
    names = list(terms)
    start = [math.log(terms[name]) for name in names]
    ceiling = [math.log(most.get(name, math.inf)) for name in names]

    def coefficients(point: Vector) -> dict[str, float]:
        return {name: math.exp(min(x, top)) for name, x, top in zip(names, point, ceiling, strict=True)}

    def errors(point: Vector) -> Vector:
        found = coefficients(point)
        return [residual for row in rows for residual in residuals(row, found)]

    return coefficients(_minimum(errors, start))


def _minimum(errors: Callable[[Vector], Vector], start: Vector) -> Vector:
    """The point with the least Huber loss, including the pull towards the start."""
    point, damping = list(start), 1e-2
    now = errors(point)
    best = _loss(now, point, start)
    for _ in range(ROUNDS):
        slopes = _slopes(errors, point, now)
        weights = [min(1.0, HUBER / max(abs(residual), 1e-9)) for residual in now]
        size = range(len(point))
        matrix = [[_dot(weights, slopes[i], slopes[j]) + (PRIOR if i == j else 0.0) for j in size] for i in size]
        gradient = [_dot(weights, slopes[i], now) + PRIOR * (point[i] - start[i]) for i in size]
        moved, there, loss = point, now, best
        improved = False
        while damping < MAX_DAMPING and not improved:
            damped = [[matrix[i][j] * (1 + damping if i == j else 1.0) for j in size] for i in size]
            moved = [x - step for x, step in zip(point, _solved(damped, gradient), strict=True)]
            there = errors(moved)
            loss = _loss(there, moved, start)
            improved = loss < best
            damping = damping / 3 if improved else damping * 4
        if not improved or best - loss < 1e-10 * best:
            break
        point, now, best = moved, there, loss
    return point


def _slopes(errors: Callable[[Vector], Vector], point: Vector, now: Vector) -> list[Vector]:
    found = []
    for index in range(len(point)):
        shifted = [x + (STEP if place == index else 0.0) for place, x in enumerate(point)]
        found.append([(there - here) / STEP for there, here in zip(errors(shifted), now, strict=True)])
    return found


def _loss(errors: Vector, point: Vector, start: Vector) -> float:
    pull = PRIOR * sum((x - x0) ** 2 for x, x0 in zip(point, start, strict=True))
    return pull + sum(error**2 if abs(error) < HUBER else 2 * HUBER * abs(error) - HUBER**2 for error in errors)


def _dot(weights: Vector, left: Vector, right: Vector) -> float:
    return sum(w * x * y for w, x, y in zip(weights, left, right, strict=True))


def _solved(matrix: list[Vector], right: Vector) -> Vector:
    """The solution of linear equations, by elimination with pivots."""
    size = len(right)
    rows = [[*line, value] for line, value in zip(matrix, right, strict=True)]
    for column in range(size):
        pivot = max(range(column, size), key=lambda i: abs(rows[i][column]))
        rows[column], rows[pivot] = rows[pivot], rows[column]
        for below in range(column + 1, size):
            factor = rows[below][column] / rows[column][column]
            rows[below] = [x - factor * y for x, y in zip(rows[below], rows[column], strict=True)]
    found = [0.0] * size
    for line in reversed(range(size)):
        known = sum(rows[line][other] * found[other] for other in range(line + 1, size))
        found[line] = (rows[line][size] - known) / rows[line][line]
    return found


def left_out(rows: Sequence[Row], family: str, kin: Callable[[Row], str]) -> list[float]:
    """Estimated over measured tokens per second of every row, without its kin in the fit; in the rows' order.

    `kin` names what is left out together: the model or the source of a row.
    """
    ratios = {}
    for name in sorted({kin(row) for row in rows}):
        coefficients = fit([row for row in rows if kin(row) != name], family)
        for row in rows:
            if kin(row) == name:
                ratios[row.id] = estimated(row, coefficients).tokens_per_s / row.tokens_per_s
    return [ratios[row.id] for row in rows]


def of_family(rows: Sequence[Row], family: str) -> list[Row]:
    """The rows of a family of coefficients."""
    return [row for row in rows if rate.family(row.copy) == family]


def fitted(rows: Sequence[Row]) -> dict[str, Any]:
    """The content of coefficients.json."""
    found: dict[str, Any] = {"fitted_on": date.today().isoformat(), "spread": {}}  # noqa: DTZ011 - the day a person ran it
    for family in FAMILIES:
        family_rows = of_family(rows, family)
        found[family] = {name: float(f"{value:.5g}") for name, value in fit(family_rows, family).items()}
        found["spread"][family] = max(
            _spread(left_out(family_rows, family, attrgetter("model"))),
            _spread(left_out(family_rows, family, attrgetter("source"))),
        )
    found["rows_by_chip"] = dict(sorted(Counter(row.chip for row in rows).items()))
    return found


def _spread(ratios: Sequence[float]) -> float:
    """The error that `COVERED` of the rows stay within, as a logarithm."""
    errors = sorted(abs(math.log(ratio)) for ratio in ratios)
    return round(errors[math.ceil(COVERED * len(errors)) - 1], 3)


def main() -> int:
    """Fit and write the coefficients; return the exit code."""
    rows, _ = read_rows(ROWS)
    text = json.dumps(fitted(rows), indent=2)
    COEFFICIENTS.write_text(text + "\n", encoding="utf-8")
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
