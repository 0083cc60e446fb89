"""Guardrails that may end a job early are reported with the probability; retries follow the expected failures."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.model.money import Range
from launcher.pricing.chances import TARGET_CHANCE, chance_above, chance_of_at_most, needed_retries
from launcher.pricing.training_candidate import TrainingCandidate
from tests.unit.pricing.conftest import price_over

BIG = {
    "workload": {"train": {"model": "llama-3.1-70b", "hours": None, "tokens_b": 10.0}},
    "target": {"instance_type": "p5.48xlarge", "nodes": 4, "region": "us-east-1"},
}


def codes(quoted):
    return {finding.code: finding for finding in quoted.findings}


def test_time_to_live_shorter_than_the_job_is_a_finding_with_the_risk():
    finding = codes(price_over({**BIG, "guardrails": {"ttl_h": 48}}).quote(1))["ttl-too-short"]
    assert finding.path == "guardrails.ttl_h"
    assert "a 100% risk of being cut off" in finding.message
    assert "ttl-too-short" not in codes(price_over({**BIG, "guardrails": {"ttl_h": 2_000}}).quote(1))
    joined = price_over({**BIG, "target": {**BIG["target"], "cluster": "team"}, "guardrails": {"ttl_h": 48}}).quote(1)
    assert "ttl-too-short" not in codes(joined), "the guard of somebody else's cluster goes by its own"


def test_a_time_limit_within_the_range_is_reported():
    plain = price_over(BIG).quote(1)
    limit = (plain.hours.mid + plain.hours.high) / 2
    finding = codes(price_over({**BIG, "run": {"time_limit_h": limit}}).quote(1))["time-limit-too-short"]
    chance = chance_above(plain.hours, limit)
    assert 0.05 < chance < 0.5
    assert f"a {chance:.0%} risk of being cut off" in finding.message


@pytest.mark.parametrize(
    "kind,mode,reason",
    [
        ("parallelcluster", "agent", "Slurm ends each start of the job after 2 h and starts it again if it has stored"),
        ("parallelcluster", "none", "the job is stopped after 2 h"),
        ("eks", "agent", "the job is stopped after 2 h"),
    ],
)
def test_time_limit_finding_says_whether_the_job_starts_again(kind, mode, reason):
    target = {**BIG["target"], "kind": kind}
    plan = {**BIG, "target": target, "checkpoint": {"mode": mode}, "run": {"time_limit_h": 2}}
    assert reason in codes(price_over(plan).quote(1))["time-limit-too-short"].message


def test_a_stop_between_low_and_high_is_reported():
    plain = price_over(BIG).quote(1)
    stop = math.ceil((plain.usd.mid + plain.usd.high) / 2)
    findings_by_code = codes(price_over({**BIG, "budget": {"stop_at_usd": stop}}).quote(1))
    assert "risk of a stop before the end" in findings_by_code["stop-within-estimate"].message
    assert "stop-below-estimate" not in findings_by_code


def test_too_few_retries_are_reported_and_auto_has_enough():
    quote = price_over({**BIG, "run": {"retries": 0}}).quote(1)
    assert "auto, or" in codes(quote)["too-few-retries"].hint
    assert quote.retries == 0
    auto = price_over(BIG)
    candidate = auto.candidates[0]
    assert isinstance(candidate, TrainingCandidate)
    failures = candidate.failures
    assert failures > 1
    assert auto.quote(1).retries == needed_retries(failures)
    assert "too-few-retries" not in codes(auto.quote(1))
    policies = {policy.name: policy.value for policy in auto.quote(1).policies}
    assert policies["retries after a failure"] == str(needed_retries(failures))


@given(st.floats(0, 2_000))
def test_required_retries_suffice_and_one_fewer_does_not(failures):
    count = needed_retries(failures)
    if failures <= 500:
        assert chance_of_at_most(failures, count) >= TARGET_CHANCE
        assert count == 0 or chance_of_at_most(failures, count - 1) < TARGET_CHANCE
    else:
        assert failures < count < failures * 1.1


@pytest.mark.parametrize("limit", [0.1, 1.0, 9.0, 10.0, 11.0, 100.0])
def test_a_span_without_width_is_above_a_limit_or_not(limit):
    assert chance_above(Range(low=10.0, mid=10.0, high=10.0), limit) == (1.0 if limit < 10 else 0.0)


@given(st.floats(1, 100), st.floats(0, 3), st.floats(0, 3), st.floats(0.01, 1_000), st.floats(0.01, 1_000))
def test_the_chance_falls_as_the_limit_rises(mid, down, up, first, second):
    span = Range(low=mid * math.exp(-down), mid=mid, high=mid * math.exp(up))
    low, high = sorted((first, second))
    assert 0 <= chance_above(span, high) <= chance_above(span, low) <= 1
