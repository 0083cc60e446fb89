"""A job in a queue has pods only when there is quota, and until then reports what it waits for."""

import os
from pathlib import Path

import pytest
import yaml

from launcher.model.job import JobState
from launcher.sandbox.kubernetes.kinds import defined_kinds, shipped_kinds
from launcher.sandbox.kubernetes.validation import refusals
from launcher.submit.kubernetes import existing as read
from launcher.submit.kubernetes.jobs import KubernetesJobs

KUEUE = "/apis/kueue.x-k8s.io/v1beta1"


def cluster_queue(gpus, **more):
    flavor = {"name": "p5", "resources": [{"name": "nvidia.com/gpu", "nominalQuota": gpus}]}
    groups = [{"coveredResources": ["nvidia.com/gpu"], "flavors": [flavor]}]
    spec = {"namespaceSelector": {}, "resourceGroups": groups, **more}
    return {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "ClusterQueue", "metadata": {"name": "all"}, "spec": spec}


def local_queue(**more):
    manifest = {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "LocalQueue", "metadata": {"name": "gpus"}}
    return {**manifest, "spec": {"clusterQueue": "all", **more}}


@pytest.fixture
def queued_jobs(connection):
    return KubernetesJobs(connection=connection, namespace="default", kind="Job")


@pytest.fixture
def enqueue(pod_job):
    """A job of the queue."""

    def make(name, *, gpus="4", priority=None, command="sleep 60"):
        job = pod_job(command, name=name, gpus=gpus)
        job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "gpus"
        if priority is not None:
            job["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = priority
        return job

    return make


@pytest.fixture
def queue(cluster, connection):
    """A queue with quota of so many GPUs; the node has twice as many."""

    def make(gpus="4", **more):
        cluster.add_node("n1", allocatable={"nvidia.com/gpu": "8"})
        connection.ask("POST", f"{KUEUE}/clusterqueues", body=cluster_queue(gpus, **more))
        connection.ask("POST", f"{KUEUE}/namespaces/default/localqueues", body=local_queue())
        for name, value in (("low", 1), ("high", 100)):
            priority = {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "WorkloadPriorityClass", "value": value}
            body = {**priority, "metadata": {"name": name}}
            connection.ask("POST", f"{KUEUE}/workloadpriorityclasses", body=body)

    return make


def test_job_cancelled_while_pod_ends_leaves_no_workload(connection, queued_jobs, queue, enqueue, until):
    queue()
    job = queued_jobs.submit([enqueue("first", command="trap 'sleep 1; exit 75' TERM; sleep 60 & wait")], "k")
    until(lambda: queued_jobs.facts(job).state is JobState.RUNNING)
    queued_jobs.cancel(job)
    until(lambda: queued_jobs.facts(job) is None)
    until(lambda: not connection.ask("GET", f"{KUEUE}/namespaces/default/workloads")["items"])


def test_second_job_waits_for_quota_with_reason(cluster, queued_jobs, queue, enqueue, until):
    queue()
    first = queued_jobs.submit([enqueue("first")], "k")
    until(lambda: queued_jobs.facts(first).state is JobState.RUNNING)
    second = queued_jobs.submit([enqueue("second")], "k")
    expected = "quota: queue gpus has not admitted it: 4 more GPUs must become free"
    assert (
        until(lambda: (job_facts := queued_jobs.facts(second)).reason == expected and job_facts).state
        is JobState.PENDING
    )
    assert queued_jobs.pods("second") == []
    queued_jobs.cancel(first)
    until(lambda: queued_jobs.facts(second).state is JobState.RUNNING)


def test_job_larger_than_quota_gives_reason(queued_jobs, queue, enqueue, until):
    queue("2")
    submitted = queued_jobs.submit([enqueue("large")], "k")
    until(
        lambda: queued_jobs.facts(submitted).reason.endswith(
            "asks for 4 GPUs, but the queue has only 2 in total: the queue can never admit it"
        )
    )


def test_ended_job_releases_quota(queued_jobs, queue, enqueue, until):
    queue()
    first = queued_jobs.submit([enqueue("first", command="true")], "k")
    until(lambda: queued_jobs.facts(first).state is JobState.COMPLETED)
    second = queued_jobs.submit([enqueue("second", command="true")], "k")
    until(lambda: queued_jobs.facts(second).state is JobState.COMPLETED)


def test_higher_priority_preempts_lower_and_returns_quota(queued_jobs, queue, enqueue, until):
    queue(preemption={"withinClusterQueue": "LowerPriority"})
    low = queued_jobs.submit([enqueue("low", priority="low")], "k")
    until(lambda: queued_jobs.facts(low).state is JobState.RUNNING)
    high = queued_jobs.submit([enqueue("high", priority="high")], "k")
    until(lambda: queued_jobs.facts(high).state is JobState.RUNNING)
    facts = until(
        lambda: (
            (job_facts := queued_jobs.facts(low)).state is JobState.PENDING
            and not queued_jobs.pods("low")
            and job_facts
        )
    )
    assert "quota: queue gpus" in facts.reason
    queued_jobs.cancel(high)
    until(lambda: queued_jobs.facts(low).state is JobState.RUNNING)


def test_job_in_unknown_queue_stays_pending_with_reason(cluster, queued_jobs, enqueue, until):
    cluster.add_node("n1", allocatable={"nvidia.com/gpu": "8"})
    submitted = queued_jobs.submit([enqueue("lost")], "k")
    until(lambda: queued_jobs.facts(submitted).reason.endswith("LocalQueue gpus doesn't exist"))


def test_queues_are_read_with_stop_policy(connection, queue):
    queue()
    description = read.describe(
        connection, instance_type="p5.48xlarge", namespace="default", priority="high", account="a"
    )
    assert (description.queues, description.priority) == ({"gpus": ""}, True)
    stopped = {**local_queue(stopPolicy="Hold"), "metadata": {"name": "held"}}
    connection.ask("POST", f"{KUEUE}/namespaces/default/localqueues", body=stopped)
    description = read.describe(
        connection, instance_type="p5.48xlarge", namespace="default", priority="none-such", account="a"
    )
    assert (description.queues, description.priority) == ({"gpus": "", "held": "its stopPolicy is Hold"}, False)


@pytest.mark.skipif("SLIPWAY_VENDOR_DATA" not in os.environ, reason="SLIPWAY_VENDOR_DATA names no folder")
@pytest.mark.parametrize(
    "document,taken",
    [
        (cluster_queue("4"), True),
        (cluster_queue("4", stopPolicy="Sometimes"), False),
        (cluster_queue("4", preemption={"withinClusterQueue": "Always"}), False),
        (local_queue(), True),
        (local_queue(clusterQueue="Bad_Name"), False),
        (local_queue(unheard="of"), False),
    ],
)
def test_shipped_kueue_kinds_validate_like_vendor_definitions(document, taken):
    pytest.importorskip("cel")
    plural = {"ClusterQueue": "clusterqueues", "LocalQueue": "localqueues"}[document["kind"]]
    path = Path(os.environ["SLIPWAY_VENDOR_DATA"], "crds", f"kueue.x-k8s.io_{plural}.yaml")
    (vendors,) = [kind for kind in defined_kinds(yaml.safe_load(path.read_text())) if kind.version == "v1beta1"]
    (ours,) = [kind for kind in shipped_kinds(("kueue",)) if kind.plural == plural]
    assert [not refusals(document, kinds=(kind,)) for kind in (vendors, ours)] == [taken, taken]
