"""Nodes that a guard stopped, before a job is submitted: what a launch says and does without permissions."""

import json
from datetime import UTC, datetime

import boto3
import pytest
from botocore.stub import Stubber

from launcher.aws.session import Session
from launcher.model.errors import AwsError, ImpossibleError
from launcher.targets.hyperpod_slurm.cluster import HyperPodSlurmCluster
from launcher.targets.pcs.cluster import PcsCluster

HYPERPOD, PCS = HyperPodSlurmCluster(), PcsCluster()
NOW = datetime(2026, 11, 27, tzinfo=UTC)
GROUP = {"clusterIdentifier": "small", "computeNodeGroupIdentifier": "nodes"}
SCALING = {"minInstanceCount": 0, "maxInstanceCount": 2}
ARN = "arn:aws:sagemaker:us-east-2:123456789012:cluster/abcdefghijkl"
WORKERS = [
    {
        "InstanceGroupName": "workers",
        "InstanceCount": 2,
        "InstanceType": "ml.p5.48xlarge",
        "ExecutionRole": "arn:aws:iam::123456789012:role/nodes",
    }
]
START = {
    PCS: "aws pcs update-compute-node-group --region us-east-2 --cluster-identifier small"
    " --compute-node-group-identifier nodes --scaling-configuration minInstanceCount=0,maxInstanceCount=2",
    HYPERPOD: "aws sagemaker update-cluster --region us-east-2 --cluster-name small"
    f" --instance-groups '{json.dumps(WORKERS)}'",
}


@pytest.fixture
def stubbed():
    """A session whose service gives the test's answers, by the service's name."""
    keys = {"aws_access_key_id": "x", "aws_secret_access_key": "x"}

    def of(service):
        stub = Stubber(boto3.client(service, region_name="us-east-2", **keys))
        stub.activate()
        return Session(environment={}, region="us-east-2", clients={service: stub.client}), stub

    return of


@pytest.mark.parametrize(
    "target, service, call",
    [(PCS, "pcs", "list_compute_node_groups"), (HYPERPOD, "sagemaker", "describe_cluster")],
    ids=["pcs", "hyperpod-slurm"],
)
def test_unreadable_node_state_gives_message(stubbed, target, service, call):
    session, stub = stubbed(service)
    stub.add_client_error(call, "AccessDeniedException")
    messages = []
    target.start({"ClusterName": "small", "StartFleet": START[target]}, session, messages.append)
    (message,) = messages
    assert message.endswith("is unknown: these credentials cannot read it")


@pytest.mark.parametrize(
    "name, scaling",
    [("nodes", SCALING), ("login", {"minInstanceCount": 1, "maxInstanceCount": 1})],
)
def test_failing_scale_up_of_stopped_node_group_is_error(stubbed, name, scaling):
    session, stub = stubbed("pcs")
    named = {"name": name, "id": "pcs_1", "clusterId": "pcs_2", "createdAt": NOW, "modifiedAt": NOW}
    arn = {"arn": "arn:aws:pcs:us-east-2:123456789012:cluster/pcs_2/computenodegroup/pcs_1", "status": "ACTIVE"}
    group = {
        **named,
        **arn,
        "subnetIds": ["subnet-1"],
        "customLaunchTemplate": {"id": "lt-1", "version": "1"},
        "iamInstanceProfileArn": "arn:aws:iam::123456789012:instance-profile/AWSPCS-nodes",
        "scalingConfiguration": {"minInstanceCount": 0, "maxInstanceCount": 0},
        "instanceConfigs": [{"instanceType": "p5.48xlarge"}],
    }
    stub.add_response("list_compute_node_groups", {"computeNodeGroups": [{**named, **arn}]})
    stub.add_response("get_compute_node_group", {"computeNodeGroup": group})
    stub.add_response("get_compute_node_group", {"computeNodeGroup": group})
    stub.add_client_error(
        "update_compute_node_group",
        "AccessDeniedException",
        expected_params={**GROUP, "computeNodeGroupIdentifier": name, "scalingConfiguration": scaling},
    )
    with pytest.raises(AwsError, match=f"scale node group {name} of PCS cluster small"):
        PCS.start({"ClusterName": "small", "StartFleet": START[PCS]}, session, lambda _: None)
    stub.assert_no_pending_responses()


@pytest.fixture
def workers(stubbed):
    """A HyperPod cluster whose workers a guard has deleted: its session and its stub."""
    session, stub = stubbed("sagemaker")
    groups = [{"InstanceGroupName": "workers", "TargetCount": 0, "CurrentCount": 0}]
    named = {"ClusterName": "small", "ClusterArn": ARN, "ClusterStatus": "InService"}
    stub.add_response("describe_cluster", {**named, "InstanceGroups": groups})
    yield session, stub
    stub.assert_no_pending_responses()


def list_names(*states):
    """The nodes of the cluster in these states, as ListClusterNodes returns them."""
    group = {"InstanceGroupName": "workers", "InstanceType": "ml.p5.48xlarge", "LaunchTime": NOW}
    nodes = [
        {**group, "InstanceId": f"i-{number:017x}", "InstanceStatus": {"Status": state}}
        for number, state in enumerate(states)
    ]
    return {"NextToken": "", "ClusterNodeSummaries": nodes}


def test_stopped_workers_are_not_restored_while_health_checks_run(workers):
    session, stub = workers
    stub.add_response("list_cluster_nodes", list_names("Running", "DeepHealthCheckInProgress"))
    with pytest.raises(ImpossibleError, match="deep health checks run on 1 instance of HyperPod cluster small"):
        HYPERPOD.start({"ClusterName": "small", "StartFleet": START[HYPERPOD]}, session, lambda _: None)


def test_failing_restore_of_stopped_workers_is_error(workers):
    session, stub = workers
    stub.add_response("list_cluster_nodes", list_names("Running"))
    stub.add_client_error("update_cluster", "AccessDeniedException")
    with pytest.raises(AwsError, match="start the workers of small"):
        HYPERPOD.start({"ClusterName": "small", "StartFleet": START[HYPERPOD]}, session, lambda _: None)


def test_stopped_workers_are_restored(workers):
    session, stub = workers
    stub.add_response("list_cluster_nodes", list_names("Running"))
    stub.add_response("update_cluster", {"ClusterArn": ARN}, {"ClusterName": "small", "InstanceGroups": WORKERS})
    messages = []
    HYPERPOD.start({"ClusterName": "small", "StartFleet": START[HYPERPOD]}, session, messages.append)
    assert messages == ["the workers of small were stopped: starting them; they are billed from now on"]
