"""HyperPod's guard as Lambda runs it: SageMaker answers through the Stubber, the rest of AWS is played by moto."""

import re
from datetime import timedelta
from typing import Any

import pytest

from tests.infra.guard_account import NOW, REGION, ManagedAccount, account_of
from tests.infra.guard_modules import guard_module

pytestmark = pytest.mark.xdist_group("guard")

NAME = "slipway-tiny"
LISTED = {"ClusterName": NAME, "InstanceGroupNameContains": "workers"}


@pytest.fixture(scope="module")
def module():
    with guard_module("hyperpod") as found:
        yield found


class Account(ManagedAccount):
    def answers(self, *nodes, times=1):
        for _ in range(times):
            self.stub.add_response("list_cluster_nodes", {"ClusterNodeSummaries": list(nodes)}, LISTED)


@pytest.fixture
def aws(monkeypatch):
    with account_of(monkeypatch, Account) as account:
        yield account


def node(number, *, group="workers", status="Running", age_h=5.0):
    return {
        "InstanceGroupName": group,
        "InstanceId": f"i-{number:017x}",
        "InstanceType": "ml.p5.48xlarge",
        "LaunchTime": NOW - timedelta(hours=age_h),
        "InstanceStatus": {"Status": status},
    }


@pytest.fixture
def watch(module, aws):
    """Watch a cluster that was deployed so many hours ago."""

    def start(age_h=5.0, **variables):
        told = {"CLUSTER": "tiny", "HYPERPOD": NAME, "STACK": "x", "TOPICS": aws.topic, "AWS_REGION": REGION}
        settings = module.Settings.of({**told, "PREPAID": "false", "IDLE_MINUTES": "30", **variables})
        guard = module.HyperPodGuard(settings, aws.client, NOW)
        guard.deployed_at = lambda: NOW - timedelta(hours=age_h)
        guard.watch()
        return guard

    return start


def deleted(aws, *numbers, failed=()):
    ids = [f"i-{each:017x}" for each in numbers]
    answer: dict[str, list[Any]] = {"Successful": ids}
    if failed:
        answer["Failed"] = [{"Code": "NodeIdInUse", "Message": "in use", "NodeId": f"i-{each:017x}"} for each in failed]
    aws.stub.add_response("batch_delete_cluster_nodes", answer, {"ClusterName": NAME, "NodeIds": ids})


class TestCounting:
    def test_workers_that_are_there_count(self, aws, watch):
        aws.answers(
            node(1),
            node(2, status="DeepHealthCheckInProgress"),
            node(3, status="ShuttingDown"),
            node(4, group="workers-2"),
        )
        watch(USD_PER_NODE_HOUR="10")
        assert aws.metric("RunningNodes") == [2]

    def test_a_cluster_that_is_not_made_yet_is_no_failure(self, aws, watch):
        aws.stub.add_client_error("list_cluster_nodes", "ResourceNotFound")
        watch()
        assert aws.messages == []


class TestTime:
    def test_workers_are_deleted_when_it_is_over(self, aws, watch):
        aws.answers(node(1), node(2), times=2)
        deleted(aws, 1, 2)
        watch(age_h=48.1, TTL_HOURS="48")
        ((subject, text),) = aws.messages
        assert subject == "slipway tiny: workers stopped"
        assert "its 48 hours are over. Its 2 workers are being deleted" in text
        assert "StartFleet" in text

    def test_those_that_stay_are_named(self, aws, watch):
        aws.answers(node(1), times=2)
        deleted(aws, 1, failed=[1])
        watch(age_h=49, TTL_HOURS="48")
        assert "\nto be tried again, i-00000000000000001: in use\n" in aws.messages[0][1]

    def test_a_cluster_that_takes_no_deletion_now_is_told_of(self, aws, watch):
        aws.answers(node(1), node(2), times=2)
        aws.stub.add_client_error("batch_delete_cluster_nodes", "ConflictException", "the cluster is being updated")
        watch(age_h=49, TTL_HOURS="48")
        ((_, text),) = aws.messages
        told = re.search(r"\nto be tried again, i-0+1, i-0+2: (.*)\n", text)
        assert told is not None
        assert "the cluster is being updated" in told[1]

    def test_many_are_deleted_in_several_calls(self, aws, watch):
        aws.answers(*(node(each) for each in range(64)), times=2)
        deleted(aws, *range(50))
        deleted(aws, *range(50, 64))
        watch(age_h=49, TTL_HOURS="48")

    def test_an_empty_group_is_left_alone(self, aws, watch):
        aws.answers(times=2)
        watch(age_h=49, TTL_HOURS="48")
        assert aws.messages == []

    def test_a_training_plan_is_left_running_and_its_end_announced(self, aws, watch):
        aws.answers(node(1))
        ends = (NOW + timedelta(minutes=28)).isoformat()
        watch(age_h=60, TTL_HOURS="48", PREPAID="true", ENDS_AT=ends)
        assert [subject for subject, _ in aws.messages] == ["slipway tiny: training plan ends"]


class TestIdleness:
    def test_an_empty_queue_stops_the_workers(self, aws, watch):
        aws.answers(node(1), times=2)
        aws.earlier("QueuedJobs", *[0] * 9)
        deleted(aws, 1)
        watch()
        assert "have done nothing for 30 minutes" in aws.messages[0][1]

    def test_a_job_that_waits_keeps_them(self, aws, watch):
        aws.answers(node(1))
        aws.earlier("QueuedJobs", 0, 0, 0, 0, 0, 0, 1, 0, 0)
        watch()
        assert aws.messages == []

    def test_a_silent_controller_says_nothing(self, aws, watch):
        aws.answers(node(1))
        aws.earlier("QueuedJobs", 0, 0, 0)
        watch()
        assert aws.messages == []

    def test_young_workers_are_not_judged(self, aws, watch):
        aws.answers(node(1), node(2, age_h=0.5))
        aws.earlier("QueuedJobs", *[0] * 9)
        watch()
        assert aws.messages == []
