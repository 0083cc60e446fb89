"""Instances for a load, hour by hour."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.model.endpoint import FILLED, EndpointMode
from launcher.model.enums import Rollout
from launcher.model.fleet import Hosting, fleet
from launcher.model.units import HOURS_PER_MONTH
from launcher.model.workload import ServingWorkload
from launcher.pricing.serving.traffic import requests_per_month

DAY = (0.0,) * 8 + (10.0,) * 8 + (1.0,) * 8


def serve(**changes):
    return ServingWorkload(model="llama-3.1-8b", **changes)


def test_instances_of_an_hour_are_requests_divided_by_the_utilization_target():
    load = fleet(serve(hourly_requests_per_s=DAY), 2.0)
    assert load.instances.most == 8
    assert load.instances.least == 1
    assert load.hours == pytest.approx((8 + 8 * 8 + 8) / 24 * HOURS_PER_MONTH)
    assert load.used_hours == pytest.approx(sum(DAY) / 24 / 2.0 * HOURS_PER_MONTH)
    assert FILLED >= 10.0 / (8 * 2.0)


def test_requests_per_month_are_the_hourly_rates_times_730_hours():
    assert requests_per_month(serve(requests_per_s=1.0)) == 3600 * 730
    assert requests_per_month(serve(hourly_requests_per_s=DAY)) == pytest.approx(88 / 24 * 3600 * 730)


def test_minimum_and_zones_set_the_instances_without_requests():
    assert fleet(serve(requests_per_s=0, min_instances=2), 1.0).instances.mean == 2
    assert fleet(serve(requests_per_s=0.1, zones=3), 1.0).instances.most == 3


def test_no_requests_and_no_minimum_run_no_instances():
    load = fleet(serve(requests_per_s=0, min_instances=0), 1.0)
    assert (load.hours, load.instances.most, load.deployment_hours) == (0, 0, 0)


def test_rare_requests_are_billed_for_the_time_an_instance_stays_up():
    rare = fleet(serve(requests_per_s=1 / 36_000, min_instances=0), 1.0)
    assert rare.hours == pytest.approx(HOURS_PER_MONTH * 0.0488, rel=0.01)
    often = fleet(serve(requests_per_s=0.1, min_instances=0), 1.0)
    assert often.hours == pytest.approx(HOURS_PER_MONTH, rel=1e-6)


def test_deployment_doubles_few_instances_and_rolls_through_many():
    one, many = serve(requests_per_s=0.1), serve(requests_per_s=10)
    assert fleet(one, 1.0).deployment_hours == pytest.approx(1 * 0.75 * 2)
    assert fleet(many, 1.0).deployment_hours == pytest.approx(15 * 0.75 * 2)
    half, quarter = serve(requests_per_s=10, min_instances=2), serve(requests_per_s=10, min_instances=4)
    assert fleet(half, 1.0).deployment_hours == pytest.approx(8 * 0.75 * 2)
    assert fleet(quarter, 1.0).deployment_hours == pytest.approx(4 * 0.75 * 2)
    whole = serve(requests_per_s=10, min_instances=4, deployment=Rollout.ALL_AT_ONCE)
    assert fleet(whole, 1.0).deployment_hours == pytest.approx(15 * 0.75 * 2)


def test_components_are_replaced_in_steps_of_copies_and_pods_in_place():
    many = serve(requests_per_s=10)
    assert fleet(many, 1.0, Hosting(EndpointMode.COMPONENTS, 3)).deployment_hours == pytest.approx(8 * 0.75 * 2)
    assert fleet(many, 1.0, Hosting(EndpointMode.COMPONENTS, 4)).deployment_hours == pytest.approx(4 * 0.75 * 2)
    assert fleet(many, 1.0, Hosting(None, 3)).deployment_hours == 0
    assert fleet(serve(requests_per_s=0.1), 1.0, Hosting(None, 1)).deployment_hours == pytest.approx(1 * 0.75 * 2)


@given(
    shape=st.lists(st.floats(0, 100), min_size=24, max_size=24),
    more=st.lists(st.floats(0, 100), min_size=24, max_size=24),
    full=st.floats(0.01, 50),
    least=st.integers(0, 3),
)
def test_more_traffic_never_needs_fewer_instances(shape, more, full, least):
    little = fleet(serve(hourly_requests_per_s=tuple(shape), min_instances=least), full)
    much = fleet(
        serve(hourly_requests_per_s=tuple(a + b for a, b in zip(shape, more, strict=True)), min_instances=least), full
    )
    assert much.hours >= little.hours
    assert much.deployment_hours >= little.deployment_hours
    assert much.instances.most >= little.instances.most
