"""What the guard of HyperPod with EKS hears of a cluster's pods: its function's own code against a cluster's API."""

import base64
import importlib.util

import pytest

from launcher.catalog.assets import asset
from launcher.sandbox.kubernetes import manifests

pytest.importorskip("kubernetes")


@pytest.fixture
def pods(cluster, monkeypatch):
    spec = importlib.util.spec_from_file_location("chart_pods", asset("templates/chart/pods.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setenv("CLUSTER_ENDPOINT", cluster.server.address)
    monkeypatch.setenv("CLUSTER_AUTHORITY", base64.b64encode(b"").decode())
    return module


@pytest.fixture
def count(pods, cluster):
    return lambda: pods.working(pods.api(cluster.tokens.own))


@pytest.fixture
def put(cluster):
    def make(name, *, labels=None, limits=None, command="sleep 60"):
        container = {"name": "c", "image": "example.org/i:1", "command": ["sh", "-c", command]}
        container |= {"resources": {"limits": limits}} if limits else {}
        spec = {"containers": [container], "restartPolicy": "Never", "terminationGracePeriodSeconds": 1}
        made = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels or {}}, "spec": spec}
        manifests.create(cluster.api, made)

    return make


def test_a_clusters_own_pods_count_for_nothing(cluster, count, put):
    cluster.add_node("n1", allocatable={"nvidia.com/gpu": "8"})
    put("coredns", limits={"cpu": "1"})
    assert count() == 0


@pytest.mark.parametrize("limits", [{"nvidia.com/gpu": "1"}, {"aws.amazon.com/neuron": "16"}])
def test_whoever_asks_for_chips_counts_also_while_it_waits(count, put, limits):
    put("theirs", limits=limits)
    assert count() == 1


def test_a_job_of_ours_counts_whatever_it_asks_for(count, put):
    put("ours", labels={"slipway/job": "train"})
    assert count() == 1


def test_what_has_ended_counts_no_more(cluster, count, put, until):
    cluster.add_node("n1", allocatable={"nvidia.com/gpu": "8"})
    put("done", limits={"nvidia.com/gpu": "1"}, command="true")
    put("failed", limits={"nvidia.com/gpu": "1"}, command="exit 3")
    until(lambda: count() == 0)


def test_every_page_is_read(pods, cluster, count, put, monkeypatch):
    monkeypatch.setattr(pods, "PAGE", "2")
    for number in range(5):
        put(f"p{number}", limits={"nvidia.com/gpu": "1"})
    assert count() == 5
