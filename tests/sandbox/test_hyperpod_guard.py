"""A HyperPod example in the sandbox: its guard stops its workers, and SageMaker's calls change them.

The guard's code is the deployed function's, out of the bucket of assets, with the function's variables; the moment that
it is called at is the test's.
"""

import io
import json
import os
import shlex
import subprocess
import sys
import time
import zipfile
from datetime import UTC, datetime, timedelta

import pytest
from botocore.exceptions import ClientError

from launcher.aws import stacks
from launcher.aws.session import Session
from launcher.model.enums import TargetKind
from launcher.model.hyperpod import CHECKING
from launcher.model.job import JobState
from launcher.records.submission import SANDBOX, HeadNode, Submission
from launcher.sandbox.sandbox import Sandbox
from launcher.workflow.cluster.guard_stop import NO_STOP, read_guard_stop
from launcher.workflow.deploy.context import DeployOptions
from launcher.workflow.deploy.deployment import deploy_quote
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import pick, price
from tests.sandbox.hyperpod_examples import down, example, remains
from tests.sandbox.slurm_jobs import jobs_on
from tests.waiting import until

REGION = "us-east-2"
CLUSTER, TRAINING = "slipway-trn2-pod", "slipway-trn2-pod-training"
WATCH = """
import os, sys
from datetime import datetime
import boto3
from hyperpod import HyperPodGuard, Settings
HyperPodGuard(Settings.of(os.environ), boto3.client, datetime.fromisoformat(sys.argv[1])).watch()
"""
HANDLE = "import hyperpod; hyperpod.handler({}, None)"
JOB = "#!/bin/bash\n#SBATCH --partition=trn2-48xlarge\n#SBATCH --nodes={nodes}\n#SBATCH --requeue\n{command}\n"
PATIENCE_S, RELEASE_AGAIN_S = 90.0, 10.0
pytestmark = pytest.mark.xdist_group("hyperpod")


class Pod:
    """The example trn2-on-demand, deployed at a made-up rate, with a queue that gets what its guard sends."""

    def __init__(self, sandbox, root):
        self.sandbox, self.root = sandbox, root
        self.session = Session(environment=sandbox.process_environment({}), region=sandbox.region)
        self.sagemaker = self.session.client("sagemaker")
        self.plan = example("trn2-on-demand", root)
        self.lines = []
        priced = price(self.plan, datetime.now(UTC), PriceOptions(any_age=True))
        options = DeployOptions(root=root, sandbox=True, dry_run=False, notify=self.lines.append, emulator=sandbox)
        deploy_quote(priced, *pick(priced, None), options)
        self.outputs = stacks.describe(self.session, TRAINING).outputs
        self.guard, self.variables = self._function()
        sqs = self.session.client("sqs")
        self.queue = sqs.create_queue(QueueName="people")["QueueUrl"]
        arn = sqs.get_queue_attributes(QueueUrl=self.queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        topic = self.outputs["NotifyTopicArn"]
        self.session.client("sns").subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn)

    def _function(self):
        """The folder of the deployed function's code, and its environment."""
        resources = stacks.resources(self.session, TRAINING)
        (name,) = [resource.physical_id for resource in resources if resource.type == "AWS::Lambda::Function"]
        answer = self.session.client("lambda").get_function(FunctionName=name)
        key = answer["Code"]["Location"].rpartition("/")[2]
        bucket = self.outputs["LifecycleUri"].removeprefix("s3://").partition("/")[0]
        archive = self.session.client("s3").get_object(Bucket=bucket, Key=key)["Body"].read()
        with zipfile.ZipFile(io.BytesIO(archive)) as code:
            code.extractall(self.root / "guard")
        return self.root / "guard", answer["Configuration"]["Environment"]["Variables"]

    def called(self, program, *arguments):
        """The deployed guard, run by a program in the place of Lambda; what it prints."""
        environment = {**self.sandbox.process_environment(os.environ), **self.variables, "AWS_REGION": REGION}
        done = subprocess.run(
            [sys.executable, "-c", program, *arguments],
            cwd=self.guard,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def watched(self, moment):
        self.called(WATCH, moment.isoformat())

    def report_jobs(self, moment, *counts):
        """Jobs in the queue every five minutes until a moment, as the controller reports them."""
        data = [
            {
                "MetricName": "QueuedJobs",
                "Dimensions": [{"Name": "Cluster", "Value": "trn2-pod"}],
                "Timestamp": moment - timedelta(minutes=5 * (step + 1)),
                "Value": count,
            }
            for step, count in enumerate(reversed(counts))
        ]
        self.session.client("cloudwatch").put_metric_data(Namespace="Slipway/Nodes/trn2-pod", MetricData=data)

    def messages(self):
        answer = self.session.client("sqs").receive_message(QueueUrl=self.queue, MaxNumberOfMessages=10)
        for message in answer.get("Messages", []):
            self.session.client("sqs").delete_message(QueueUrl=self.queue, ReceiptHandle=message["ReceiptHandle"])
        bodies = [json.loads(message["Body"]) for message in answer.get("Messages", [])]
        return [(body["Subject"], body["Message"]) for body in bodies if "Subject" in body]

    def counts(self):
        """Instances that are there and that are wanted, by group."""
        groups = self.sagemaker.describe_cluster(ClusterName=CLUSTER)["InstanceGroups"]
        return {group["InstanceGroupName"]: (group["CurrentCount"], group["TargetCount"]) for group in groups}

    def workers(self):
        pages = self.sagemaker.list_cluster_nodes(ClusterName=CLUSTER, InstanceGroupNameContains="workers")
        return {summary["InstanceId"] for summary in pages["ClusterNodeSummaries"]}

    def are_checked(self):
        """Whether the deep health checks of all workers have ended."""
        pages = self.sagemaker.list_cluster_nodes(ClusterName=CLUSTER, InstanceGroupNameContains="workers")
        return CHECKING not in {summary["InstanceStatus"]["Status"] for summary in pages["ClusterNodeSummaries"]}

    def start_fleet(self, count=None):
        """Do what the output StartFleet says; `count` in the place of its own number of workers."""
        until(self.are_checked)
        command = shlex.split(self.outputs["StartFleet"])
        assert command[:3] == ["aws", "sagemaker", "update-cluster"]
        given = dict(zip(command[3::2], command[4::2], strict=True))
        assert (given["--region"], given["--cluster-name"]) == (REGION, CLUSTER)
        groups = json.loads(given["--instance-groups"])
        if count is not None:
            groups[0]["InstanceCount"] = count
        return self.sagemaker.update_cluster(ClusterName=given["--cluster-name"], InstanceGroups=groups)["ClusterArn"]

    def submit(self, command, nodes=1):
        script = self.root / "job.sh"
        script.write_text(JOB.format(nodes=nodes, command=command))
        environment = self.sandbox.job_environment(os.environ)
        return self.scheduler.submit(script, folder=self.root, environment=environment)

    @property
    def scheduler(self):
        return jobs_on(self.sandbox, CLUSTER)

    def wait(self, job, *states):
        began = released = time.monotonic()
        while (state := self.scheduler.state(job)) not in states:
            now = time.monotonic()
            assert now < began + PATIENCE_S, (state, states)
            # Slurm's two minutes after a requeue; said at every look, "a second from now" never comes.
            if state is JobState.PENDING and now >= released + RELEASE_AGAIN_S:
                released = now
                self.scheduler.release(job)
            time.sleep(0.2)


@pytest.fixture(scope="module")
def pod(tmp_path_factory):
    with Sandbox(region=REGION, scheduler="auto") as sandbox:
        yield Pod(sandbox, tmp_path_factory.mktemp("guard"))


class TestInOrder:
    """One cluster, from its deployment to its end."""

    def test_cluster_is_verified_against_plan(self, pod):
        assert any("read back and as planned" in line for line in pod.lines), pod.lines
        assert pod.counts() == {"controller": (1, 1), "login": (1, 1), "workers": (4, 4)}
        assert {node.instance_id for node in pod.sandbox.nodes(CLUSTER)} == pod.workers()

    def test_guard_function_counts_workers_and_keeps_workers(self, pod):
        document = json.loads(pod.called(HANDLE))
        assert (document["cluster"], document["RunningNodes"]) == ("trn2-pod", 4)
        assert document["EstimatedSpend"] == pytest.approx(25 * document["NodeHours"])
        assert pod.counts()["workers"] == (4, 4)
        assert pod.messages() == []

    def test_waiting_job_keeps_idle_workers(self, pod):
        moment = datetime.now(UTC) + timedelta(hours=2)
        pod.report_jobs(moment, 0, 0, 0, 1, 0, 0, 0, 0, 0)
        pod.watched(moment)
        assert pod.counts()["workers"] == (4, 4)

    def test_empty_queue_scales_workers_to_zero(self, pod):
        moment = datetime.now(UTC) + timedelta(hours=4)
        pod.report_jobs(moment, *[0] * 9)
        pod.watched(moment)
        assert pod.counts() == {"controller": (1, 1), "login": (1, 1), "workers": (0, 0)}
        assert pod.workers() == set()
        assert pod.sandbox.nodes(CLUSTER) == ()
        ((subject, text),) = pod.messages()
        assert subject == "slipway trn2-pod: workers stopped"
        assert "have been idle for 30 minutes. Its 4 workers are being deleted" in text

    def test_stopped_group_stays_unchanged(self, pod):
        pod.watched(datetime.now(UTC) + timedelta(hours=4))
        assert pod.messages() == []

    def test_start_fleet_output_starts_workers_for_job(self, pod):
        assert pod.start_fleet() == pod.outputs["ClusterArn"]
        assert pod.counts()["workers"] == (4, 4)
        job = pod.submit("srun hostname", nodes=2)
        pod.wait(job, JobState.COMPLETED)
        assert len(pod.scheduler.attempts(job)[-1].nodes) == 2

    def test_end_of_time_to_live_removes_workers_and_requeues_job_with_the_reason(self, pod):
        asked_at = datetime.now(UTC)
        job = pod.submit(f"test -e {pod.root}/began && exit 0; touch {pod.root}/began; sleep 600", nodes=4)
        pod.wait(job, JobState.RUNNING)
        deadline = time.monotonic() + PATIENCE_S
        while not (pod.root / "began").exists():
            assert time.monotonic() < deadline
            time.sleep(0.1)
        pod.watched(datetime.now(UTC) + timedelta(hours=72, minutes=5))
        assert pod.counts()["workers"] == (0, 0)
        ((_, text),) = pod.messages()
        assert "its 72 hours have ended" in text
        pod.wait(job, JobState.PENDING)
        submission = Submission(
            key="k",
            target=TargetKind.HYPERPOD_SLURM,
            head_node=HeadNode(via=SANDBOX, region=REGION),
            cluster="trn2-pod",
            folder="f",
            store_uri="s3://store/jobs",
            checkpoint_uri="s3://store/jobs/trn2-pod",
            work={},
            asked_at=asked_at,
            job=job,
        )
        reach = pod.sandbox.process_environment({})
        assert read_guard_stop(submission, reach, None)[:2] == ("its 72 hours have ended", True)
        pod.start_fleet()
        pod.wait(job, JobState.COMPLETED)
        assert read_guard_stop(submission, reach, datetime.now(UTC)) == NO_STOP
        assert len(pod.scheduler.attempts(job)) == 2

    def test_update_cluster_scales_group_down(self, pod):
        before = pod.workers()
        pod.start_fleet(1)
        assert pod.counts()["workers"] == (1, 1)
        assert pod.workers() < before
        assert {node.instance_id for node in pod.sandbox.nodes(CLUSTER)} == pod.workers()
        pod.start_fleet(2)
        assert pod.counts()["workers"] == (2, 2)
        with pytest.raises(ClientError, match="has 4 nodes in workers, as many as at its start"):
            pod.start_fleet(5)

    def test_workers_deleted_individually_and_controller_refused(self, pod):
        (controller,) = [
            summary["InstanceId"]
            for summary in pod.sagemaker.list_cluster_nodes(ClusterName=CLUSTER)["ClusterNodeSummaries"]
            if summary["InstanceGroupName"] == "controller"
        ]
        worker = min(pod.workers())
        answer = pod.sagemaker.batch_delete_cluster_nodes(
            ClusterName=pod.outputs["ClusterArn"], NodeIds=[worker, controller, "i-0123456789abcdef0"]
        )
        assert answer["Successful"] == [worker]
        codes = {failure["NodeId"]: failure["Code"] for failure in answer["Failed"]}
        assert codes == {controller: "InvalidNodeStatus", "i-0123456789abcdef0": "NodeIdNotFound"}
        assert pod.counts() == {"controller": (1, 1), "login": (1, 1), "workers": (1, 1)}
        with pytest.raises(ClientError, match="controller cannot be deleted"):
            pod.sagemaker.batch_delete_cluster_nodes(ClusterName=CLUSTER, NodeIds=[controller])

    def test_down_retains_only_checkpoints(self, pod):
        assert {resource["kind"] for resource in down(pod.plan, pod.sandbox, pod.root)["kept"]} == {
            "checkpoints",
            "logs",
        }
        remaining = remains(pod.sandbox)
        assert remaining.pop("stacks") == ["slipway-trn2-pod-checkpoints"]
        assert remaining == {name: [] for name in ("schedulers", "clusters", "file systems", "links")}
        with pytest.raises(ClientError, match="ResourceNotFound"):
            pod.sagemaker.describe_cluster(ClusterName=CLUSTER)
