"""Capacity Blocks are billed as whole offerings."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from launcher.model.money import Price
from launcher.planning.start_up import BOOT_H
from launcher.pricing.blocks import block_days
from launcher.pricing.compute import boot_hours
from launcher.pricing.totals import total_usd
from launcher.pricing.training_candidate import TrainingCandidate
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import pick, price
from tests.plans import ROOT
from tests.unit.pricing.conftest import price_over


@pytest.mark.parametrize(
    "hours, days",
    [(0.1, 1), (23.5, 1), (23.51, 2), (24 * 14 - 0.5, 14), (24 * 14, 21), (24 * 182 - 0.5, 182), (24 * 182, None)],
)
def test_block_days_are_the_shortest_offering_long_enough_for_the_job(hours: float, days: int | None) -> None:
    assert block_days(hours) == days


@pytest.mark.parametrize(
    "path", ["trn2-capacity-block.yaml", "eks/p5-capacity-block.yaml", "hyperpod-eks/trn2-training-plan.yaml"]
)
@pytest.mark.parametrize("hours", [48, 0])
def test_cluster_deployed_before_the_block_begins_costs_the_daily_rate_until_then(path: str, hours: int) -> None:
    now = datetime(2026, 12, 1, 11, 30, tzinfo=UTC) - timedelta(hours=hours)
    quoted = pick(price(ROOT / "examples" / path, now, PriceOptions(any_age=True)), None)[1]
    messages = [finding.message for finding in quoted.findings if finding.code == "not-begun"]
    until = quoted.left_up_usd_per_hour
    assert len(messages) == bool(hours)
    assert all(f"in 2.0 days: a cluster deployed now costs ${until * 24:,.2f} a day" in message for message in messages)


def test_an_overrun_is_in_the_high_end_and_in_the_mean_and_not_at_the_median():
    wide = {"workload": {"train": {"model": "llama-3.1-8b", "hours": None, "tokens_b": 17, "stack": "framework"}}}
    block = {"instance_type": "p5en.48xlarge", "region": "us-east-2", "nodes": 4}
    (short,) = price_over({**wide, "target": block, "purchase": {"option": "capacity-block"}}).candidates
    assert isinstance(short, TrainingCandidate)
    assert short.charge
    assert isinstance(short.offer.price, Price)
    assert short.usd
    assert short.charge.billed_hours == 24
    assert 0.1 < short.charge.outlasts < 0.5
    assert short.overrun
    assert short.overrun.usd > 0
    fee = short.offer.price.usd * 24 * 4
    machines = sum(component.usd or 0 for component in short.components if component.group == "compute")
    assert machines == pytest.approx(fee, abs=Decimal("0.001"))
    spread = total_usd(short)
    assert spread
    assert spread.mean
    assert spread.high > spread.mean > spread.mid == short.usd
    assert spread.high > fee


def test_no_two_candidates_are_the_same_plan():
    """A digest, and the id made of it, names one row: the quote of an id has the dollars of its row."""
    wide = {"train": {"model": "llama-3.1-8b", "hours": None, "tokens_b": 17, "stack": "framework"}}
    target = {"instance_type": "any", "nodes": None, "region": "us-east-2"}
    priced = price_over({"workload": wide, "target": target, "purchase": {"option": "capacity-block"}})
    assert any(row.overrun_probability for row in priced.rows)
    digests = [priced.digest(rank) for rank, _ in enumerate(priced.candidates, start=1)]
    assert len(set(digests)) == len(digests) > 5


BLOCK = {"instance_type": "p5.48xlarge", "region": "us-east-2", "nodes": 4}
WIDE = {"model": "llama-3.1-8b", "method": "full", "hours": None, "tokens_b": 17, "stack": "framework"}


def test_overrun_of_a_block_continues_with_the_cheaper_option():
    """By hours on demand where few are missing; by days of the block where on demand is far dearer or has no price."""

    def offered(on_demand, **parts):
        purchase = {"option": "capacity-block", "price_overrides": {"p5.48xlarge/on-demand": on_demand}}
        plan = {"workload": {"train": WIDE}, "target": BLOCK, "purchase": purchase} | parts
        priced_plan = price_over(plan, any_age=True)
        assert isinstance(priced_plan.candidates[0], TrainingCandidate)
        return priced_plan.candidates[0], priced_plan.quote(1)

    cheap, quoted = offered("55")
    assert cheap.overrun
    assert cheap.charge
    assert cheap.overrun.text == "finished on demand"
    late_h = [max(0.0, hours - cheap.charge.usable_h) for hours in cheap.charge.wall.coarse(200)]
    assert cheap.overrun.alone_usd >= 55 * 4 * 0.95 * sum(late_h) / len(late_h)
    assert quoted.overrun_probability == cheap.charge.outlasts
    assert f"{cheap.charge.outlasts:.0%} risk of overrun, then finished on demand" in quoted.note
    assert quoted.usd
    fee = cheap.charge.billed_hours * 4 * float(cheap.offer.price.usd)
    assert float(quoted.usd.high) >= fee + 4 * 55 * (cheap.charge.wall.at(0.9) - cheap.charge.usable_h)
    dear, _ = offered("900")
    assert dear.overrun
    assert dear.overrun.text == "extended by days"
    assert dear.overrun.hours_at(dear.charge.usable_h + 25.0) == 4 * 48.0
    assert dear.overrun.hours_at(dear.charge.usable_h) == 0.0
    assert dear.overrun.alone_usd <= dear.overrun.other.alone_usd
    assert float(dear.overrun.usd) <= dear.overrun.alone_usd
    # Of a job that is late by minutes alone, the rest costs less on demand than a whole day more.
    assert dear.overrun.cheaper_at(dear.charge.usable_h + 0.01).text == "finished on demand"
    # Without checkpoints there is nothing to go on from.
    restarted, _ = offered("55", checkpoint={"mode": "none"})
    assert restarted.overrun
    assert restarted.overrun.text == "extended by days"


def test_block_longer_than_182_days_is_finished_on_demand():
    """Offerings end after 182 days: what is longer is finished on demand, whatever it costs."""
    long = {"workload": {"train": {**WIDE, "tokens_b": 2_300}}, "target": BLOCK}
    purchase = {"option": "capacity-block", "price_overrides": {"p5.48xlarge/on-demand": "900"}}
    candidate = price_over({**long, "purchase": purchase}, any_age=True).candidates[0]
    assert isinstance(candidate, TrainingCandidate)
    assert candidate.charge
    assert candidate.overrun
    assert candidate.charge.billed_hours + candidate.charge.wall.at(0.9) > 182 * 24
    assert candidate.overrun.text == "finished on demand"
    assert candidate.overrun.other is None


@pytest.mark.parametrize("kind", ["ec2", "parallelcluster", "eks"])
@pytest.mark.parametrize("nodes", [1, 4])
def test_first_step_in_a_block_is_after_what_the_nodes_fetch_and_as_on_demand(kind, nodes):
    """The weights of 70 B parameters reach all nodes through one NAT gateway."""
    train = {"model": "llama-3.1-70b", "method": "lora", "hours": 100}
    target = {"kind": kind, "instance_type": "p5.48xlarge", "region": "us-east-2", "nodes": nodes}
    job = {"workload": {"train": train}, "target": target, "run": {"before": [{"command": ["true"], "hours": 0.5}]}}
    block, on_demand = (
        price_over({**job, "purchase": {"option": option}}).quote(1) for option in ("capacity-block", "on-demand")
    )
    assert block.hours_to_first_step == pytest.approx(on_demand.hours_to_first_step)
    assert block.hours_to_first_step > BOOT_H + 0.03
    lines = {one.name: one.value for one in block.assumptions}
    assert "start-up of the nodes, billed before the first step" in lines
    assert [name for name in lines if "fetch" in name] == [
        one.name for one in on_demand.assumptions if "fetch" in one.name
    ]


def test_lines_of_a_block_count_the_start_up_at_the_median_as_at_the_ends():
    """A certain job in a block has one total: its median is not below its low end by lines of the start-up."""
    train = {"model": "llama-3.1-70b", "method": "lora", "hours": 100}
    target = {"kind": "eks", "instance_type": "p5.48xlarge", "region": "us-east-2", "nodes": 16}
    job = {"workload": {"train": train}, "target": target, "purchase": {"option": "capacity-block"}}
    (candidate,) = price_over(job).candidates
    assert isinstance(candidate, TrainingCandidate)
    assert candidate.charge
    assert candidate.charge.line_start_h == pytest.approx(boot_hours(candidate.place, candidate.work))
