"""Estimates for many nodes from a measurement on few: the published scaling series, each from its smallest count.

    python -m benchmarks.scaling [--json]

A series is rows of one source that differ only in the number of chips. Its smallest count serves as the user's own
measurement, and the larger counts are estimated from it (launcher/planning/posterior.py). For comparison, there is the
estimate without the measurement, and a constant rate per chip. The list of misses has every larger count outside its
range, or off by more than a quarter.

    series        number of series
    larger        number of estimated counts
    within_25     share within 0.8 to 1.25 of the published rate: with the measurement, without it, at a constant rate
    covered       share inside the range, with and without the measurement
    median_width  high over low, with and without
    misses        row, chips measured and estimated, estimated over published with each method, whether in the range
"""

import argparse
import json
import math
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import groupby

from benchmarks.training_rows import Row, read_rows
from launcher.catalog.training import FURTHER_RUNS, RUNS, load_training
from launcher.model.measurement import Measurement
from launcher.model.money import Range
from launcher.model.training import TrainingFacts
from launcher.planning import throughput

OWN = 0.03
"""Assumed spread of a published steady rate, in logarithms, as for the user's own measurement; judgement."""
QUARTER = 1.25
OTHERWISE = ("mlp", "tt-asynctp")


def series(rows: Sequence[Row]) -> list[list[Row]]:
    """Series of rows that differ only in their chips, ordered by chips; of two rows with one count, the first is used.

    Excluded: MLPerf rows, which come from many submitters, and torchtitan's rows of async tensor parallelism, whose
    layouts differ.
    """

    def job(row: Row) -> tuple[str, ...]:
        chip = row.shape.accelerator.name
        shape = replace(row.shape, chips=row.shape.chips_per_node, global_batch_tokens=None)
        return (row.family, row.label, chip, repr(shape))

    found = []
    steady = sorted((row for row in rows if not row.whole and not row.id.startswith(OTHERWISE)), key=job)
    for _, group in groupby(steady, key=job):
        counts: dict[int, Row] = {}
        for row in group:
            counts.setdefault(row.shape.chips, row)
        if len(counts) > 1:
            found.append([counts[chips] for chips in sorted(counts)])
    return found


def as_measured(row: Row) -> Measurement:
    """A published row in the form of the user's own measurement."""
    shape, rate = row.shape, row.published_tokens_per_s
    return Measurement(
        model=row.id,
        params_b=shape.params_b,
        active_params_b=shape.active_params_b,
        method=shape.method,
        precision=shape.precision,
        recompute=shape.recompute,
        stack=shape.stack,
        sequence_length=shape.sequence_length,
        global_batch_tokens=shape.global_batch_tokens,
        instance_type=row.label,
        accelerator=shape.accelerator.name,
        accelerators=shape.chips,
        nodes=shape.nodes,
        tokens_per_s=Range(low=rate * math.exp(-1.645 * OWN), mid=rate, high=rate * math.exp(1.645 * OWN)),
        step_s=None,
        checkpoint_write_s=None,
        restore_s=None,
        boot_s=None,
        run=row.id,
        image=None,
        revision=None,
        measured_at=datetime(2026, 11, 20, tzinfo=UTC),
        simulated=False,
    )


def estimated(found: Sequence[Sequence[Row]], facts: TrainingFacts) -> Iterator[dict[str, object]]:
    """For every larger count of every series, estimated over published, with each method."""
    for first, *larger in found:
        after = replace(facts, measured=(as_measured(first),))
        for row in larger:
            rate, alone = throughput.rate(row.shape, after), throughput.rate(row.shape, facts)
            truth = row.published_tokens_per_s
            constant = first.published_tokens_per_s * row.shape.chips / first.shape.chips
            yield {
                "row": row.id,
                "measured_chips": first.shape.chips,
                "chips": row.shape.chips,
                "after": round(rate.tokens_mid / truth, 3),
                "without": round(alone.tokens_mid / truth, 3),
                "constant": round(constant / truth, 3),
                "covered": rate.tokens_low <= truth <= rate.tokens_high,
                "covered_without": alone.tokens_low <= truth <= alone.tokens_high,
                "width": rate.tokens_high / rate.tokens_low,
                "width_without": alone.tokens_high / alone.tokens_low,
            }


def measure() -> dict[str, object]:
    """The figures in the module's docstring."""
    found = series([*read_rows(RUNS), *read_rows(FURTHER_RUNS)])
    rows = list(estimated(found, load_training()))
    near = {name: _share(rows, name) for name in ("after", "without", "constant")}
    misses = [
        {name: row[name] for name in ("row", "measured_chips", "chips", "after", "without", "constant", "covered")}
        for row in rows
        if not row["covered"] or not _near(row["after"])
    ]
    return {
        "series": len(found),
        "larger": len(rows),
        **{f"within_25_{name}": share for name, share in near.items()},
        "covered_after": round(statistics.mean(bool(row["covered"]) for row in rows), 3),
        "covered_without": round(statistics.mean(bool(row["covered_without"]) for row in rows), 3),
        "median_width_after": round(statistics.median(float(str(row["width"])) for row in rows), 2),
        "median_width_without": round(statistics.median(float(str(row["width_without"])) for row in rows), 2),
        "misses": misses,
    }


def _near(ratio: object) -> bool:
    return 1 / QUARTER <= float(str(ratio)) <= QUARTER


def _share(rows: Sequence[dict[str, object]], name: str) -> float:
    return round(statistics.mean(_near(row[name]) for row in rows), 3)


def main() -> int:
    """Measure and print; return 0 if the measurement is no worse than the estimate alone and than a constant rate."""
    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reader.add_argument("--json", action="store_true", help="print the figures as JSON")
    figures = measure()
    if reader.parse_args().json:
        print(json.dumps(figures, indent=2))
    else:
        for name, value in figures.items():
            print(f"{name}: {value}" if name != "misses" else "misses:")
        for miss in figures["misses"] if isinstance(figures["misses"], list) else ():
            print(f"  {miss}")
    others = (float(str(figures["within_25_without"])), float(str(figures["within_25_constant"])))
    return 0 if float(str(figures["within_25_after"])) >= max(others) else 1


if __name__ == "__main__":
    sys.exit(main())
