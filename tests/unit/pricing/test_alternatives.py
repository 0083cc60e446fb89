"""Alternatives beside the candidates: priced where a price exists, and never deployed."""

import pytest

from launcher.model.money import Price

OPEN = {
    "workload": {"train": {"hours": None, "tokens_b": 2.0}},
    "target": {"kind": "any", "nodes": "any", "region": "any", "instance_type": "any"},
    "purchase": {"option": "any"},
}


def by_service(priced_plan):
    return {(alternative.service, alternative.accelerator): alternative for alternative in priced_plan.alternatives}


def test_open_plan_lists_ultraservers_as_alternatives(priced):
    alternatives = by_service(priced(OPEN))
    assert set(alternatives) == {("ultraserver", "GB200"), ("ultraserver", "Trainium2")} | set(alternatives)
    assert {service for service, _ in alternatives} == {"ultraserver"}


ONE = {
    "workload": {"train": {"hours": 6}},
    "target": {"kind": "any", "instance_type": "g5.xlarge", "nodes": 1, "region": "us-east-1"},
    "purchase": {"option": ["on-demand", "spot"]},
}


@pytest.mark.parametrize("kind", ["parallelcluster", "eks", "hyperpod-slurm", "hyperpod-eks", "sagemaker-training"])
def test_any_target_is_never_dearer_than_a_named_one(priced, kind):
    best = priced(ONE).quote(1)
    named = priced({**ONE, "target": {**ONE["target"], "kind": kind}}).quote(1)
    if named.usd is not None and named.gate.allows_launch:
        assert best.usd.mid <= named.usd.mid


@pytest.mark.parametrize("instance_type", ["g5.xlarge", "p5.48xlarge", "trn1.32xlarge"])
def test_any_target_row_costs_the_same_as_the_named_target_row(priced, instance_type):
    plan = {**ONE, "target": {**ONE["target"], "instance_type": instance_type}}
    for quoted in priced(plan).quotes:
        kind = quoted.plan.place.target.value
        named = priced({**plan, "target": {**plan["target"], "kind": kind}})
        (same,) = [other for other in named.quotes if other.plan.place == quoted.plan.place]
        assert same.usd == quoted.usd


def test_pcs_is_a_candidate_only_with_given_fees(priced):
    fees = {"pcs/controller": "0.6", "pcs/node": "0.1", "pcs/accounting": "0.3"}
    plan = {**ONE, "target": {**ONE["target"], "instance_type": "p5.48xlarge"}}
    every = [priced(plan, everything=True)]
    every.append(priced({**plan, "purchase": {**ONE["purchase"], "price_overrides": fees}}, everything=True))
    kinds = [{candidate.place.target.value for candidate in one.candidates} for one in every]
    assert "pcs" not in kinds[0]
    assert "pcs" in kinds[1]


def test_an_ultraserver_is_billed_as_a_block(priced):
    gb200 = by_service(priced(OPEN))["ultraserver", "GB200"]
    assert isinstance(gb200.price, Price)
    assert gb200.usd.mid >= gb200.price.usd * 24


def test_pinned_target_and_plan_without_a_job_have_no_alternatives(priced):
    assert priced({**OPEN, "target": {**OPEN["target"], "kind": "parallelcluster"}}).alternatives == ()
    assert priced({"workload": {"train": None}}).alternatives == ()


def test_a_savings_plan_of_sagemaker_covers_no_machine_of_a_cluster(priced):
    quote = priced({"purchase": {"option": "savings-plan", "plan_kind": "sagemaker"}}).quote(1)
    assert quote.no_price_reason == "a SageMaker Savings Plan does not cover EC2 instances"
