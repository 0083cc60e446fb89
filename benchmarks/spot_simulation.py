"""Compares the closed form of spot with an independent simulation that runs the job event by event.

    python -m benchmarks.spot_simulation [--json]

The grid: interruptions per hour, seconds to store a checkpoint, seconds of notice, hours of work, and the interval as a
multiple of Young's, with a checkpoint stored at the end of its stall or after twice that time. Criterion: expected
hours (and so dollars, which are a rate times hours) within 2 %, and the standard deviation of the hours within 5 % if
at least three interruptions are expected. `benchmarks/joint_simulation.py` compares the percentiles.
"""

import argparse
import json
import math
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

from launcher.pricing.spot import Interruptible

HAZARDS = (0.001, 0.01, 0.1, 0.4, 1.0)
STORE_S = (4.0, 60.0, 240.0, 1200.0)
NOTICE_S = (0.0, 115.0)
WORK_H = (0.5, 5.0, 50.0, 400.0)
MULTIPLES = (0.5, 1.0, 3.0)
RESTART_H = 0.25
DRAWS = 400_000
"""Approximate maximum of interruptions drawn for a cell."""
MEAN_TOLERANCE, DEVIATION_TOLERANCE = 0.02, 0.05
FEW = 3.0
MAX_RUNS = 40_000
LATE_BY = (1.0, 2.0)
"""Time until a checkpoint is stored, as a multiple of its stall."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One point of the grid with both results."""

    job: Interruptible
    runs: int
    mean: float
    standard_error: float
    deviation: float

    @property
    def mean_error(self) -> float:
        """Closed form over simulation, minus 1."""
        return self.job.expected_hours / self.mean - 1

    @property
    def deviation_error(self) -> float:
        """Closed form over simulation, minus 1, for the standard deviation of the hours."""
        losses = self.job.losses
        return math.sqrt(losses.variance) / self.deviation - 1

    @property
    def few(self) -> bool:
        """Whether fewer interruptions are expected than the tolerance of the deviation requires."""
        return self.job.expected_interruptions < FEW

    @property
    def held(self) -> bool:
        """Whether the cell meets the criterion."""
        noise = 4 * self.standard_error / self.mean
        if abs(self.mean_error) > MEAN_TOLERANCE + noise:
            return False
        return self.few or abs(self.deviation_error) <= DEVIATION_TOLERANCE + 4 * math.sqrt(2 / self.runs)


def grid() -> Iterator[Interruptible]:
    """The jobs of the grid, without those that would never end."""
    axes = product(HAZARDS, STORE_S, NOTICE_S, WORK_H, MULTIPLES, LATE_BY)
    for hazard, store_s, notice_s, work, multiple, late in axes:
        store, stall = store_s / 3600, store_s / 3600 / late
        interval = multiple * max(math.sqrt(2 * stall / hazard) - stall, stall)
        job = Interruptible(
            work=work,
            interval=interval,
            stall=stall,
            write=store,
            hazard=hazard,
            notice=notice_s / 3600,
            restart=RESTART_H,
        )
        if job.expected_hours < 20 * work and job.write < 2 * job.segment:
            yield job


def simulate(job: Interruptible, seed: int, draws: int = DRAWS) -> Cell:
    """Simulate one job of the grid many times."""
    dice = random.Random(seed)  # noqa: S311 - a repeatable simulation, no secret
    runs = int(min(MAX_RUNS, max(800, draws / (1 + job.hazard * job.expected_hours))))
    hours = [_play(job, dice) for _ in range(runs)]
    mean = math.fsum(hours) / runs
    spread = math.sqrt(math.fsum((hour - mean) ** 2 for hour in hours) / (runs - 1))
    return Cell(
        job=job,
        runs=runs,
        mean=mean,
        standard_error=spread / math.sqrt(runs),
        deviation=spread,
    )


def _play(job: Interruptible, dice: random.Random) -> float:
    """Hours until one simulated job is done."""
    remaining, clock = job.work, 0.0
    cycle = job.interval + job.stall
    while True:
        uninterrupted = remaining * cycle / job.interval
        struck = dice.expovariate(job.hazard)
        if struck >= uninterrupted:
            return clock + uninterrupted
        clock += struck + job.restart
        if job.write <= job.notice:
            clock += job.write
            remaining -= struck * job.interval / cycle
        else:
            begun = struck - job.interval - job.write
            stored = 0 if begun < 0 else math.floor(begun / cycle) + 1
            remaining -= stored * job.interval


def main() -> int:
    """Simulate the grid, print figures and failed cells; return 0 if every cell meets the criterion."""
    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reader.add_argument("--json", action="store_true", help="print the figures as JSON")
    reader.add_argument("--draws", type=int, default=DRAWS, help="interruptions drawn for a cell")
    options = reader.parse_args()
    cells = [simulate(job, seed, options.draws) for seed, job in enumerate(grid())]
    figures = summary(cells)
    print(
        json.dumps(figures, indent=2)
        if options.json
        else "\n".join(f"{key}: {value}" for key, value in figures.items())
    )
    for cell in cells:
        if not cell.held:
            print(replace(cell), round(cell.mean_error, 4), round(cell.deviation_error, 4), file=sys.stderr)
    return 0 if figures["held"] == figures["cells"] else 1


def summary(cells: list[Cell]) -> dict[str, float]:
    """The figures of a simulated grid."""
    many = [abs(cell.deviation_error) for cell in cells if not cell.few]
    return {
        "cells": len(cells),
        "held": sum(cell.held for cell in cells),
        "worst_mean_error": round(max(abs(cell.mean_error) for cell in cells), 4),
        "cells_with_three_or_more": len(many),
        "worst_deviation_error_there": round(max(many, default=0.0), 4),
    }


if __name__ == "__main__":
    sys.exit(main())
