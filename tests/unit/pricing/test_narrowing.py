"""Why a range is wide, and what narrows it: shares of the causes, and the answer or action with its result."""

import pytest

from launcher.answers.range_causes import on_average, why_wide
from launcher.model.range_causes import Cause

TOKENS = {"model": "llama-3.1-8b", "hours": None, "tokens_b": 5}
SPOT = {"workload": {"train": TOKENS}, "purchase": {"option": "spot"}}


def width(usd) -> float:
    return float(usd.high / usd.low)


def test_shares_add_up_with_the_largest_first(priced):
    shares = priced(SPOT).quote(1).range_causes.shares
    assert sum(shares.values()) == pytest.approx(1.0, abs=0.01)
    assert list(shares.values()) == sorted(shares.values(), reverse=True)
    assert {Cause.PRICE, Cause.SPEED} <= set(shares)
    assert Cause.PRICE not in priced({"workload": {"train": TOKENS}}).quote(1).range_causes.shares


def test_range_of_a_block_is_caused_by_the_overrun_alone(priced):
    plan = {"workload": {"train": {**TOKENS, "tokens_b": 17}}, "target": {"region": "us-east-2", "nodes": 4}}
    quoted = priced({**plan, "purchase": {"option": "capacity-block"}}).quote(1)
    assert list(quoted.range_causes.shares) == [Cause.OVERRUN]


def test_a_certain_total_has_no_causes(priced):
    quoted = priced({"workload": {"train": None}}).quote(1)
    assert quoted.range_causes is None or not quoted.range_causes.narrows
    assert quoted.usd.low <= quoted.usd.mid <= quoted.usd.high


@pytest.mark.parametrize(
    "train, path",
    [
        ({"method": "lora"}, "workload.train.stack"),
        ({"method": "qlora"}, "workload.train.stack"),
        ({"method": "full"}, "workload.train.stack"),
    ],
)
def test_narrowing_finding_names_the_most_useful_key_and_the_resulting_range(priced, train, path):
    priced_plan = priced({"workload": {"train": {**TOKENS, **train}}})
    quoted = priced_plan.quote(1)
    narrows = quoted.range_causes.narrows
    assert width(narrows.usd) <= 0.8 * width(quoted.usd)
    if narrows.path:
        assert narrows.path == path
        (finding,) = [finding for finding in priced_plan.findings if finding.code == "narrows-the-range"]
        assert finding.path == path
        stack = narrows.action.partition(": ")[2].partition(",")[0]
        answered = priced({"workload": {"train": {**TOKENS, **train, "stack": stack}}}).quote(1)
        assert (answered.usd.low, answered.usd.high) == (narrows.usd.low, narrows.usd.high)


def test_current_prices_are_named_where_the_price_is_the_cause(priced):
    measured = {**TOKENS, "throughput_tokens_per_s": 80_000}
    quoted = priced({"workload": {"train": measured}, "purchase": {"option": "spot"}}).quote(1)
    narrows = quoted.range_causes.narrows
    assert next(iter(quoted.range_causes.shares)) is Cause.PRICE
    assert narrows.action == "slipway prices refresh"
    assert width(narrows.usd) < 0.7 * width(quoted.usd)
    assert "price" in why_wide(quoted)
    assert "slipway prices refresh takes it to about $" in why_wide(quoted)


@pytest.mark.parametrize("option", ["on-demand", "spot"])
@pytest.mark.parametrize("known", [{"stack": "framework"}, {"throughput_tokens_per_s": 90_000}])
def test_more_information_never_widens(priced, option, known):
    opened = {"workload": {"train": {**TOKENS, "method": "full"}}, "purchase": {"option": option}}
    stated = {**opened, "workload": {"train": {**TOKENS, "method": "full", **known}}}
    assert width(priced(stated).quote(1).usd) <= width(priced(opened).quote(1).usd) * 1.001


def test_a_users_own_price_narrows_to_the_hours(priced):
    own = {**SPOT, "purchase": {"option": "spot", "price_overrides": {"p5.48xlarge/spot": "18"}}}
    assert width(priced(own).quote(1).usd) < width(priced(SPOT).quote(1).usd)
    assert Cause.PRICE not in priced(own).quote(1).range_causes.shares


def test_mean_is_shown_only_if_far_from_the_median(priced):
    often = {**SPOT, "workload": {"train": {**TOKENS, "method": "lora"}}}
    quotes = [priced(plan).quote(1) for plan in (often, {"workload": {"train": TOKENS}})]
    for quoted in quotes:
        far = quoted.usd.mean > quoted.usd.mid * 5 / 4
        assert bool(on_average(quoted.usd)) is far


def test_stress_case_is_the_worst_trace(priced):
    quoted = priced(SPOT).quote(1)
    assert quoted.range_causes.stress.usd > quoted.usd.mid
    assert quoted.range_causes.stress.per_node_hour == 0.74
    assert priced({"workload": {"train": TOKENS}}).quote(1).range_causes.stress is None
    assert quoted.spot.interruptions_per_hour < 0.01


def test_own_rate_of_managed_spot_is_named_with_the_range_that_it_leads_to(priced):
    """No refresh reads a rate of managed spot, and a measured job has no other cause of its range."""
    plan = {
        "workload": {"train": {**TOKENS, "throughput_tokens_per_s": 80_000}},
        "target": {"kind": "sagemaker-training", "region": "us-east-1", "instance_type": "p5.48xlarge"},
        "purchase": {"option": "spot"},
    }
    quoted = priced(plan).quote(1)
    narrows = quoted.range_causes.narrows
    assert narrows.path == "purchase.price_overrides"
    key = "ml.p5.48xlarge/spot/sagemaker-training"
    assert f'{{"{key}": "{quoted.price.usd:.2f}"}}, if a finished job paid that' in narrows.action
    own = {"option": "spot", "price_overrides": {key: str(quoted.price.usd)}}
    answered = priced({**plan, "purchase": own}).quote(1)
    assert (answered.usd.low, answered.usd.high) == (narrows.usd.low, narrows.usd.high)
