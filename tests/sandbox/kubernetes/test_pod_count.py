"""Counting pods for the guard of HyperPod with EKS: its function's own code against a cluster's API."""

import base64
import importlib.util
from datetime import UTC, datetime, timedelta

import pytest

from launcher.catalog.assets import asset
from launcher.sandbox.kubernetes import hosted


@pytest.fixture
def pods_module(cluster, monkeypatch):
    spec = importlib.util.spec_from_file_location("chart_pods", asset("templates/chart/pods.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setenv("CLUSTER_ENDPOINT", cluster.server.address)
    monkeypatch.setenv("CLUSTER_AUTHORITY", base64.b64encode(b"").decode())
    return module


@pytest.fixture
def counted_pods(pods_module, cluster):
    """What the guard is answered in half an hour, while nothing changes; it asks for half of that."""

    def count_pods(*, whole=False):
        later = datetime.now(UTC) + timedelta(minutes=30)
        return pods_module.count_pods(pods_module.api(cluster.tokens.own), {"hung_minutes": 15, "whole": whole}, later)

    return count_pods


@pytest.fixture
def count(counted_pods):
    return lambda: counted_pods()["pods"]


@pytest.fixture
def put(cluster):
    def make(name, *, labels=None, limits=None, command="sleep 60", policy="Never", annotations=None, **more):
        container = {"name": "c", "image": "example.org/i:1", "command": ["sh", "-c", command], **more}
        container |= {"resources": {"limits": limits}} if limits else {}
        spec = {"containers": [container], "restartPolicy": policy, "terminationGracePeriodSeconds": 1}
        metadata = {"name": name, "labels": labels or {}, "annotations": annotations or {}}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        hosted.create(cluster.api, pod)

    return make


def test_system_pods_do_not_count(cluster, count, put):
    cluster.add_node("n1", allocatable={"nvidia.com/gpu": "8"})
    put("coredns", limits={"cpu": "1"})
    assert count() == 0


SECRET = [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "none", "key": "k"}}}]


@pytest.mark.parametrize(
    "more, reason",
    [
        ({"image": "registry.invalid/train:1"}, "default/ours: ImagePullBackOff: container c: Back-off pulling"),
        ({"env": SECRET}, "default/ours: CreateContainerConfigError: container c: "),
        ({"command": "exit 3", "policy": "OnFailure"}, "default/ours: CrashLoopBackOff: container c was restarted "),
    ],
)
def test_unstartable_pod_named_and_not_counted(cluster, counted_pods, put, until, more, reason):  # noqa: PLR0917
    """Nor do the pods of its job, which wait for it; somebody else's goes on."""
    cluster.add_node("n1", allocatable={"nvidia.com/gpu": "8"})
    put("waits", labels={"slipway/job": "train"})
    put("theirs", limits={"nvidia.com/gpu": "1"})
    put("ours", labels={"slipway/job": "train"}, annotations={"slipway/retries": "1"}, **more)
    until(lambda: (counts := counted_pods())["pods"] == 1 and counts["stuck"], lambda: str(counted_pods()))
    (message,) = counted_pods()["stuck"]
    assert message.startswith(reason), message


def test_job_failed_by_pod_termination_message_not_counted(cluster, counted_pods, put, until):
    cluster.add_node("n1", allocatable={"nvidia.com/gpu": "8"})
    word = "echo 'slipway gave up: the pod has no credentials' > /dev/termination-log"
    put("waits", labels={"slipway/job": "train"})
    put("gone", labels={"slipway/job": "train"}, command=word)
    until(lambda: counted_pods() == {"pods": 0, "others": 0, "stuck": ["default/gone: the pod has no credentials"]})


def test_unschedulable_pod_with_all_workers_present_is_stuck(counted_pods, put, until):
    put("ours", labels={"slipway/job": "train"}, limits={"nvidia.com/gpu": "9"})
    until(lambda: counted_pods(whole=True)["stuck"])
    assert counted_pods(whole=True)["stuck"][0].startswith("default/ours: Unschedulable: ")
    assert counted_pods() == {"pods": 1, "others": 0, "stuck": []}


def test_interrupted_or_retryable_pods_count_as_working(cluster, counted_pods, put, until):
    cluster.add_node("n1", allocatable={"nvidia.com/gpu": "8"})
    for name, code in (("interrupted", 75), ("fails", 3)):
        metadata = {"labels": {"slipway/job": name}, "annotations": {"slipway/retries": "1" if code == 75 else "99"}}
        put(name, **metadata, command=f"exit {code}", policy="OnFailure")

    def restarts():
        container_statuses = [pod.get("status", {}).get("containerStatuses", ()) for pod in cluster.pods()]
        return [part["restartCount"] for parts in container_statuses for part in parts]

    until(lambda: len(restarts()) == 2 and min(restarts()) >= 2)
    assert counted_pods() == {"pods": 2, "others": 0, "stuck": []}


@pytest.mark.parametrize("limits", [{"nvidia.com/gpu": "1"}, {"aws.amazon.com/neuron": "16"}])
def test_pending_pod_requesting_chips_counts(count, put, limits):
    put("theirs", limits=limits)
    assert count() == 1


def test_pod_of_slipway_job_without_chips_counts(count, put):
    put("ours", labels={"slipway/job": "train"})
    assert count() == 1


def test_pod_on_workers_without_chips_counts(pods_module, cluster, put, until):
    cluster.add_node("n1")
    put("theirs")
    ask = pods_module.api(cluster.tokens.own)
    until(lambda: pods_module.count_pods(ask, {"hosts": ["127.0.0.1"]}, datetime.now(UTC))["others"] == 1)
    assert pods_module.count_pods(ask, {"hosts": ["10.0.0.1"]}, datetime.now(UTC))["pods"] == 0


@pytest.mark.parametrize("kind, count", [("ReplicaSet", 1), ("DaemonSet", 0), ("Node", 0)])
def test_daemonset_pods_on_workers_do_not_count(pods_module, kind, count):
    metadata = {"name": "p", "namespace": "x", "ownerReferences": [{"kind": kind}]}
    pod = {"metadata": metadata, "spec": {"containers": [{"name": "c"}]}, "status": {"hostIP": "10.0.0.1"}}
    event = {"hosts": ["10.0.0.1"]}
    assert pods_module.count_pods(lambda _: {"items": [pod]}, event, datetime.now(UTC))["pods"] == count
    metadata["namespace"] = "kube-system"
    assert pods_module.count_pods(lambda _: {"items": [pod]}, event, datetime.now(UTC))["pods"] == 0


def test_ended_pods_do_not_count(cluster, count, put, until):
    cluster.add_node("n1", allocatable={"nvidia.com/gpu": "8"})
    put("done", limits={"nvidia.com/gpu": "1"}, command="true")
    put("failed", limits={"nvidia.com/gpu": "1"}, command="exit 3")
    until(lambda: count() == 0)


def test_every_page_of_pods_is_read(pods_module, cluster, count, put, monkeypatch):
    monkeypatch.setattr(pods_module, "PAGE", "2")
    for number in range(5):
        put(f"p{number}", limits={"nvidia.com/gpu": "1"})
    assert count() == 5
