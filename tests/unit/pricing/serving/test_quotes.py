"""The month of a candidate: lines that add up, idle time, redundancy, deployments, budget, digests."""

import json
from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from statistics import NormalDist

import pytest

from launcher import plan_file
from launcher.answers import plan_document as answer
from launcher.catalog.load import load
from launcher.model.document import document
from launcher.model.enums import Level
from launcher.model.fleet import fleet
from launcher.pricing.serving.totals import month_price, month_usd
from launcher.pricing.standing import Standing
from launcher.records.quote_document import quote_document
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import pick
from launcher.workflow.quote.serving import price_serving
from tests.checks import some
from tests.plans import NOW

INF2 = {"target": {"instance_type": "inf2.48xlarge"}, "purchase": {"option": "on-demand"}}
ASYNC = {"asynchronous": True, "min_instances": 0}
DAY = [1.0] * 12 + [8.0] * 12


def test_the_lines_add_up_to_the_month(serving_priced):
    for quoted in some(serving_priced().quotes):
        if quoted.usd is not None:
            assert sum(component.usd for component in quoted.components if component.usd is not None) == quoted.usd.mid
            assert quoted.usd.low <= quoted.usd.mid <= quoted.usd.high
            assert quoted.serving.usd_per_month == quoted.usd


def test_idle_instances_are_shown_and_paid_for(serving_priced):
    quoted = serving_priced({"hourly_requests_per_s": DAY, "requests_per_s": None}, **INF2).quote(1)
    lines = {component.name: component for component in quoted.components}
    busy, idle = lines["ml.inf2.48xlarge on-demand, busy"], lines["ml.inf2.48xlarge on-demand, idle"]
    assert idle.usd == quoted.serving.idle_usd_per_month
    assert quoted.serving.utilisation == pytest.approx(busy.quantity / (busy.quantity + idle.quantity))
    assert (busy.quantity + idle.quantity) / 730 == pytest.approx(quoted.serving.instances.mean)


def test_autoscaling_costs_less_than_the_peak_all_day(serving_priced):
    scaled = serving_priced({"hourly_requests_per_s": DAY, "requests_per_s": None}, **INF2).quote(1)
    flat = serving_priced({"requests_per_s": 8.0}, **INF2).quote(1)
    assert scaled.usd.mid < flat.usd.mid
    assert scaled.serving.instances.most == flat.serving.instances.most


def test_zones_and_deployments_cost_more(serving_priced):
    one = serving_priced({"requests_per_s": 0.5}, **INF2).quote(1)
    two = serving_priced({"requests_per_s": 0.5, "zones": 2}, **INF2).quote(1)
    assert two.serving.instances.least == 2
    assert two.usd.mid > Decimal("1.9") * one.usd.mid
    lines = {component.name: component for component in one.components}
    assert lines["old and new version together"].quantity == pytest.approx(1.5)


def test_commitment_is_billed_for_every_hour_used_or_unused(serving_priced):
    eks, purchase = {"instance_type": "inf2.48xlarge", "kind": "eks"}, {"option": "reserved", "term_years": 3}
    quoted = serving_priced(
        {"hourly_requests_per_s": DAY, "requests_per_s": None}, target=eks, purchase=purchase
    ).quote(1)
    most = quoted.serving.instances.most
    assert quoted.billed_hours == 730
    assert quoted.commitment_usd == Decimal("5.60791") * most * 8760 * 3
    assert any(component.name == "EKS control plane" for component in quoted.components)


def test_eks_offers_spot_savings_plans_and_reserved_instances(serving_priced):
    priced_plan = serving_priced(target={"kind": "eks", "instance_type": "inf2.48xlarge"})
    options = {candidate.place.option.value for candidate in priced_plan.candidates}
    assert options == {"on-demand", "spot", "savings-plan", "reserved", "bedrock"}
    spot = next(quote for quote in priced_plan.quotes if quote.plan.place.option == "spot")
    assert any(component.name == "starting what spot took back" for component in spot.components)
    assert "spot-serving" in {finding.code for finding in spot.findings}


def test_spot_month_is_the_percentiles_of_throughput_and_price_together(serving_priced):
    """Played again over 60 throughputs and 60 prices; both extremes together would be further out by a tenth."""
    target, purchase = {"kind": "eks", "instance_type": "g6e.xlarge"}, {"option": "spot"}
    candidate = serving_priced({"requests_per_s": 20}, target=target, purchase=purchase).candidates[0]
    tokens, random = candidate.estimate.tokens_per_s, month_price(candidate).random
    played = []
    for index in range(60):
        z = NormalDist().inv_cdf((index + 0.5) / 60) / NormalDist().inv_cdf(0.9)
        speed = (tokens.high / tokens.mid if z > 0 else tokens.mid / tokens.low) ** z
        load = fleet(candidate.serve, candidate.estimate.requests_per_s * speed, candidate.hosting)
        spot = float(sum(line.usd for line in candidate.instance_lines(load))) / random.mid
        other = float(sum(line.usd for line in candidate.other_lines(load)))
        played += [spot * random.at((number + 0.5) / 60) + other for number in range(60)]
    played.sort()
    usd = month_usd(candidate)
    assert float(usd.low) == pytest.approx(played[len(played) // 10], rel=0.04)
    assert float(usd.high) == pytest.approx(played[len(played) * 9 // 10], rel=0.04)


def test_endpoint_has_sagemaker_rates_and_savings_plans(serving_priced):
    priced_plan = serving_priced(target={"instance_type": "inf2.48xlarge"})
    candidates_by_option = {candidate.place.option.value: candidate for candidate in priced_plan.candidates}
    assert set(candidates_by_option) == {"on-demand", "savings-plan", "bedrock"}
    assert candidates_by_option["on-demand"].offer.price.usd == Decimal("15.58")
    assert (
        "no sagemaker Savings Plan rate of ml.inf2.48xlarge" in candidates_by_option["savings-plan"].offer.price.reason
    )


def test_an_asynchronous_endpoint_sleeps_and_bedrock_has_a_batch_price(serving_priced):
    night = {"hourly_requests_per_s": [2.0] * 4 + [0.0] * 20, "requests_per_s": None}
    awake, asleep = (
        serving_priced({**night, "min_instances": 1}, **INF2).quote(1),
        serving_priced({**night, **ASYNC}, **INF2).quote(1),
    )
    assert asleep.usd.mid < awake.usd.mid / 4
    modes = {
        candidate.bedrock.mode.value: candidate.usd
        for candidate in serving_priced({**night, **ASYNC}).candidates
        if candidate.bedrock
    }
    assert modes["batch"] * 2 == modes["on-demand"]
    assert {candidate.bedrock.mode.value for candidate in serving_priced(night).candidates if candidate.bedrock} == {
        "on-demand"
    }


def test_provisioned_throughput_is_the_users_price(serving_priced):
    serve = {"bedrock": {"provisioned_usd_per_hour": "20", "provisioned_units": 2}}
    candidate = next(
        candidate
        for candidate in serving_priced(serve).candidates
        if candidate.bedrock and candidate.bedrock.mode == "provisioned"
    )
    assert candidate.usd == Decimal(20) * 2 * 730
    bare = next(
        candidate for candidate in serving_priced({"bedrock": {"mode": "provisioned"}}).candidates if candidate.bedrock
    )
    assert bare.usd is None
    assert "AWS publishes no price" in bare.offer.price.reason


def test_a_withdrawn_model_is_no_offer(serving_priced):
    hosted = next(candidate for candidate in serving_priced({"model": "llama-3.2-3b"}).candidates if candidate.bedrock)
    assert hosted.offer.price.reason == "AWS has withdrawn meta.llama3-2-3b-instruct-v1:0 on 2026-07-07"
    assert hosted.offer.price.unverified.usd == Decimal("0.15")


def test_prices_as_of_another_day_are_used(serving_priced):
    catalog = load(prices_as_of=date(2026, 11, 1))
    priced_plan = price_serving(Path("plan.yaml"), serving_priced().request, catalog, NOW, PriceOptions())
    hosted = next(candidate for candidate in priced_plan.candidates if candidate.bedrock)
    assert hosted.usd is None
    assert hosted.offer.price.reason.endswith("is known on or before 2026-11-01")
    assert priced_plan.candidates[0].usd is not None


def test_serving_budget_is_compared_with_the_high_estimate(serving_priced):
    some = {"target": {"instance_type": "g5.12xlarge"}, "purchase": {"option": "on-demand"}}
    quoted = serving_priced(**some).quote(1)
    assert quoted.usd.high > quoted.usd.mid + 1
    over = serving_priced(budget={"max_usd": int(quoted.usd.mid) + 1}, **some).quote(1)
    assert (over.gate.allows_launch, over.gate.exit_code) == (False, 3)
    within = serving_priced(budget={"max_usd": int(quoted.usd.high) + 2}, **some)
    # Within the budget, the weights that the plan does not name are what a deployment lacks.
    assert (within.standing(1), within.quote(1).gate.exit_code) == (Standing.UNNAMED, 5)


def test_too_few_instances_refuse_the_candidate(serving_priced):
    priced_plan = serving_priced({"requests_per_s": 50.0, "max_instances": 1}, **INF2)
    assert priced_plan.impossible
    assert priced_plan.quote(1).gate.exit_code == 5
    assert "max_instances is 1" in priced_plan.quote(1).gate.reason


def test_an_answer_longer_than_an_endpoint_may_take(serving_priced):
    slow = {"streaming": False, "output_tokens": 2000, "batch_size": 32, "tensor_parallel": 8}
    assert serving_priced(slow, **INF2).candidates[0].refusals[0].code == "answer-too-slow"
    waiting = serving_priced({**slow, "asynchronous": True}, **INF2).candidates[0]
    assert [refusal.code for refusal in waiting.refusals] == ["copies-behind-a-queue"]


REFUSED = [
    ({"tensor_parallel": 1, "model": "qwen3-0.6b"}, "inf2.xlarge", "half-a-chip"),
    ({"asynchronous": True, "tensor_parallel": 8}, "inf2.48xlarge", "copies-behind-a-queue"),
    ({"task": "embedding", "model": "bge-base-en-v1.5", "input_tokens": 256}, "inf2.xlarge", "wrong-architecture"),
    ({"deployment": "canary", "max_instances": 9}, "g6e.xlarge", "rollout-of-one"),
    ({"deployment": "canary", "tensor_parallel": 8, "max_instances": 9}, "inf2.48xlarge", "canary-of-components"),
]


@pytest.mark.parametrize("serve, name, code", REFUSED, ids=[case[2] for case in REFUSED])
def test_undeployable_serving_plan_is_an_error_finding_and_refused(serving_priced, serve, name, code):
    only = {"target": {"instance_type": name}, "purchase": {"option": "on-demand"}}
    priced_plan = serving_priced({"requests_per_s": 1, **serve}, **only)
    quoted = priced_plan.quote(1)
    assert [refusal.code for refusal in priced_plan.candidates[0].refusals] == [code]
    assert code in {finding.code for finding in quoted.findings if finding.level is Level.ERROR}
    assert (quoted.gate.allows_launch, quoted.gate.exit_code) == (False, 5)
    assert priced_plan.impossible


def test_a_place_for_the_weights_may_follow(serving_priced):
    quoted = serving_priced(**INF2).quote(1)
    assert {finding.code: finding.level for finding in quoted.findings}["model-without-uri"] is Level.WARNING
    assert quoted.usd is not None
    assert (quoted.gate.verdict, quoted.gate.exit_code) == ("refuse", 5)
    with_uri = serving_priced(
        {"artifacts_uri": "s3://models/llama", "batch_size": 32, "tensor_parallel": 8}, **INF2
    ).quote(1)
    assert {"model-without-uri", "shape-not-compiled"}.isdisjoint(finding.code for finding in with_uri.findings)
    assert with_uri.gate.allows_launch


def test_an_open_layout_gives_whole_chips_to_a_container(serving_priced):
    one = {"model": "qwen3-0.6b", "requests_per_s": 1}
    candidate = serving_priced(
        one, target={"instance_type": "inf2.xlarge"}, purchase={"option": "on-demand"}
    ).candidates[0]
    assert candidate.estimate.layout.tensor_parallel == 2
    assert not candidate.refusals


def test_shown_place_has_the_container_image(serving_priced):
    only = {"target": {"instance_type": "inf2.8xlarge", "region": "any"}, "purchase": {"option": "on-demand"}}
    everything = serving_priced(options=PriceOptions(everything=True), **only).candidates
    assert {"image-not-in-region"} <= {refusal.code for candidate in everything for refusal in candidate.refusals}
    assert not serving_priced(**only).candidates[0].refusals


def test_pinned_plan_of_a_quote_has_the_same_digest(serving_priced):
    priced_plan = serving_priced(target={"instance_type": ["inf2.48xlarge", "g6e.12xlarge"]})
    for rank, first in some(enumerate(priced_plan.quotes, start=1)):
        again = plan_file.loads(json.dumps(document(first.plan.request)))
        assert again.workload.serve == first.plan.request.workload.serve
        second = price_serving(Path("plan.json"), again, priced_plan.catalog, NOW, PriceOptions()).quote(1)
        assert second.digest == first.digest
        assert pick(priced_plan, first.digest)[0] == rank


def test_every_candidate_has_a_distinct_digest(serving_priced):
    digests = [quote.digest for quote in serving_priced({**ASYNC}).quotes]
    assert len(set(digests)) == len(digests)


def test_all_option_shows_more_places(serving_priced):
    few, many = serving_priced(), serving_priced(options=PriceOptions(everything=True))
    assert many.considered == len(many.candidates) > len(few.candidates)


def test_lines_without_a_price_in_a_region_are_derived(serving_priced):
    quotes = serving_priced(target={"region": "sa-east-1", "kind": ["eks"]}).quotes
    quoted = next(quote for quote in quotes if quote.plan.place.instance_type)
    bases = {line.basis.value for line in quoted.components}
    assert {"listed", "derived"} <= bases
    assert not quoted.incomplete
    assert "unpriced-line" not in {finding.code for finding in quoted.findings}


def test_json_of_a_serving_plan_has_the_documented_keys(serving_priced):
    priced_plan = serving_priced()
    json_document = answer.document(priced_plan)
    keys = {"tokens_per_s", "utilisation", "usd_per_month", "usd_per_million_output_tokens", "ttft_ms", "tpot_ms"}
    for candidate in json_document["candidates"]:
        assert keys <= set(candidate["serving"])
        bedrock = candidate["purchase_option"] == "bedrock"
        assert (candidate["instance_type"] is None) is bedrock
        assert (candidate["serving"]["tokens_per_s"] is None) is bedrock
    whole = quote_document(priced_plan.quote(1), 1, priced_plan.catalog.instance_types)
    assert json.loads(json.dumps(whole))["components"]


@pytest.mark.parametrize("load", [0.0, 5e-324, 1e-12])
def test_almost_no_traffic_has_no_price_per_token(serving_priced, load):
    """The fuzz's find: dollars over 1e-314 tokens are more digits than a decimal number holds."""
    serving = serving_priced({"requests_per_s": load}, **INF2).quote(1).serving
    assert serving.usd_per_month.mid > 0
    assert (serving.usd_per_million_output_tokens, serving.usd_per_million_tokens) == (None, None)


def test_price_overrides_replace_the_rates_in_the_bill(serving_priced):
    priced_plan = serving_priced(
        target={"instance_type": "inf2.48xlarge"},
        purchase={"option": "on-demand", "price_overrides": {"ml.inf2.48xlarge/on-demand": "10"}},
    )
    assert priced_plan.candidates[0].offer.price.usd == 10
    assert replace(priced_plan.candidates[0].place, nodes=1).nodes == 1


def test_credits_are_subtracted_before_cash(serving_priced):
    pools = [{"pool": "poc", "usd": 500}, {"pool": "old", "usd": 90, "expires": "2025-01-31"}]
    quoted = serving_priced(**INF2 | {"purchase": {"option": "on-demand", "credits": pools}}).quote(1)
    assert quoted.cash_after_credits_usd == quoted.usd.mid - 500
    credit_lines = {
        assumption.name: (assumption.value, assumption.source)
        for assumption in quoted.assumptions
        if assumption.name.startswith("credit ")
    }
    assert credit_lines == {"credit poc": ("500.00", "of $500"), "credit old": ("0", "expired 2025-01-31")}


def test_pods_have_none_of_an_endpoints_alarms_and_are_replaced_in_place(serving_priced):
    eks = {"target": {"kind": "eks", "instance_type": "inf2.48xlarge"}, "purchase": {"option": "on-demand"}}
    names = {component.name for component in serving_priced(**eks).quote(1).components if component.quantity}
    assert not {name for name in names if "alarm" in name or name in ("dashboard", "guard and its messages")}
    assert "old and new version together" not in names
    assert {"7 alarms", "dashboard", "guard and its messages"} <= {
        e.name for e in serving_priced(**INF2).quote(1).components
    }
    watched = serving_priced(budget={"max_usd": 90_000}, **INF2).quote(1)
    assert {"8 alarms", "AWS Budget"} <= {component.name for component in watched.components}
