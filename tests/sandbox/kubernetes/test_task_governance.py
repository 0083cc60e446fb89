"""HyperPod's task governance in the sandbox: what a team's quota creates, and refusals of namespace and SageMaker."""

from datetime import UTC, datetime

import boto3
import pytest
from moto import mock_aws
from moto.sagemaker.models import sagemaker_backends

from launcher.model.job import JobState
from launcher.sandbox.aws import task_governance
from launcher.sandbox.aws.model import Requested, ResourceRefusedError
from launcher.sandbox.aws.pod_cluster import EmulatedPodCluster
from launcher.sandbox.kubernetes import hosted
from launcher.sandbox.kubernetes.statuses import RefusedError
from launcher.submit.kubernetes.connection import ApiEndpoint, to_endpoint
from launcher.submit.kubernetes.jobs import KubernetesJobs

ACCOUNT, REGION, SPACE = "123456789012", "us-east-1", "hyperpod-ns-research"
ARN = f"arn:aws:sagemaker:{REGION}:{ACCOUNT}:cluster/abcdefghijkl"
EKS_ARN = f"arn:aws:eks:{REGION}:{ACCOUNT}:cluster/slipway-x"
POLICY = {
    "Name": "slipway-x",
    "ClusterArn": ARN,
    "SchedulerConfig": {"FairShare": "Enabled", "PriorityClasses": [{"Name": "training", "Weight": 70}]},
}
QUOTA = {
    "Name": "slipway-x",
    "ClusterArn": ARN,
    "ComputeQuotaTarget": {"TeamName": "research"},
    "ComputeQuotaConfig": {
        "ComputeQuotaResources": [{"InstanceType": "ml.p5.48xlarge", "Count": 1}],
        "PreemptTeamTasks": "LowerPriority",
        "ResourceSharingConfig": {"Strategy": "Lend"},
    },
}


class Hosts:
    """Puts what is asked for into one cluster."""

    def __init__(self, cluster):
        self._api = cluster.api

    def put(self, name, objects):
        assert name == "slipway-x"
        for object_ in objects:
            hosted.put(self._api, object_)


@pytest.fixture
def models(cluster):
    request = {
        "ClusterName": "slipway-x",
        "Orchestrator": {"Eks": {"ClusterArn": EKS_ARN}},
        "InstanceGroups": [{"InstanceGroupName": "workers", "InstanceType": "ml.p5.48xlarge", "InstanceCount": 2}],
    }
    with mock_aws():
        task_governance.install()
        sagemaker_backends[ACCOUNT][REGION].clusters["slipway-x"] = EmulatedPodCluster(
            request=request,
            region_name=REGION,
            account_id=ACCOUNT,
            cluster_id="abcdefghijkl",
            tags=[],
            creation_time=datetime.now(UTC),
        )
        resource_models = task_governance.TaskGovernance(Hosts(cluster)).models()
        yield {model.type.rpartition("::")[2]: model for model in resource_models}


def request_values(kind, properties):
    return Requested(
        type=f"AWS::SageMaker::{kind}",
        logical_id="X",
        name="x",
        stack_id="s",
        properties=properties,
        account_id=ACCOUNT,
        region_name=REGION,
    )


@pytest.fixture
def governed(models):
    models["ClusterSchedulerConfig"].make(request_values("ClusterSchedulerConfig", POLICY))
    return models["ComputeQuota"].make(request_values("ComputeQuota", QUOTA))


@pytest.fixture
def governed_jobs(cluster):
    token = cluster.tokens.own
    api_connection = to_endpoint(
        ApiEndpoint(name="c", address=cluster.server.address, authority=None, token=lambda: token)
    )
    yield KubernetesJobs(connection=api_connection, namespace=SPACE, kind="Job")
    api_connection.close()


@pytest.fixture
def two_nodes(cluster):
    for number in (1, 2):
        cluster.add_node(f"n{number}", allocatable={"nvidia.com/gpu": "8"})


def objects_of_queue(job, name, *, pods=True, priority=None, gpus="8"):
    manifest = job("sleep 60", name=name, gpus=gpus)
    labels = {"kueue.x-k8s.io/queue-name": f"{SPACE}-localqueue"}
    labels |= {} if priority is None else {"kueue.x-k8s.io/priority-class": priority}
    manifest["metadata"]["namespace"] = SPACE
    manifest["metadata"]["labels"].update(labels)
    if pods:
        manifest["spec"]["template"]["metadata"]["labels"].update(labels)
    return manifest


@pytest.mark.usefixtures("two_nodes", "governed")
def test_compute_quota_is_queue_in_team_namespace(governed_jobs, pod_job, until):
    first = governed_jobs.submit([objects_of_queue(pod_job, "first", priority="training-priority")], "k")
    until(lambda: governed_jobs.facts(first).state is JobState.RUNNING)
    second = governed_jobs.submit([objects_of_queue(pod_job, "second", priority="training-priority")], "k")
    until(lambda: governed_jobs.facts(second).reason.startswith(f"quota: queue {SPACE}-localqueue has not admitted it"))
    governed_jobs.cancel(first)
    until(lambda: governed_jobs.facts(second).state is JobState.RUNNING)


@pytest.mark.usefixtures("two_nodes")
def test_changed_quota_applies_at_once(models, governed, governed_jobs, pod_job, until):
    both = [governed_jobs.submit([objects_of_queue(pod_job, name)], "k") for name in ("first", "second")]
    until(lambda: any(governed_jobs.facts(job).state is JobState.RUNNING for job in both))
    config = {**QUOTA["ComputeQuotaConfig"], "ComputeQuotaResources": [{"InstanceType": "ml.p5.48xlarge", "Count": 2}]}
    models["ComputeQuota"].change(request_values("ComputeQuota", {**QUOTA, "ComputeQuotaConfig": config}), governed)
    until(lambda: all(governed_jobs.facts(job).state is JobState.RUNNING for job in both))


def test_job_without_queue_in_team_namespace_refused(cluster, governed, pod_job):
    kind = next(kind for kind in cluster.api.kinds if kind.kind == "Job")
    manifest = pod_job("true", name="free")
    with pytest.raises(RefusedError, match="queue-name' is either missing or does not have a value set"):
        cluster.api.create(kind, SPACE, manifest)
    cluster.api.create(kind, "default", manifest)


def test_job_with_unlabelled_pods_admitted_without_pods(cluster, governed, governed_jobs, pod_job, until):
    """What one account showed in 2026-10: quota is reserved, the job let in, each of its pods refused."""
    cluster.add_node("n1", allocatable={"nvidia.com/gpu": "8"})
    governed_jobs.submit([objects_of_queue(pod_job, "bare", pods=False)], "k")
    kind = next(kind for kind in cluster.api.kinds if kind.kind == "Job")
    until(lambda: cluster.api.objects.find(kind, SPACE, "bare")["spec"]["suspend"] is False)
    pods = next(kind for kind in cluster.api.kinds if kind.kind == "Pod")
    assert cluster.api.objects.every(pods, SPACE)[0] == []


def test_compute_quota_can_be_described(governed):
    client = boto3.client("sagemaker", region_name=REGION, aws_access_key_id="a", aws_secret_access_key="b")
    quota = client.describe_compute_quota(ComputeQuotaId=governed.attributes["ComputeQuotaId"])
    assert (quota["ClusterArn"], quota["Status"]) == (ARN, "Created")
    assert quota["ComputeQuotaTarget"] == {"TeamName": "research"}


@pytest.mark.parametrize(
    "kind, properties, why",
    [
        ("ComputeQuota", {**QUOTA, "ClusterArn": ARN.replace("abc", "xyz")}, "no HyperPod cluster with EKS"),
        ("ComputeQuota", {**QUOTA, "Namespace": SPACE}, "Namespace"),
        ("ComputeQuota", {**QUOTA, "ComputeQuotaTarget": {"TeamName": "a_b"}}, "does not match pattern"),
        (
            "ComputeQuota",
            {
                **QUOTA,
                "ComputeQuotaConfig": {"ComputeQuotaResources": [{"InstanceType": "ml.p4d.24xlarge", "Count": 1}]},
            },
            "the cluster has no ml.p4d.24xlarge; allowed: ml.p5.48xlarge",
        ),
        (
            "ClusterSchedulerConfig",
            {**POLICY, "SchedulerConfig": {"PriorityClasses": [{"Name": "Training", "Weight": 70}]}},
            "does not match pattern",
        ),
        (
            "ClusterSchedulerConfig",
            {**POLICY, "SchedulerConfig": {"PriorityClasses": [{"Name": "training", "Weight": 101}]}},
            "more than the maximum of 100",
        ),
    ],
)
def test_invalid_quota_or_policy_refused(models, kind, properties, why):
    with pytest.raises(ResourceRefusedError, match=why):
        models[kind].make(request_values(kind, properties))
