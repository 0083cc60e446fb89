"""The nodes of Kubernetes, and a drain that waits for the pods of a node."""

from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from types import SimpleNamespace

import pytest

from launcher.model.cluster_nodes import ClusterNode, NodeAction, NodeFacts, NodeUse, node_numbered
from launcher.model.errors import DeploymentFailedError
from launcher.submit.kubernetes.cluster_nodes import read_nodes
from launcher.submit.kubernetes.words import UNHEALTHY
from launcher.workflow.cluster import pod_nodes

AT = "2026-11-28T10:00:00Z"


class Api:
    """The answers of an API: its nodes and its pods; it keeps what was asked of it."""

    name = "cluster"

    def __init__(self, nodes=(), pods=()):
        self.nodes, self.pods, self.asked = list(nodes), list(pods), []

    def ask(self, method, path, *, query=None, body=None, form=""):
        self.asked.append((method, path))
        if method != "GET":
            return {}
        if path == "/api/v1/nodes":
            return {"items": self.nodes}
        wanted = (query or {}).get("fieldSelector", "").removeprefix("spec.nodeName=")
        return {"items": [pod for pod in self.pods if wanted in ("", pod["spec"]["nodeName"])]}


def node(name="n1", ready="True", taints=(), unschedulable=False, provider="aws:///use2-az1/i-0123456789abcdef0"):
    return {
        "metadata": {
            "name": name,
            "creationTimestamp": AT,
            "labels": {"node.kubernetes.io/instance-type": "p5.48xlarge", "eks.amazonaws.com/nodegroup": "workers"},
        },
        "spec": {"taints": list(taints), "unschedulable": unschedulable, "providerID": provider},
        "status": {"conditions": [{"type": "Ready", "status": ready, "reason": "KubeletNotReady", "message": "PLEG"}]},
    }


def pod(name="job-1-0", *, on="n1", phase="Running", owner="Job", job="job-1", ended=None):
    state = {"terminated": {"finishedAt": ended}} if ended else {"running": {}}
    return {
        "metadata": {
            "name": name,
            "namespace": "slipway",
            "labels": {"slipway/job": job} if job else {},
            "ownerReferences": [{"kind": owner}],
        },
        "spec": {"nodeName": on},
        "status": {"phase": phase, "containerStatuses": [{"state": state}]},
    }


def test_node_is_found_by_pod_that_runs_on_it():
    """Agents name a slow node by its pod."""
    pods = [pod("job-1-0-aaaaa", on="n1"), pod("job-1-1-bbbbb", on="n2"), pod("job-1-1-ccccc", on="n1", phase="Failed")]
    nodes = read_nodes(Api([node(), node("n2")], pods))
    assert [node.name for node in nodes if node is node_numbered(nodes, "job-1-1-bbbbb")] == ["n2"]
    assert node_numbered(nodes, "job-1-1-ccccc") is None


@pytest.mark.parametrize(
    "described, pods, use",
    [
        (node(), [], NodeUse.IDLE),
        (node(), [pod()], NodeUse.BUSY),
        (node(unschedulable=True), [pod()], NodeUse.DRAINING),
        (node(unschedulable=True), [pod(phase="Succeeded", ended=AT)], NodeUse.DRAINED),
        (node(ready="Unknown"), [pod()], NodeUse.DOWN),
        (node(taints=[{"key": UNHEALTHY, "value": "Unschedulable", "effect": "NoSchedule"}]), [], NodeUse.DOWN),
        ({**node(), "status": {}}, [], NodeUse.STARTING),
    ],
)
def test_node_has_one_use(described, pods, use):
    (read,) = read_nodes(Api([described], pods))
    assert read.use is use


@pytest.mark.parametrize(
    "provider, instance",
    [
        ("aws:///use2-az1/i-0123456789abcdef0", "i-0123456789abcdef0"),
        ("aws:///use2-az1/sagemaker/cluster/hyperpod-a1b2c3-i-0123456789abcdef0", "i-0123456789abcdef0"),
        ("kind://docker/kind/worker", None),
    ],
)
def test_instance_is_the_end_of_the_provider_id(provider, instance):
    (read,) = read_nodes(Api([node(provider=provider)]))
    assert read.instance == instance


def test_node_is_idle_since_the_end_of_the_last_job():
    (read,) = read_nodes(Api([node()], [pod(phase="Succeeded", ended="2026-11-28T12:30:00Z")]))
    assert read.idle_since == datetime(2026, 11, 28, 12, 30, tzinfo=UTC)


def access(api, notify=lambda _: None):
    @contextmanager
    def opened():
        yield api

    return SimpleNamespace(api=opened, notify=notify)


def known_nodes(job="job-1"):
    at = datetime(2026, 11, 28, tzinfo=UTC)
    fields = {"instance": "i-1", "instance_type": "p5.48xlarge", "group": "workers", "reason": "", "boot": ()}
    use = NodeUse.BUSY if job else NodeUse.IDLE
    return ClusterNode(name="n1", use=use, state="Ready", job=job, up_since=at, idle_since=None, **fields)


def test_replacement_waits_until_pods_have_saved_and_ended():
    api, order = Api([node()], [pod(), pod("ds-1", owner="DaemonSet", job=None), pod("other", on="n2")]), []

    def sleep(seconds):
        order.append("waited")
        api.pods[0]["status"]["phase"] = "Succeeded"

    pod_nodes.change(NodeAction.REPLACE, known_nodes(), access(api), lambda: order.append("replaced"), sleep=sleep)
    assert order == ["waited", "replaced"]
    evicted = [path for method, path in api.asked if path.endswith("/eviction")]
    assert evicted == ["/api/v1/namespaces/slipway/pods/job-1-0/eviction"]
    assert ("PATCH", "/api/v1/nodes/n1") in api.asked


@pytest.mark.parametrize("job, reported", [("job-1", 1), (None, 0)])
def test_reboot_reports_at_once_that_it_waits_only_for_pods_that_run(job, reported):
    lines, pods = [], [pod()] if job else []
    api = Api([node()], pods)

    def sleep(_):
        lines.append("slept")
        pods[0]["status"]["phase"] = "Succeeded"

    pod_nodes.change(NodeAction.REBOOT, known_nodes(job), access(api, lines.append), lambda: None, sleep=sleep)
    expected = ["waiting for the pods of n1 to save and end, at most 15 min", "slept"]
    assert lines == expected * reported


def test_pod_not_ending_in_time_leaves_the_instance_unchanged():
    def replaced():
        raise AssertionError("replaced")

    with pytest.raises(DeploymentFailedError, match="pods of n1 have not ended after 15 min: job-1-0"):
        pod_nodes.change(
            NodeAction.REBOOT, known_nodes(), access(Api([node()], [pod()])), replaced, sleep=lambda _: None
        )


@pytest.mark.parametrize("action", [NodeAction.DRAIN, NodeAction.RESUME])
def test_drain_and_resume_leave_the_instance_alone(action):
    api = Api([node()], [pod()])
    pod_nodes.change(action, known_nodes(), access(api), lambda: api.asked.append("changed"), sleep=lambda _: None)
    assert "changed" not in api.asked
    assert any(path.endswith("/eviction") for _, path in api.asked) is (action is NodeAction.DRAIN)


def test_lost_work_is_dollars_of_all_nodes():
    facts = NodeFacts(node=known_nodes(), usd_per_hour=Decimal(10), job_usd_per_hour=Decimal(40), unsaved_s=900.0)
    assert facts.loses.endswith(
        "starts again from its newest checkpoint, or step 0: the last 15 min are lost ($10.00 of all its nodes)"
    )
    assert NodeFacts(node=known_nodes(job=None), usd_per_hour=None).loses == "no job runs on it"
    assert NodeFacts(node=known_nodes(), usd_per_hour=None).usd_text == "an unknown rate"


def test_node_is_named_by_number_name_or_instance():
    nodes = [known_nodes(), known_nodes(job=None)]
    assert node_numbered(nodes, "1") is nodes[1]
    assert node_numbered(nodes, "n1") is nodes[0]
    assert node_numbered(nodes, "i-1") is nodes[0]
    assert node_numbered(nodes, "2") is None
