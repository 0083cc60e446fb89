"""Idle workers of HyperPod with EKS: the guard's own code removes them, a launch creates them again."""

import io
import json
import secrets
from datetime import UTC, datetime, timedelta

import boto3
import pytest
from botocore.response import StreamingBody
from botocore.stub import ANY, Stubber
from moto import mock_aws
from moto.sagemaker.models import sagemaker_backends

from launcher.aws import hyperpod
from launcher.aws.session import Session
from launcher.sandbox.aws import hyperpod_calls
from launcher.sandbox.aws.pod_cluster import EmulatedPodCluster
from launcher.sandbox.keys import KeyRing
from launcher.sandbox.kubernetes.hosted import HostedKubernetes, PodNodeGroup
from tests.infra.guard_modules import guard_module

pytestmark = pytest.mark.xdist_group("guard")

ACCOUNT, REGION, NAME = "123456789012", "us-east-1", "slipway-x"
NOW = datetime.now(UTC)
KEYS = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing"}


class Hosts:
    """Sizes of node groups in one cluster."""

    def __init__(self, host):
        self._hosted = host

    def resize(self, name, group, count):
        assert name == NAME
        self._hosted.resize(group, count)

    def identify(self, name, group, instance_ids):
        self._hosted.identify(group, instance_ids)


@pytest.fixture
def host(tmp_path):
    environment = {"PATH": "/usr/bin:/bin"}
    hosted_cluster = HostedKubernetes(
        NAME, tmp_path / "kube", mark=secrets.token_hex(8), environment=environment, keys=KeyRing()
    )
    for group, count in (("system", 1), ("workers", 2)):
        hosted_cluster.join(
            PodNodeGroup(
                group=group,
                count=count,
                instance_type="ml.p5.48xlarge",
                capacity_type="ON_DEMAND",
                zone="us-east-1a",
                zone_id="use1-az1",
                room={"cpu": "8"},
                devices={},
                labels={},
                managed=False,
            )
        )
    yield hosted_cluster
    hosted_cluster.stop()


@pytest.fixture
def idle_pods(host, monkeypatch):
    for name, value in {**KEYS, "AWS_DEFAULT_REGION": REGION, "AWS_REGION": REGION}.items():
        monkeypatch.setenv(name, value)
    settings = {"LifeCycleConfig": {"SourceS3Uri": "s3://b/x", "OnCreate": "on_create.sh"}, "ExecutionRole": "arn:x"}
    groups = [
        {"InstanceGroupName": name, "InstanceType": "ml.p5.48xlarge", "InstanceCount": count, **settings}
        for name, count in (("system", 1), ("workers", 2))
    ]
    request = {
        "ClusterName": NAME,
        "Orchestrator": {"Eks": {"ClusterArn": f"arn:aws:eks:{REGION}:{ACCOUNT}:cluster/{NAME}"}},
        "NodeProvisioningMode": "Continuous",
        "InstanceGroups": groups,
    }
    with mock_aws():
        hyperpod_calls.install(None, Hosts(host))
        pod_cluster = EmulatedPodCluster(
            request=request,
            region_name=REGION,
            account_id=ACCOUNT,
            cluster_id="abcdefghijkl",
            tags=[],
            creation_time=NOW - timedelta(hours=5),
        )
        for group in groups:
            for _ in range(group["InstanceCount"]):
                pod_cluster.add(group["InstanceGroupName"])
        sagemaker_backends[ACCOUNT][REGION].clusters[NAME] = pod_cluster
        yield pod_cluster


@pytest.fixture
def idle_guard(idle_pods):
    """The guard an hour from now, with nothing counted in the last half of it; `count` is what it hears now."""
    later = NOW + timedelta(hours=1)
    function, cloudwatch = boto3.client("lambda"), boto3.client("cloudwatch")
    for step in range(1, 7):
        value = {
            "MetricName": "WorkingPods",
            "Dimensions": [{"Name": "Cluster", "Value": "x"}],
            "Timestamp": later - timedelta(minutes=5 * step),
            "Value": 0,
        }
        cloudwatch.put_metric_data(Namespace="Slipway", MetricData=[value])
    topic = boto3.client("sns").create_topic(Name="slipway-x")["TopicArn"]
    variables = {"CLUSTER": "x", "HYPERPOD_EKS": NAME, "STACK": "s", "TOPICS": topic, "AWS_REGION": REGION}
    variables |= {"STATE": "/slipway/s/guard", "PREPAID": "false", "IDLE_MINUTES": "5"}
    with guard_module("hyperpod_eks") as module, Stubber(function) as stub:

        def check(count):
            payload = json.dumps({"pods": count, "stuck": []}).encode()
            answer = {"StatusCode": 200, "Payload": StreamingBody(io.BytesIO(payload), len(payload))}
            stub.add_response("invoke", answer, {"FunctionName": "f", "Payload": ANY})
            clients = {"lambda": function, "cloudwatch": cloudwatch}
            guard = module.HyperPodEksGuard(
                module.Settings.of(variables), lambda name: clients.get(name) or boto3.client(name), later, counter="f"
            )
            nodes = guard.nodes()
            if guard.all_idle(nodes):
                guard.stop("they have been idle for 5 minutes", len(nodes))

        yield check


def names(host, group):
    return {node.name for node in host.nodes() if node.partition == group}


def test_idle_workers_deleted_and_started_again_by_launch(idle_pods, host, idle_guard, until):
    idle_guard(1)
    assert len(names(host, "workers")) == 2, "a pod needs them"
    idle_guard(0)
    until(lambda: not names(host, "workers"))
    assert len(names(host, "system")) == 1
    session = Session(environment=KEYS, region=REGION)
    state = hyperpod.describe_cluster(session, NAME)
    assert {name: (group.current, group.desired) for name, group in state.groups.items()} == {
        "system": (1, 1),
        "workers": (0, 0),
    }
    assert hyperpod.start(session, NAME, "workers", 2)
    until(lambda: len(names(host, "workers")) == 2)
    assert not hyperpod.start(session, NAME, "workers", 2), "nothing is left to do"


@pytest.mark.parametrize(
    "wanted, why",
    [
        ([{"InstanceGroupName": "others", "IncrementTargetCountBy": 1}], "others"),
        ([{"InstanceGroupName": "workers", "IncrementTargetCountBy": 51}], "allowed: 1 to 50"),
    ],
)
def test_invalid_node_addition_refused(idle_pods, wanted, why):
    client = boto3.client("sagemaker")
    with pytest.raises(client.exceptions.ClientError, match=why):
        client.batch_add_cluster_nodes(ClusterName=NAME, NodesToAdd=wanted)
