"""What the roles of nodes may write of what their guard counts and marks: nothing, on any target."""

import json

import pytest

from launcher.catalog.permissions import load_permissions
from launcher.model.named_role import named_roles
from launcher.rendering.policies import PolicyAccount
from launcher.rendering.role_policies import render_role
from launcher.targets.registry import TARGETS
from tests.infra.iam import ACCOUNT, allows
from tests.infra.named_roles import request
from tests.infra.role_policies import REGION, STORE, UUID, aws_managed, managed_policies, roles
from tests.plans import request_of

NODES = {"ec2.amazonaws.com", "pods.eks.amazonaws.com", "sagemaker.amazonaws.com"}
"""The services that assume the roles of nodes and pods."""
STATE = f"arn:aws:ssm:{REGION}:{ACCOUNT}:parameter/slipway/slipway-x-training/guard"
WRITES = ("ssm:PutParameter", "ssm:DeleteParameter", "ssm:LabelParameterVersion")


def node_roles(kind, assembly):
    """Name and policies of every role that a job's processes can use.

    ParallelCluster creates the roles of its nodes itself, with CloudWatchAgentServerPolicy and the plan's policies.
    """
    if kind == "parallelcluster":
        own = [document for name, document in managed_policies(assembly).items() if "ProviderAccess" not in name]
        return [("nodes", [aws_managed("CloudWatchAgentServerPolicy"), *own])]
    found = [(role.logical_id, role.documents) for role in roles(assembly) if set(role.services) & NODES]
    assert found
    return found


@pytest.fixture
def stacks(example_of_kind):
    """The roles of nodes of every example in turn, with the cluster's name in its metrics."""
    kind, assembly = example_of_kind
    return kind, node_roles(kind, assembly), assembly.plan.cluster_name


def test_node_roles_cannot_write_guard_state(stacks):
    _, node_policies, _ = stacks
    for name, documents in node_policies:
        for action in WRITES:
            assert not allows(documents, action, STATE), name


def test_node_roles_cannot_write_metrics_of_guard_or_other_cluster(stacks):
    kind, node_policies, cluster = stacks
    for name, documents in node_policies:
        for namespace in ("Slipway", "Slipway/Nodes/other", "Slipway/Nodes", f"Slipway/Nodes/{cluster}/x", "Slipway/x"):
            assert not allows(documents, "cloudwatch:PutMetricData", "*", namespace=namespace), (name, namespace)
    if kind in ("parallelcluster", "hyperpod-slurm", "pcs"):
        documents = dict(node_policies)[next(name for name, _ in node_policies if name[:1].isalpha())]
        assert allows(documents, "cloudwatch:PutMetricData", "*", namespace=f"Slipway/Nodes/{cluster}")


@pytest.mark.parametrize("action", ["s3:PutObject", "s3:DeleteObject"])
def test_node_roles_cannot_write_guard_objects_in_store(stacks, action):
    _, node_policies, _ = stacks
    for name, documents in node_policies:
        for prefix in ("", "jobs/", "runs/"):
            for key in (f".budget/{UUID}/100.json", f".guard/{UUID}/sent/idle-2026-11-28.json"):
                assert not allows(documents, action, f"{STORE}/{prefix}{key}"), (name, key)


@pytest.mark.parametrize("store", [f"{STORE}-other", "arn:aws:s3:::slipway-x-store"])
@pytest.mark.parametrize("end", ["failed", "ready"])
def test_node_roles_cannot_report_boots_of_other_cluster(stacks, store, end):
    """A node reports the boots of its own cluster; those of another one are in the other one's store."""
    _, node_policies, _ = stacks
    for name, documents in node_policies:
        for prefix in ("", "jobs/", "runs/"):
            for action in ("s3:PutObject", "s3:DeleteObject", "s3:PutObjectTagging"):
                key = f"{prefix}.guard/{UUID}/messages/boots/20261128T120000Z-i-0a1b-{end}.txt"
                assert not allows(documents, action, f"{store}/{key}"), (name, key)


def test_pods_cannot_report_boots_of_their_own_cluster(stacks):
    """On Kubernetes the nodes' own role reports boots, and pods cannot use it."""
    kind, node_policies, _ = stacks
    key = f"jobs/.guard/{UUID}/messages/{{}}"
    for name, documents in node_policies:
        if any(statement.get("Sid") == "WriteMessages" for each in documents for statement in each["Statement"]):
            assert kind in ("eks", "hyperpod-eks")
            assert allows(documents, "s3:PutObject", f"{STORE}/{key.format('message.json')}"), name
            for boot in ("20261128T120000Z-i-0a1b-failed.txt", "20261128T120000Z-i-0a1b-ready.txt"):
                assert not allows(documents, "s3:PutObject", f"{STORE}/{key.format(f'boots/{boot}')}"), name


@pytest.mark.parametrize(
    "kind", ["parallelcluster", "hyperpod-slurm", "hyperpod-eks", "eks", "pcs", "sagemaker-training", "ec2"]
)
def test_policies_for_named_roles_cannot_write_guard_state(kind):
    row = TARGETS[next(target for target in TARGETS if target.value == kind)]
    plan_request = request_of(request(kind))
    account = PolicyAccount(id=ACCOUNT, qualifier="hnb659fds", boundary_arn=None)
    for role in named_roles(plan_request, row):
        document = json.loads(render_role(load_permissions(), plan_request, role, account).text)
        for key in ("jobs/.budget/x/100.json", "jobs/.guard/x/sent/y.json"):
            assert not allows([document], "s3:PutObject", f"arn:aws:s3:::slipway-x/{key}"), (role.path, key)
        for namespace in ("Slipway", "Slipway/x"):
            assert not allows([document], "cloudwatch:PutMetricData", "*", namespace=namespace), role.path
        assert not allows([document], "ssm:PutParameter", STATE)
