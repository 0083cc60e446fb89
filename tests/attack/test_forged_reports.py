"""Reports that a job forges in the store for a guard: they stop no other cluster's work, and delay no limit of money.

The guards' own code with moto; SageMaker's answers come from botocore's Stubber, which refuses every other call.
"""

import json
from datetime import timedelta

import pytest
from moto.s3.models import s3_backends

from tests.infra.guard_account import (
    ACCOUNT,
    LISTED,
    NOW,
    HyperPodAccount,
    ManagedAccount,
    SlurmAccount,
    account_of,
    client,
    hyperpod_node,
    launch_as,
)
from tests.infra.guard_modules import guard_module

pytestmark = pytest.mark.xdist_group("guard")

BUCKET, FOLDER = "shared-store", "team/.guard/stack"
JOB, ARN = "slipway-tiny-1", "arn:aws:sagemaker:us-east-2:123456789012:training-job/slipway-tiny-1"
LIMITS = {"FOLDER_URI": f"s3://{BUCKET}/{FOLDER}", "HUNG_MINUTES": "30", "IDLE_MINUTES": "60"}
SHARED = {"SHARED_STORE": "true"}


def forge(still_minutes, parts=2):
    """Replace the heartbeats of a cluster's job."""
    for part in range(parts):
        beat = {"schema": "slipway.heartbeat/1", "job": "tiny", "still_s": still_minutes * 60, "over": False}
        key = f"{FOLDER}/messages/running/run-{part}.json"
        client("s3").put_object(Bucket=BUCKET, Key=key, Body=json.dumps(beat).encode())


def bucket():
    client("s3").create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": "us-east-2"})


class TrainingAccount(ManagedAccount):
    """An account with one training job on two instances."""

    def look(self):
        """Answer one look at the jobs."""
        status = {"CreationTime": NOW, "TrainingJobStatus": "InProgress"}
        summary = {"TrainingJobName": JOB, "TrainingJobArn": ARN, **status}
        self.stub.add_response(
            "list_training_jobs", {"TrainingJobSummaries": [summary]}, {"StatusEquals": "InProgress"}
        )
        tags = {"Tags": [{"Key": "slipway:cluster", "Value": "tiny"}]}
        self.stub.add_response("list_tags", tags, {"ResourceArn": ARN})
        description = {
            **summary,
            "ModelArtifacts": {"S3ModelArtifacts": "s3://x/y"},
            "SecondaryStatus": "Training",
            "AlgorithmSpecification": {"TrainingInputMode": "File"},
            "ResourceConfig": {"InstanceCount": 2, "InstanceType": "ml.p5.48xlarge", "VolumeSizeInGB": 100},
            "StoppingCondition": {"MaxRuntimeInSeconds": 86400},
            "TrainingStartTime": NOW - timedelta(hours=5),
        }
        self.stub.add_response("describe_training_job", description, {"TrainingJobName": JOB})

    def busy(self, percent, *, host="algo-2"):
        """SageMaker's own metric of the last hour: 100 percent for one busy vCPU."""
        dimensions = [{"Name": "Host", "Value": f"{JOB}/{host}"}]
        metric = {"MetricName": "CPUUtilization", "Dimensions": dimensions, "Value": percent}
        data = [{**metric, "Timestamp": NOW - timedelta(minutes=minute)} for minute in range(1, 60)]
        self.cloudwatch.put_metric_data(Namespace="/aws/sagemaker/TrainingJobs", MetricData=data)


@pytest.mark.parametrize(
    "store, percent, stopped, message",
    [
        (SHARED, 800.0, False, None),
        ({}, 800.0, False, None),
        (SHARED, None, False, "It is not stopped: other plans with the same checkpoint.uri may write such heartbeats"),
        (SHARED, 3.0, True, "is being stopped"),
        ({}, None, True, "is being stopped"),
    ],
)
def test_forged_heartbeats_stop_no_training_job_that_sagemaker_does_not_show_idle(
    monkeypatch, store, percent, stopped, message
):
    with account_of(monkeypatch, TrainingAccount) as account, guard_module("training_jobs") as module:
        bucket()
        forge(45)
        if percent is not None:
            account.busy(percent)
        for look in range(1 if stopped else 2):
            settings = account.settings(module, HYPERPOD="slipway-tiny", **LIMITS, **store)
            guard = module.TrainingJobGuard(settings, account.client, NOW + look * timedelta(minutes=5))
            guard.deployed_at = lambda: NOW - timedelta(hours=6)
            guard.set_retention = bool
            account.look()
            if stopped:
                account.look()
                account.stub.add_response("stop_training_job", {}, {"TrainingJobName": JOB})
            guard.watch()
        assert [message in text for _, text in account.messages] == [True] * (message is not None)


@pytest.mark.parametrize("store, deleted", [(SHARED, False), ({}, True)])
def test_forged_heartbeats_delete_no_workers_of_hyperpod_with_eks(monkeypatch, store, deleted):
    with account_of(monkeypatch, HyperPodAccount) as account, guard_module("hyperpod_eks") as module:
        bucket()
        forge(45)
        account.answers(hyperpod_node(1), times=1 + deleted)
        if deleted:
            ids = {"ClusterName": LISTED["ClusterName"], "NodeIds": [hyperpod_node(1)["InstanceId"]]}
            account.stub.add_response("batch_delete_cluster_nodes", {"Successful": ids["NodeIds"]}, ids)
        settings = account.settings(module, HYPERPOD_EKS="slipway-tiny", **LIMITS, **store)
        guard = module.HyperPodEksGuard(settings, account.client, NOW, workers=1)
        guard.deployed_at = lambda: NOW - timedelta(hours=6)
        guard.watch()
        ((subject, text),) = account.messages
        assert ("workers stopped" in subject) == deleted
        assert ("It is not stopped" in text and "slipway cancel tiny" in text) != deleted


@pytest.mark.parametrize("still, stops", [(45, True), (5, False)])
def test_reports_of_own_nodes_confirm_a_hung_job_in_a_shared_store(monkeypatch, still, stops):
    """Only the cluster's nodes may write to its namespace: Slurm's jobs on HyperPod."""
    with account_of(monkeypatch, HyperPodAccount) as account, guard_module("hyperpod") as module:
        bucket()
        forge(45)
        account.earlier("JobStillMinutes", still)
        account.earlier("QueuedJobs", *[1] * 12)
        account.answers(hyperpod_node(1), times=1 + stops)
        if stops:
            ids = {"ClusterName": LISTED["ClusterName"], "NodeIds": [hyperpod_node(1)["InstanceId"]]}
            account.stub.add_response("batch_delete_cluster_nodes", {"Successful": ids["NodeIds"]}, ids)
        settings = account.settings(module, HYPERPOD="slipway-tiny", **LIMITS, **SHARED)
        guard = module.HyperPodGuard(settings, account.client, NOW)
        guard.deployed_at = lambda: NOW - timedelta(hours=6)
        guard.watch()
        assert len(account.messages) == stops


@pytest.mark.parametrize("limits, stops", [({}, False), ({"TTL_HOURS": "5"}, True)])
def test_forged_activity_keeps_idle_nodes_until_time_to_live_at_most(monkeypatch, limits, stops):
    with account_of(monkeypatch, SlurmAccount) as account, guard_module("guard") as module:
        bucket()
        account.nodes(2)
        forge(0)
        settings = account.settings(module, PARALLELCLUSTER="slipway-tiny", **LIMITS, **SHARED, **limits)
        guard = module.Guard(settings, client, NOW)
        guard.deployed_at = lambda: NOW - timedelta(hours=6)
        guard.all_idle = lambda _nodes: True
        guard.watch()
        assert account.fleet == ("STOP_REQUESTED" if stops else "RUNNING")


LOOKS = tuple(timedelta(minutes=minutes) for minutes in (-10, -5, 0))


def assert_stops_at_last_look(account, guard_at, *, stops):
    """Look as often as contradicted heartbeats need; the workers are deleted at the last look, or never."""
    for number, look in enumerate(LOOKS):
        last = number == len(LOOKS) - 1
        account.answers(hyperpod_node(1), times=1 + (stops and last))
        if stops and last:
            ids = {"ClusterName": LISTED["ClusterName"], "NodeIds": [hyperpod_node(1)["InstanceId"]]}
            account.stub.add_response("batch_delete_cluster_nodes", {"Successful": ids["NodeIds"]}, ids)
        guard = guard_at(NOW + look)
        guard.deployed_at = lambda: NOW - timedelta(hours=6)
        guard.watch()
        assert [subject for subject, _ in account.messages] == ["slipway tiny: workers stopped"] * (stops and last)


@pytest.mark.parametrize(
    "queued, stops",
    [
        # Hours of an empty queue; a job in it; a job of the last minutes; a silent controller.
        ([0] * 24, True),
        ([1] * 24, False),
        ([0] * 23 + [1], False),
        ([0] * 20 + [None] * 4, False),
    ],
)
def test_forged_activity_keeps_no_workers_of_hyperpod_without_a_queued_job(monkeypatch, queued, stops):
    with account_of(monkeypatch, HyperPodAccount) as account, guard_module("hyperpod") as module:
        bucket()
        forge(0)
        for step, jobs in enumerate(reversed(queued), start=1):
            if jobs is not None:
                report = {"MetricName": "QueuedJobs", "Dimensions": [{"Name": "Cluster", "Value": "tiny"}]}
                report |= {"Timestamp": NOW - timedelta(minutes=5 * step), "Value": jobs}
                account.cloudwatch.put_metric_data(Namespace="Slipway/Nodes/tiny", MetricData=[report])
        settings = account.settings(module, HYPERPOD="slipway-tiny", **LIMITS, **SHARED)
        assert_stops_at_last_look(account, lambda at: module.HyperPodGuard(settings, account.client, at), stops=stops)


@pytest.mark.parametrize(
    "counts, stops", [((0, []), True), ((1, []), False), ((0, ["default/a: ErrImagePull"]), False)]
)
def test_forged_activity_keeps_no_workers_of_hyperpod_eks_without_a_pod(monkeypatch, counts, stops):
    pods, stuck = counts
    with account_of(monkeypatch, HyperPodAccount) as account, guard_module("hyperpod_eks") as module:
        bucket()
        forge(0)
        account.earlier("WorkingPods", *[0] * 24, namespace="Slipway")
        monkeypatch.setattr(module, "pods_of", lambda *_, **__: {"pods": pods, "others": 0, "stuck": stuck})
        settings = account.settings(module, HYPERPOD_EKS="slipway-tiny", **LIMITS, **SHARED)

        def guard_at(at):
            return module.HyperPodEksGuard(settings, account.client, at, counter="counter", workers=1)

        assert_stops_at_last_look(account, guard_at, stops=stops)


def test_job_that_forges_failed_boots_ends_its_own_cluster_only(monkeypatch):
    """Real ended nodes of its own cluster, and nodes of another one: only the job's own nodes are stopped."""
    with account_of(monkeypatch, SlurmAccount) as account, guard_module("guard") as module:
        bucket()
        account.nodes(1, cluster="slipway-other")
        (other,) = (
            instance["InstanceId"]
            for reservation in client("ec2").describe_instances()["Reservations"]
            for instance in reservation["Instances"]
        )
        tags = {"parallelcluster:cluster-name": "slipway-tiny", "parallelcluster:node-type": "Compute"}
        nodes = [f"i-{number:017x}" for number in range(1, 4)]
        for number, node in enumerate(nodes):
            at = NOW - timedelta(minutes=40 - 10 * number)
            launch_as(node, at, ended=True, **tags)
            key = f"{FOLDER}/messages/boots/{at + timedelta(minutes=8):%Y%m%dT%H%M%SZ}-{node}-failed.txt"
            client("s3").put_object(Bucket=BUCKET, Key=key, Body=b"slipway: forged")
            s3_backends[ACCOUNT]["aws"].get_object(BUCKET, key).last_modified = at + timedelta(minutes=8)
        settings = account.settings(module, PARALLELCLUSTER="slipway-tiny", **LIMITS, **SHARED)
        guard = module.Guard(settings, client, NOW)
        guard.deployed_at = lambda: NOW - timedelta(hours=6)
        guard.watch()
        assert account.fleet == "STOP_REQUESTED"
        states = client("ec2").describe_instances(InstanceIds=[other])["Reservations"][0]["Instances"][0]["State"]
        assert states["Name"] == "running"
