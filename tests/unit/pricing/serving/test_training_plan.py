"""Endpoints on a training plan: the fee in the month, what does not fit, and what the template says."""

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from launcher.aws.training_plan_state import TrainingPlanState
from launcher.model.enums import Level, PurchaseOption
from launcher.workflow.cluster.training_plans import training_plan_findings
from tests.plans import NOW

ARN = "arn:aws:sagemaker:us-east-1:123456789012:training-plan/chat"
WEEK = {"starts_at": "2026-11-18T11:30:00Z", "ends_at": "2026-11-25T11:30:00Z"}
QUARTER = {"starts_at": "2026-11-18T11:30:00Z", "ends_at": "2027-02-17T11:30:00Z"}
SERVE = {"model_uri": "s3://models-of-the-team/llama", "max_instances": 2}


@pytest.fixture
def quote_of(serving_priced):
    """The quote of Llama 3.1 8B on p5.48xlarge in a training plan of two instances, with changes."""

    def make(serve=None, target=None, option="training-plan", **bought):
        plan = {"arn": ARN, "count": 2, "fee_usd": "12000", **WEEK, **bought}
        known = {key: value for key, value in plan.items() if value is not None}
        place = {"kind": "sagemaker-endpoint", "instance_type": "p5.48xlarge", **(target or {})}
        purchase = {**({"option": option} if option else {}), "training_plan": known}
        priced = serving_priced({**SERVE, **(serve or {})}, target=place, purchase=purchase)
        return priced.quote(1)

    return make


def compute_of(quote):
    return sum(component.usd for component in quote.components if component.group == "compute")


def codes(quote, level):
    return {finding.code for finding in quote.findings if finding.level is level}


@pytest.mark.parametrize(
    "bought, fee",
    [
        ({}, "12000"),
        # 730 of 91 days' 2,184 hours.
        ({**QUARTER}, "4010.99"),
        # Without a window the whole fee is in the month.
        ({"starts_at": None, "ends_at": None}, "12000"),
        ({"count": 8}, "12000"),
    ],
)
def test_fee_of_training_plan_is_the_compute_of_the_month(quote_of, bought, fee):
    assert compute_of(quote_of(**bought)) == pytest.approx(Decimal(fee), abs=Decimal("0.02"))


def test_short_training_plan_answers_requests_of_its_window_only(quote_of):
    week, quarter = quote_of().serving, quote_of(**QUARTER).serving
    assert week.requests_per_month == pytest.approx(quarter.requests_per_month * 168 / 730)


def test_prepaid_plan_costs_no_further_cash_and_nothing_while_it_is_up(quote_of):
    quote = quote_of()
    assert quote.cash_usd == quote.usd.mid - compute_of(quote)
    assert quote.left_up_usd_per_hour < 1


def test_named_training_plan_needs_no_option_and_no_region(quote_of):
    quote = quote_of(option=None, target={"region": "any"})
    assert (quote.plan.place.option, quote.plan.place.region) == (PurchaseOption.TRAINING_PLAN, "us-east-1")


@pytest.mark.parametrize(
    "changes, code",
    [
        ({"count": 1}, "training-plan-count"),
        ({"serve": {"max_instances": 4}}, "training-plan-count"),
        ({"count": 3}, "training-plan-size"),
        ({"serve": {"max_instances": 3}, "count": None}, "training-plan-size"),
        ({"target": {"region": "us-west-2"}}, "training-plan-region"),
        ({"starts_at": "2026-11-01T11:30:00Z", "ends_at": "2026-11-02T11:30:00Z"}, "window-over"),
    ],
)
def test_training_plan_that_does_not_fit_is_refused(quote_of, changes, code):
    quote = quote_of(**changes)
    assert code in codes(quote, Level.ERROR)
    assert quote.gate.exit_code == 5


@pytest.mark.parametrize(
    "changes, code",
    [
        # Both versions of an update run in the plan's instances.
        ({}, "training-plan-update"),
        ({"starts_at": "2026-12-10T11:30:00Z", "ends_at": "2026-12-12T11:30:00Z"}, "training-plan-begins"),
        ({"ends_at": None}, "training-plan-end"),
        ({"starts_at": None, "ends_at": None}, "training-plan-window-open"),
        ({"serve": {"zones": 2}}, "training-plan-zones"),
    ],
)
def test_limit_of_training_plan_is_a_warning(quote_of, changes, code):
    quote = quote_of(**changes)
    assert code in codes(quote, Level.WARNING)
    assert not codes(quote, Level.ERROR)


def test_plan_with_room_for_both_versions_gives_no_update_warning(quote_of):
    assert "training-plan-update" not in codes(quote_of(count=4), Level.WARNING)


def test_open_purchase_option_compares_no_training_plan(serving_priced):
    priced = serving_priced(SERVE, target={"kind": "sagemaker-endpoint", "instance_type": "p5.48xlarge"})
    assert PurchaseOption.TRAINING_PLAN not in {candidate.place.option for candidate in priced.candidates}


def test_verdict_on_paid_training_plan_is_to_deploy(compared):
    place = {"kind": "sagemaker-endpoint", "instance_type": "p5.48xlarge"}
    purchase = {"training_plan": {"arn": ARN, "count": 2, "fee_usd": "12000", **WEEK}}
    verdict = compared(SERVE, target=place, purchase=purchase).verdict
    assert "Bedrock is not compared: the training plan is paid" in verdict.text


@pytest.mark.parametrize(
    "changes, code",
    [
        ({}, None),
        ({"status": "Scheduled"}, "training-plan-status"),
        ({"targets": frozenset({"training-job"})}, "training-plan-for"),
        ({"instances": 1}, "training-plan-count"),
        ({"types": frozenset({"ml.p5en.48xlarge"})}, "training-plan-type"),
    ],
)
def test_described_plan_is_compared_with_the_endpoint(quote_of, changes, code):
    state = TrainingPlanState(
        status="Active",
        targets=frozenset({"endpoint"}),
        starts_at=datetime(2026, 11, 18, 11, 30, tzinfo=UTC),
        ends_at=datetime(2026, 11, 25, 11, 30, tzinfo=UTC),
        instances=2,
        types=frozenset({"ml.p5.48xlarge"}),
        zones=frozenset({"use1-az2"}),
        fee_usd=Decimal(12000),
    )
    findings = training_plan_findings(quote_of().plan, replace(state, **changes), NOW)
    assert [finding.code for finding in findings] == ([] if code is None else [code])
