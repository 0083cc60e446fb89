"""Refusals and remarks of HyperPod with EKS, for new clusters and for jobs on existing ones."""

from dataclasses import replace

import pytest

from launcher.catalog.load import load
from launcher.model import eks
from launcher.model.sizing import HEAD_NODES
from launcher.planning.pin import pinned_plan
from launcher.pricing.idle_tail import NEVER_H, tail_hours, tail_line
from launcher.targets.hyperpod_eks.target import HyperPodEks
from tests.plans import laid_over, request_of

CATALOG = load()
BASE = {
    "slipway": 1,
    "name": "x",
    "target": {"kind": "hyperpod-eks", "region": "us-east-2", "instance_type": "p5.48xlarge", "nodes": 2},
    "purchase": {"option": "on-demand"},
}


def request_and_place(**sections):
    plan = pinned_plan(request_of(laid_over(BASE, sections)), CATALOG)
    return plan.request, plan.place


def codes(findings):
    return [finding.code for finding in findings]


def refused(request, place):
    return codes(HyperPodEks().refusals(request, place, CATALOG.instance_types))


def test_new_and_existing_cluster_plans_accepted():
    assert refused(*request_and_place()) == []
    assert refused(*request_and_place(target={"cluster": "research"}, checkpoint={"uri": "s3://own-bucket/x"})) == []


def test_region_without_health_monitor_image_refused_for_new_cluster():
    request, place = request_and_place()
    assert refused(request, replace(place, region="eu-west-3")) == ["no-health-monitor"]
    assert refused(request, replace(place, region="")) == []
    request, place = request_and_place(target={"cluster": "research"}, checkpoint={"uri": "s3://own-bucket/x"})
    assert refused(request, replace(place, region="eu-west-3")) == []


def test_type_without_device_plugin_refused_for_new_cluster():
    request, place = request_and_place()
    assert refused(request, replace(place, instance_type="trn2.3xlarge")) == ["no-device-plugin"]


@pytest.mark.parametrize("governed", [False, True])
def test_smallest_system_node_holds_all_system_pods(governed):
    pods = eks.CHART_PODS + sum(eks.SYSTEM_PODS[name] for name, _ in eks.hyperpod_addons(governed=governed))
    assert pods <= min(eks.PODS_PER_NODE.values())
    assert {name for _, name in HEAD_NODES} <= set(eks.PODS_PER_NODE)


def test_deep_health_checks_give_remark():
    request, place = request_and_place()
    assert codes(HyperPodEks().remarks(request, place, CATALOG.instance_types)) == ["hyperpod-health-checks"]


def test_idle_tail_counts_guard_wait_and_check_interval():
    """Its idle time, the quarter of an hour more that it waits, half of what lies between two looks."""
    request, place = request_and_place(workload={"train": {"hours": 5}})
    assert tail_hours(place, request, 5.0) == pytest.approx((5 + 15 + 2.5) / 60)
    assert "the guard's 15 minutes more" in tail_line(place, request, 0.4).source
    request, place = request_and_place(workload={"train": {"hours": 5}}, guardrails={"idle_minutes": 0})
    assert tail_hours(place, request, 5.0) == NEVER_H
    request, place = request_and_place(
        workload={"train": {"hours": 5}}, target={"cluster": "research"}, checkpoint={"uri": "s3://own-bucket/x"}
    )
    assert tail_hours(place, request, 5.0) == 1.0, "who has the cluster has its nodes"


QUEUE = "hyperpod-ns-research-localqueue"


def test_team_queue_accepted_with_unconfirmed_remark():
    request, place = request_and_place(target={"region": "us-east-1", "queue": QUEUE, "priority": "training-priority"})
    assert refused(request, place) == []
    assert "task-governance-unconfirmed" in codes(HyperPodEks().remarks(request, place, CATALOG.instance_types))


@pytest.mark.parametrize(
    "target, refusal",
    [
        ({"queue": "gpus"}, "no-team-queue"),
        ({"queue": f"hyperpod-ns-research/{QUEUE}"}, "no-team-queue"),
        ({"queue": "hyperpod-ns--localqueue"}, "no-team-queue"),
        ({"queue": QUEUE, "priority": "high"}, "no-such-priority"),
        ({"queue": QUEUE, "priority": "training"}, "no-such-priority"),
        ({"queue": QUEUE, "region": "us-east-2"}, "no-task-governance"),
    ],
)
def test_queue_outside_task_governance_refused(target, refusal):
    request, place = request_and_place(target={"region": "us-east-1", **target})
    assert refused(request, place) == [refusal]


def test_any_queue_accepted_on_existing_cluster():
    request, place = request_and_place(
        target={"cluster": "research", "queue": "team-a/gpus", "priority": "high"},
        checkpoint={"uri": "s3://own-bucket/x"},
    )
    assert refused(request, place) == []
