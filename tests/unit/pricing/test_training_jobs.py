"""Cost of training jobs: an ml. rate for the job's hours, managed spot as a range, nothing that stays."""

from decimal import Decimal

import pytest

from launcher.answers import plan_table, quote_screen
from launcher.answers.plan_screen import page
from launcher.catalog.load import load
from launcher.model.enums import Availability
from launcher.model.money import Price
from launcher.pricing.offers import is_unlisted
from launcher.pricing.own_cluster import own_cluster
from launcher.pricing.standing import Standing
from launcher.pricing.trust import UNLISTED

JOBS = {
    "workload": {"train": {"hours": 10.0}},
    "target": {"kind": "sagemaker-training", "region": "us-east-1", "instance_type": "p5.48xlarge", "nodes": 2},
    "purchase": {"option": "on-demand"},
}
SPOT = {**JOBS, "purchase": {"option": "spot"}}
RATE = load().sagemaker("ml.p5.48xlarge", "us-east-1", "training")


def lines(quote):
    return {component.name: component for component in quote.components}


def test_training_job_is_billed_at_the_training_rate_without_head_node_nat_or_tail(priced):
    quote = priced(JOBS).quote(1)
    assert isinstance(RATE, Price)
    assert quote.price.usd == RATE.usd
    assert not [name for name in lines(quote) if "NAT" in name or "head" in name or "idle tail" in name]
    assert quote.left_up_usd_per_hour < Decimal("0.10")


@pytest.mark.parametrize("kind", ["sagemaker-training", "hyperpod-slurm"])
@pytest.mark.parametrize("width", [80, 120])
def test_screens_say_that_no_source_has_the_type_in_sagemaker_there(priced, kind, width):
    """EC2's price gives one in Stockholm; that SageMaker sells p5 there, it does not prove."""
    unlisted = priced({**JOBS, "target": {"kind": kind, "region": "eu-north-1", "instance_type": "p5.48xlarge"}})
    quote = unlisted.quote(1)
    assert isinstance(quote.price, Price)
    assert quote.availability is Availability.UNKNOWN
    listed = " ".join(" ".join(page(unlisted, width)).split())
    assert "no source says that SageMaker sells these types there" in listed
    screen = " ".join(" ".join(quote_screen.page(quote, 1, width, unlisted)).split())
    assert "no source says that SageMaker sells ml.p5.48xlarge in eu-north-1" in screen
    there = priced({**JOBS, "target": {**JOBS["target"], "kind": kind}})
    assert "no source" not in " ".join(page(there, width))
    assert UNLISTED not in [finding.code for finding in there.quote(1).findings]


def test_type_that_no_source_lists_does_not_come_before_one_that_can_be_bought(priced):
    target = {"region": "eu-north-1", "instance_type": "p5.48xlarge", "kind": ["sagemaker-training", "ec2"]}
    open_plan = priced({**JOBS, "target": target, "purchase": {"option": "any"}})
    first = open_plan.candidates[0]
    assert open_plan.standing(1) is Standing.ALLOWED
    assert not is_unlisted(first.offer.price)
    unlisted = [
        (rank, candidate.usd)
        for rank, candidate in enumerate(open_plan.candidates, start=1)
        if is_unlisted(candidate.offer.price)
    ]
    assert {open_plan.standing(rank) for rank, _ in unlisted} == {Standing.UNLISTED}
    assert min(usd for _, usd in unlisted) < first.usd


def test_warm_pool_is_billed_in_full_if_requested(priced):
    priced_plan = priced({**JOBS, "guardrails": {"idle_minutes": 30}})
    warm = priced_plan.quote(1)
    plain = priced(JOBS).quote(1)
    assert lines(warm)["idle tail"].usd == pytest.approx(RATE.usd * 2 * Decimal("0.5"), abs=Decimal("0.01"))
    assert warm.usd.mid > plain.usd.mid
    assert [finding for finding in priced_plan.resolution.findings if finding.code == "warm-pool"]


def test_managed_spot_is_a_range_below_on_demand(priced):
    quote = priced(SPOT).quote(1)
    assert RATE.usd * Decimal("0.7") < quote.price_range.high < RATE.usd
    assert RATE.usd * Decimal("0.1") < quote.price_range.low < RATE.usd * Decimal("0.2")
    assert quote.price.usd == quote.price_range.mid
    assert quote.price.basis == "derived"
    assert "publishes no rate" in quote.price.note
    assert quote.usd.mid < quote.usd.high < priced(JOBS).quote(1).usd.high


def test_managed_spot_price_has_no_age_warning_of_spot(priced):
    codes = {finding.code: finding.message for finding in priced(SPOT).quote(1).findings}
    assert "spot price" not in codes.get("old-price", "")


def test_own_cluster_is_cheaper_from_a_number_of_jobs(priced):
    candidate = own_cluster(priced(JOBS).candidates[0])
    assert candidate is not None
    assert candidate.jobs >= 1
    saved = priced(JOBS).candidates[0].usd - candidate.job_usd
    assert saved * candidate.jobs >= candidate.month_usd > saved * (candidate.jobs - 1)


def test_training_plan_with_a_later_start_waits_without_cost(priced):
    bought = {"arn": "arn:aws:sagemaker:us-east-1:123456789012:training-plan/bought", "count": 2, "fee_usd": 9}
    window = {"starts_at": "2030-01-01T11:30:00Z", "ends_at": "2030-01-03T11:30:00Z"}
    plan = {**JOBS, "purchase": {"option": "training-plan", "training_plan": {**bought, **window}}}
    (finding,) = [finding for finding in priced(plan).quote(1).findings if finding.code == "not-begun"]
    assert finding.level == "info"
    assert "waits until then, and is not billed" in finding.message


def volumes(priced, instance_type, **parts):
    target = {"kind": "sagemaker-training", "region": "us-east-1", "instance_type": instance_type, "nodes": 2}
    train = {"hours": 73.0, "model": None}
    on_demand = {"option": "on-demand"}
    quote = priced({"workload": {"train": train}, "target": target, "purchase": on_demand, **parts}).quote(1)
    return quote, next((line for line in quote.components if line.name.startswith("volumes of the job")), None)


def test_the_volumes_of_a_type_without_local_disks_are_billed(priced):
    _, line = volumes(priced, "m5.4xlarge")
    assert line.name == "volumes of the job, 100 GiB"
    assert line.quantity == pytest.approx(2 * 100 * 73 / 730, rel=0.05)
    assert line.unit_price_usd == Decimal("0.14")


def test_volumes_include_the_data_and_outputs_of_the_plan(priced):
    data = [{"uri": "s3://team/a", "path": "/opt/ml/input/data/a", "gib": 400}]
    run = {"command": ["true"], "data": data, "outputs": ["/opt/ml/model/*"], "outputs_gib": 50}
    _, line = volumes(priced, "m5.4xlarge", run=run)
    assert line.name == "volumes of the job, 550 GiB"


@pytest.mark.parametrize("instance_type", ["g5.12xlarge", "p5.48xlarge"])
def test_type_with_local_disks_has_no_volumes_and_the_quote_states_none(priced, instance_type):
    quote, line = volumes(priced, instance_type)
    assert line is None
    assert any(assumed.name == "volumes of the job" and assumed.value == "none" for assumed in quote.assumptions)


def test_training_storage_uses_the_listed_price_of_the_region():
    price = load().bill_item("sagemaker.training-storage", "eu-west-1")
    assert (price.usd, price.basis) == (Decimal("0.154"), "listed")


LONG = {
    "workload": {"train": {"model": "llama-2-13b", "hours": None, "tokens_b": 20.0}},
    "target": {"kind": None, "region": "us-east-1", "instance_type": "p5en.48xlarge", "nodes": {"min": 1, "max": 2}},
    "purchase": {"option": ["on-demand", "spot"]},
}


@pytest.mark.parametrize("limit_h, first", [(None, "ec2"), (400, "sagemaker-training")])
def test_job_that_a_default_quota_stops_leads_only_if_the_plan_asks_for_more(priced, limit_h, first):
    """One node on managed spot is cheapest, and takes more than the 120 h that every account has."""
    plan = priced({**LONG, "target": {**LONG["target"], "nodes": 1}, "run": {"time_limit_h": limit_h}})
    assert plan.candidates[0].place.target == first
    stopped = [rank for rank, _ in enumerate(plan.candidates, 1) if plan.standing(rank) is Standing.STOPPED]
    assert bool(stopped) is (limit_h is None)
    for rank in stopped:
        quote = plan.quote(rank)
        assert quote.gate.allows_launch
        assert quote.hours.high > 120
        assert quote.usd.mid < plan.quote(1).usd.mid
        assert "run-time-quota" in [finding.code for finding in quote.findings]


def test_number_of_nodes_with_which_a_training_job_ends_in_time_comes_before_a_cheaper_one(priced):
    """With a small batch a second node costs more, and the first one alone takes up to 224 h."""
    train = {**LONG["workload"]["train"], "global_batch_tokens": 131_072}
    target = {**LONG["target"], "kind": "sagemaker-training"}
    job = {"workload": {"train": train}, "target": target, "purchase": {"option": "spot"}}
    plan, every = priced(job), priced(job, everything=True)
    assert [candidate.place.nodes for candidate in plan.candidates] == [2]
    assert plan.quote(1).hours.high <= 120
    assert [candidate.place.nodes for candidate in every.candidates] == [2, 1]
    assert every.candidates[1].usd < every.candidates[0].usd
    assert every.standing(2) is Standing.STOPPED


@pytest.mark.parametrize(
    "kind, heading",
    [(None, "cheaper, but SageMaker stops a job"), ("sagemaker-training", "SageMaker stops these jobs")],
)
@pytest.mark.parametrize("width", [80, 120])
def test_screen_says_which_jobs_sagemaker_stops(priced, kind, heading, width):
    plan = priced({**LONG, "target": {**LONG["target"], "kind": kind, "nodes": 1}})
    text = " ".join(" ".join(page(plan, width)).split())
    assert f"{heading} after 120 h (more: run.time_limit_h)" in text
    assert ("the job takes up to" in text) is (kind is not None)
    table = " ".join(" ".join(plan_table.page(plan, width, everything=True, called=False)).split())
    assert "SageMaker stops it after 120 h" in table
