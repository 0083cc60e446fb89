"""The difference between serving estimates and published measurements.

    python -m benchmarks.serving_accuracy [FILE] [--json]

FILE has the columns of launcher/catalog/data/serving/throughput.csv, which is the default. Without --json, the result
is written to its section of docs/accuracy.md and a summary is printed; with it, nothing is written and one object is
printed:

    inf2_trn1              {n, median_abs_error, within_25, leave_one_model_out} of rows on Inferentia2 and Trainium1
    gpu                    {n, median_abs_error, within_35, leave_one_model_out} of dense models on GPUs
    gpu_mixture            the same of mixtures of experts on GPUs
    refused                number of rows outside the estimate's scope
    refused_rows           [{row, reason}] for each of them

Errors are |estimated / measured - 1| of output tokens per second; shares are fractions. leave_one_model_out has the
same figures with coefficients fitted on the shipped rows of other models. Measured rows are never looked up here: the
figures are the error of the estimate. Exit codes: 0, or 2 if the file is invalid.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import fit_serving
from benchmarks.report_sections import replace_section
from benchmarks.serving_rows import Refused, Row, RowsError, read_rows
from launcher.catalog.serving import ROWS, load_serving
from launcher.planning.serving import rate
from launcher.planning.serving.rate import coefficients

REPORT = Path(__file__).parent.parent / "docs" / "accuracy.md"
SECTION = "serving"
UNREADABLE = 2
WORST = 12
NEAR = {"neuron": ("within_25", 0.25), "gpu": ("within_35", 0.35), "mixture": ("within_35", 0.35)}
TITLES = {"Inferentia2 and Trainium1": "neuron", "GPUs, dense": "gpu", "GPUs, mixtures of experts": "mixture"}
HOW_TO_READ = """\
Each row is estimated from its own columns: model, chip, engine, number format, tensor and data parallelism, batch,
concurrency and lengths. The error is the error of the output tokens per second. "Model left out" estimates each row
with coefficients fitted without any row of its model. The form of the estimate was chosen with these rows in view, so
only rows collected later can test it. Rows of older engines (transformers-neuronx, TensorRT-LLM, TGI) show the
performance of the chips. An endpoint is estimated for its own engine, vLLM, which has few rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One row with its estimated tokens per second."""

    row: Row
    estimated: float

    @property
    def ratio(self) -> float:
        """Estimated over measured."""
        return self.estimated / self.row.tokens_per_s

    @property
    def error(self) -> float:
        """The absolute error, as a share of the measured value."""
        return abs(self.ratio - 1)


def outcomes(rows: Sequence[Row]) -> list[Outcome]:
    """The rows with estimates from the shipped coefficients."""
    facts = load_serving()
    return [
        Outcome(row=row, estimated=fit_serving.estimated(row, coefficients(row.copy, facts)).tokens_per_s)
        for row in rows
    ]


@lru_cache(maxsize=64)
def _without(model: str, family: str) -> dict[str, float]:
    """Coefficients fitted on the shipped rows of a family without those of a model."""
    shipped = fit_serving.of_family(_shipped(), family)
    return fit_serving.fit([row for row in shipped if row.model != model], family)


@lru_cache(maxsize=1)
def _shipped() -> tuple[Row, ...]:
    return tuple(read_rows(ROWS)[0])


def left_out(rows: Sequence[Row], family: str) -> list[Outcome]:
    """The rows of a family, each estimated without the shipped rows of its model."""
    family_rows = fit_serving.of_family(rows, family)
    return [
        Outcome(row=row, estimated=fit_serving.estimated(row, _without(row.model, family)).tokens_per_s)
        for row in family_rows
    ]


def summary(found: Sequence[Outcome], family: str) -> dict[str, Any]:
    """Count, median error and share within the bound of a family; all None without rows."""
    name, bound = NEAR[family]
    if not found:
        return {"n": 0, "median_abs_error": None, name: None}
    return {
        "n": len(found),
        "median_abs_error": round(median(outcome.error for outcome in found), 4),
        name: _share(outcome.error <= bound for outcome in found),
    }


def _share(flags: Iterable[bool]) -> float:
    values = list(flags)
    return round(sum(values) / len(values), 4)


def measure(rows: Sequence[Row], refused: Sequence[Refused]) -> dict[str, Any]:
    """The object that --json prints."""
    results = outcomes(rows)
    found: dict[str, Any] = {}
    for key, family in (("inf2_trn1", "neuron"), ("gpu", "gpu"), ("gpu_mixture", "mixture")):
        selected = [outcome for outcome in results if rate.family(outcome.row.copy) == family]
        found[key] = {**summary(selected, family), "leave_one_model_out": summary(left_out(rows, family), family)}
    found["refused"] = len(refused)
    found["refused_rows"] = [{"row": refusal.id, "reason": refusal.reason} for refusal in refused]
    return found


def report(rows: Sequence[Row], refused: Sequence[Refused], name: str) -> str:
    """The section of docs/accuracy.md."""
    ranked = sorted(outcomes(rows), key=lambda outcome: -outcome.error)
    lines = ["| rows | n | median error | within 25 % | within 35 % |", "|---|---|---|---|---|"]
    for title, family in TITLES.items():
        selected = [outcome for outcome in ranked if rate.family(outcome.row.copy) == family]
        lines += [*_line(title, selected), *_line(f"{title}, model left out", left_out(rows, family))]
        for chip in sorted({outcome.row.chip for outcome in selected}):
            lines += _line(f"- {chip}", [outcome for outcome in selected if outcome.row.chip == chip])
    furthest = ["| row | estimated / measured |", "|---|---|"]
    furthest += [f"| {outcome.row.id} | {outcome.ratio:.2f} |" for outcome in ranked[:WORST]]
    beyond = ["| row | reason |", "|---|---|", *(f"| {refusal.id} | {refusal.reason} |" for refusal in refused)]
    blocks = (
        "# Accuracy of the serving estimate",
        f"Written by `python -m benchmarks.serving_accuracy` from {name}; coefficients of {load_serving().fitted_on}.",
        HOW_TO_READ,
        "\n".join(lines),
        "## Serving rows with the largest error",
        "\n".join(furthest),
        f"## Refused serving rows: {len(refused)}",
        *(["\n".join(beyond)] if refused else []),
    )
    return "\n\n".join(blocks) + "\n"


def _line(title: str, found: Sequence[Outcome]) -> list[str]:
    """One row of the table of errors; empty without measurements."""
    if not found:
        return []
    middle = 100 * median(outcome.error for outcome in found)
    shares = " | ".join(f"{100 * _share(outcome.error <= bound for outcome in found):.1f} %" for bound in (0.25, 0.35))
    return [f"| {title} | {len(found)} | {middle:.1f} % | {shares} |"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.serving_accuracy", description="serving estimates against published measurements"
    )
    parser.add_argument("file", nargs="?", type=Path, default=ROWS, help="rows; the shipped rows by default")
    parser.add_argument("--json", action="store_true", help="print one object and write nothing")
    options = parser.parse_args(arguments)
    try:
        rows, refused = read_rows(options.file)
    except RowsError as error:
        print(f"error: {error}", file=sys.stderr)
        return UNREADABLE
    if options.json:
        print(json.dumps(measure(rows, refused), indent=2))
        return 0
    text = report(rows, refused, "the shipped rows" if options.file == ROWS else f"`{options.file.name}`")
    replace_section(REPORT, SECTION, text)
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
