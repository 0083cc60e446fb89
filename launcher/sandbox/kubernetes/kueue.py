"""Kueue: it suspends a new job of a queue and admits the job when quota is free; only then the job gets pods.

After kubernetes-sigs/kueue@ff69552 (pkg/controller/jobframework, pkg/scheduler): the webhook that suspends, a Workload
for each job with its conditions and messages, admission by priority and age, preemption of lower priorities in the same
queue. Emulated: one flavour for each resource. Not emulated: cohorts, partial admission and topology.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from launcher.sandbox.kubernetes.controllers import ControlledCluster, is_over
from launcher.sandbox.kubernetes.held_jobs import QUEUE_LABEL, with_suspend
from launcher.sandbox.kubernetes.placing import requests_of
from launcher.sandbox.kubernetes.pod_rules import quantity
from launcher.sandbox.kubernetes.store import Object, update_condition

PRIORITY_LABEL = "kueue.x-k8s.io/priority-class"
UID_LABEL = "kueue.x-k8s.io/job-uid"
VERSION = "v1beta1"
_GROUP = "kueue.x-k8s.io"
_JOBS = (
    ("batch", "jobs", "job"),
    ("kubeflow.org", "pytorchjobs", "pytorchjob"),
    ("sagemaker.amazonaws.com", "hyperpodpytorchjobs", "hyperpodpytorchjob"),
)
_RESERVED, _ADMITTED, _EVICTED = "QuotaReserved", "Admitted", "Evicted"
_OPEN, _PREEMPTS = "None", ("LowerPriority", "LowerOrNewerEqualPriority")


def reconcile(cluster: ControlledCluster) -> None:
    """Run one round: create a workload for each job with a queue, and admit workloads that fit the quota."""
    if not any(kind.plural == "localqueues" for kind in cluster.api.kinds):
        return
    _finish(cluster)
    jobs = {job["metadata"]["uid"]: (place, job) for place, job in _queued_jobs(cluster)}
    workloads = cluster.every(_GROUP, "workloads", VERSION)
    owners = {workload["metadata"]["labels"][UID_LABEL] for workload in workloads}
    for uid, (place, job) in jobs.items():
        # One that is being deleted waits for all that it owns: it is given nothing more.
        if uid not in owners and not is_over(job) and "deletionTimestamp" not in job["metadata"]:
            _create_workload(cluster, place, job)
    waiting = [workload for workload in cluster.every(_GROUP, "workloads", VERSION) if not _is(workload, _RESERVED)]
    for pending in sorted(waiting, key=_rank):
        queued = jobs.get(pending["metadata"]["labels"][UID_LABEL])
        if queued is not None and not is_over(queued[1]) and "deletionTimestamp" not in queued[1]["metadata"]:
            _admit(cluster, pending, *queued, jobs)


def _queued_jobs(cluster: ControlledCluster) -> Iterator[tuple[tuple[str, str, str], Object]]:
    """The jobs that name a queue, each with its group, plural and kind."""
    for place in _JOBS:
        for job in cluster.every(place[0], place[1]):
            if QUEUE_LABEL in job["metadata"].get("labels", {}):
                yield place, job


def _rank(workload: Object) -> tuple[int, int]:
    return -int(workload["spec"].get("priority", 0)), int(workload["metadata"]["resourceVersion"])


def _is(workload: Mapping[str, Any], kind: str) -> bool:
    conditions = workload.get("status", {}).get("conditions", ())
    return any(condition["type"] == kind and condition["status"] == "True" for condition in conditions)


def _create_workload(cluster: ControlledCluster, place: tuple[str, str, str], job: Object) -> None:
    metadata = job["metadata"]
    name = f"{place[2]}-{metadata['name']}"[:56]
    reference = {"apiVersion": job["apiVersion"], "kind": job["kind"], "name": metadata["name"], "uid": metadata["uid"]}
    workload_metadata = {
        "name": f"{name}-{hashlib.sha1(metadata['uid'].encode(), usedforsecurity=False).hexdigest()[:5]}",
        "labels": {UID_LABEL: metadata["uid"]},
        "ownerReferences": [{**reference, "controller": True}],
    }
    spec: Object = {"queueName": metadata["labels"][QUEUE_LABEL], "priority": _priority(cluster, metadata["labels"])}
    sets = [{"name": role, "count": count, "template": template} for role, count, template in pod_sets(job)]
    spec |= {"podSets": sets}
    workload = {"apiVersion": f"{_GROUP}/{VERSION}", "kind": "Workload", "metadata": workload_metadata, "spec": spec}
    cluster.api.create(cluster.kind(_GROUP, "workloads", VERSION), metadata["namespace"], workload)
    cluster.event(
        job, "Normal", "CreatedWorkload", f"Created Workload: {metadata['namespace']}/{workload_metadata['name']}"
    )


def pod_sets(job: Object) -> list[tuple[str, int, Object]]:
    """The pod sets of a job: role, number and template."""
    spec = job["spec"]
    if job["kind"] == "Job":
        return [("main", int(spec.get("parallelism", 1)), spec["template"])]
    if job["kind"] == "PyTorchJob":
        sets = spec["pytorchReplicaSpecs"].items()
        return [(role.lower(), int(replica.get("replicas", 1)), replica["template"]) for role, replica in sets]
    return [(replica["name"], int(replica.get("replicas", 1)), replica["template"]) for replica in spec["replicaSpecs"]]


def _priority(cluster: ControlledCluster, labels: Mapping[str, str]) -> int:
    classes = cluster.every(_GROUP, "workloadpriorityclasses", VERSION)
    return next((int(row["value"]) for row in classes if row["metadata"]["name"] == labels.get(PRIORITY_LABEL)), 0)


def _admit(
    cluster: ControlledCluster, workload: Object, place: tuple[str, str, str], job: Object, jobs: Mapping[str, Any]
) -> None:
    """Admit a job if its queue has enough quota, else report the reason."""
    namespace = workload["metadata"]["namespace"]
    queue, problem = _queue_of(cluster, namespace, workload["spec"]["queueName"])
    if queue is None:
        _set_condition(cluster, workload, _RESERVED, is_true=False, reason="Inadmissible", message=problem)
        return
    problem = _lacks(cluster, workload, queue)
    if problem and _may_preempt(queue) and _make_room(cluster, workload, queue, jobs):
        return
    if problem:
        text = f"couldn't assign flavors to pod set {problem}"
        _set_condition(cluster, workload, _RESERVED, is_true=False, reason="Pending", message=text)
        return
    name = queue["metadata"]["name"]
    admission = {"clusterQueue": name}
    for kind, text in ((_RESERVED, f"Quota reserved in ClusterQueue {name}"), (_ADMITTED, "The workload is admitted")):
        _set_condition(cluster, workload, kind, is_true=True, reason=kind, message=text, admission=admission)
    _set_flag(cluster, place, job, is_held=False)
    cluster.event(job, "Normal", "Started", f"Admitted by clusterQueue {name}", source="kueue")


def _queue_of(cluster: ControlledCluster, namespace: str, name: str) -> tuple[Object | None, str]:
    local = cluster.api.objects.find(cluster.kind(_GROUP, "localqueues", VERSION), namespace, name)
    if local is None:
        return None, f"LocalQueue {name} doesn't exist"
    if local["spec"].get("stopPolicy", _OPEN) != _OPEN:
        return None, f"LocalQueue {name} is inactive"
    queue_name = local["spec"]["clusterQueue"]
    queue = cluster.api.objects.find(cluster.kind(_GROUP, "clusterqueues", VERSION), "", queue_name)
    if queue is None:
        return None, f"ClusterQueue {queue_name} doesn't exist"
    if queue["spec"].get("stopPolicy", _OPEN) != _OPEN:
        return None, f"ClusterQueue {queue_name} is inactive"
    return queue, ""


def _lacks(
    cluster: ControlledCluster, workload: Object, queue: Object, *, without: frozenset[str] = frozenset()
) -> str:
    """The quota that a queue lacks for a workload, in Kueue's words; empty if the quota suffices."""
    used: Counter[str] = Counter()
    for other in cluster.every(_GROUP, "workloads", VERSION):
        admitted = other.get("status", {}).get("admission", {}).get("clusterQueue")
        counts = admitted == queue["metadata"]["name"] and _is(other, _RESERVED) and not _is(other, "Finished")
        if counts and other["metadata"]["uid"] not in without:
            used.update(_wants(other))
    quotas = {
        resource["name"]: (flavor["name"], quantity(resource["nominalQuota"]))
        for group in queue["spec"].get("resourceGroups", ())
        for flavor in group["flavors"][:1]
        for resource in flavor["resources"]
    }
    role = workload["spec"]["podSets"][0]["name"]
    for name, amount in sorted(_wants(workload).items()):
        if name not in quotas:
            if name == "pods" or not amount:
                continue
            return f"{role}: resource {name} unavailable in ClusterQueue"
        flavor, quota = quotas[name]
        missing = used[name] + amount - quota
        if amount > quota:
            text = f"request > maximum capacity ({_number(amount)} > {_number(quota)})"
            return f"{role}: insufficient quota for {name} in flavor {flavor}, {text}"
        if missing > 0:
            return f"{role}: insufficient unused quota for {name} in flavor {flavor}, {_number(missing)} more needed"
    return ""


def _number(value: Decimal | int) -> str:
    return str(int(value)) if value == int(value) else str(value)


def _wants(workload: Object) -> Counter[str]:
    totals: Counter[str] = Counter()
    for pod_set in workload["spec"]["podSets"]:
        for name, value in requests_of({"spec": pod_set["template"]["spec"]}).items():
            totals[name] += value * pod_set["count"]
    return totals


def _may_preempt(queue: Object) -> bool:
    return queue["spec"].get("preemption", {}).get("withinClusterQueue", "Never") in _PREEMPTS


def _make_room(cluster: ControlledCluster, workload: Object, queue: Object, jobs: Mapping[str, Any]) -> bool:
    """Suspend jobs of lower priority until a workload fits, lowest and youngest first; False if it cannot fit."""
    priority = int(workload["spec"].get("priority", 0))
    lower = [
        other
        for other in cluster.every(_GROUP, "workloads", VERSION)
        if other.get("status", {}).get("admission", {}).get("clusterQueue") == queue["metadata"]["name"]
        and _is(other, _ADMITTED)
        and int(other["spec"].get("priority", 0)) < priority
    ]
    victims: list[Object] = []
    for candidate in sorted(lower, key=_rank, reverse=True):
        victims.append(candidate)
        leaving = frozenset(one["metadata"]["uid"] for one in victims)
        if not _lacks(cluster, workload, queue, without=leaving):
            break
    else:
        return False
    for victim in victims:
        name = workload["metadata"]["name"]
        text = f"Preempted to accommodate a workload (UID: {workload['metadata']['uid']}, {name}) due to prioritization"
        place, job = jobs[victim["metadata"]["labels"][UID_LABEL]]
        _set_condition(cluster, victim, _EVICTED, is_true=True, reason="Preempted", message=text)
        for kind in (_RESERVED, _ADMITTED):
            _set_condition(cluster, victim, kind, is_true=False, reason="Pending", message=text, admission={})
        _set_flag(cluster, place, job, is_held=True)
        cluster.event(job, "Normal", "Stopped", text, source="kueue")
    return True


def _set_flag(cluster: ControlledCluster, place: tuple[str, str, str], job: Object, *, is_held: bool) -> None:
    metadata = job["metadata"]
    cluster.api.objects.update(
        cluster.kind(place[0], place[1]),
        metadata["namespace"],
        lambda stored: with_suspend(stored, is_held=is_held),
        metadata["name"],
    )


def _set_condition(
    cluster: ControlledCluster,
    workload: Object,
    kind: str,
    *,
    is_true: bool,
    reason: str,
    message: str,
    admission: Object | None = None,
) -> None:
    metadata = workload["metadata"]

    def apply(stored: Object) -> Object:
        before = stored.get("status", {})
        same = [condition for condition in before.get("conditions", ()) if condition["type"] == kind]
        if same and (same[0]["status"], same[0]["message"]) == (str(is_true), message):
            return stored
        after = update_condition(before, kind, is_true=is_true, reason=reason, message=message)
        return {**stored, "status": after if admission is None else {**after, "admission": admission}}

    cluster.api.objects.update(
        cluster.kind(_GROUP, "workloads", VERSION), metadata["namespace"], apply, metadata["name"]
    )


def _finish(cluster: ControlledCluster) -> None:
    over = {job["metadata"]["uid"] for _, job in _queued_jobs(cluster) if is_over(job)}
    for workload in cluster.every(_GROUP, "workloads", VERSION):
        if workload["metadata"]["labels"][UID_LABEL] in over and not _is(workload, "Finished"):
            message = "Job finished successfully"
            _set_condition(cluster, workload, "Finished", is_true=True, reason="JobFinished", message=message)
