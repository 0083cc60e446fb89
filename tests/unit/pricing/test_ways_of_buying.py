"""Each purchase option: what is billed, what is committed, and the cost of an existing reservation."""

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from launcher.answers import plan_screen, quote_screen
from launcher.model.enums import Availability
from launcher.model.errors import ImpossibleError
from launcher.pricing.chances import chance_above

ARN = "arn:aws:sagemaker:us-west-2:123456789012:training-plan/june"
BLOCK = "cr-0a1b2c3d4e5f67890"


def hours(count: float) -> dict[str, object]:
    return {"train": {"hours": count}}


def compute(quoted):
    return sum(component.usd for component in quoted.components if component.group == "compute")


def codes(quoted):
    return [finding.code for finding in quoted.findings]


def test_on_demand_bills_the_job_the_node_start_and_the_idle_tail(priced):
    quoted = priced().quote(1)
    assert quoted.hours.mid == 10 < quoted.hours.high
    assert quoted.billed_hours == pytest.approx(quoted.hours.mid + 0.15 + 5 / 60)
    assert compute(quoted) == pytest.approx(Decimal("55.04") * Decimal(repr(quoted.billed_hours)))
    assert quoted.usd.mid == sum(component.usd for component in quoted.components)
    assert quoted.commitment_usd is None


def test_a_block_is_billed_as_a_whole_offering(priced):
    day = priced({"purchase": {"option": "capacity-block"}}).quote(1)
    assert day.hours.mid == 10 < day.hours.high
    assert day.billed_hours == 24
    assert compute(day) == day.price.usd * 24
    assert "14 h unused" in day.note
    assert day.availability is Availability.LEAD_TIME
    two = priced({"purchase": {"option": "capacity-block"}, "workload": hours(23.5)}).quote(1)
    assert two.billed_hours == 48
    weeks = priced({"purchase": {"option": "capacity-block"}, "workload": hours(15 * 24)}).quote(1)
    assert weeks.billed_hours == 21 * 24


def test_a_job_longer_than_any_block_has_no_price_and_is_still_quoted(priced):
    quoted = priced({"purchase": {"option": "capacity-block"}, "workload": hours(5000)}).quote(1)
    assert quoted.usd is None
    assert quoted.no_price_reason == f"no offering is long enough for {quoted.hours.mid:.0f} hours"
    assert 5000 < quoted.hours.mid < 5200
    assert quoted.gate.exit_code == 4


@pytest.mark.parametrize("option", ["savings-plan", "reserved"])
def test_owned_commitment_charges_the_hours_of_the_job_and_a_new_one_the_term(priced, option):
    plan = {"purchase": {"option": option, "term_years": 3}}
    quoted = priced(plan).quote(1)
    assert compute(quoted) == quoted.commitment_usd == quoted.price.usd * 8760 * 3
    assert quoted.cash_usd == quoted.commitment_usd + quoted.usd.mid - compute(quoted)
    owned = priced({"purchase": {**plan["purchase"], "owned": True}}).quote(1)
    assert compute(owned) == pytest.approx(owned.price.usd * Decimal(repr(owned.hours.mid + 0.15 + 5 / 60)))
    assert owned.commitment_usd is None
    assert owned.cash_usd == owned.usd.mid - compute(owned)


def test_commitment_has_the_break_even_utilisation_and_the_stranded_value_of_a_price_cut(priced):
    tied = priced({"purchase": {"option": "reserved", "term_years": 3}}).quote(1).commitment
    assert tied.break_even_utilisation == pytest.approx(23.77728 / 55.04, rel=1e-3)
    job_h = priced().quote(1).hours.mid
    assert tied.utilisation == pytest.approx((job_h + 0.15 + 5 / 60) / 730)
    assert tied.price_cut == 0.44
    assert float(tied.stranded_usd) == pytest.approx(23.77728 * 0.44 * 8760 * 3 / 2, rel=1e-3)


@pytest.mark.parametrize(
    "option, kind, bound",
    [("reserved", "any", True), ("savings-plan", "ec2-instance", True), ("savings-plan", "compute", False)],
)
def test_new_generation_strands_commitments_bound_to_a_family(priced, option, kind, bound):
    quoted = priced({"purchase": {"option": option, "plan_kind": kind, "term_years": 3}}).quote(1)
    assert quoted.commitment.new_generation_usd == (quoted.commitment_usd / 2 if bound else 0)


def test_unbought_block_states_the_uncounted_lead_time(priced):
    plan = {"purchase": {"option": "capacity-block", "deadline_h": 100}}
    quoted = priced(plan).quote(1)
    assert "lead-time" in codes(quoted)
    assert "up to 8 weeks ahead" in " ".join(assumption.source for assumption in quoted.assumptions)
    bought = priced({"purchase": {**plan["purchase"], "reservation": {"id": BLOCK}}}).quote(1)
    assert "lead-time" not in codes(bought)
    assert "8 weeks" not in " ".join(assumption.source for assumption in bought.assumptions)


def test_unchecked_reservation_is_one_unpriced_candidate(priced):
    plan = {
        "target": {"instance_type": "p5.48xlarge", "region": "eu-west-3", "nodes": 3},
        "purchase": {"option": "any", "reservation": {"id": BLOCK}},
    }
    priced_plan = priced(plan)
    assert len(priced_plan.candidates) == priced_plan.considered == 1
    assert [finding.code for finding in priced_plan.findings] == ["reservation-unchecked", "no-script"]
    quoted = priced_plan.quote(1)
    assert quoted.plan.place.nodes == 3
    assert quoted.usd is None
    assert quoted.no_price_reason
    assert quoted.gate.exit_code == 4


def test_a_reservation_with_a_window_costs_the_whole_window(priced):
    window = {"id": BLOCK, "starts_at": "2026-12-01T11:30:00Z", "ends_at": "2026-12-03T11:30:00Z", "count": 4}
    plan = {"target": {"nodes": "any"}, "purchase": {"option": "capacity-block", "reservation": window}}
    quoted = priced(plan).quote(1)
    assert quoted.plan.place.nodes == 4
    assert quoted.billed_hours == 48
    assert compute(quoted) == quoted.price.usd * 4 * 48
    assert quoted.availability is Availability.OFFERED
    two = priced({**plan, "target": {"nodes": 2}}).quote(1)
    assert compute(two) == compute(quoted)
    assert "2 of 4 instances idle" in two.note


def test_a_reservation_with_a_fee_costs_the_fee(priced):
    window = {"id": BLOCK, "starts_at": "2026-12-01T11:30:00Z", "ends_at": "2026-12-03T11:30:00Z", "fee_usd": 1000}
    quoted = priced({"purchase": {"option": "capacity-block", "reservation": window}}).quote(1)
    assert compute(quoted) == 1000
    assert quoted.price.basis == "user"
    assert quoted.gate.allows_launch
    assert quoted.cash_usd == quoted.usd.mid - 1000


def test_reservation_fee_without_a_window_is_the_compute_price_for_any_duration(priced):
    paid = {"id": BLOCK, "fee_usd": 9000}
    tokens = {"train": {"model": "llama-3.1-8b", "tokens_b": 20.0, "hours": None}}
    plan = {"workload": tokens, "purchase": {"option": "capacity-block", "reservation": paid}}
    quoted = priced(plan).quote(1)
    assert quoted.hours.high > quoted.hours.low * 1.5
    assert compute(quoted) == 9000
    assert 9000 < quoted.usd.low <= quoted.usd.high < 9200


def test_job_longer_than_the_reservation_window_is_refused(priced):
    window = {"id": BLOCK, "starts_at": "2026-12-01T11:30:00Z", "ends_at": "2026-12-02T11:30:00Z"}
    plan = {"purchase": {"option": "capacity-block", "reservation": window}}
    assert priced({**plan, "workload": hours(22.8)}).quote(1).gate.exit_code == 4
    refused = priced({**plan, "workload": hours(23.4)}).quote(1)
    assert refused.gate.exit_code == 5
    assert "instances go 30 minutes before its end" in refused.gate.reason
    over = priced({**plan, "workload": hours(1)}, now=datetime(2026, 12, 2, 11, tzinfo=UTC)).quote(1)
    assert codes(over)[0] == "window-over"


def test_training_plan_selects_hyperpod_and_is_priced_by_the_fee(priced):
    plan = {"target": {"kind": "any", "region": "any"}, "purchase": {"option": "any", "training_plan": {"arn": ARN}}}
    priced_plan = priced(plan)
    assert len(priced_plan.candidates) == 1
    quoted = priced_plan.quote(1)
    place = quoted.plan.place
    assert (place.target, place.option, place.region) == ("hyperpod-slurm", "training-plan", "us-west-2")
    assert quoted.usd is None
    assert "prices refresh" in quoted.no_price_reason
    assert quoted.gate.exit_code == 4
    paid = {"arn": ARN, "starts_at": "2026-12-01T11:30:00Z", "ends_at": "2026-12-02T11:30:00Z", "fee_usd": "720"}
    bought = priced({**plan, "purchase": {"training_plan": paid, "option": "any"}, "workload": hours(23.2)}).quote(1)
    assert compute(bought) == 720
    assert "60 minutes before its end" in " ".join(finding.message for finding in bought.findings)


def test_own_price_of_the_region_has_precedence_over_that_of_the_type(priced):
    overrides = {"p5.48xlarge/on-demand": "20", "p5.48xlarge/on-demand/us-east-1": "10"}
    assert priced({"purchase": {"price_overrides": overrides}}).quote(1).price.usd == 10
    assert (
        priced({"purchase": {"price_overrides": overrides}, "target": {"region": "us-east-2"}}).quote(1).price.usd == 20
    )


SERVICES = {"kind": ["sagemaker-training", "hyperpod-eks", "ec2"], "region": ["us-east-1", "us-east-2"]}


def own_rates(priced, overrides, option="spot"):
    """The dollars of an instance-hour by target and region."""
    found = priced({"target": SERVICES, "purchase": {"option": option, "price_overrides": overrides}}, everything=True)
    return {(c.place.target.value, c.place.region): c.offer.price.usd for c in found.candidates}


@pytest.mark.parametrize("option", ["spot", "on-demand"])
def test_own_price_with_a_target_prices_no_other_service(priced, option):
    listed = own_rates(priced, {}, option)
    rates = own_rates(priced, {f"ml.p5.48xlarge/{option}/sagemaker-training": "18.5"}, option)
    changed = {place for place in listed if rates[place] != listed[place]}
    assert changed == {("sagemaker-training", "us-east-1"), ("sagemaker-training", "us-east-2")}
    assert {rates[place] for place in changed} == {Decimal("18.5")}


def test_own_price_with_region_and_target_precedes_target_region_and_type(priced):
    key = "ml.p5.48xlarge/spot"
    overrides = {key: "1", f"{key}/us-east-1": "2", f"{key}/hyperpod-eks": "3", f"{key}/us-east-1/hyperpod-eks": "4"}
    rates = own_rates(priced, overrides)
    assert rates["hyperpod-eks", "us-east-1"] == 4
    assert rates["hyperpod-eks", "us-east-2"] == 3
    assert rates["sagemaker-training", "us-east-1"] == 2
    assert rates["sagemaker-training", "us-east-2"] == 1


@pytest.mark.parametrize(
    "kind, key, several",
    [
        (["sagemaker-training", "hyperpod-eks"], "ml.p5.48xlarge/spot", True),
        (["sagemaker-training", "hyperpod-eks"], "ml.p5.48xlarge/spot/us-east-1", True),
        (["sagemaker-training", "hyperpod-eks"], "ml.p5.48xlarge/spot/hyperpod-eks", False),
        (["hyperpod-slurm", "hyperpod-eks"], "ml.p5.48xlarge/spot", False),
        (["sagemaker-training", "ec2"], "ml.p5.48xlarge/spot", False),
        (["ec2", "eks"], "p5.48xlarge/spot", False),
    ],
)
def test_own_price_of_several_services_of_sagemaker_has_a_warning(priced, kind, key, several):
    purchase = {"option": "spot", "price_overrides": {key: "20"}}
    found = priced({"target": {"kind": kind, "region": "us-east-1"}, "purchase": purchase}).findings
    ambiguous = [finding for finding in found if finding.code == "several-services"]
    assert bool(ambiguous) is several
    assert all(finding.hint.endswith(f"{key}/sagemaker-training") for finding in ambiguous)


def test_own_price_with_a_misspelt_target_has_that_error_alone(priced):
    overrides = {"ml.p5.48xlarge/spot/sagemaker-traning": "20"}
    kinds = ["sagemaker-training", "hyperpod-eks"]
    with pytest.raises(ImpossibleError) as refused:
        priced({"target": {"kind": kinds}, "purchase": {"option": "spot", "price_overrides": overrides}})
    about_price = [finding for finding in refused.value.findings if "price_overrides" in finding.path]
    assert [(finding.code, finding.hint) for finding in about_price] == [
        ("unknown-region", "did you mean sagemaker-training?")
    ]


@pytest.mark.parametrize(
    "key, message, hint",
    [
        ("ml.p5.48xlarge/spot/eks", "eks has no instances named ml.p5.48xlarge", "p5.48xlarge/spot/eks"),
        ("p5.48xlarge/spot/hyperpod-eks", "hyperpod-eks has no instances named", "ml.p5.48xlarge/spot/hyperpod-eks"),
        ("p5.48xlarge/spot/ec2/us-east-1", "no region ec2", "and the target after it"),
        ("p5.48xlarge/spot/hyperpodeks", "no region hyperpodeks", "did you mean hyperpod-eks?"),
        ("p5.48xlarge/spot/us-east-1/us-east-2", "no target us-east-2", "one of parallelcluster, "),
        ("p5.48xlarge/spot/us-east-1/ekss", "no target ekss", "did you mean eks?"),
        ("pcs/node/pcs", "no region pcs", "the code of a region"),
        ("pcs/node/us-east-1/pcs", "the fee is of one target, got pcs", "end the key with us-east-1"),
    ],
)
def test_key_of_an_own_price_without_meaning_is_an_error(priced, key, message, hint):
    with pytest.raises(ImpossibleError) as refused:
        priced({"purchase": {"price_overrides": {key: "20"}}})
    (finding,) = [each for each in refused.value.findings if each.path == f"purchase.price_overrides.{key}"]
    assert message in finding.message
    assert hint in finding.hint


def test_a_discount_is_taken_off_listed_prices_and_noted(priced):
    quoted = priced({"purchase": {"discount_percent": 25}}).quote(1)
    assert quoted.price.usd == Decimal("41.28")
    assert "less 25 %" in quoted.price.note
    purchase = {"discount_percent": 25, "price_overrides": {"p5.48xlarge/on-demand": "40"}}
    assert priced({"purchase": purchase}).quote(1).price.usd == 40


def test_credits_are_used_in_the_order_of_expiry(priced):
    pools = [
        {"pool": "activate", "usd": 100},
        {"pool": "poc", "usd": 50, "expires": "2026-12-31T00:00:00Z"},
        {"pool": "old", "usd": 500, "expires": "2026-01-01T00:00:00Z"},
    ]
    quoted = priced({"purchase": {"credits": pools}}).quote(1)
    assert quoted.cash_after_credits_usd == quoted.usd.mid - 150
    lines = {
        assumption.name: assumption.value for assumption in quoted.assumptions if assumption.name.startswith("credit")
    }
    assert lines == {"credit poc": "50.00", "credit activate": "100.00", "credit old": "0"}
    rich = priced({"purchase": {"credits": [{"pool": "all", "usd": 10_000}]}}).quote(1)
    assert rich.cash_after_credits_usd == 0


def test_undeployable_type_is_priced_and_refused(priced):
    quoted = priced({"target": {"instance_type": "trn2u.48xlarge", "region": "any"}}).quote(1)
    assert quoted.gate.exit_code == 5
    assert "cannot be deployed" in quoted.gate.reason


def test_spot_row_without_a_market_is_unpriced_unless_requested(priced):
    trn2 = {"instance_type": "trn2.48xlarge", "region": "us-east-2"}
    day = date(2026, 9, 1)
    quoted = priced({"target": trn2, "purchase": {"option": "spot"}}, prices_as_of=day).quote(1)
    assert quoted.usd is not None
    assert quoted.availability is Availability.NO_MARKET
    assert "no-spot-market" in codes(quoted)
    among = priced({"target": trn2, "purchase": {"option": ["spot", "capacity-block"]}}, prices_as_of=day)
    spot = next(quote for quote in among.quotes if quote.plan.place.option == "spot")
    assert spot.usd is None
    assert "floor of 10 % of on demand" in spot.no_price_reason


def test_deadline_missed_only_by_the_high_estimate_is_a_warning(priced):
    plan = {"workload": {"train": {"hours": None, "tokens_b": 2}}}
    spread = priced(plan).quote(1).hours
    tight = priced({**plan, "purchase": {"deadline_h": (spread.mid + spread.high) / 2}}).quote(1)
    assert "may-miss-deadline" in codes(tight)
    risk = chance_above(tight.hours, (spread.mid + spread.high) / 2)
    assert 0.1 < risk < 0.5
    warned = next(finding.message for finding in tight.findings if finding.code == "may-miss-deadline")
    assert warned.startswith(f"a {risk:.0%} risk of missing the deadline")
    late = priced({**plan, "purchase": {"deadline_h": (spread.mid + spread.high) / 2}})
    for screen in (plan_screen.page(late, 120), quote_screen.page(late.quote(1), 1, 120, late)):
        assert warned in " ".join(" ".join(screen).split())
    assert tight.gate.exit_code != 5
    assert priced({**plan, "purchase": {"deadline_h": spread.mid * 0.9}}).quote(1).gate.exit_code == 5


def test_existing_cluster_is_not_billed_again(priced):
    new, old = priced().quote(1), priced({"target": {"cluster": "team"}}).quote(1)
    names = {component.name for component in new.components} - {component.name for component in old.components}
    watch = {"7 alarms", "composite alarm of the head node", "dashboard", "guard and its messages"}
    watch |= {"S3 listings of the guard", "heartbeats of the job"}
    assert names == watch | {"head node m6i.large", "NAT gateway", "NAT data", "public IPv4 address of the NAT"}
    rest = [
        sum(component.usd for component in quote.components if component.group != "compute") for quote in (old, new)
    ]
    assert rest[0] < rest[1]


def test_cluster_without_a_job_costs_the_ttl_hours_on_spot(priced):
    plan = {"workload": {"train": None}, "guardrails": {"ttl_h": 8}, "purchase": {"option": "spot"}}
    quoted = priced({**plan, "target": {"region": "us-east-2"}}).quote(1)
    assert quoted.hours.low == quoted.hours.mid == quoted.hours.high == 8
    assert quoted.spot is None


def test_node_count_of_no_block_is_refused_with_the_allowed_counts(priced):
    with pytest.raises(ImpossibleError) as refusal:
        priced({"target": {"nodes": 3}, "purchase": {"option": "capacity-block"}})
    assert "have 1, 2, 4, 8, 16, 32, 64 instances, got 3" in refusal.value.findings[0].message


def test_data_in_an_unknown_region_are_refused(priced):
    with pytest.raises(ImpossibleError) as refusal:
        priced({"workload": {"train": {"data": {"gib": 5, "region": "us-est-1"}}}})
    assert refusal.value.findings[0].path == "workload.train.data.region"
