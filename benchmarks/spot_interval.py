"""Compares the automatic checkpoint interval of spot jobs with the best one that a search finds.

    python -m benchmarks.spot_interval [--json]

Over a grid of models, node counts and interruption rates, the total cost of a job is computed at the automatic interval
and at 241 intervals around it, from a twentieth to twenty times its length. Criterion: at most 1 % above the best cost.
"""

import argparse
import json
import sys
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import product
from pathlib import Path

from launcher import plan_file
from launcher.catalog.load import load
from launcher.model.money import Price
from launcher.planning.start_up import BOOT_H
from launcher.pricing.interruptible import on_spot
from launcher.pricing.training_candidate import TrainingCandidate
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import price_request

MODELS = ("{params_b: 0.3}", "llama-3.1-8b", "llama-3.1-70b")
NODES = (1, 4, 16)
RATES = (0.0005, 0.005, 0.05, 0.3, 0.74, 2.0)
SPAN, STEPS = 20.0, 120
TOLERANCE = 0.01
PLAN = """
slipway: 1
name: interval
workload: {{train: {{model: {model}, tokens_b: {tokens}}}}}
target: {{instance_type: p5.48xlarge, nodes: {nodes}, region: us-east-2, az_id: use2-az1}}
purchase: {{option: spot, interruptions_per_node_hour: {rate}}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One job: dollars at the automatic interval and at the best one, and both intervals in seconds."""

    name: str
    automatic_usd: float
    best_usd: float
    automatic_s: float
    best_s: float

    @property
    def excess(self) -> float:
        """The additional cost of the automatic interval, as a share."""
        return self.automatic_usd / self.best_usd - 1


def cells() -> list[Cell]:
    """The grid, without jobs that do not fit their nodes."""
    catalog, now = load(), datetime.now(UTC)
    found = []
    for model, nodes, rate in product(MODELS, NODES, RATES):
        tokens = 20 if model.startswith("{") else 5
        text = PLAN.format(model=model, tokens=tokens, nodes=nodes, rate=rate)
        if "70b" in model and nodes == 1:
            continue
        priced = price_request(Path("plan.yaml"), plan_file.loads(text), catalog, now, PriceOptions())
        best = priced.candidates[0]
        if isinstance(best, TrainingCandidate):
            found.append(_cell(f"{model}, {nodes} nodes, {rate:g} per node-hour", best))
    return found


def _cell(name: str, drawn: TrainingCandidate) -> Cell:
    """One job at its automatic interval and at the best one."""
    automatic_s = drawn.interval_s or 0.0
    around = [automatic_s * SPAN ** (step / STEPS) for step in range(-STEPS, STEPS + 1)]
    usd, best_s = min((_usd(drawn, interval_s), interval_s) for interval_s in around)
    return Cell(name=name, automatic_usd=_usd(drawn, None), best_usd=usd, automatic_s=automatic_s, best_s=best_s)


def _usd(drawn: TrainingCandidate, interval_s: float | None) -> float:
    """Dollars of the nodes at an interval; None is the automatic one."""
    request, price = drawn.context.request, drawn.offer.price
    if not isinstance(price, Price) or drawn.hazard is None:
        raise TypeError(drawn)
    fixed = replace(request, checkpoint=replace(request.checkpoint, interval=interval_s))
    hours = on_spot(drawn.work.hours.mid, drawn.work, fixed, drawn.hazard.mid).job.expected_hours
    return float(price.usd) * drawn.place.nodes * (hours + BOOT_H)


def summary(found: list[Cell]) -> dict[str, float | str]:
    """The figures of the grid."""
    worst = max(found, key=lambda cell: cell.excess)
    return {
        "cells": len(found),
        "held": sum(cell.excess <= TOLERANCE for cell in found),
        "worst_excess": round(worst.excess, 5),
        "worst_cell": worst.name,
    }


def main() -> int:
    """Search the grid and print the figures; return 0 if every cell meets the criterion."""
    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reader.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = reader.parse_args()
    figures = summary(cells())
    print(
        json.dumps(figures, indent=2)
        if options.json
        else "\n".join(f"{key}: {value}" for key, value in figures.items())
    )
    return 0 if figures["held"] == figures["cells"] else 1


if __name__ == "__main__":
    sys.exit(main())
