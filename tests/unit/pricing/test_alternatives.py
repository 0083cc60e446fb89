"""Alternatives beside the candidates: priced where a price exists, and never deployed."""

from decimal import Decimal

import pytest

from launcher.catalog.load import load
from launcher.model.enums import PurchaseOption
from launcher.model.money import Price
from launcher.planning.learned import BOOT_H

OPEN = {
    "workload": {"train": {"hours": None, "tokens_b": 2.0}},
    "target": {"nodes": "any", "region": "any", "instance_type": "any"},
    "purchase": {"option": "any"},
}


def by_service(priced_plan):
    return {(alternative.service, alternative.accelerator): alternative for alternative in priced_plan.alternatives}


def test_an_open_plan_shows_training_jobs_hyperpod_and_ultraservers(priced):
    alternatives = by_service(priced(OPEN))
    services = {service for service, _ in alternatives}
    assert services == {"sagemaker-training-job", "sagemaker-managed-spot", "hyperpod", "ultraserver"}
    assert ("ultraserver", "GB200") in alternatives
    assert ("ultraserver", "Trainium2") in alternatives


def test_a_training_job_costs_its_ml_rate_for_its_hours(priced):
    priced_plan = priced({**OPEN, "target": {"instance_type": "p5.48xlarge", "nodes": 1, "region": "us-east-1"}})
    job = next(
        alternative for alternative in priced_plan.alternatives if alternative.service == "sagemaker-training-job"
    )
    rate = load().sagemaker("ml.p5.48xlarge", "us-east-1", "training")
    assert isinstance(rate, Price)
    machines = rate.usd * Decimal(repr(job.hours.mid + BOOT_H))
    assert machines < job.usd.mid < machines + 20
    assert job.hours.mid == priced_plan.resolution.estimator.work("p5.48xlarge", 1).hours.mid
    on_demand = next(
        candidate for candidate in priced_plan.candidates if candidate.place.option is PurchaseOption.ON_DEMAND
    )
    assert job.usd.mid > on_demand.usd


def test_the_cheapest_is_the_cheapest_of_every_size_and_place(priced):
    priced_plan = priced(OPEN)
    job = next(alternative for alternative in priced_plan.alternatives if alternative.service == "hyperpod")
    works, catalog = priced_plan.resolution.estimator.work, load()
    totals = []
    for facts in catalog.instance_types.values():
        if not facts.ml or not facts.targets or not facts.accelerator:
            continue
        for region in catalog.regions_of(facts.name):
            rate = catalog.sagemaker(f"ml.{facts.name}", region, "cluster")
            for nodes in (1, 2, 4, 8, 16, 32, 64) if facts.efa_interfaces else (1,):
                work = works(facts.name, nodes)
                if isinstance(rate, Price) and work.misfit is None:
                    totals.append(float(rate.usd) * nodes * (work.hours.mid + BOOT_H))
    rate = job.price
    assert isinstance(rate, Price)
    assert float(rate.usd) * job.nodes * (job.hours.mid + BOOT_H) == pytest.approx(min(totals))


def test_managed_spot_is_a_range_up_to_the_same_job_on_demand(priced):
    alternatives = {alternative.service: alternative for alternative in priced(OPEN).alternatives}
    spot, job = alternatives["sagemaker-managed-spot"], alternatives["sagemaker-training-job"]
    assert isinstance(spot.price, Price)
    assert "publishes no rate" in spot.price.note
    assert spot.usd.low < spot.usd.mid < spot.usd.high == pytest.approx(job.usd.high, abs=Decimal("0.01"))


def test_an_ultraserver_is_billed_as_a_block(priced):
    gb200 = by_service(priced(OPEN))["ultraserver", "GB200"]
    assert isinstance(gb200.price, Price)
    assert gb200.usd.mid >= gb200.price.usd * 24


def test_a_plan_that_pins_its_target_and_a_cluster_alone_have_none(priced):
    assert priced({**OPEN, "target": {**OPEN["target"], "kind": "parallelcluster"}}).alternatives == ()
    assert priced({"workload": {"train": None}}).alternatives == ()


def test_a_savings_plan_of_sagemaker_covers_no_machine_of_a_cluster(priced):
    quote = priced({"purchase": {"option": "savings-plan", "plan_kind": "sagemaker"}}).quote(1)
    assert quote.unpriced == "a SageMaker Savings Plan does not cover EC2 instances"
