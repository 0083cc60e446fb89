"""The rate at which spot stops paying, and the interval spot is priced at."""

from dataclasses import replace

import pytest

from launcher.planning.start_up import BOOT_H
from launcher.pricing.interruptible import on_spot
from launcher.pricing.joint import wall_hours
from launcher.pricing.quoting import break_even

OPEN = {
    "workload": {"train": {"hours": None, "tokens_b": 5}},
    "target": {"region": "us-east-2", "az_id": "use2-az1"},
    "purchase": {"option": ["spot", "on-demand"], "price_overrides": {"p5.48xlarge/spot": "40"}},
}


def over(rate: float) -> dict[str, object]:
    return {**OPEN, "purchase": {**OPEN["purchase"], "interruptions_per_node_hour": rate}}


def of(priced_plan, option):
    return next(quote for quote in priced_plan.quotes if quote.plan.place.option == option)


@pytest.mark.parametrize("model", ["llama-3.1-8b", {"params_b": 1.5}])
def test_spot_at_the_break_even_rate_costs_the_same_as_on_demand(priced, model):
    train = {"train": {"hours": None, "tokens_b": 5, "model": model}}
    priced_plan = priced({**over(0.001), "workload": train})
    spot, fixed = of(priced_plan, "spot"), of(priced_plan, "on-demand")
    edge = spot.spot.break_even_interruptions_per_hour
    assert spot.usd.mid < fixed.usd.mid
    assert edge > spot.spot.interruptions_per_hour
    there = of(priced({**over(edge), "workload": train}), "spot")
    # Small losses count in closed form, greater ones as a sum: at the change the median moves by less than 0.1 %.
    assert float(there.usd.mid) == pytest.approx(float(fixed.usd.mid), rel=1e-3)


@pytest.mark.parametrize("usd", ["25", "35", "48"])
def test_break_even_is_found_with_few_distributions_and_costs_what_its_rival_does(priced, usd):
    train = {"train": {"hours": None, "tokens_b": 5, "model": "llama-3.1-8b"}}
    purchase = {**OPEN["purchase"], "price_overrides": {"p5.48xlarge/spot": usd}}
    priced_plan = priced({**OPEN, "workload": train, "purchase": purchase})
    # Candidates alone: the quote of one has its break-even.
    candidate, rival = (
        next(one for one in priced_plan.candidates if one.place.option == option) for option in ("spot", "on-demand")
    )
    wall_hours.cache_clear()
    edge = break_even(candidate, rival.usd)
    assert wall_hours.cache_info().misses <= 8
    assert float(candidate.at_rate(edge).usd) == pytest.approx(float(rival.usd), rel=1e-5)


def test_spot_dearer_without_interruptions_breaks_even_at_zero(priced):
    dear = {**OPEN["purchase"], "price_overrides": {"p5.48xlarge/spot": "56"}}
    assert of(priced({**OPEN, "purchase": dear}), "spot").spot.break_even_interruptions_per_hour == 0


def test_without_a_priced_rival_there_is_no_break_even(priced):
    alone = {**OPEN["purchase"], "option": "spot"}
    assert of(priced({**OPEN, "purchase": alone}), "spot").spot.break_even_interruptions_per_hour is None
    trn2 = {"region": "us-east-2", "az_id": None, "instance_type": "trn2.48xlarge", "nodes": 1}
    purchase = {"option": ["spot", "on-demand"], "price_overrides": {"trn2.48xlarge/spot": "20"}}
    unpriced = priced({**OPEN, "target": trn2, "purchase": purchase})
    assert of(unpriced, "on-demand").usd is None
    assert of(unpriced, "spot").spot.break_even_interruptions_per_hour is None


def test_high_is_the_90th_percentile_of_the_whole_bill(priced):
    quoted = of(priced(over(0.3)), "spot")
    assert quoted.spot.usd_p90 == quoted.usd.high
    assert quoted.usd.low < quoted.usd.mid < quoted.usd.high


@pytest.mark.parametrize("rate", [0.003, 0.05, 0.4, 1.5])
@pytest.mark.parametrize("model, tokens", [("llama-3.1-8b", 5), ("llama-3.1-70b", 2), ({"params_b": 0.3}, 20)])
def test_the_automatic_interval_costs_within_a_percent_of_the_best(priced, rate, model, tokens):
    plan = {
        **over(rate),
        "workload": {"train": {"hours": None, "tokens_b": tokens, "model": model}},
        "target": {**OPEN["target"], "nodes": 4},
    }
    quote = of(priced(plan), "spot")
    request, work = quote.plan.request, quote.work
    job_rate = quote.spot.interruptions_per_hour
    automatic = on_spot(work.hours.mid, work, request, job_rate)
    best = min(fixed_hours(work, request, job_rate, automatic.interval_s * 1.05**step) for step in range(-60, 61))
    assert automatic.job.expected_hours + BOOT_H <= 1.01 * (best + BOOT_H)


def fixed_hours(work, request, rate, interval_s):
    fixed = replace(request, checkpoint=replace(request.checkpoint, interval=interval_s))
    return on_spot(work.hours.mid, work, fixed, rate).job.expected_hours


def test_spot_checkpoint_interval_is_shorter_than_the_on_demand_one(priced):
    priced_plan = priced(over(0.02))
    assert of(priced_plan, "spot").checkpoint_interval_s < of(priced_plan, "on-demand").checkpoint_interval_s


def test_spot_job_without_interruptions_lasts_as_long_as_on_demand(priced):
    priced_plan = priced(over(0))
    assert of(priced_plan, "spot").hours.mid == pytest.approx(of(priced_plan, "on-demand").hours.mid)
    assert of(priced_plan, "spot").spot.overhead_fraction == pytest.approx(0)


def test_without_checkpoints_the_time_explodes_and_is_shown_and_refused(priced):
    saving = of(priced(over(0.2)), "spot")
    lost = of(priced({**over(0.2), "checkpoint": {"mode": "none"}}), "spot")
    assert lost.hours.mid > 5 * saving.hours.mid
    assert lost.gate.exit_code == 5
    assert lost.findings[0].code == "spot-without-checkpoints"
    assert f"{lost.hours.mid:,.1f} h" in lost.findings[0].message
    endless = of(priced({**over(30), "checkpoint": {"mode": "none"}}), "spot")
    assert "never ends" in endless.findings[0].message
    assert endless.hours.mid == 1e6


def test_hours_of_progress_include_the_saves_of_the_plan(priced):
    plan = {"target": OPEN["target"], "checkpoint": {"interval": 30}}
    quiet = priced({**plan, "purchase": {**OPEN["purchase"], "option": "spot", "interruptions_per_node_hour": 0}})
    # The median of 10 h has no failure: what one would add is in the high end.
    assert quiet.quote(1).hours.mid == pytest.approx(10)
    assert quiet.quote(1).hours.high > 10
    struck = priced({**plan, "purchase": {**OPEN["purchase"], "option": "spot", "interruptions_per_node_hour": 0.1}})
    assert quiet.quote(1).hours.mid < struck.quote(1).hours.mid < 12
