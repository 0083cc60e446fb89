"""Llama 3.1 8B at 1,500 tokens in and 250 out on an inf2.48xlarge against Bedrock, as the serving notes work it out."""

import re
from dataclasses import replace
from decimal import Decimal
from statistics import NormalDist

import pytest

from launcher.model.enums import Payment, SavingsPlanKind
from launcher.model.fleet import fleet
from launcher.pricing.pairs import cases
from launcher.pricing.serving.crossover import Turn, usd_per_request, utilisation
from launcher.pricing.serving.verdict import recommend
from launcher.pricing.verdict import ServingChoice

PINNED = {"instance_type": "inf2.48xlarge"}
ENDPOINTS = ("sagemaker-endpoint", "eks")


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


@pytest.fixture(scope="module")
def near_bedrock(compared):
    """Comparisons whose instances cost from a fifth less than Bedrock to a quarter more."""
    return [
        compared({"requests_per_s": 20, "operations_usd_per_month": step * 1000}, target={"kind": "eks"})
        for step in range(10)
    ]


@pytest.mark.long
def test_verdict_is_too_close_to_call_from_30_to_70_percent_chance(near_bedrock):
    """No margin of dollars decides: at a chance of 0.7 instances that cost 8 % less are cheaper."""
    chances = [comparison.sides.chance_over_bedrock(ServingChoice.GPU) for comparison in near_bedrock]
    assert chances == sorted(chances, reverse=True)
    assert max(chances) > 0.7
    assert min(chances) < 0.3
    for chance, comparison in zip(chances, near_bedrock, strict=True):
        expected = ServingChoice.GPU if chance > 0.7 else ServingChoice.BEDROCK
        if 0.3 <= chance <= 0.7:
            expected = ServingChoice.MEASURE_FIRST
        assert comparison.verdict.choice is expected
    gaps = [float(comparison.sides.gpu_usd / comparison.sides.hosted_usd) - 1 for comparison in near_bedrock]
    decided = [comparison.verdict.choice is not ServingChoice.MEASURE_FIRST for comparison in near_bedrock]
    assert any(abs(gap) < 0.15 and sure for gap, sure in zip(gaps, decided, strict=True))


@pytest.mark.long
def test_close_verdict_names_the_load_test_and_the_equal_volume(near_bedrock):
    verdicts = [comparison.verdict for comparison in near_bedrock]
    near = [verdict for verdict in verdicts if verdict.choice is ServingChoice.MEASURE_FIRST]
    assert near
    assert all("–" in verdict.text and verdict.text.startswith("Too close to call") for verdict in near)
    load = f"slipway endpoint load {near_bedrock[0].sides.gpu.plan.name} stores"
    assert all(len(verdict.flips) == 1 and load in verdict.flips[0] for verdict in near)
    assert all(any(reason.startswith("both cost the same at ") for reason in verdict.reasons) for verdict in near)


def test_chance_is_the_share_of_months_below_bedrock(compared):
    """Played again with the fleet of each throughput, by separate code."""
    comparison = compared({"requests_per_s": 20, "operations_usd_per_month": 3000}, target={"kind": "eks"})
    best = comparison.best_of("nvidia")[0]
    tokens = best.estimate.tokens_per_s
    below, tries = 0, 4000
    for index in range(tries):
        z = NormalDist().inv_cdf((index + 0.5) / tries)
        end = tokens.high if z > 0 else tokens.low
        speed = (end / tokens.mid) ** (abs(z) / NormalDist().inv_cdf(0.9))
        load = fleet(best.serve, best.estimate.requests_per_s * speed, best.hosting)
        lines = (*best.instance_lines(load), *best.other_lines(load))
        below += sum(line.usd for line in lines) + 3000 < comparison.sides.hosted_usd
    assert comparison.sides.chance_over_bedrock(ServingChoice.GPU) == pytest.approx(below / tries, abs=0.05)


@pytest.mark.parametrize(
    "requests_per_s, operations, cheaper", [(6.5, 1500, "Bedrock"), (6.5, 3000, "Bedrock"), (60.0, 0, "GPUs")]
)
def test_verdict_says_the_chance_that_its_side_is_cheaper(compared, requests_per_s, operations, cheaper):
    comparison = compared(
        {"requests_per_s": requests_per_s, "operations_usd_per_month": operations}, target={"kind": "eks"}
    )
    chance = comparison.sides.chance_over_bedrock(ServingChoice.GPU)
    assert f"{cheaper} cheaper {cases(max(chance, 1 - chance))}" in comparison.verdict.text


OLD_MODEL = {"model": "llama-2-7b"}
BOTH_KINDS = {"instance_type": ["g6.12xlarge", "inf2.24xlarge"]}


def test_neuron_and_gpus_of_similar_cost_are_too_close_to_call(compared):
    comparison = compared(OLD_MODEL, target=BOTH_KINDS)
    sides, verdict = comparison.sides, comparison.verdict
    assert 0.3 <= sides.chance_over_gpu <= 0.7
    assert verdict.choice is ServingChoice.MEASURE_FIRST
    assert f"cheaper {cases(sides.chance_over_gpu)}, the port paid over 24 months" in verdict.text
    assert "Bedrock does not have these weights" in verdict.text


@pytest.mark.parametrize("flip, choice", [(1, ServingChoice.NEURON), (2, ServingChoice.GPU)])
def test_bill_named_by_a_flip_decides_between_neuron_and_gpus(compared, flip, choice):
    """The rate per hour that makes the bill of the flip is entered as a price."""
    sides = compared(OLD_MODEL, target=BOTH_KINDS).sides
    bill = float(re.search(r"at \$([\d,]+) or", recommend(sides).flips[flip]).group(1).replace(",", ""))
    hourly = sum(line.usd for line in sides.neuron.components if line.group == "compute")
    rate = sides.neuron.price.usd * (Decimal(bill) - sides.neuron.usd.mid + hourly) / hourly
    prices = {"ml.inf2.24xlarge/on-demand": f"{rate:.4f}"}
    flipped = compared(OLD_MODEL, target=BOTH_KINDS, purchase={"price_overrides": prices})
    assert flipped.sides.neuron.usd.mid == pytest.approx(Decimal(bill), abs=2)
    assert flipped.verdict.choice is choice


def test_own_weights_named_by_a_flip_leave_the_instances(compared):
    """Done as the line says; the price of an import is not known without its copies."""
    shown = compared({"model_uri": "s3://models-of-the-team/llama"}).verdict
    assert shown.choice is ServingChoice.BEDROCK
    assert shown.text.endswith("Bedrock serves the published weights, not those of model_uri.")
    assert "workload.serve.bedrock.mode: custom-import" in shown.flips[0]
    own = compared({"model_uri": "s3://models-of-the-team/llama", "bedrock": {"mode": "custom-import"}})
    assert own.verdict.choice is ServingChoice.GPU
    bedrock = {"mode": "custom-import", "import_copies": 1}
    load = {"model_uri": "s3://models-of-the-team/llama", "operations_usd_per_month": 5000}
    imported = compared({**load, "bedrock": bedrock}).verdict
    assert imported.choice is ServingChoice.BEDROCK
    assert "published weights" not in imported.text
    assert not any("custom-import" in flip for flip in imported.flips)


@pytest.mark.parametrize("kind", ENDPOINTS)
def test_bill_named_by_a_flip_of_bedrock_decides_for_the_instances(compared, kind):
    load = {"requests_per_s": 6.5, "operations_usd_per_month": 3000}
    target = {"kind": kind, "instance_type": "g6e.xlarge"}
    comparison = compared(load, target=target)
    line = next(flip for flip in comparison.verdict.flips if flip.startswith("a month of instances at"))
    bill = Decimal(re.search(r"at \$([\d,]+) or", line).group(1).replace(",", ""))
    gpu = comparison.sides.gpu
    hourly = sum(part.usd for part in gpu.components if part.group == "compute")
    rate = gpu.price.usd * (bill - gpu.usd.mid + hourly) / hourly
    name = f"{'ml.' if kind == 'sagemaker-endpoint' else ''}g6e.xlarge/on-demand"
    lower = compared(load, target=target, purchase={"price_overrides": {name: f"{rate:.5f}"}})
    assert lower.sides.gpu.usd.mid == pytest.approx(bill, abs=2)
    assert lower.verdict.choice is ServingChoice.GPU


def test_operations_dearer_than_bedrock_are_named_where_no_rate_is_low_enough(compared):
    comparison = compared({"requests_per_s": 0.5, "operations_usd_per_month": 9000})
    assert comparison.verdict.choice is ServingChoice.BEDROCK
    assert any(flip.startswith("operations below $506 a month") for flip in comparison.verdict.flips)


def test_lower_rate_names_eks_only_for_instances_that_sagemaker_bills(compared):
    flips = [compared({"requests_per_s": 6.5}, target={"kind": kind}).verdict.flips for kind in ENDPOINTS]
    assert [any("target.kind eks" in flip for flip in each) for each in flips] == [True, False]


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
    comparison = compared(OLD_MODEL, target={"instance_type": ["g6e.xlarge", "inf2.24xlarge"]})
    assert comparison.hosted_candidate is None
    assert comparison.verdict.choice is ServingChoice.GPU
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


@pytest.mark.parametrize("name", ["Inferentia2", "Trainium1"])
def test_figure_beside_that_of_the_guides_names_the_chip_of_the_row(compared, name):
    types = {"Inferentia2": "inf2.48xlarge", "Trainium1": "trn1.32xlarge"}
    comparison = compared({"requests_per_s": 6.5}, target={"instance_type": [types[name], "g6e.xlarge"]})
    (reason,) = [reason for reason in comparison.verdict.reasons if reason.startswith("guides put Inferentia")]
    assert f"below a GPU; here {name} is " in reason
