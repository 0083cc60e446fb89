"""The nodes of Kubernetes with their instances: listed, drained, rebooted and replaced, by the APIs of AWS."""

import json
import re
import secrets
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws
from moto.sagemaker.models import sagemaker_backends

from launcher.aws import hyperpod
from launcher.aws.session import Session
from launcher.model.cluster_nodes import NodeUse
from launcher.model.errors import AwsError
from launcher.sandbox.aws import hyperpod_calls
from launcher.sandbox.aws.pod_cluster import EmulatedPodCluster
from launcher.sandbox.keys import KeyRing
from launcher.sandbox.kubernetes.hosted import HostedKubernetes, PodNodeGroup
from launcher.submit.kubernetes import cluster_nodes
from launcher.submit.kubernetes.connection import ApiEndpoint, to_endpoint
from launcher.submit.kubernetes.shell_pods import ShellPods

pytestmark = pytest.mark.xdist_group("node-instances")

ACCOUNT, REGION, NAME = "123456789012", "us-east-1", "slipway-x"
KEYS = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing"}
GROUP = {"InstanceGroupName": "workers", "InstanceType": "ml.p5.48xlarge", "InstanceCount": 2}


class Hosts:
    """One cluster, by its name."""

    def __init__(self, host):
        self._hosted = host

    def restart(self, name, instance_ids):
        assert name == NAME
        self._hosted.restart(instance_ids)

    def renew_node(self, name, instance_id, new_id):
        assert name == NAME
        self._hosted.renew(instance_id, new_id)


@pytest.fixture
def host(tmp_path):
    environment = {"PATH": "/usr/bin:/bin"}
    cluster = HostedKubernetes(
        NAME, tmp_path / "kube", mark=secrets.token_hex(8), environment=environment, keys=KeyRing()
    )
    cluster.join(
        PodNodeGroup(
            group="workers",
            count=2,
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
    yield cluster
    cluster.stop()


@pytest.fixture
def connection(host):
    own = host._kubernetes.tokens.own
    endpoint = ApiEndpoint(name=NAME, address=host.address, authority=None, token=lambda: own)
    with closing(to_endpoint(endpoint)) as opened:
        yield opened


@pytest.fixture
def session(host):
    """HyperPod's API of a cluster whose instances are the nodes."""
    settings = {"LifeCycleConfig": {"SourceS3Uri": "s3://b/x", "OnCreate": "on_create.sh"}, "ExecutionRole": "arn:x"}
    request = {
        "ClusterName": NAME,
        "Orchestrator": {"Eks": {"ClusterArn": f"arn:aws:eks:{REGION}:{ACCOUNT}:cluster/{NAME}"}},
        "InstanceGroups": [{**GROUP, **settings}],
    }
    with mock_aws():
        hosts = Hosts(host)
        hyperpod_calls.install(hosts, hosts)
        pod = EmulatedPodCluster(
            request=request,
            region_name=REGION,
            account_id=ACCOUNT,
            cluster_id="abcdefghijkl",
            tags=[],
            creation_time=datetime.now(UTC),
        )
        host.identify("workers", [pod.add("workers") for _ in range(2)])
        sagemaker_backends[ACCOUNT][REGION].clusters[NAME] = pod
        boto3.client("sagemaker", region_name=REGION, aws_access_key_id="a", aws_secret_access_key="b")
        yield Session(environment=KEYS, region=REGION)


def until(so):
    deadline = time.monotonic() + 20
    while not (value := so()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return value


def test_nodes_have_hyperpod_instances(session, connection):
    nodes = cluster_nodes.read_nodes(connection)
    assert {node.instance for node in nodes} == {node.id for node in hyperpod.nodes(session, NAME)}
    assert {node.use for node in nodes} == {NodeUse.IDLE}
    assert {node.group for node in nodes} == {"workers"} or {node.group for node in nodes} == {""}


def test_cordoned_node_stays_cordoned_through_reboot_until_resumed(session, connection):
    first, _ = cluster_nodes.read_nodes(connection)
    cluster_nodes.drain(connection, first.name)
    hyperpod.reboot(session, NAME, first.instance)
    again = cluster_nodes.read_nodes(connection)[0]
    assert (again.use, again.instance) == (NodeUse.DRAINED, first.instance)
    cluster_nodes.cordon(connection, first.name, schedulable=True)
    assert cluster_nodes.read_nodes(connection)[0].use is NodeUse.IDLE


def test_replaced_node_has_new_instance_and_accepts_pods(session, connection):
    first, second = cluster_nodes.read_nodes(connection)
    cluster_nodes.drain(connection, first.name)
    hyperpod.replace(session, NAME, first.instance)
    nodes = {node.name: node for node in cluster_nodes.read_nodes(connection)}
    assert nodes[first.name].instance not in (first.instance, second.instance)
    assert nodes[first.name].use is NodeUse.IDLE
    assert nodes[second.name].instance == second.instance
    assert {node.id for node in hyperpod.nodes(session, NAME)} == {node.instance for node in nodes.values()}


def test_events_name_started_instances_of_continuous_cluster_alone(session):
    sagemaker = session.client("sagemaker")
    pod: Any = sagemaker_backends[ACCOUNT][REGION].clusters[NAME]
    with pytest.raises(ClientError, match="NodeProvisioningMode is Continuous"):
        sagemaker.list_cluster_events(ClusterName=NAME)
    pod.request["NodeProvisioningMode"] = "Continuous"
    events = sagemaker.list_cluster_events(ClusterName=NAME, ResourceType="Instance")["Events"]
    assert {event["InstanceId"] for event in events} == set(pod.nodes)
    details = sagemaker.describe_cluster_event(ClusterName=NAME, EventId=events[0]["EventId"])["EventDetails"]
    assert re.fullmatch(r"Instance creation \S+ in Cluster .* completed successfully", details["Description"])
    later = datetime.now(UTC) + timedelta(minutes=1)
    assert sagemaker.list_cluster_events(ClusterName=NAME, EventTimeAfter=later)["Events"] == []


@pytest.mark.parametrize("call", [hyperpod.reboot, hyperpod.replace])
def test_unknown_instance_refused_with_hyperpod_code(session, call):
    with pytest.raises(AwsError, match="InstanceIdNotFound"):
        call(session, NAME, "i-00000000000000000")


def test_more_instances_than_call_limit_refused(session):
    ids = [f"i-{number:017x}" for number in range(26)]
    with pytest.raises(Exception, match="allowed: 1 to 25"):
        session.client("sagemaker").batch_replace_cluster_nodes(ClusterName=NAME, NodeIds=ids)


def test_shell_without_job_is_temporary_pod_on_node(session, connection, capfd):
    first, _ = cluster_nodes.read_nodes(connection)
    cluster_nodes.cordon(connection, first.name)
    pods = ShellPods(connection=connection, namespace="slipway-none-yet", image="busybox", names=(first.name,))
    with closing(pods):
        assert pods.read(first.name, ["sh", "-c", "echo from the node"]) == "from the node\n"
        assert pods.run(first.name, ["sh", "-c", "exit 3"]) == 3
        (pod,) = connection.ask("GET", "/api/v1/pods")["items"]
        assert (pod["spec"]["nodeName"], pod["metadata"]["namespace"]) == (first.name, "default")
    until(lambda: not connection.ask("GET", "/api/v1/pods")["items"])


def test_diagnostics_have_output_of_every_pod_and_objects_of_served_kinds(session, connection):
    first, second = cluster_nodes.read_nodes(connection)
    script = "echo out of $HOSTNAME; [ $HOSTNAME = fine ] || { echo why >&2; exit 3; }"
    for name, node in (("fine", first), ("broken", second)):
        container = {"name": "train", "image": "busybox", "command": ["sh", "-c", script]}
        spec = {"restartPolicy": "Never", "nodeName": node.name, "containers": [container]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        connection.ask("POST", "/api/v1/namespaces/default/pods", body=pod)
    pods = "/api/v1/namespaces/default/pods"
    until(
        lambda: {pod["status"].get("phase") for pod in connection.ask("GET", pods)["items"]} == {"Failed", "Succeeded"}
    )
    texts = cluster_nodes.diagnostics(connection, "default")
    assert re.fullmatch(r"== train\n\S+Z out of broken\n\S+Z why\n", texts["logs/broken.txt"])
    assert re.fullmatch(r"== train\n\S+Z out of fine\n", texts["logs/fine.txt"])
    # Those that failed first: an archive has no room for all.
    assert [name for name in texts if name.startswith("logs/")] == ["logs/broken.txt", "logs/fine.txt"]
    objects = {name for name in texts if name.endswith(".json")}
    common = {"version.json", "nodes.json", "node-events.json", "daemonsets.json", "pods.json", "events.json"}
    assert objects == {*common, "jobs.json"}  # of the kinds of jobs, those that the cluster serves
    assert all(json.loads(texts[name]) for name in objects)
