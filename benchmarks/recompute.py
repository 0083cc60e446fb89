"""Recomputes quotes independently, from the plan file and the shipped price files alone.

    python -m benchmarks.recompute [--json]

Nothing of the launcher is imported: plans are read as YAML, prices as CSV, and each formula is implemented a second
time from the documentation. The results of planning's estimators (hours of a job that names tokens, an instance's
throughput) are taken from the quote; its money is recomputed. Criterion: the middle within 0.5 %, and the ends too
where nothing but the offering or the throughput makes a range. The percentiles of jobs that are billed by the hour are
compared by `benchmarks.joint_simulation`.
"""

import argparse
import json
import math
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from benchmarks import recompute_prices as prices

ROOT = Path(__file__).resolve().parents[1]
OWN = ROOT / "benchmarks" / "recomputed"
EXAMPLES = ROOT / "examples"
PLANS = (
    OWN / "on-demand-tail.yaml",
    EXAMPLES / "tiny-gpt.yaml",
    OWN / "spot-many.yaml",
    OWN / "block.yaml",
    EXAMPLES / "trn2-capacity-block.yaml",
    OWN / "savings-plan-owned.yaml",
    OWN / "reservation-new.yaml",
    OWN / "hyperpod.yaml",
    EXAMPLES / "hyperpod" / "p5-training-plan.yaml",
    EXAMPLES / "serve" / "pinned" / "llama31-8b-g6e.yaml",
    OWN / "serve-by-the-clock.yaml",
    EXAMPLES / "serve" / "closed-model.yaml",
)
TOLERANCE, SPOT_TOLERANCE = 0.006, 0.03
"""On spot the median of price x hours differs from the product of the medians, which is recomputed here."""
MONTH_H = 730.0
YEAR_H = 8760
BOOT_H, OVERHEAD_H = 0.15, 0.5
BLOCK_LOST_H, TRIAL_H, GUARD_H = 0.5, 1.0, 17.5 / 60
FILLED, DEPLOYMENT_H, DEPLOYMENTS = 0.7, 0.75, 2.0
Plan = Mapping[str, Any]


class Dollars(NamedTuple):
    """A total: low, middle, high; None for an end that is not recomputed."""

    low: float | None
    mid: float
    high: float | None


def recompute(plan: Plan, quote: Mapping[str, Any], today: date) -> Dollars:
    """The total of a plan.

    Args:
        plan: the content of the plan file.
        quote: its `slipway.quote/1`, for the estimates of planning.
        today: the date from which ages of prices are counted.
    """
    if plan["workload"].get("serve"):
        return _hosted(plan, quote) if quote["purchase_option"] == "bedrock" else _endpoint(plan, quote)
    option = quote["purchase_option"]
    if option in ("capacity-block", "training-plan"):
        compute = _block(plan, quote) if option == "capacity-block" else _fee(plan)
        start_and_tail_h = BOOT_H
    else:
        rate = _spot_rate(plan, quote, today) if option == "spot" else _rate(plan, quote)
        start_and_tail_h = _start_and_tail_h(plan, quote)
        share = 0.0 if option == "spot" else _share(plan)
        compute = rate * quote["nodes"] * max(quote["hours"]["mid"] + start_and_tail_h, share)
    return Dollars(None, compute + _other_usd(plan, quote, quote["hours"]["mid"], start_and_tail_h), None)


def _start_and_tail_h(plan: Plan, quote: Mapping[str, Any]) -> float:
    """Hours of the nodes before and after the job."""
    pod = quote["target"].startswith("hyperpod")
    start = BOOT_H + (TRIAL_H if pod else 0.0)
    return start + _tail_h(plan, quote["hours"]["mid"] + start, pod=pod)


def _rate(plan: Plan, quote: Mapping[str, Any]) -> float:
    """Dollars per instance-hour."""
    kind, region, option = quote["instance_type"], quote["region"], quote["purchase_option"]
    if quote["target"].startswith("hyperpod"):
        return prices.sagemaker(kind, region, "cluster")
    if option == "on-demand":
        return prices.on_demand(kind, region)
    years = plan["purchase"]["term_years"]
    return prices.reserved(kind, region, "convertible" if option == "savings-plan" else "standard", years)


def _share(plan: Plan) -> float:
    """Hours of a new term that one run pays for: the term divided by its number of runs."""
    purchase, train = plan["purchase"], plan["workload"]["train"]
    if purchase["option"] not in ("savings-plan", "reserved") or purchase.get("owned"):
        return 0.0
    years = purchase["term_years"]
    return YEAR_H * years / max(1.0, min(train.get("runs", 1), 12 * train.get("runs_per_month", 1) * years))


def _tail_h(plan: Plan, busy_h: float, *, pod: bool = False) -> float:
    """Hours that nodes remain after the job: 5 minutes or the plan's value, plus the guard's delay on HyperPod."""
    guard = plan.get("guardrails", {})
    tail = guard.get("idle_minutes", 5) / 60 + (GUARD_H if pod else 0.0)
    return min(tail, max(0.0, guard.get("ttl_h", math.inf) - busy_h))


def _spot_rate(plan: Plan, quote: Mapping[str, Any], today: date) -> float:
    """The median of the spot price today: one of the region's newest prices, returned to the long run with its age.

    The zone is Slipway's choice, so the price must be the forecast of one of the region's rows.
    """
    kind, region, price = quote["instance_type"], quote["region"], float(quote["price"]["usd_per_hour"])
    process, most = prices.spot_process(), prices.on_demand(kind, region)
    long_run = most * process["shares"][kind]
    forecasts = []
    for usd, day, zone in prices.spot_newest(kind, region):
        kept = 0.5 ** ((today - day).days / process["half_life_days"]) * (1.0 if zone else process["zones_alike"])
        forecasts.append(min(most, max(most / 10, long_run * (usd / long_run) ** kept)))
    nearest = min(forecasts, key=lambda forecast: abs(forecast - price))
    if abs(nearest / price - 1) > TOLERANCE:
        message = f"{plan['name']}: ${price} is the forecast of no row of spot.csv"
        raise LookupError(message)
    return nearest


def _block(plan: Plan, quote: Mapping[str, Any]) -> float:
    """A purchased block is paid for its duration; otherwise the days that contain the job are paid."""
    rate = prices.zoned("capacity_blocks", quote["instance_type"], quote["region"]) * quote["nodes"]
    reservation = plan["purchase"].get("reservation")
    if reservation:
        paid: float = rate * (reservation["ends_at"] - reservation["starts_at"]).total_seconds() / 3600
        return paid
    days = math.ceil((quote["hours"]["mid"] + BOOT_H + BLOCK_LOST_H) / 24)
    return rate * 24 * (days if days <= 14 else math.ceil(days / 7) * 7)


def _fee(plan: Plan) -> float:
    """A purchased training plan costs its fee."""
    return float(plan["purchase"]["training_plan"]["fee_usd"])


def _other_usd(plan: Plan, quote: Mapping[str, Any], hours: float, start_and_tail_h: float) -> float:
    """The lines of a cluster other than compute that cost more than a cent per hour, and the S3 lines."""
    region, nodes, pod = quote["region"], quote["nodes"], quote["target"].startswith("hyperpod")
    up_h, nodes_h = hours + max(OVERHEAD_H, start_and_tail_h), hours + start_and_tail_h
    logs = 0.05 * (up_h + nodes * nodes_h)

    def usd(name: str, quantity: float) -> float:
        return prices.item(name, region) * quantity

    storage, head = plan.get("storage", {}), prices.on_demand("m6i.xlarge", region) * (1.2 if pod else 1.0)
    total = head * up_h * (1 + storage.get("login_nodes", 0))
    total += usd("vpc.nat-gateway", up_h) + usd("vpc.public-ipv4", up_h)
    total += usd("vpc.nat-gateway-data", 20 * nodes + logs)
    total += usd("cloudwatch.logs-ingestion", logs)
    total += usd("fsx.lustre-persistent-250", storage.get("lustre_gib", 0) / MONTH_H * up_h)
    if not pod:
        total += usd("ebs.gp3-storage", (nodes * 160 * nodes_h + 60 * up_h) / MONTH_H)
        total += usd("route53.hosted-zone", math.ceil(up_h / MONTH_H) if up_h > 12 else 0)
    params_b = 8.03 if isinstance(plan["workload"]["train"].get("model"), str) else 0.0002
    return total + usd("s3.standard-storage", 14 * params_b * 3 * (1 + hours / MONTH_H))


def _endpoint(plan: Plan, quote: Mapping[str, Any]) -> Dollars:
    """A month of an endpoint: its instance hours, two deployments, and the costs per request."""
    serve, serving = plan["workload"]["serve"], quote["serving"]
    rate = prices.sagemaker(quote["instance_type"], quote["region"], "hosting")
    speed = serving["tokens_per_s_range"]
    found = []
    for tokens in (speed["high"], serving["tokens_per_s"], speed["low"]):
        least = [2] * 12 + [1] * 12 if serve.get("schedule") else [1] * 24
        needed = math.ceil(serve["requests_per_s"] / (tokens / serve["output_tokens"] * FILLED))
        counts = [max(minimum, needed) for minimum in least]
        instance_hours = sum(counts) / 24 * MONTH_H
        paid = instance_hours + max(counts) * DEPLOYMENT_H * DEPLOYMENTS
        found.append(rate * paid + _beside_endpoint(serve, quote, instance_hours))
    low, mid, high = found
    return Dollars(min(low, mid), mid, max(mid, high))


def _beside_endpoint(serve: Plan, quote: Mapping[str, Any], instance_hours: float) -> float:
    """Data, logs and monitoring of an endpoint."""
    requests = serve["requests_per_s"] * MONTH_H * 3600
    logs = requests * 1e-6 + instance_hours * 0.005
    lines = (
        ("sagemaker.endpoint-data-in", requests * serve["input_tokens"] * 6e-9),
        ("sagemaker.endpoint-data-out", requests * serve["output_tokens"] * 6e-9),
        ("cloudwatch.logs-ingestion", logs),
        ("cloudwatch.alarm", 6),
        ("cloudwatch.dashboard", 1),
        ("cloudwatch.custom-metric", 3),
    )
    return sum(prices.item(name, quote["region"]) * quantity for name, quantity in lines)


def _hosted(plan: Plan, quote: Mapping[str, Any]) -> Dollars:
    """A month of tokens on Bedrock."""
    serve = plan["workload"]["serve"]
    inputs, outputs = prices.bedrock(quote["serving"]["bedrock"]["inference_id"])
    millions = serve["requests_per_s"] * MONTH_H * 3600 / 1e6
    usd = millions * (serve["input_tokens"] * inputs + serve["output_tokens"] * outputs)
    return Dollars(usd, usd, usd)


def deviations(quote: Mapping[str, Any], recomputed: Dollars) -> dict[str, float]:
    """The relative differences between a quote and the recomputed total."""
    known = {end: usd for end, usd in recomputed._asdict().items() if usd is not None}
    return {end: float(quote["usd"][end]) / usd - 1 for end, usd in known.items()}


def tolerance(quote: Mapping[str, Any]) -> float:
    """The allowed relative difference."""
    return SPOT_TOLERANCE if quote["purchase_option"] == "spot" else TOLERANCE


def read(path: Path) -> Plan:
    """The content of a plan file."""
    found: Plan = yaml.safe_load(path.read_text(encoding="utf-8"))
    return found


def main(arguments: list[str] | None = None) -> int:
    """Quote and recompute every plan; return 0 if all are within the tolerance."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.recompute", description=__doc__)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    found, today = dict[str, dict[str, float]](), datetime.now(UTC).date()
    held: dict[str, bool] = {}
    for path in PLANS:
        command = [sys.executable, "-m", "launcher", "quote", str(path), "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
        quote = json.loads(done.stdout)
        found[path.stem] = deviations(quote, recompute(read(path), quote, today))
        held[path.stem] = max(abs(deviation) for deviation in found[path.stem].values()) <= tolerance(quote)
    worst = max(abs(deviation) for ends in found.values() for deviation in ends.values())
    passed = all(held.values())
    if options.json:
        rows = [{"plan": name, **{end: f"{off:+.3%}" for end, off in ends.items()}} for name, ends in found.items()]
        print(json.dumps({"worst": f"{worst:.3%}", "allowed": f"{TOLERANCE:.1%}", "quotes": rows}, indent=2))
        return not passed
    for name, ends in found.items():
        print(f"{name:22}", *(f"{end} {off:+.3%}" for end, off in ends.items()))
    print(f"the furthest off by {worst:.3%}; {TOLERANCE:.1%} allowed")
    return not passed


if __name__ == "__main__":
    sys.exit(main())
