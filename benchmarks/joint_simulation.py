"""Compares the joint distribution of hours and dollars with an independent simulation of the same job.

    python -m benchmarks.joint_simulation [--cases N] [--runs N] [--seed N] [--json]

Each case is one priced candidate of a random plan: on demand, committed, prepaid or spot, from tokens, a measured rate
or given hours, with the assumed or a given interruption rate. The simulation draws the speed, the price, the start-up
and the interruption rate, and plays every failure and interruption as an event of its own. Criterion: the 10th, 50th
and 90th percentile of hours and dollars of every case within 2 %, beyond four standard errors of the simulation; the
mean within 5 %. `hours_p90_within` and its like are shares of the cases without that allowance.
"""

import argparse
import json
import math
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from launcher.catalog.load import load
from launcher.model.enums import PREPAID
from launcher.model.errors import SlipwayError
from launcher.model.money import Price
from launcher.pricing.bill_lines import JobSize
from launcher.pricing.compute import Charge, billed_at
from launcher.pricing.spot import Interruptible
from launcher.pricing.totals import price_mid, price_of
from launcher.pricing.training_candidate import TrainingCandidate
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import price_request
from tests.plans import NOW, request_of

Z = 1.2815515655446004
RUNS = 20_000
TOLERANCE, MEAN_TOLERANCE = 0.02, 0.05
CHANCES = (0.1, 0.5, 0.9)
ERRORS = 4.0
"""Standard errors of the simulation that count as its noise."""
TYPES = (
    "p5.48xlarge",
    "p5en.48xlarge",
    "p4d.24xlarge",
    "g6e.48xlarge",
    "g5.48xlarge",
    "p6-b200.48xlarge",
    "trn1.32xlarge",
)
MODELS = (("llama-3.1-8b", (0.2, 20.0)), ("llama-3.1-70b", (0.1, 3.0)), ("llama-2-7b", (0.1, 10.0)))
"""Models with their least and most billions of tokens."""
END_H = 5e4


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One candidate: percentiles of hours and dollars as quoted, their errors, and four standard errors."""

    name: str
    spot: bool
    hours: tuple[float, ...]
    usd: tuple[float, ...]
    hours_errors: tuple[float, ...]
    usd_errors: tuple[float, ...]
    noise: tuple[float, ...]
    mean_error: float
    middles_apart: float
    """The total with every factor at its own median over the median of the total, minus 1."""

    @property
    def worst(self) -> float:
        """The largest error of the six percentiles beyond the simulation's noise."""
        errors = zip((*self.hours_errors, *self.usd_errors), self.noise, strict=True)
        return max(max(0.0, abs(error) - noise) for error, noise in errors)

    @property
    def held(self) -> bool:
        """Whether every percentile is within the tolerance."""
        return self.worst <= TOLERANCE


def random_plan(dice: np.random.Generator) -> dict[str, Any]:
    """A plan with one type, region and purchase option."""
    model, (least, most) = MODELS[dice.integers(len(MODELS))]
    train: dict[str, Any] = {"model": model, "tokens_b": round(float(np.exp(dice.uniform(*np.log([least, most])))), 3)}
    option = str(dice.choice(["on-demand", "spot", "spot", "spot", "capacity-block", "reserved"]))
    nodes = int(dice.choice([1, 1, 2, 4, 8]))
    kind = dice.uniform()
    if kind < 0.15:
        train["throughput_tokens_per_s"] = float(dice.uniform(5e3, 2e5))
    elif kind < 0.3:
        train = {"model": model, "hours": round(float(np.exp(dice.uniform(0.0, 6.0))), 2)}
    else:
        train["method"] = str(dice.choice(["pretrain", "full", "lora"]))
        if dice.uniform() < 0.5:
            train["stack"] = str(dice.choice(["tuned", "framework", "huggingface"]))
    purchase: dict[str, Any] = {"option": option}
    if option == "spot" and dice.uniform() < 0.6:
        purchase["interruptions_per_node_hour"] = float(np.exp(dice.uniform(np.log(1e-4), np.log(0.7))))
    return {
        "slipway": 1,
        "name": "case",
        "workload": {"train": train},
        "target": {
            "instance_type": str(dice.choice(TYPES)),
            "nodes": nodes,
            "region": str(dice.choice(["us-east-1", "us-east-2", "us-west-2"])),
        },
        "purchase": purchase,
    }


def cases(count: int, seed: int = 1, runs: int = RUNS) -> Iterator[Case]:
    """Random candidates with both results; the same ones whatever the number of simulated runs."""
    dice, draws = np.random.default_rng(seed), np.random.default_rng(seed + 1)
    catalog = load()
    found = 0
    while found < count:
        plan = random_plan(dice)
        try:
            priced = price_request(Path("plan.yaml"), request_of(plan), catalog, NOW, PriceOptions())
        except SlipwayError:
            continue
        candidate = priced.candidates[0]
        if not isinstance(candidate, TrainingCandidate) or candidate.usd is None or candidate.hours > END_H:
            continue
        quoted = priced.quote(1)
        if quoted.usd is None:
            continue
        hours, usd = simulate(candidate, draws, runs)
        ends = (quoted.hours.low, quoted.hours.mid, quoted.hours.high)
        dollars = tuple(float(value) for value in (quoted.usd.low, quoted.usd.mid, quoted.usd.high))
        cost = candidate.charge
        yield Case(
            name=json.dumps({key: plan[key] for key in ("workload", "target", "purchase")}),
            spot=candidate.hazard is not None,
            hours=ends,
            usd=dollars,
            hours_errors=_errors(ends, hours),
            usd_errors=_errors(dollars, usd),
            noise=(*_noise(hours), *_noise(usd)),
            mean_error=float(quoted.usd.mean or 0) / float(usd.mean()) - 1,
            middles_apart=_at_the_middles(candidate, cost) / dollars[1] - 1 if cost is not None else 0.0,
        )
        found += 1


def _at_the_middles(candidate: TrainingCandidate, cost: Charge) -> float:
    """The total with hours, price and start-up at their medians."""
    if candidate.place.option in PREPAID or cost.unused_h:
        return float(candidate.usd or 0)
    start_and_tail_h = cost.start_h + cost.tail_h
    size = JobSize(cost.hours, candidate.interval_s, start_and_tail_h, candidate.losses_per_h * cost.hours)
    compute = price_mid(candidate) * cost.instances * (cost.hours + start_and_tail_h)
    return compute + float(candidate.other_costs.total_usd(size))


def _errors(quoted: tuple[float, ...], drawn: np.ndarray) -> tuple[float, ...]:
    """Quoted over simulated percentiles, minus 1; 0 for a percentile at an atom of the simulation."""
    errors = []
    for value, chance in zip(quoted, CHANCES, strict=True):
        below, above = float(np.mean(drawn < value * (1 - 1e-6))), float(np.mean(drawn <= value * (1 + 1e-6)))
        atom = below <= chance <= above
        errors.append(0.0 if atom else value / float(np.quantile(drawn, chance)) - 1)
    return tuple(errors)


def _noise(drawn: np.ndarray) -> tuple[float, ...]:
    """Four standard errors of the simulated percentiles, relative, from the distances of neighbours."""
    noise = []
    for chance in CHANCES:
        step = ERRORS * math.sqrt(chance * (1 - chance) / len(drawn))
        low, middle, high = np.quantile(drawn, [chance - step, chance, chance + step])
        noise.append(float(max(high - middle, middle - low) / middle))
    return tuple(noise)


def simulate(candidate: TrainingCandidate, dice: np.random.Generator, runs: int) -> tuple[np.ndarray, np.ndarray]:
    """Wall hours and dollars of many runs of a candidate."""
    work, cost, price = candidate.work, candidate.charge, candidate.offer.price
    assert cost is not None and isinstance(price, Price)  # noqa: S101, PT018 - the caller has checked
    bare = work.hours.mid / (1 + work.failure_overhead)
    speed = (
        np.ones(runs)
        if work.training is None
        else _two_sided(work.hours.low, work.hours.mid, work.hours.high, dice, runs)
    )
    interval_s = candidate.interval_s
    saving = cost.job.running / bare - 1
    hours = bare * (1 + saving) * speed
    hours = hours + _failures(candidate, bare * speed, interval_s, saving, dice)
    if cost.spot is not None and candidate.hazard is not None:
        hazard = candidate.hazard
        rates = np.zeros(runs)
        if hazard.mid:
            rates = _two_sided(hazard.low, hazard.mid, hazard.high, dice, runs) * hazard.mid
        hours = hours + _interruptions(cost.spot.job, rates, speed, dice)
    usd = _dollars(candidate, hours, dice)
    return hours, usd


def _two_sided(low: float, mid: float, high: float, dice: np.random.Generator, runs: int) -> np.ndarray:
    """Draws of a factor with the median 1 whose logarithm is normal on each side."""
    if low == high:
        return np.ones(runs)
    z = dice.standard_normal(runs)
    return np.exp(np.where(z < 0, math.log(mid / low), math.log(high / mid)) * z / Z)


def _failures(
    candidate: TrainingCandidate, bare: np.ndarray, interval_s: float | None, saving: float, dice: np.random.Generator
) -> np.ndarray:
    """Hours lost to failures: each a restart and a part of an interval, in the proportion of the estimate's mean."""
    work, spot = candidate.work, candidate.charge.spot if candidate.charge else None
    if not work.failures_per_h:
        return np.zeros(len(bare))
    share = work.failure_overhead - saving if spot is None else spot.failing
    rates = np.full(len(bare), work.failures_per_h)
    if work.training is None and work.hours.high > work.hours.mid > work.hours.low:
        wide = (work.hours.high - work.hours.low) / (work.hours.mid - work.hours.low)
        rates = rates * np.exp(math.log(wide) * dice.standard_normal(len(bare)) / Z)
    counts = dice.poisson(rates * bare)
    interval_h = math.inf if interval_s is None else interval_s / 3600
    again = np.minimum(interval_h, bare)
    one = work.failure_restart_h + min(interval_h, work.hours.mid / (1 + work.failure_overhead)) / 2
    scale = share / work.failures_per_h / one if one > 0 else 0.0
    lost = np.zeros(len(bare))
    for number in range(int(counts.max(initial=0))):
        hit = counts > number
        lost[hit] += work.failure_restart_h + dice.uniform(0.0, again[hit])
    return lost * scale


def _interruptions(job: Interruptible, rates: np.ndarray, speed: np.ndarray, dice: np.random.Generator) -> np.ndarray:
    """Hours lost to interruptions, each played as an event."""
    remaining, clock, active = job.work * speed, np.zeros(len(speed)), np.ones(len(speed), dtype=bool)
    cycle = job.interval + job.stall
    whole = remaining * cycle / job.interval if job.saves else remaining.copy()
    start = whole.copy()
    while active.any():
        index = np.flatnonzero(active)
        rate = rates[index]
        with np.errstate(divide="ignore"):
            struck = dice.exponential(size=len(index)) / rate
        left = remaining[index] * cycle / job.interval if job.saves else remaining[index]
        done = (struck >= left) | (clock[index] > 100 * END_H)
        clock[index] += np.where(done, left, struck + job.restart)
        active[index[done]] = False
        index, struck = index[~done], struck[~done]
        if not job.saves:
            continue
        if job.write <= job.notice and job.lossless:
            clock[index] += job.write
            remaining[index] -= struck * job.interval / cycle
        else:
            begun = struck - job.interval - job.write
            stored = np.where(begun < 0, 0.0, np.floor(begun / cycle) + 1)
            remaining[index] -= stored * job.interval
    return clock - start


def _dollars(candidate: TrainingCandidate, hours: np.ndarray, dice: np.random.Generator) -> np.ndarray:
    """Dollars of every run: the price while it runs, start-up, idle tail or the offering's overrun, other lines."""
    cost, price, nodes = candidate.charge, candidate.offer.price, candidate.place.nodes
    assert cost is not None and isinstance(price, Price)  # noqa: S101, PT018 - the caller has checked
    if candidate.place.option in PREPAID:
        fee = float(price.usd) * cost.billed_hours * cost.instances
        more = candidate.overrun
        options = [] if more is None else [more, *([] if more.other is None else [more.other])]
        late = [
            min((float(option.price.usd) * option.hours_at(value) for option in options), default=0.0)
            for value in hours
        ]
        return fee + np.array(late) + _others(candidate, hours, np.zeros(len(hours)) + cost.start_h)
    middle, spread = cost.start_h, cost.start
    start = _two_sided(math.exp(-spread.down), 1.0, math.exp(spread.up), dice, len(hours)) * middle
    busy = hours + start
    random = price_of(candidate, price)
    rate = np.full(len(hours), random.mid)
    if random.scale:
        rate = np.clip(
            random.mid * np.exp(random.scale * dice.standard_normal(len(hours))), random.floor, random.ceiling
        )
    billed = busy + cost.tail_h
    if cost.unused_h:
        request = candidate.context.request
        billed = np.array([billed_at(candidate.place, request, value, cost) for value in busy])
    return rate * nodes * billed + _others(candidate, hours, start + cost.tail_h)


def _others(candidate: TrainingCandidate, hours: np.ndarray, around: np.ndarray) -> np.ndarray:
    """The other lines at a few lengths, interpolated."""
    marks = np.quantile(hours, np.linspace(0.0, 1.0, 25))
    usd = []
    for value in marks:
        size = JobSize(
            hours=float(value),
            checkpoint_interval_s=candidate.interval_s,
            start_and_tail_h=float(np.median(around)),
            losses=candidate.losses_per_h * float(value),
        )
        usd.append(float(candidate.other_costs.total_usd(size)))
    return np.interp(hours, marks, usd)


def summary(found: list[Case]) -> dict[str, Any]:
    """The shares within the tolerance, and the worst errors."""
    worst = sorted(case.worst for case in found)
    return {
        "cases": len(found),
        "spot": sum(case.spot for case in found),
        "held": sum(case.held for case in found) / len(found),
        **{
            f"{name}_p{round(100 * chance)}_within": sum(
                abs(getattr(case, f"{name}_errors")[index]) <= TOLERANCE for case in found
            )
            / len(found)
            for name in ("hours", "usd")
            for index, chance in enumerate(CHANCES)
        },
        "worst_without_allowance": max(
            abs(error) for case in found for error in (*case.hours_errors, *case.usd_errors)
        ),
        "worst": worst[-1],
        "p95_of_worst": worst[math.ceil(0.95 * len(worst)) - 1],
        "mean_within": sum(abs(case.mean_error) <= MEAN_TOLERANCE for case in found) / len(found),
        "middles_within_3_percent": sum(abs(case.middles_apart) <= 0.03 for case in found) / len(found),
    }


def main(arguments: list[str] | None = None) -> int:
    """Run the comparison; 1 if it does not hold."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.joint_simulation")
    parser.add_argument("--cases", type=int, default=600)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    found = list(cases(options.cases, options.seed, options.runs))
    result = summary(found)
    if options.json:
        print(
            json.dumps(
                {**result, "worst_cases": [asdict(case) for case in sorted(found, key=lambda case: -case.worst)[:10]]},
                indent=2,
            )
        )
    else:
        print(json.dumps(result, indent=2))
    return 0 if result["held"] == 1.0 else 1


if __name__ == "__main__":
    sys.exit(main())
