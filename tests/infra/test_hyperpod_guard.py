"""HyperPod's guard as Lambda runs it: the Stubber emulates SageMaker, moto the rest of AWS."""

import json
from contextlib import nullcontext
from datetime import timedelta
from typing import Any

import pytest

from tests.infra.guard_account import LISTED, NOW, HyperPodAccount, client
from tests.infra.guard_account import hyperpod_node as node

pytestmark = pytest.mark.xdist_group("guard")
GUARD, ACCOUNT_KIND = "hyperpod", HyperPodAccount
NAME = "slipway-tiny"
ANY_EVENTS = {
    "ClusterName": NAME,
    "InstanceGroupName": "workers",
    "ResourceType": "Instance",
    "EventTimeAfter": NOW - timedelta(hours=5),
    "SortBy": "EventTime",
    "SortOrder": "Descending",
    "MaxResults": 100,
}


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


def deleted_ids(aws, *numbers, failed=()):
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


CLUSTER_ID = "abc123def456"


class TestFailedBoots:
    REASON = "Lifecycle scripts did not run successfully: exit code 1"

    @pytest.fixture
    def folder(self, aws):
        client("s3").create_bucket(Bucket="store", CreateBucketConfiguration={"LocationConstraint": "us-east-2"})
        return {"FOLDER_URI": "s3://store/jobs/.guard/stack"}

    @pytest.fixture
    def written(self):
        """Write lines of a worker's scripts to CloudWatch, as HyperPod does."""

        def write(number, *lines):
            logs, group = client("logs"), f"/aws/sagemaker/Clusters/{NAME}/{CLUSTER_ID}"
            stream = {"logGroupName": group, "logStreamName": f"LifecycleConfig/workers/i-{number:017x}"}
            logs.create_log_group(logGroupName=group)
            logs.create_log_stream(**stream)
            moment = int(NOW.timestamp() * 1000)
            logs.put_log_events(**stream, logEvents=[{"timestamp": moment, "message": line} for line in lines])

        return write

    @staticmethod
    def described(aws, times=1):
        for _ in range(times):
            arn = f"arn:aws:sagemaker:us-east-2:123456789012:cluster/{CLUSTER_ID}"
            answer = {"ClusterArn": arn, "ClusterStatus": "InService", "InstanceGroups": []}
            aws.stub.add_response("describe_cluster", answer, {"ClusterName": NAME})

    def failed(self, number):
        worker = node(number, status="Failure")
        worker["InstanceStatus"]["Message"] = self.REASON
        return worker

    def test_workers_failed_to_start_reported_once_with_reason_and_last_lines(self, aws, watch, folder, written):
        written(2, *(f"line {number}" for number in range(9)), "on_create.sh: /fsx is not mounted\x1b[0m")
        for _ in range(2):
            aws.answers(node(1), self.failed(2))
            self.described(aws)
        watch(**folder)
        ((subject, text),) = aws.messages
        assert subject == "slipway tiny: workers failed to start"
        assert f"i-{2:017x}: {self.REASON}" in text
        stream = f"--log-stream-names LifecycleConfig/workers/i-{2:017x}"
        log = f"/aws/sagemaker/Clusters/slipway-tiny/{CLUSTER_ID} {stream}"
        assert f"All lines: aws logs tail {log} --since 1d --region us-east-2" in text
        assert "on_create.sh: /fsx is not mounted [0m" in text
        assert "line 5" in text
        assert "line 4" not in text
        watch(**folder)
        assert aws.messages == []

    def test_three_failed_workers_without_running_ones_are_deleted(self, aws, watch, folder):
        workers = [self.failed(number) for number in (1, 2, 3)]
        aws.answers(*workers)
        self.described(aws)
        aws.answers(*workers)
        deleted_ids(aws, 1, 2, 3)
        watch(**folder)
        ((subject, text),) = aws.messages
        assert subject == "slipway tiny: workers stopped"
        assert self.REASON in text
        assert "\nIts 3 workers are being deleted" in text
        verdict = client("s3").get_object(Bucket="store", Key="jobs/.guard/stack/sent/stopped.json")
        stop = json.loads(verdict["Body"].read())
        assert self.REASON in stop["text"]
        assert stop["jobs_wait"] is False

    def test_unreadable_log_stops_failed_workers_anyway(self, aws, watch, folder):
        workers = [self.failed(number) for number in (1, 2, 3)]
        aws.answers(*workers)
        aws.stub.add_client_error("describe_cluster", "AccessDeniedException")
        aws.answers(*workers)
        deleted_ids(aws, 1, 2, 3)
        watch(fails="read the log of its workers", **folder)
        (text,) = [text for subject, text in aws.messages if subject == "slipway tiny: workers stopped"]
        assert "(the guard could not read the log)" in text

    def test_failed_workers_of_training_plan_reported_without_deletion(self, aws, watch, folder):
        aws.answers(*(self.failed(number) for number in (1, 2, 3)))
        self.described(aws)
        watch(PREPAID="true", **folder)
        assert [subject for subject, _ in aws.messages] == ["slipway tiny: workers failed to start"]

    def test_failed_workers_beside_running_workers_are_kept(self, aws, watch, folder):
        aws.answers(node(9), *(self.failed(number) for number in (1, 2, 3)))
        self.described(aws)
        watch(**folder)
        assert [subject for subject, _ in aws.messages] == ["slipway tiny: workers failed to start"]


class TestReplacedBoots:
    """Continuous provisioning: SageMaker lists no failed worker; its events name them."""

    FAILED = "Instance lifecycle script execution for EC2 Instance {} has Failed. To view lifecycle script logs, visit"
    NOT_MADE = "Instance creation {} in Cluster slipway-tiny and IG workers failed"
    READY = "Instance creation {} in Cluster slipway-tiny and IG workers completed successfully"
    ON_THE_WAY = "Instance lifecycle script execution for EC2 Instance {} has Started"
    OTHER = "Failed to terminate EC2 Instance {} in Cluster slipway-tiny and IG workers"

    @pytest.fixture(autouse=True)
    def continuous(self, monkeypatch):
        monkeypatch.setenv("CONTINUOUS", "true")

    @pytest.fixture
    def folder(self, aws):
        client("s3").create_bucket(Bucket="store", CreateBucketConfiguration={"LocationConstraint": "us-east-2"})
        return {"FOLDER_URI": "s3://store/jobs/.guard/stack"}

    @pytest.fixture
    def look(self, aws, watch, folder):
        """Check once: the nodes as listed, and the events (minutes ago, number of the worker, words, reason)."""

        def check(nodes, events, *, reads=(), stops=None, **variables):
            listing = {**LISTED, "IncludeNodeLogicalIds": True}
            aws.stub.add_response("list_cluster_nodes", {"ClusterNodeSummaries": nodes}, listing)
            shown = [self.event(*event[:3]) for event in events]
            aws.stub.add_response("list_cluster_events", {"Events": shown}, ANY_EVENTS)
            for number, reason in reads:
                details = self.event(1, number, self.FAILED)
                details["EventDetails"] = {"EventMetadata": {"Instance": {"FailureMessage": reason}}}
                aws.stub.add_response("describe_cluster_event", {"EventDetails": details})
            if reads and any("capacity" not in reason for _, reason in reads):
                TestFailedBoots.described(aws)
            if stops:
                aws.stub.add_response("list_cluster_nodes", {"ClusterNodeSummaries": nodes}, listing)
                aws.stub.add_response("batch_delete_cluster_nodes", {}, {"ClusterName": NAME, **stops})
            watch(**folder, **variables)
            return aws.messages

        return check

    @staticmethod
    def event(minutes, number, words):
        id_ = f"i-{number:017x}"
        return {
            "EventId": f"{number:08x}-0000-4000-8000-{minutes:012x}",
            "ClusterArn": f"arn:aws:sagemaker:us-east-2:123456789012:cluster/{CLUSTER_ID}",
            "ClusterName": NAME,
            "InstanceGroupName": "workers",
            "InstanceId": id_,
            "ResourceType": "Instance",
            "EventTime": NOW - timedelta(minutes=minutes),
            "EventLevel": "Error",
            "Description": words.format(id_),
        }

    def test_three_replaced_workers_stop_the_group_with_those_never_started(self, look):
        # As with two workers of which one runs: the other one was tried three times, and is being tried again.
        waiting = {**node(4, status="Pending"), "InstanceId": "", "NodeLogicalId": "logical-4"}
        events = [
            *((5 * number, number, self.OTHER) for number in (1,)),
            *((10 * number, number, self.NOT_MADE) for number in (1, 2, 3)),
            *((10 * number + 1, number, self.FAILED) for number in (1, 2, 3)),
            (200, 9, self.READY),
            (210, 8, self.FAILED),
        ]
        stops = {"NodeIds": [f"i-{9:017x}"], "NodeLogicalIds": ["logical-4"]}
        error = "Lifecycle scripts did not run successfully. To view logs, visit log group."
        whole = 'Instance i-{} failed to provision with the following error: "{}" Note that'
        reads = [(number, whole.format(number, error)) for number in (1, 2, 3)]
        ((subject, text),) = look([node(9), waiting], events, reads=reads, stops=stops)
        assert subject == "slipway tiny: workers stopped"
        assert "3 workers failed to start" in text
        named = ", ".join(f"i-{number:017x}" for number in (1, 2, 3))
        assert f"{named}: Lifecycle scripts did not run successfully.\n" in text
        verdict = client("s3").get_object(Bucket="store", Key="jobs/.guard/stack/sent/stopped.json")
        assert "3 workers failed" in json.loads(verdict["Body"].read())["text"]

    def test_missing_capacity_is_no_failed_start(self, look):
        reads = [(number, "We currently do not have sufficient capacity to launch") for number in (1, 2, 3)]
        events = [(10 * number, number, self.NOT_MADE) for number in (1, 2, 3)]
        assert look([node(9)], events, reads=reads) == []

    def test_worker_that_started_shortly_ago_shows_that_others_can(self, look):
        events = [(5, 9, self.READY), *((10 * number, number, self.FAILED) for number in (1, 2, 3))]
        assert look([node(9)], events) == []

    def test_started_scripts_and_other_failures_are_no_failed_starts(self, look):
        events = [(number, number, words) for number in (1, 2, 3) for words in (self.ON_THE_WAY, self.OTHER)]
        assert look([node(9)], events) == []

    def test_two_replaced_workers_are_named_and_none_stopped(self, look):
        events = [(10 * number, number, self.FAILED) for number in (1, 2)]
        reads = [(number, "EFA health checks did not run successfully.") for number in (1, 2)]
        ((subject, text),) = look([node(9)], events, reads=reads)
        assert subject == "slipway tiny: workers failed to start"
        assert "EFA health checks" in text


class TestTime:
    def test_workers_deleted_at_end_of_time_to_live(self, aws, watch):
        aws.answers(node(1), node(2), times=2)
        deleted_ids(aws, 1, 2)
        watch(age_h=48.1, TTL_HOURS="48")
        ((subject, text),) = aws.messages
        assert subject == "slipway tiny: workers stopped"
        assert "its 48 hours have ended. Its 2 workers are being deleted" in text
        assert "StartFleet" in text

    def test_undeletable_workers_are_named(self, aws, watch):
        aws.answers(node(1), node(2), times=2)
        deleted_ids(aws, 1, 2, failed=[1])
        watch(age_h=49, TTL_HOURS="48", fails="in use")
        stopped, failed = (text for _, text in aws.messages)
        assert "Its 1 worker is being deleted" in stopped
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
        deleted_ids(aws, *range(50))
        deleted_ids(aws, *range(50, 64))
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
        deleted_ids(aws, 1)
        watch(IDLE_MINUTES="30")
        assert "has been idle for 30 minutes" in aws.messages[0][1]

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
            deleted_ids(aws, 1)
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
        deleted_ids(aws, 1)
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
