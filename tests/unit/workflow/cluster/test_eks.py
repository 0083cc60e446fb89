"""Refusals of Kubernetes jobs before anything is deployed, with the manual alternative."""

from datetime import UTC, datetime, timedelta

import boto3
import pytest
from moto.eks.models import eks_backends

from launcher.aws.node_groups import describe_group
from launcher.aws.session import Session
from launcher.catalog.load import load
from launcher.model.errors import ImpossibleError
from launcher.planning.pin import pinned_plan
from launcher.targets.eks.cluster import EksCluster
from launcher.workflow.cluster.capacity_start import CapacityStart
from launcher.workflow.cluster.reach import refuse_unless_answered
from tests.emulators import aws_account
from tests.plans import request_of

BASE = {"slipway": 1, "name": "small", "workload": {"train": {"hours": 1}}, "purchase": {"option": "on-demand"}}
TARGET = {"kind": "eks", "region": "us-east-2", "instance_type": "p5.48xlarge", "nodes": 2}
ROLE = "arn:aws:iam::123456789012:role/access"
OUTPUTS = {
    "Connect": "aws eks update-kubeconfig",
    "ClusterEndpoint": "https://abc.us-east-2.eks.amazonaws.com",
    "StartFleet": "aws eks update-nodegroup-config",
}


def plan(**sections):
    return pinned_plan(request_of({**BASE, "target": TARGET, **sections}), load())


def test_unreachable_eks_api_refuses_job_with_manual_commands():
    with pytest.raises(ImpossibleError) as refusal:
        EksCluster().refuse_job(plan(), {})
    hint = str(refusal.value.hint)
    assert "kubectl create -f kubernetes/job.yaml" in hint
    assert "slipway deploy" in hint
    assert "plugins.yaml" in hint


def refused(plan):
    """Whether a job is refused."""
    try:
        EksCluster().refuse_job(plan, {})
    except ImpossibleError:
        return True
    return False


def test_job_for_existing_cluster_ignores_planned_network():
    assert refused(plan())
    assert not refused(plan(target={**TARGET, "cluster": "shared"}))


@pytest.mark.parametrize(
    "network",
    [
        {"api_cidrs": ["52.94.76.0/24"]},
        {"vpc_id": "vpc-0123456789abcdef0", "subnet_ids": ["subnet-0123456789abcdef0"]},
    ],
)
def test_reachable_eks_api_accepts_job(network):
    assert not refused(plan(network=network))


def test_job_connects_to_eks_api_as_access_role():
    outputs = {"ClusterName": "slipway-small", "AccessRoleArn": "arn:aws:iam::123456789012:role/access"}
    api_access = EksCluster().head_node(plan(), outputs, Session(environment={}, region="us-east-2"))
    assert (api_access.via, api_access.host, api_access.region) == ("eks", "slipway-small", "us-east-2")
    assert api_access.role == outputs["AccessRoleArn"]


@pytest.mark.parametrize(
    "cidrs,message", [([], "AWS-StartPortForwardingSessionToRemoteHost"), (["52.94.76.0/24"], "52.")]
)
def test_unreachable_eks_api_has_tunnel_or_range_hint(cidrs, message):
    assert message in EksCluster().reach_hint(plan(network={"api_cidrs": cidrs}), OUTPUTS)


@pytest.mark.parametrize("cidrs,tunnel", [([], True), (["52.94.76.0/24"], False)])
def test_private_eks_api_has_tunnel_commands(cidrs, tunnel):
    commands = EksCluster().access_commands(plan(network={"api_cidrs": cidrs}), OUTPUTS)
    assert any("AWS-StartPortForwardingSessionToRemoteHost" in command for _what, command in commands) is tunnel
    by_name = "--server=https://localhost:8443 --tls-server-name=abc.us-east-2.eks.amazonaws.com"
    assert any(command.endswith(by_name) for _what, command in commands) is tunnel


@pytest.mark.server
def test_capacity_block_nodes_start_once_at_block_start(one_account):
    aws_account.reset(one_account)
    client = made_cluster(one_account)
    # Where the sandbox's EKS is installed in this process too, its groups have instances.
    subnet = Session(environment=one_account.environment, region="us-east-2").client("ec2").describe_subnets()
    client.create_nodegroup(
        clusterName="slipway-small",
        nodegroupName="workers",
        nodeRole=ROLE,
        subnets=[subnet["Subnets"][0]["SubnetId"]],
        instanceTypes=["p5.48xlarge"],
        scalingConfig={"minSize": 0, "maxSize": 2, "desiredSize": 0},
    )
    starts_at = datetime(2026, 12, 1, 11, 30, tzinfo=UTC)
    reservation = {"id": "cr-0123456789abcdef0", "starts_at": starts_at.isoformat()}
    target = {**TARGET, "az_id": "use2-az1"}
    session = Session(environment=one_account.environment, region="us-east-2")
    moment, messages = [starts_at - timedelta(hours=3)], []
    capacity_start = CapacityStart(
        plan=plan(purchase={"option": "capacity-block", "reservation": reservation}, target=target),
        deployed=EksCluster(),
        session=session,
        cluster="slipway-small",
        notify=messages.append,
        clock=lambda: moment[0],
    )

    def desired_size():
        return describe_group(session, "slipway-small", "workers").desired

    capacity_start.check()
    assert (capacity_start.left_s, desired_size(), messages) == (3 * 3600, 0, [])
    moment[0] = starts_at
    capacity_start.check()
    capacity_start.check()
    assert (capacity_start.left_s, desired_size(), len(messages)) == (0, 2, 1)


def made_cluster(state):
    """A cluster in moto, and the client that made it."""
    keys = {"aws_access_key_id": "x", "aws_secret_access_key": "y", "region_name": "us-east-2"}
    client = boto3.client("eks", endpoint_url=state.moto, **keys)
    client.create_cluster(
        name="slipway-small", roleArn=ROLE, resourcesVpcConfig={"subnetIds": ["subnet-1", "subnet-2"]}
    )
    return client


@pytest.mark.server
def test_unreachable_eks_api_starts_no_nodes(one_account):
    """It is asked again for three minutes, then the launch ends before there is a node."""
    aws_account.reset(one_account)
    made_cluster(one_account)
    cluster = eks_backends["123456789012"]["us-east-2"].clusters["slipway-small"]
    cluster.endpoint, cluster.certificate_authority = "https://127.0.0.1:9", {"data": ""}
    outputs = {**OUTPUTS, "ClusterName": "slipway-small", "AccessRoleArn": ROLE}
    waited, named = [], plan(network={"api_cidrs": ["52.94.76.0/24"]})
    with pytest.raises(ImpossibleError, match="no node was started, and nothing was submitted") as refusal:
        refuse_unless_answered(
            named, outputs, one_account.environment, lambda _: None, deployed=EksCluster(), wait=waited.append
        )
    assert sum(waited) == 180
    assert "curl https://checkip.amazonaws.com" in refusal.value.hint
    assert "slipway down small" in refusal.value.hint
