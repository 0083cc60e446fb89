"""Scheduled scaling in the bill: scheduled hours are billed by the schedule."""

import pytest

from launcher.model.enums import Level
from launcher.model.fleet import Hosting, fleet
from launcher.model.units import HOURS_PER_MONTH
from launcher.model.workload import ServingWorkload
from launcher.pricing.serving.traffic import requests_per_month

PINNED = {"target": {"instance_type": "g6e.12xlarge"}, "purchase": {"option": "on-demand"}}
DAY = ("cron(0 8 * * ? *) 2-6", "cron(0 20 * * ? *) 1-6")
OFFICE = ("cron(0 8 ? * MON-FRI *) 1-2", "cron(0 18 ? * MON-FRI *) 0-0")


def serve(**changes):
    return ServingWorkload(model="llama-3.1-8b", requests_per_s=1.0, **changes)


def month(priced, **changes):
    return priced({"max_instances": 9, "requests_per_s": 1, **changes}, **PINNED).candidates[0]


def test_five_instances_all_day_are_five_instances(serving_priced):
    plain, five = month(serving_priced), month(serving_priced, schedule=["cron(0 0 * * ? *) 5-9"])
    assert five.fleet.hours == 5 * HOURS_PER_MONTH
    assert five.usd > 4 * plain.usd


def test_a_range_by_day_and_one_by_night():
    load = fleet(serve(schedule=DAY), 10.0)
    assert load.hours == pytest.approx(1.5 * HOURS_PER_MONTH)
    assert (load.instances.least, load.instances.most, load.short) == (1, 2, None)


def test_closed_hours_are_neither_paid_nor_served(serving_priced):
    every, office = month(serving_priced), month(serving_priced, schedule=list(OFFICE), min_instances=0)
    assert office.fleet.hours == pytest.approx(50 / 168 * HOURS_PER_MONTH)
    assert requests_per_month(office.serve) == pytest.approx(50 / 168 * requests_per_month(every.serve))
    assert office.usd < every.usd


def test_bedrock_is_compared_over_the_open_hours_only(compared):
    wide, office = compared(), compared({"schedule": list(OFFICE), "min_instances": 0, "max_instances": 9})
    assert office.hosted_candidate.usd == pytest.approx(wide.hosted_candidate.usd * 50 / 168, rel=1e-4)


def test_asynchronous_endpoint_serves_requests_of_closed_hours_later():
    waiting = serve(schedule=OFFICE, asynchronous=True, min_instances=0)
    assert requests_per_month(waiting) == requests_per_month(serve())
    assert fleet(waiting, 2.0, Hosting()).hours == pytest.approx(0.5 * HOURS_PER_MONTH)
    assert fleet(waiting, 2.0, Hosting()).short is None
    assert fleet(waiting, 1.0, Hosting()).short is not None


def test_schedule_with_too_few_instances_is_refused(serving_priced):
    candidate = month(serving_priced, requests_per_s=60, schedule=["cron(0 8 * * ? *) 1-9", "cron(0 9 * * ? *) 1-1"])
    (refusal,) = [refusal for refusal in candidate.refusals if refusal.code == "schedule-short"]
    assert refusal.level is Level.ERROR
    assert "the schedule allows 1" in refusal.message
    assert "raise the range" in refusal.hint


def test_schedule_is_ignored_for_pods_with_a_finding(serving_priced):
    pods = {"target": {**PINNED["target"], "kind": "eks"}, "purchase": PINNED["purchase"]}
    plain, timed = serving_priced({}, **pods), serving_priced({"schedule": list(DAY)}, **pods)
    assert timed.candidates[0].usd == plain.candidates[0].usd
    assert "schedule-unused" in {finding.code for finding in timed.findings}


def test_two_time_zones_are_reported(serving_priced):
    lines = [DAY[0], f"{DAY[1]} Europe/Berlin"]
    findings = {finding.code: finding for finding in serving_priced({"schedule": lines, "max_instances": 9}).findings}
    assert "priced as if all were in UTC" in findings["schedule-zones"].message


def test_quote_states_the_schedule_and_the_closed_share(serving_priced):
    quote = serving_priced({"schedule": list(OFFICE), "min_instances": 0, "max_instances": 9}, **PINNED).quote(1)
    (assumption,) = [assumption for assumption in quote.assumptions if assumption.name == "schedule"]
    assert assumption.value == "0 to 0, 1 to 2 instances by the clock"
    assert "closed for 70% of the time" in assumption.unit
