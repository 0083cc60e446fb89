"""HyperPod's guard as Lambda runs it: the Stubber emulates SageMaker, moto the rest of AWS."""

import json
from contextlib import nullcontext
from datetime import timedelta
from typing import Any

import pytest

from tests.infra.guard_account import NOW, HyperPodAccount, client
from tests.infra.guard_account import hyperpod_node as node

pytestmark = pytest.mark.xdist_group("guard")
GUARD, ACCOUNT_KIND = "hyperpod", HyperPodAccount
NAME = "slipway-tiny"


@pytest.fixture
def watch(module, aws):
    """Watch a cluster that was deployed so many hours ago."""

    def start(age_h=5.0, *, fails=None, **variables):
        settings = aws.settings(module, **{"HYPERPOD": NAME, "IDLE_MINUTES": "0", **variables})
        guard = module.HyperPodGuard(settings, aws.client, NOW)
        guard.deployed_at = lambda: NOW - timedelta(hours=age_h)
        with nullcontext() if fails is None else pytest.raises(Exception, match=fails):
            guard.watch()
        return guard

    return start


def deleted(aws, *numbers, failed=()):
    ids = [f"i-{number:017x}" for number in numbers]
    answer: dict[str, list[Any]] = {"Successful": ids}
    if failed:
        answer["Failed"] = [
            {"Code": "NodeIdInUse", "Message": "in use", "NodeId": f"i-{number:017x}"} for number in failed
        ]
    aws.stub.add_response("batch_delete_cluster_nodes", answer, {"ClusterName": NAME, "NodeIds": ids})


class TestCounting:
    def test_only_running_workers_count_as_nodes(self, aws, watch):
        aws.answers(
            node(1),
            node(2, status="DeepHealthCheckInProgress"),
            node(3, status="ShuttingDown"),
            node(4, group="workers-2"),
        )
        watch(USD_PER_NODE_HOUR="10")
        assert aws.metric("RunningNodes") == [2]

    def test_missing_cluster_is_no_failure(self, aws, watch):
        aws.stub.add_client_error("list_cluster_nodes", "ResourceNotFound")
        watch()
        assert aws.messages == []


class TestFailedBoots:
    REASON = "Lifecycle scripts did not run successfully: exit code 1"

    @pytest.fixture
    def folder(self, aws):
        client("s3").create_bucket(Bucket="store", CreateBucketConfiguration={"LocationConstraint": "us-east-2"})
        return {"FOLDER_URI": "s3://store/jobs/.guard/stack"}

    def failed(self, number):
        worker = node(number, status="Failure")
        worker["InstanceStatus"]["Message"] = self.REASON
        return worker

    def test_workers_failed_to_start_reported_once_with_sagemaker_reason(self, aws, watch, folder):
        aws.answers(node(1), self.failed(2), times=2)
        watch(**folder)
        ((subject, text),) = aws.messages
        assert subject == "slipway tiny: workers failed to start"
        assert f"i-{2:017x}: {self.REASON}" in text
        assert "/aws/sagemaker/Clusters/slipway-tiny/" in text
        watch(**folder)
        assert aws.messages == []

    def test_three_failed_workers_without_running_ones_are_deleted(self, aws, watch, folder):
        aws.answers(*(self.failed(number) for number in (1, 2, 3)), times=2)
        deleted(aws, 1, 2, 3)
        watch(**folder)
        ((subject, text),) = aws.messages
        assert subject == "slipway tiny: workers stopped"
        assert self.REASON in text
        verdict = client("s3").get_object(Bucket="store", Key="jobs/.guard/stack/told/failed-boots.json")
        assert self.REASON in json.loads(verdict["Body"].read())["text"]

    def test_failed_workers_of_training_plan_reported_without_deletion(self, aws, watch, folder):
        aws.answers(*(self.failed(number) for number in (1, 2, 3)))
        watch(PREPAID="true", **folder)
        assert [subject for subject, _ in aws.messages] == ["slipway tiny: workers failed to start"]

    def test_failed_workers_beside_running_workers_are_kept(self, aws, watch, folder):
        aws.answers(node(9), *(self.failed(number) for number in (1, 2, 3)))
        watch(**folder)
        assert [subject for subject, _ in aws.messages] == ["slipway tiny: workers failed to start"]


class TestTime:
    def test_workers_deleted_at_end_of_time_to_live(self, aws, watch):
        aws.answers(node(1), node(2), times=2)
        deleted(aws, 1, 2)
        watch(age_h=48.1, TTL_HOURS="48")
        ((subject, text),) = aws.messages
        assert subject == "slipway tiny: workers stopped"
        assert "its 48 hours have ended. Its 2 workers are being deleted" in text
        assert "StartFleet" in text

    def test_undeletable_workers_are_named(self, aws, watch):
        aws.answers(node(1), node(2), times=2)
        deleted(aws, 1, 2, failed=[1])
        watch(age_h=49, TTL_HOURS="48", fails="in use")
        stopped, failed = (text for _, text in aws.messages)
        assert "Its 1 workers are being deleted" in stopped
        assert "could not stop its nodes: i-00000000000000001: in use" in failed

    def test_refused_deletion_is_reported(self, aws, watch):
        aws.answers(node(1), node(2), times=2)
        aws.stub.add_client_error("batch_delete_cluster_nodes", "ConflictException", "the cluster is being updated")
        watch(age_h=49, TTL_HOURS="48", fails="ConflictException")
        ((subject, text),) = aws.messages
        assert subject == "slipway tiny: the guard could not act"
        assert "the cluster is being updated" in text
        assert "slipway down tiny" in text

    def test_many_workers_deleted_in_batches_of_50(self, aws, watch):
        aws.answers(*(node(number) for number in range(64)), times=2)
        deleted(aws, *range(50))
        deleted(aws, *range(50, 64))
        watch(age_h=49, TTL_HOURS="48")

    def test_empty_worker_group_is_unchanged(self, aws, watch):
        aws.answers(times=2)
        watch(age_h=49, TTL_HOURS="48")
        assert aws.messages == []

    def test_training_plan_keeps_running_and_end_is_announced(self, aws, watch):
        aws.answers(node(1))
        ends = (NOW + timedelta(minutes=28)).isoformat()
        watch(age_h=60, TTL_HOURS="48", PREPAID="true", ENDS_AT=ends)
        assert [subject for subject, _ in aws.messages] == ["slipway tiny: training plan ends"]


class TestIdleness:
    def test_empty_queue_deletes_workers(self, aws, watch):
        aws.answers(node(1), times=2)
        aws.earlier("QueuedJobs", *[0] * 9)
        deleted(aws, 1)
        watch(IDLE_MINUTES="30")
        assert "have been idle for 30 minutes" in aws.messages[0][1]

    def test_waiting_job_keeps_workers(self, aws, watch):
        aws.answers(node(1))
        aws.earlier("QueuedJobs", 0, 0, 0, 0, 0, 0, 1, 0, 0)
        watch(IDLE_MINUTES="30")
        assert aws.messages == []

    @pytest.mark.parametrize("still, stops", [(20, False), (40, True)])
    def test_hung_job_does_not_keep_workers(self, aws, watch, still, stops):
        aws.answers(node(1), times=1 + stops)
        aws.earlier("QueuedJobs", *[1] * 9)
        aws.earlier("JobStillMinutes", still)
        if stops:
            deleted(aws, 1)
        watch(IDLE_MINUTES="30", HUNG_MINUTES="30")
        assert ["its job in Slurm shows no CPU" in text for _, text in aws.messages] == [True] * stops

    def test_queue_unreported_for_an_hour_is_reported(self, aws, watch):
        aws.answers(node(1))
        watch(IDLE_MINUTES="30", fails="has not reported its queue for an hour")
        ((subject, text),) = aws.messages
        assert subject == "slipway tiny: the guard could not act"
        assert "idle workers are not stopped" in text

    def test_workers_deleted_by_time_limit_not_checked_for_idleness(self, aws, watch):
        aws.answers(node(1), times=2)
        deleted(aws, 1)
        watch(age_h=49, TTL_HOURS="48", IDLE_MINUTES="30")
        assert [subject for subject, _ in aws.messages] == ["slipway tiny: workers stopped"]

    def test_few_queue_metrics_do_not_count_as_idle(self, aws, watch):
        aws.answers(node(1))
        aws.earlier("QueuedJobs", 0, 0, 0)
        watch(IDLE_MINUTES="30")
        assert aws.messages == []

    def test_young_workers_are_not_idle(self, aws, watch):
        aws.answers(node(1), node(2, age_h=0.5))
        aws.earlier("QueuedJobs", *[0] * 9)
        watch(IDLE_MINUTES="30")
        assert aws.messages == []
