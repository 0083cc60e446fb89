"""An emulated Kubernetes on this machine, and the official client for it."""

import os
import secrets
import sys
from pathlib import Path

import pytest

from launcher.sandbox.keys import KeyRing
from launcher.sandbox.kubernetes.cluster import KubernetesCluster
from launcher.submit.kubernetes.connection import ApiEndpoint, to_endpoint
from tests.waiting import until


@pytest.fixture
def key_ring():
    """The access keys that the cluster takes tokens of."""
    return KeyRing()


@pytest.fixture
def cluster(tmp_path, key_ring):
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    environment = {"PATH": path, "HOME": str(tmp_path), "LANG": os.environ.get("LANG", "C.UTF-8")}
    environment["SLIPWAY_AGENT_CACHE"] = os.environ["SLIPWAY_AGENT_CACHE"]
    with KubernetesCluster(
        tmp_path / "kube", name="slipway-eks", mark=secrets.token_hex(8), environment=environment, keys=key_ring
    ) as kubernetes_cluster:
        yield kubernetes_cluster


@pytest.fixture(scope="session")
def kubernetes():
    """Kubernetes' client, which takes half a second of processor time to load: where a test runs that uses it."""
    import kubernetes

    return kubernetes


@pytest.fixture
def api_client(kubernetes, cluster):
    configuration = kubernetes.client.Configuration(host=cluster.server.address)
    configuration.api_key = {"authorization": f"Bearer {cluster.tokens.own}"}
    configuration.retries = False
    with kubernetes.client.ApiClient(configuration) as api:
        yield api


@pytest.fixture
def core(kubernetes, api_client):
    return kubernetes.client.CoreV1Api(api_client)


@pytest.fixture
def batch(kubernetes, api_client):
    return kubernetes.client.BatchV1Api(api_client)


@pytest.fixture
def connection(cluster):
    """The launcher's own way to the API, with a token that is good."""
    token = cluster.tokens.own
    api_connection = to_endpoint(
        ApiEndpoint(name="c", address=cluster.server.address, authority=None, token=lambda: token)
    )
    yield api_connection
    api_connection.close()


@pytest.fixture(name="until")
def _until():
    return until


@pytest.fixture
def pod_job():
    """A Job of one index a node whose command says how it went."""

    def make(command, *, name="train", nodes=1, grace_s=5, gpus="1", **more):
        container = {
            "name": "pytorch",
            "image": "example.org/train@sha256:" + "0" * 64,
            "command": ["/bin/sh", "-c", command],
            "resources": {"limits": {"nvidia.com/gpu": gpus}},
            "volumeMounts": [{"name": "slipway", "mountPath": "/slipway"}],
        }
        pod = {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": grace_s,
            "containers": [container],
            "volumes": [{"name": "slipway", "emptyDir": {}}],
        }
        policy = {
            "rules": [
                {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
                {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [75]}},
                {"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [75]}},
            ]
        }
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name, "labels": {"slipway/job": name}, "annotations": {"slipway/run": "k"}},
            "spec": {
                "completions": nodes,
                "parallelism": nodes,
                "completionMode": "Indexed",
                "backoffLimit": 3,
                "podFailurePolicy": policy,
                "template": {"metadata": {"labels": {"slipway/job": name}}, "spec": pod},
                **more,
            },
        }

    return make
