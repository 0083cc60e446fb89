"""Calls on single nodes: PCS's in moto's EC2 beside Slurm's words, HyperPod's judged by SageMaker's own model."""

from contextlib import nullcontext
from dataclasses import replace
from decimal import Decimal

import boto3
import pytest
from botocore.stub import Stubber
from moto import mock_aws

from launcher import plan_file
from launcher.aws.session import Session
from launcher.catalog.load import load
from launcher.model.cluster_nodes import ClusterNode, NodeAction, NodeFacts, NodeUse
from launcher.model.errors import AwsError, ImpossibleError
from launcher.model.tags import CLUSTER_TAG, PURPOSE_TAG
from launcher.planning.pin import pinned_plan
from launcher.records.submission import HeadNode
from launcher.submit.shell import LocalShell
from launcher.targets.clusters import cluster_at
from launcher.targets.pcs.cluster import PcsCluster
from launcher.workflow.cluster.cluster_access import ClusterAccess
from launcher.workflow.cluster.hyperpod_nodes import node_instances
from tests.plans import EXAMPLES

REGION = "us-east-2"
KEYS = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
HYPERPOD = ("hyperpod-slurm", "hyperpod-eks")
WITHOUT_CHECKS = ("parallelcluster", "pcs", "eks", "ec2")
INSTANCE = "i-0123456789abcdef0"
BUSY = ClusterNode(
    name="ip-10-0-1-7",
    instance=INSTANCE,
    instance_type="p5.48xlarge",
    group="p5-48xlarge",
    use=NodeUse.BUSY,
    state="ALLOCATED",
    reason="",
    job="job-1",
    up_since=None,
    idle_since=None,
)
IDLE = replace(BUSY, use=NodeUse.IDLE, state="IDLE", job=None)
ARN = "arn:aws:sagemaker:us-east-2:123456789012:cluster/abcdefghijkl"


def access_to(example, shell=None, outputs=None):
    plan = pinned_plan(plan_file.load(EXAMPLES / example), load())
    return ClusterAccess(  # noqa: S604 - a field of that name
        plan=plan,
        cluster=plan.cluster_name,
        head_node=HeadNode(via="ssm", instance="i-1", region=REGION),
        outputs=outputs or {"ClusterName": "team"},
        session=Session(environment=KEYS, region=REGION),
        shell=lambda: nullcontext(shell),
        api=nullcontext,
        placed=dict,
    )


class Controller:
    """A Slurm whose scontrol lists the given nodes, and writes down every other word."""

    def __init__(self, folder):
        self.folder = folder
        (folder / "bin").mkdir()
        self.program("squeue", "exit 0")
        show = f'[ "$2" = show ] && exec cat {folder}/nodes'
        self.program("scontrol", f'{show}\nprintf "%s\\n" "$*" >>{folder}/asked')
        (folder / "asked").touch()
        self.shell = LocalShell({"PATH": f"{folder / 'bin'}:/usr/bin:/bin"}, name="login")

    def program(self, name, text):
        path = self.folder / "bin" / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def lists(self, *addresses):
        line = "NodeName=nodes-{number} NodeAddr={address} NodeHostName=nodes-{number} State=IDLE+CLOUD{more}\n"
        more = " ActiveFeatures=p5.48xlarge Partitions=queue BootTime=1795839841 LastBusyTime=1795879971"
        text = "".join(
            line.format(number=number, address=address, more=more) for number, address in enumerate(addresses, 1)
        )
        (self.folder / "nodes").write_text(text)

    def asked(self):
        return (self.folder / "asked").read_text().splitlines()


@pytest.fixture
def controller(tmp_path):
    return Controller(tmp_path)


@pytest.fixture
def pcs_nodes(controller):
    """Two instances of a PCS cluster's nodes, its login node, and one of another cluster."""
    access = access_to("pcs/p5-spot.yaml", controller.shell)
    with mock_aws():
        ec2 = boto3.client("ec2", region_name=REGION, aws_access_key_id="a", aws_secret_access_key="b")

        def run(cluster, purpose):
            tags = [{"Key": CLUSTER_TAG, "Value": cluster}, {"Key": PURPOSE_TAG, "Value": purpose}]
            specification = [{"ResourceType": "instance", "Tags": tags}]
            options = {"ImageId": "ami-00000000000000000", "MinCount": 1, "MaxCount": 1}
            return ec2.run_instances(**options, TagSpecifications=specification)["Instances"][0]

        name = access.plan.cluster_name
        first, second = run(name, "node"), run(name, "node")
        run(name, "login"), run("other", "node")
        controller.lists(first["PrivateIpAddress"], second["PrivateIpAddress"])
        yield access, ec2, (first["InstanceId"], second["InstanceId"])


def states(ec2):
    listed = ec2.describe_instances()["Reservations"]
    return [instance["State"]["Name"] for reservation in listed for instance in reservation["Instances"]]


def test_pcs_nodes_have_separate_instances(pcs_nodes):
    access, _, ids = pcs_nodes
    nodes = PcsCluster().nodes(access)
    assert tuple(listed.instance for listed in nodes) == ids
    assert {(listed.use, listed.group) for listed in nodes} == {(NodeUse.IDLE, "queue")}


def test_replaced_pcs_node_is_down_in_slurm_and_only_the_node_instance_is_terminated(pcs_nodes, controller):
    access, ec2, _ = pcs_nodes
    first, _ = PcsCluster().nodes(access)
    PcsCluster().change_node(NodeAction.REPLACE, first, access)
    assert controller.asked() == ["update nodename=nodes-1 state=down reason=changed by a user of Slipway"]
    assert sorted(states(ec2)) == ["running"] * 3 + ["terminated"]


@pytest.mark.parametrize(
    "action, words",
    [
        (NodeAction.DRAIN, "update nodename=nodes-2 state=drain reason=changed by a user of Slipway"),
        (NodeAction.REBOOT, "reboot ASAP nextstate=RESUME reason=changed by a user of Slipway nodes-2"),
        (NodeAction.RESUME, "update nodename=nodes-2 state=resume"),
    ],
)
def test_other_actions_on_a_pcs_node_keep_the_instance(pcs_nodes, controller, action, words):
    access, ec2, _ = pcs_nodes
    _, second = PcsCluster().nodes(access)
    PcsCluster().change_node(action, second, access)
    assert controller.asked() == [words]
    assert states(ec2) == ["running"] * 4


def test_replaced_pcs_node_without_a_known_instance_is_only_marked(pcs_nodes, controller):
    access, ec2, _ = pcs_nodes
    first, _ = PcsCluster().nodes(access)
    PcsCluster().change_node(NodeAction.REPLACE, replace(first, instance=None), access)
    assert len(controller.asked()) == 1
    assert states(ec2) == ["running"] * 4


@pytest.fixture
def sagemaker(monkeypatch):
    """SageMaker, whose model checks each request; nothing else is called."""
    client = boto3.client("sagemaker", region_name=REGION, aws_access_key_id="a", aws_secret_access_key="b")
    monkeypatch.setattr(Session, "client", lambda _, service: client if service == "sagemaker" else None)
    with Stubber(client) as stub:
        yield stub
        stub.assert_no_pending_responses()


def listed_in(stub, group, state="Running"):
    summary = {
        "InstanceGroupName": group,
        "InstanceId": INSTANCE,
        "InstanceType": "ml.p5.48xlarge",
        "LaunchTime": "2026-11-28T12:00:00Z",
        "InstanceStatus": {"Status": state},
    }
    stub.add_response("list_cluster_nodes", {"NextToken": "", "ClusterNodeSummaries": [summary]})


@pytest.mark.parametrize("kind", HYPERPOD)
def test_health_check_covers_only_the_instance_of_the_node(sagemaker, kind):
    example = "hyperpod/trn2-on-demand.yaml" if kind == "hyperpod-slurm" else "hyperpod-eks/p5en-spot.yaml"
    checked = IDLE
    listed_in(sagemaker, "workers")
    configuration = {"InstanceGroupName": "workers", "InstanceIds": [INSTANCE], "DeepHealthChecks": ["InstanceStress"]}
    sagemaker.add_response(
        "start_cluster_health_check",
        {"ClusterArn": ARN},
        {"ClusterName": "team", "DeepHealthCheckConfigurations": [configuration]},
    )
    cluster_at(kind).change_node(NodeAction.CHECK, checked, access_to(example))


@pytest.mark.parametrize(
    "state, message",
    [
        ("Running", ""),
        ("Pending", "Pending"),
        ("DeepHealthCheckInProgress", "DeepHealthCheckInProgress: SageMaker keeps jobs off it until the checks end"),
    ],
)
def test_instance_under_a_health_check_says_that_it_gets_no_job(sagemaker, state, message):
    listed_in(sagemaker, "workers", state)
    (instance,) = node_instances(access_to("hyperpod/trn2-on-demand.yaml"))
    assert instance.message == message


def test_health_check_refused_by_sagemaker_is_an_aws_error(sagemaker):
    listed_in(sagemaker, "workers")
    sagemaker.add_client_error("start_cluster_health_check", "ResourceNotFound", "no such cluster")
    checked = IDLE
    with pytest.raises(AwsError, match="check i-0123456789abcdef0 of HyperPod cluster team"):
        cluster_at("hyperpod-slurm").change_node(NodeAction.CHECK, checked, access_to("hyperpod/trn2-on-demand.yaml"))


@pytest.mark.parametrize("kind", HYPERPOD)
def test_health_check_of_an_idle_node_shows_the_effect_and_of_a_busy_node_is_refused(kind):
    idle = NodeFacts(node=IDLE, usd_per_hour=Decimal("55.04"))
    effect = cluster_at(kind).node_effect(NodeAction.CHECK, idle)
    assert effect.job == "no job runs on it"
    assert "reboots or replaces" in effect.node
    assert effect.cost.startswith("$55.04 an hour")
    busy = NodeFacts(node=BUSY, usd_per_hour=Decimal("55.04"))
    with pytest.raises(ImpossibleError, match="documents no effect") as refused:
        cluster_at(kind).node_effect(NodeAction.CHECK, busy)
    assert f"drain {BUSY.name}" in refused.value.hint


@pytest.mark.parametrize("kind", HYPERPOD)
@pytest.mark.parametrize("action", [NodeAction.REBOOT, NodeAction.REPLACE, NodeAction.CHECK])
def test_node_under_a_health_check_is_not_rebooted_replaced_or_checked(kind, action):
    checked = NodeFacts(node=replace(IDLE, reason="DeepHealthCheckInProgress"), usd_per_hour=Decimal("55.04"))
    with pytest.raises(ImpossibleError, match=f"does not {action} it until they end") as refused:
        cluster_at(kind).node_effect(action, checked)
    assert "53 to 112 minutes" in refused.value.hint
    assert cluster_at(kind).node_effect(NodeAction.DRAIN, checked).job == "no job runs on it"


@pytest.mark.parametrize("kind", WITHOUT_CHECKS)
def test_health_check_without_hyperpod_is_refused_with_an_alternative(kind):
    facts = NodeFacts(node=IDLE, usd_per_hour=Decimal("55.04"))
    with pytest.raises(ImpossibleError, match="only HyperPod checks") as refused:
        cluster_at(kind).node_effect(NodeAction.CHECK, facts)
    assert "dcgmi diag" in refused.value.hint
