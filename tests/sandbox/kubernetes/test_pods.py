"""Pods are scheduled, run, moved and ended by the emulated controllers, through the official client."""

import re
from pathlib import Path

import pytest
import yaml

from launcher.catalog.load import load
from launcher.rendering.device_plugins import plugin_files
from launcher.sandbox.kubernetes.claims import standing

pytestmark = pytest.mark.long


def _pods(core, run="train"):
    return core.list_namespaced_pod("default", label_selector=f"slipway/job={run}").items


def test_job_completes_and_log_can_be_read(cluster, core, batch, pod_job, until):
    cluster.add_node("n1", allocatable={"nvidia.com/gpu": "8"})
    batch.create_namespaced_job("default", pod_job("echo $JOB_COMPLETION_INDEX; echo kept >/slipway/x; cat /slipway/x"))
    until(lambda: batch.read_namespaced_job("train", "default").status.succeeded == 1)
    (pod,) = _pods(core)
    assert pod.status.phase == "Succeeded"
    assert pod.spec.node_name == "n1"
    assert core.read_namespaced_pod_log(pod.metadata.name, "default") == "0\nkept\n"
    until(
        lambda: (
            [condition.type for condition in batch.read_namespaced_job("train", "default").status.conditions][-1]
            == "Complete"
        )
    )


def test_node_without_status_delays_no_pod(cluster, batch, pod_job, until):
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "joins"}, "spec": {}}
    cluster.api.create(cluster._cluster.kind("", "nodes"), "", node)
    cluster.add_node("n1", allocatable={"nvidia.com/gpu": "1"})
    batch.create_namespaced_job("default", pod_job("true"))
    until(lambda: batch.read_namespaced_job("train", "default").status.succeeded)


def test_unschedulable_pod_gives_reason(cluster, core, batch, pod_job, until):
    cluster.add_node("n1", allocatable={"nvidia.com/gpu": "1"})
    cluster.add_node("n2", taints=({"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"},))
    batch.create_namespaced_job("default", pod_job("true", gpus="8"))
    pod = until(lambda: next((pod for pod in _pods(core) if pod.status.conditions), None))
    assert pod.status.conditions[0].message.startswith(
        "0/2 nodes are available: 1 Insufficient nvidia.com/gpu, 1 node(s) had untolerated taint {nvidia.com/gpu: true}"
    )
    events = until(lambda: core.list_namespaced_event("default", field_selector="reason=FailedScheduling").items)
    assert events[0].message == pod.status.conditions[0].message
    cluster.add_node("n3", allocatable={"nvidia.com/gpu": "8"})
    until(lambda: _pods(core)[0].status.phase == "Succeeded")


def test_drained_node_sends_sigterm_and_pod_restarts_elsewhere(cluster, core, batch, pod_job, until):
    cluster.add_node("n1", allocatable={"nvidia.com/gpu": "1"})
    script = "trap 'echo told; exit 75' TERM; echo up; [ -e $HOME/again ] && exit 0; while :; do sleep 0.05; done"
    batch.create_namespaced_job("default", pod_job(script))
    (pod,) = until(lambda: [pod for pod in _pods(core) if pod.status.phase == "Running"])
    until(lambda: "up" in core.read_namespaced_pod_log(pod.metadata.name, "default"))
    cluster.add_node("n2", allocatable={"nvidia.com/gpu": "1"})
    (cluster._folder.parent / "again").touch()
    cluster.drain("n1")
    until(lambda: batch.read_namespaced_job("train", "default").status.succeeded == 1)
    assert not batch.read_namespaced_job("train", "default").status.failed
    (last,) = [pod for pod in _pods(core) if pod.status.phase == "Succeeded"]
    assert last.spec.node_name == "n2"


def test_lost_node_ends_pods_and_job_continues(cluster, core, batch, pod_job, until):
    cluster.add_node("n1", allocatable={"nvidia.com/gpu": "1"})
    batch.create_namespaced_job("default", pod_job("[ -e $HOME/again ] || sleep 60"))
    until(lambda: [pod for pod in _pods(core) if pod.status.phase == "Running"])
    (cluster._folder.parent / "again").touch()
    cluster.take_node("n1")
    cluster.add_node("n2", allocatable={"nvidia.com/gpu": "1"})
    until(lambda: batch.read_namespaced_job("train", "default").status.succeeded == 1)
    assert not batch.read_namespaced_job("train", "default").status.failed


def test_new_node_with_name_of_lost_node_has_no_old_pods(cluster, core, batch, pod_job, until):
    cluster.add_node("n1", allocatable={"nvidia.com/gpu": "1"})
    batch.create_namespaced_job("default", pod_job("[ -e $HOME/again ] || sleep 60"))
    until(lambda: [pod for pod in _pods(core) if pod.status.phase == "Running"])
    (cluster._folder.parent / "again").touch()
    with cluster.api.objects.changed:  # no controller looks in between
        cluster.take_node("n1")
        cluster.add_node("n1", allocatable={"nvidia.com/gpu": "1"})
    until(lambda: batch.read_namespaced_job("train", "default").status.succeeded == 1)
    assert not batch.read_namespaced_job("train", "default").status.failed


def test_force_deleted_pod_does_not_affect_next_pod_of_same_name(cluster, core, until):
    cluster.add_node("n1")

    def run_pod(script):
        container = {"name": "c", "image": "x:1", "command": ["/bin/sh", "-c", script]}
        spec = {"restartPolicy": "Never", "containers": [container]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
        core.create_namespaced_pod("default", pod)
        until(lambda: core.read_namespaced_pod("p", "default").status.phase == "Running")

    run_pod("trap '' TERM; while :; do sleep 0.1; done")
    (first,) = cluster._runs.values()
    core.delete_namespaced_pod("p", "default", grace_period_seconds=0)
    run_pod("sleep 60")
    until(lambda: not first.is_alive())
    assert core.read_namespaced_pod("p", "default").status.phase == "Running"


def test_pod_ignoring_sigterm_killed_after_grace_period(cluster, core, batch, pod_job, until):
    cluster.add_node("n1", allocatable={"nvidia.com/gpu": "1"})
    batch.create_namespaced_job("default", pod_job("trap '' TERM; while :; do sleep 0.1; done", grace_s=1))
    until(lambda: [pod for pod in _pods(core) if pod.status.phase == "Running"])
    batch.delete_namespaced_job("train", "default", propagation_policy="Background")
    until(lambda: not _pods(core))
    assert not cluster.pods()


@pytest.mark.parametrize("code, reason", [(1, "PodFailurePolicy"), (75, None)])
def test_exit_code_fails_job_or_is_ignored_by_failure_policy(cluster, core, batch, pod_job, until, code, reason):  # noqa: PLR0917
    cluster.add_node("n1", allocatable={"nvidia.com/gpu": "1"})
    batch.create_namespaced_job("default", pod_job(f"[ -e $HOME/again ] && exit 0; touch $HOME/again; exit {code}"))
    conditions = until(
        lambda: [
            condition
            for condition in batch.read_namespaced_job("train", "default").status.conditions or ()
            if condition.type in ("Failed", "Complete")
        ]
    )
    assert (conditions[0].type, conditions[0].reason) == (
        ("Failed", reason) if reason else ("Complete", "CompletionsReached")
    )


def test_pytorch_job_sets_ranks_and_restarts_retryable_replica(cluster, api_client, core, until):
    import kubernetes

    cluster.add_node("n1", allocatable={"nvidia.com/gpu": "8"})
    once = "[ $RANK = 1 ] && [ ! -e $HOME/again ] && touch $HOME/again && exit 138"
    script = f"echo rank $RANK of $PET_NNODES at $MASTER_ADDR; {once}; sleep 1"
    worker = {"containers": [{"name": "pytorch", "image": "x:1", "command": ["/bin/sh", "-c", script]}]}
    replicas = {"replicas": 2, "restartPolicy": "ExitCode", "template": {"spec": worker}}
    spec = {"pytorchReplicaSpecs": {"Worker": replicas}}
    body = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "pt"}, "spec": spec}
    custom = kubernetes.client.CustomObjectsApi(api_client)
    custom.create_namespaced_custom_object("kubeflow.org", "v1", "default", "pytorchjobs", body)

    def conditions():
        custom_job = custom.get_namespaced_custom_object("kubeflow.org", "v1", "default", "pytorchjobs", "pt")
        return [condition["type"] for condition in custom_job.get("status", {}).get("conditions", ())]

    until(lambda: core.list_namespaced_event("default", field_selector="reason=PyTorchJobRestarting").items)
    until(lambda: "Succeeded" in conditions())
    assert core.read_namespaced_pod_log("pt-worker-1", "default").startswith("rank 1 of 2 at 127.0.0.1")
    assert {item.metadata.name for item in core.list_namespaced_service("default").items} == {
        "pt-worker-0",
        "pt-worker-1",
    }


def _pytorch(client, policy, script):
    """Creates the PyTorchJob `pt` of a master and a worker; what reads its conditions."""
    import kubernetes

    env = [{"name": "OWN", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]
    container = {"name": "pytorch", "image": "x:1", "command": ["/bin/sh", "-c", script], "env": env}
    pod = {"terminationGracePeriodSeconds": 5, "containers": [container]}
    replica = {"replicas": 1, "restartPolicy": policy, "template": {"spec": pod}}
    spec = {"runPolicy": {"backoffLimit": 3}, "pytorchReplicaSpecs": {"Master": replica, "Worker": replica}}
    body = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "pt"}, "spec": spec}
    custom = kubernetes.client.CustomObjectsApi(client)
    custom.create_namespaced_custom_object("kubeflow.org", "v1", "default", "pytorchjobs", body)

    def conditions():
        custom_job = custom.get_namespaced_custom_object("kubeflow.org", "v1", "default", "pytorchjobs", "pt")
        return {
            condition["type"]: condition["message"] for condition in custom_job.get("status", {}).get("conditions", ())
        }

    return conditions


def test_pytorch_job_continues_after_drain(cluster, api_client, core, until):
    """training-operator makes a failed pod again from v1.7.0 on, one that was drained too."""
    for name in ("n1", "n2"):
        cluster.add_node(name)
    script = "trap 'exit 75' TERM; echo $OWN at $MASTER_ADDR; while [ ! -e $HOME/enough ]; do sleep 0.1; done"
    conditions = _pytorch(api_client, "OnFailure", script)
    until(lambda: "Running" in conditions())
    first = core.read_namespaced_pod("pt-master-0", "default")
    cluster.drain(first.spec.node_name)

    def again():
        pods = [item for item in core.list_namespaced_pod("default").items if item.status.phase == "Running"]
        there = {pod.spec.node_name for pod in pods} == {"n1", "n2"} - {first.spec.node_name}
        return len(pods) == 2 and there and first.metadata.uid not in {pod.metadata.uid for pod in pods}

    until(again)
    assert "Failed" not in conditions()
    (Path(cluster._environment["HOME"]) / "enough").touch()
    until(lambda: "Succeeded" in conditions())
    assert core.read_namespaced_pod_log("pt-master-0", "default") == "pt-master-0 at 127.0.0.1\n"


@pytest.mark.parametrize(
    "policy, why", [("OnFailure", "reached the specified backoff limit"), ("Never", "ended with exit code 1.")]
)
def test_pytorch_job_fails_without_restarts_or_at_backoff_limit(cluster, api_client, until, policy, why):
    cluster.add_node("n1")
    conditions = _pytorch(api_client, policy, "exit 1")
    until(lambda: "Failed" in conditions())
    assert conditions()["Failed"].endswith(why)


def test_devices_become_allocatable_with_device_plugin(cluster, api_client, pod_job, until):
    import kubernetes

    core, batch = kubernetes.client.CoreV1Api(api_client), kubernetes.client.BatchV1Api(api_client)
    labels = {"node.kubernetes.io/instance-type": "p5.48xlarge"}
    cluster.add_node("n1", labels=labels, devices={"nvidia.com/gpu": "8", "vpc.amazonaws.com/efa": "32"})
    batch.create_namespaced_job("default", pod_job("true", gpus="8"))
    pod = until(lambda: next((pod for pod in _pods(core) if pod.status.conditions), None))
    assert "Insufficient nvidia.com/gpu" in pod.status.conditions[0].message
    (nvidia,) = [
        document
        for file in plugin_files(load().instance_types["p5.48xlarge"], load().instance_types)
        for document in yaml.safe_load_all(file.text)
        if "nvidia" in document["metadata"]["name"]
    ]
    kubernetes.client.AppsV1Api(api_client).create_namespaced_daemon_set("kube-system", nvidia)
    until(lambda: batch.read_namespaced_job("train", "default").status.succeeded == 1)
    (node,) = core.list_node().items
    assert node.status.allocatable["nvidia.com/gpu"] == "8"
    assert "vpc.amazonaws.com/efa" not in node.status.allocatable


def with_claim(job, name="data"):
    pod = job["spec"]["template"]["spec"]
    pod["volumes"].append({"name": "volume-0", "persistentVolumeClaim": {"claimName": name}})
    pod["containers"][0]["volumeMounts"].append({"name": "volume-0", "mountPath": "/data"})
    return job


def _unscheduled_pod(core, run):
    """Why the pods of a job are nowhere."""
    conditions = (condition for pod in _pods(core, run) for condition in pod.status.conditions or ())
    return " ".join(condition.message or "" for condition in conditions)


def claim(name="data", modes=("ReadWriteMany",), **spec):
    body = {"accessModes": [*modes], "resources": {"requests": {"storage": "1Gi"}}, **spec}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": body}


def test_pod_waits_for_claim_and_claim_data_persists(cluster, core, batch, pod_job, until):
    cluster.add_node("n1", allocatable={"nvidia.com/gpu": "8"})
    batch.create_namespaced_job("default", with_claim(pod_job("echo one >/data/out", name="first")))
    until(lambda: 'available: persistentvolumeclaim "data" not found. preemption: ' in _unscheduled_pod(core, "first"))
    core.create_namespaced_persistent_volume_claim("default", claim())
    until(lambda: "pod has unbound immediate PersistentVolumeClaims" in _unscheduled_pod(core, "first"))
    for volume in standing("default", ["other"])[:1]:
        volume["spec"] |= {"claimRef": {"namespace": "default", "name": "data"}}
        core.create_persistent_volume(volume)
    until(lambda: batch.read_namespaced_job("first", "default").status.succeeded)
    batch.create_namespaced_job("default", with_claim(pod_job("cat /data/out", name="second")))
    until(lambda: batch.read_namespaced_job("second", "default").status.succeeded)
    (pod,) = core.list_namespaced_pod("default", label_selector="slipway/job=second").items
    assert core.read_namespaced_pod_log(pod.metadata.name, "default") == "one\n"


def test_single_node_claim_is_not_attached_to_two_nodes(cluster, core, batch, pod_job, until):
    for name in ("n1", "n2"):
        cluster.add_node(name, allocatable={"nvidia.com/gpu": "8"})
    core.create_namespaced_persistent_volume_claim("default", claim(modes=["ReadWriteOnce"]))
    (volume, _) = standing("default", ["data"])
    volume["spec"] |= {"accessModes": ["ReadWriteOnce"], "claimRef": {"namespace": "default", "name": "data"}}
    core.create_persistent_volume(volume)
    batch.create_namespaced_job("default", with_claim(pod_job("sleep 600", nodes=2, gpus="8")))
    event = until(lambda: [e for e in core.list_namespaced_event("default").items if e.reason == "FailedAttachVolume"])[
        0
    ]
    assert "Multi-Attach error" in event.message


@pytest.mark.parametrize(
    "changed,words",
    [
        ({"accessModes": []}, "at least 1 access mode is required"),
        (
            {"accessModes": ["ReadWriteOncePod", "ReadWriteMany"]},
            "may not use ReadWriteOncePod with other access modes",
        ),
        ({"resources": {}}, "spec.resources[storage]"),
    ],
)
def test_invalid_claim_refused(core, cluster, changed, words):
    with pytest.raises(Exception, match=re.escape(words)):
        core.create_namespaced_persistent_volume_claim("default", claim(**changed))
