"""Llama 3.1 8B at 1,500 tokens in and 250 out on an inf2.48xlarge against Bedrock, as the serving notes work it out."""

import re
from dataclasses import replace
from decimal import Decimal

import pytest

from launcher.model.enums import Payment, SavingsPlanKind
from launcher.pricing.serving.crossover import Turn, usd_per_request, utilisation
from launcher.pricing.serving.verdict import recommend
from launcher.pricing.verdict import ServingChoice

PINNED = {"instance_type": "inf2.48xlarge"}


def crossing(comparison, option, *, kind="sagemaker-endpoint", years=None):
    """The crossover utilisation of the inf2.48xlarge bought one way."""
    rate = usd_per_request(comparison.hosted_candidate)
    for crossover in comparison.crossovers:
        place = crossover.candidate.place
        same = (place.instance_type, place.option, place.term_years) == ("inf2.48xlarge", option, years)
        if same and place.target == kind:
            assert utilisation(crossover.candidate, rate) == crossover.utilisation
            return crossover
    raise AssertionError(option)


def test_bedrock_costs_1_54_per_million_output_tokens(serving_priced):
    hosted = next(quote for quote in serving_priced().quotes if quote.plan.place.option == "bedrock")
    assert hosted.serving.usd_per_million_output_tokens == Decimal("1.5400")
    assert hosted.serving.usd_per_million_tokens == Decimal("0.2200")


def test_inf2_endpoint_breaks_even_only_above_full_utilisation(compared):
    crossover = crossing(compared(target=PINNED), "on-demand")
    assert crossover.candidate.estimate.tokens_per_s.mid == 1226.1
    assert crossover.utilisation == pytest.approx(2.29, abs=0.01)


def test_ec2_on_demand_breaks_even_only_above_full_utilisation(compared):
    comparison = compared(target={**PINNED, "kind": "eks"})
    assert crossing(comparison, "on-demand", kind="eks").utilisation == pytest.approx(1.91, abs=0.01)


def test_the_3_year_rate_of_ec2_crosses_at_about_82_percent(compared):
    crossover = crossing(compared(target={**PINNED, "kind": "eks"}), "reserved", kind="eks", years=3)
    assert crossover.candidate.offer.price.usd == Decimal("5.60791")
    assert crossover.utilisation == pytest.approx(0.82, abs=0.01)


def test_full_instance_costs_the_dollars_per_million_tokens_of_the_notes(serving_priced):
    for kind, usd in (("sagemaker-endpoint", 3.53), ("eks", 2.94)):
        priced_plan = serving_priced(target={**PINNED, "kind": kind}, purchase={"option": "on-demand"})
        rate, estimate = priced_plan.candidates[0].offer.price.usd, priced_plan.candidates[0].estimate
        assert float(rate) / (estimate.tokens_per_s.mid * 3600) * 1e6 == pytest.approx(usd, abs=0.01)


def test_do_not_deploy_is_a_verdict(compared):
    comparison = compared(target=PINNED)
    assert comparison.verdict.choice is ServingChoice.BEDROCK
    assert comparison.verdict.text.startswith("Do not deploy: Bedrock is cheaper until ")
    assert "requests a month" in comparison.verdict.text
    assert comparison.sides.turn.requests > 4 * 3600 * 730


def test_types_dearer_at_every_volume_have_no_crossover_and_the_verdict_names_the_reason(compared):
    comparison = compared(target={"instance_type": "g6e.xlarge"})
    assert comparison.sides.turn.requests is None
    assert "cheaper at this volume and every larger one" in comparison.verdict.text


def test_beyond_the_crossover_machines_win(compared):
    volume = compared().sides.turn.requests
    above = compared({"requests_per_s": volume * 1.0001 / (3600 * 730)})
    assert min(machine.usd for machine in machines_of(above)) + above.sides.maintenance_usd < above.hosted_candidate.usd
    for share in (0.2, 0.5, 0.8, 0.99):
        below = compared({"requests_per_s": volume * share / (3600 * 730)})
        assert (
            min(machine.usd for machine in machines_of(below)) + below.sides.maintenance_usd
            > below.hosted_candidate.usd
        )


def machines_of(priced_plan):
    return [*priced_plan.best_of("nvidia"), *priced_plan.best_of("neuron")]


@pytest.mark.long
@pytest.mark.parametrize("share", [0.3, 0.9, 0.99, 1.0, 1.01, 1.02, 1.05, 1.1, 1.3, 3.0])
def test_verdict_and_crossover_volume_are_consistent(compared, share):
    """The volume that turns it round lies beyond the plan's own, on the side where the answer is another."""
    requests_per_s = 15.0 * share
    comparison = compared({"requests_per_s": requests_per_s}, target={"kind": "eks"})
    now, sides, turn = requests_per_s * 3600 * 730, comparison.sides, comparison.sides.turn
    best = min(usd for usd in (sides.gpu_usd, sides.neuron_usd) if usd is not None)
    if sides.hosted_usd <= best:
        assert turn.requests is None or turn.requests >= now
    else:
        assert turn.requests is None or turn.requests <= now
        assert comparison.verdict.choice is not ServingChoice.BEDROCK
    assert turn.low is None or turn.high is None or turn.low <= turn.high


@pytest.mark.long
def test_verdict_near_the_crossover_is_too_close_to_call_on_both_sides(compared):
    """A little cheaper or a little dearer than Bedrock, estimates do not decide; the months have their range."""
    kinds = {}
    for step in range(10):
        comparison = compared({"requests_per_s": 20, "operations_usd_per_month": step * 1000}, target={"kind": "eks"})
        gap = float(comparison.sides.gpu_usd / comparison.sides.hosted_usd) - 1
        kinds[gap] = comparison.verdict
    near = [verdict for gap, verdict in kinds.items() if -0.15 < gap < 0.15]
    assert {gap > 0 for gap in kinds if -0.15 < gap < 0.15} == {True, False}
    assert all(verdict.choice is ServingChoice.MEASURE_FIRST for verdict in near)
    assert all("–" in verdict.text and verdict.text.startswith("Too close to call") for verdict in near)
    load = f"slipway endpoint load {comparison.sides.gpu.plan.name} stores"
    assert all(len(verdict.flips) == 1 and load in verdict.flips[0] for verdict in near)
    assert all(any(reason.startswith("both cost the same at ") for reason in verdict.reasons) for verdict in near)
    far = {verdict.choice for gap, verdict in kinds.items() if gap > 0.2 or gap < -0.2}
    assert far <= {ServingChoice.BEDROCK, ServingChoice.GPU}


@pytest.mark.parametrize("requests_per_s, operations, cheaper", [(6.5, 3000, "Bedrock"), (60.0, 0, "GPUs")])
def test_verdict_says_the_chance_that_its_side_is_cheaper(compared, requests_per_s, operations, cheaper):
    """The range goes from the 10th to the 90th percentile, so no chance above 9 of 10 is known."""
    comparison = compared(
        {"requests_per_s": requests_per_s, "operations_usd_per_month": operations}, target={"kind": "eks"}
    )
    verdict, (gpu, hosted) = comparison.verdict, (comparison.sides.gpu, comparison.sides.hosted_usd)
    assert f"{cheaper} cheaper in " in verdict.text
    inside = gpu.usd.low + operations < hosted < gpu.usd.high + operations
    said = int(re.search(r"cheaper in (\d+) cases of 10", verdict.text).group(1))
    assert 5 <= said <= 9
    assert inside or said == 9


def test_range_across_the_crossover_is_reported_in_the_reasons(compared):
    comparison = compared({"requests_per_s": 6.5})
    assert comparison.verdict.choice is ServingChoice.BEDROCK
    assert "at the low estimate, instances are cheaper" in (comparison.verdict.reasons)


def test_hourly_capacity_has_no_crossover_volume(compared):
    comparison = compared({"bedrock": {"mode": "provisioned", "provisioned_usd_per_hour": "2"}})
    assert comparison.sides.turn is None
    assert "requests a month" not in comparison.verdict.text


def test_operating_time_and_port_are_counted(compared):
    eks = {"kind": "eks", "instance_type": ["inf2.48xlarge", "g6e.xlarge"]}
    comparison = compared(
        {"port_weeks": 2, "operations_usd_per_month": 250}, target=eks, purchase={"option": ["reserved", "bedrock"]}
    )
    sides = comparison.sides
    assert (sides.port_usd, sides.maintenance_usd) == (Decimal(10000), Decimal(250))
    assert sides.neuron_usd == sides.neuron.usd.mid + 250
    assert sides.neuron_months is None
    assert any("never pays off" in reason for reason in comparison.verdict.reasons)


def test_port_months_are_compared_with_gpus_and_with_bedrock(compared):
    load = {"model": "llama-3.3-70b", "requests_per_s": 0.3, "max_tpot_ms": 80}
    comparison = compared({**load, "port_weeks": 4})
    sides = comparison.sides
    assert sides.neuron_usd < sides.gpu_usd
    assert sides.neuron_months_over_gpu == pytest.approx(20_000 / float(sides.gpu_usd - sides.neuron_usd))
    assert sides.neuron_months_over_bedrock is sides.neuron_months is None
    assert f"against ${sides.neuron.usd.mid:,.0f} (" in comparison.verdict.text
    late = compared({**load, "port_weeks": 4000})
    assert late.sides.neuron_months_over_gpu > 24
    assert f"against ${late.sides.gpu.usd.mid:,.0f}" in late.verdict.text


def test_weights_missing_in_bedrock_are_deployed_on_instances(compared):
    comparison = compared({"model": "llama-2-7b"}, target={"instance_type": ["g6.12xlarge", "inf2.24xlarge"]})
    assert comparison.hosted_candidate is None
    assert comparison.verdict.choice in (ServingChoice.GPU, ServingChoice.NEURON)
    assert "Bedrock does not have these weights" in comparison.verdict.text
    assert all(crossover.utilisation is None for crossover in comparison.crossovers)


def test_closed_model_has_only_a_bedrock_candidate(compared):
    comparison = compared({"model": "claude-haiku-4-5"})
    assert len(comparison.priced.candidates) == 1
    assert comparison.verdict.choice is ServingChoice.BEDROCK
    assert "not in the catalog" in comparison.verdict.text
    assert comparison.priced.quote(1).serving.bedrock.same_weights == ""


def test_the_rates_of_the_notes_are_in_the_catalog(serving_priced):
    catalog = serving_priced().catalog
    ri = catalog.reserved_rate("inf2.48xlarge", "us-east-1", "standard", 3, Payment.NO_UPFRONT)
    plan = catalog.savings_plan("inf2.48xlarge", "us-east-1", SavingsPlanKind.EC2_INSTANCE, 3, Payment.NO_UPFRONT)
    assert ri.usd == plan.usd == Decimal("5.60791")


def test_bedrock_without_a_price_is_not_bedrock_without_the_weights(compared):
    comparison = compared({"bedrock": {"mode": "provisioned"}})
    assert "Bedrock has these weights at no known price" in comparison.verdict.text


@pytest.mark.parametrize(
    "region, message", [("me-south-1", "no price in the catalog names"), ("us-east-1", "not checked")]
)
def test_region_without_a_bedrock_price_is_reported(serving_priced, region, message):
    quote = serving_priced({}, target={"region": region}, purchase={"option": "bedrock"}).quote(1)
    assert message in next(finding.message for finding in quote.findings if finding.code == "bedrock-region")


@pytest.mark.parametrize(
    "low, high, span",
    [
        (13.86e6, None, ""),
        (13.86e6, 13.9e6, ""),
        (9e6, None, " (from 9 million)"),
        (9e6, 20e6, " (9 million to 20 million)"),
        (None, None, ""),
    ],
)
def test_the_volume_that_changes_the_answer_has_its_range_only_if_it_differs(compared, low, high, span):
    known = replace(compared(target=PINNED).sides, turn=Turn(requests=13.9e6, low=low, high=high))
    flips = recommend(known).flips
    assert any(f"13.9 million requests a month or more{span}, of the same" in flip for flip in flips), flips
