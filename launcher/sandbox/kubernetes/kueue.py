"""Kueue: a job of a queue is suspended when it comes, waits for quota, and has pods only once it is let in.

After kubernetes-sigs/kueue@ff69552 (pkg/controller/jobframework, pkg/scheduler): the webhook that suspends, a Workload
for each job with its conditions and messages, admission by priority and age, preemption of lower priorities within a
queue. Played is one flavour for each resource, without cohorts, partial admission and topology.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from launcher.sandbox.kubernetes.controllers import Cluster, is_over
from launcher.sandbox.kubernetes.held_jobs import QUEUE_LABEL, suspended
from launcher.sandbox.kubernetes.placing import requests_of
from launcher.sandbox.kubernetes.pod_rules import quantity
from launcher.sandbox.kubernetes.store import Object, conditioned

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


def reconcile(cluster: Cluster) -> None:
    """One round: a workload for each job with a queue, and admission of those that find quota."""
    if not any(kind.plural == "localqueues" for kind in cluster.api.kinds):
        return
    _finish(cluster)
    jobs = {each["metadata"]["uid"]: (place, each) for place, each in _queued(cluster)}
    workloads = cluster.every(_GROUP, "workloads", VERSION)
    owners = {workload["metadata"]["labels"][UID_LABEL] for workload in workloads}
    for uid, (place, job) in jobs.items():
        # One that is being deleted waits for all that it owns: it is given nothing more.
        if uid not in owners and not is_over(job) and "deletionTimestamp" not in job["metadata"]:
            _make(cluster, place, job)
    waiting = [each for each in cluster.every(_GROUP, "workloads", VERSION) if not _is(each, _RESERVED)]
    for each in sorted(waiting, key=_rank):
        found = jobs.get(each["metadata"]["labels"][UID_LABEL])
        if found is not None and not is_over(found[1]) and "deletionTimestamp" not in found[1]["metadata"]:
            _judge(cluster, each, *found, jobs)


def _queued(cluster: Cluster) -> Iterator[tuple[tuple[str, str, str], Object]]:
    """The jobs that name a queue, each with its group, plural and kind."""
    for place in _JOBS:
        for each in cluster.every(place[0], place[1]):
            if QUEUE_LABEL in each["metadata"].get("labels", {}):
                yield place, each


def _rank(workload: Object) -> tuple[int, int]:
    return -int(workload["spec"].get("priority", 0)), int(workload["metadata"]["resourceVersion"])


def _is(workload: Mapping[str, Any], kind: str) -> bool:
    conditions = workload.get("status", {}).get("conditions", ())
    return any(condition["type"] == kind and condition["status"] == "True" for condition in conditions)


def _make(cluster: Cluster, place: tuple[str, str, str], job: Object) -> None:
    metadata = job["metadata"]
    name = f"{place[2]}-{metadata['name']}"[:56]
    reference = {"apiVersion": job["apiVersion"], "kind": job["kind"], "name": metadata["name"], "uid": metadata["uid"]}
    own = {
        "name": f"{name}-{hashlib.sha1(metadata['uid'].encode(), usedforsecurity=False).hexdigest()[:5]}",
        "labels": {UID_LABEL: metadata["uid"]},
        "ownerReferences": [{**reference, "controller": True}],
    }
    spec = {"queueName": metadata["labels"][QUEUE_LABEL], "priority": _priority(cluster, metadata["labels"])}
    sets = [{"name": role, "count": count, "template": template} for role, count, template in pod_sets(job)]
    made = {"apiVersion": f"{_GROUP}/{VERSION}", "kind": "Workload", "metadata": own, "spec": {**spec, "podSets": sets}}
    cluster.api.create(cluster.kind(_GROUP, "workloads", VERSION), metadata["namespace"], made)
    cluster.event(job, "Normal", "CreatedWorkload", f"Created Workload: {metadata['namespace']}/{own['name']}")


def pod_sets(job: Object) -> list[tuple[str, int, Object]]:
    """The pods of a job: role, number and template."""
    spec = job["spec"]
    if job["kind"] == "Job":
        return [("main", int(spec.get("parallelism", 1)), spec["template"])]
    if job["kind"] == "PyTorchJob":
        sets = spec["pytorchReplicaSpecs"].items()
        return [(role.lower(), int(each.get("replicas", 1)), each["template"]) for role, each in sets]
    return [
        (replica_spec["name"], int(replica_spec.get("replicas", 1)), replica_spec["template"])
        for replica_spec in spec["replicaSpecs"]
    ]


def _priority(cluster: Cluster, labels: Mapping[str, str]) -> int:
    classes = cluster.every(_GROUP, "workloadpriorityclasses", VERSION)
    return next((int(each["value"]) for each in classes if each["metadata"]["name"] == labels.get(PRIORITY_LABEL)), 0)


def _judge(
    cluster: Cluster, workload: Object, place: tuple[str, str, str], job: Object, jobs: Mapping[str, Any]
) -> None:
    """Let a job in where there is quota for it, else say why not."""
    namespace = workload["metadata"]["namespace"]
    queue, problem = _queue_of(cluster, namespace, workload["spec"]["queueName"])
    if queue is None:
        _set_condition(cluster, workload, _RESERVED, held=False, reason="Inadmissible", message=problem)
        return
    problem = _lacks(cluster, workload, queue)
    if problem and _may_preempt(queue) and _make_room(cluster, workload, queue, jobs):
        return
    if problem:
        text = f"couldn't assign flavors to pod set {problem}"
        _set_condition(cluster, workload, _RESERVED, held=False, reason="Pending", message=text)
        return
    name = queue["metadata"]["name"]
    admission = {"clusterQueue": name}
    for kind, text in ((_RESERVED, f"Quota reserved in ClusterQueue {name}"), (_ADMITTED, "The workload is admitted")):
        _set_condition(cluster, workload, kind, held=True, reason=kind, message=text, admission=admission)
    _set_flag(cluster, place, job, held=False)
    cluster.event(job, "Normal", "Started", f"Admitted by clusterQueue {name}", source="kueue")


def _queue_of(cluster: Cluster, namespace: str, name: str) -> tuple[Object | None, str]:
    local = cluster.api.objects.find(cluster.kind(_GROUP, "localqueues", VERSION), namespace, name)
    if local is None:
        return None, f"LocalQueue {name} doesn't exist"
    if local["spec"].get("stopPolicy", _OPEN) != _OPEN:
        return None, f"LocalQueue {name} is inactive"
    wanted = local["spec"]["clusterQueue"]
    found = cluster.api.objects.find(cluster.kind(_GROUP, "clusterqueues", VERSION), "", wanted)
    if found is None:
        return None, f"ClusterQueue {wanted} doesn't exist"
    if found["spec"].get("stopPolicy", _OPEN) != _OPEN:
        return None, f"ClusterQueue {wanted} is inactive"
    return found, ""


def _lacks(cluster: Cluster, workload: Object, queue: Object, *, without: frozenset[str] = frozenset()) -> str:
    """What a queue lacks for a workload, in Kueue's words; empty where it has room."""
    used: Counter[str] = Counter()
    for each in cluster.every(_GROUP, "workloads", VERSION):
        admitted = each.get("status", {}).get("admission", {}).get("clusterQueue")
        counts = admitted == queue["metadata"]["name"] and _is(each, _RESERVED) and not _is(each, "Finished")
        if counts and each["metadata"]["uid"] not in without:
            used.update(_wants(each))
    quotas = {
        resource["name"]: (flavor["name"], quantity(resource["nominalQuota"]))
        for group in queue["spec"].get("resourceGroups", ())
        for flavor in group["flavors"][:1]
        for resource in flavor["resources"]
    }
    role = workload["spec"]["podSets"][0]["name"]
    for name, wanted in sorted(_wants(workload).items()):
        if name not in quotas:
            if name == "pods" or not wanted:
                continue
            return f"{role}: resource {name} unavailable in ClusterQueue"
        flavor, quota = quotas[name]
        missing = used[name] + wanted - quota
        if wanted > quota:
            text = f"request > maximum capacity ({_shown(wanted)} > {_shown(quota)})"
            return f"{role}: insufficient quota for {name} in flavor {flavor}, {text}"
        if missing > 0:
            return f"{role}: insufficient unused quota for {name} in flavor {flavor}, {_shown(missing)} more needed"
    return ""


def _shown(value: Decimal | int) -> str:
    return str(int(value)) if value == int(value) else str(value)


def _wants(workload: Object) -> Counter[str]:
    found: Counter[str] = Counter()
    for pod_set in workload["spec"]["podSets"]:
        for name, value in requests_of({"spec": pod_set["template"]["spec"]}).items():
            found[name] += value * pod_set["count"]
    return found


def _may_preempt(queue: Object) -> bool:
    return queue["spec"].get("preemption", {}).get("withinClusterQueue", "Never") in _PREEMPTS


def _make_room(cluster: Cluster, workload: Object, queue: Object, jobs: Mapping[str, Any]) -> bool:
    """Suspend jobs of lower priorities for one that finds room then, the lowest and youngest first."""
    own = int(workload["spec"].get("priority", 0))
    lower = [
        each
        for each in cluster.every(_GROUP, "workloads", VERSION)
        if each.get("status", {}).get("admission", {}).get("clusterQueue") == queue["metadata"]["name"]
        and _is(each, _ADMITTED)
        and int(each["spec"].get("priority", 0)) < own
    ]
    victims: list[Object] = []
    for each in sorted(lower, key=_rank, reverse=True):
        victims.append(each)
        gone = frozenset(one["metadata"]["uid"] for one in victims)
        if not _lacks(cluster, workload, queue, without=gone):
            break
    else:
        return False
    for victim in victims:
        name = workload["metadata"]["name"]
        text = f"Preempted to accommodate a workload (UID: {workload['metadata']['uid']}, {name}) due to prioritization"
        place, job = jobs[victim["metadata"]["labels"][UID_LABEL]]
        _set_condition(cluster, victim, _EVICTED, held=True, reason="Preempted", message=text)
        for kind in (_RESERVED, _ADMITTED):
            _set_condition(cluster, victim, kind, held=False, reason="Pending", message=text, admission={})
        _set_flag(cluster, place, job, held=True)
        cluster.event(job, "Normal", "Stopped", text, source="kueue")
    return True


def _set_flag(cluster: Cluster, place: tuple[str, str, str], job: Object, *, held: bool) -> None:
    metadata = job["metadata"]
    cluster.api.objects.update(
        cluster.kind(place[0], place[1]),
        metadata["namespace"],
        lambda each: suspended(each, held=held),
        metadata["name"],
    )


def _set_condition(
    cluster: Cluster,
    workload: Object,
    kind: str,
    *,
    held: bool,
    reason: str,
    message: str,
    admission: Object | None = None,
) -> None:
    metadata = workload["metadata"]

    def apply(found: Object) -> Object:
        before = found.get("status", {})
        same = [condition for condition in before.get("conditions", ()) if condition["type"] == kind]
        if same and (same[0]["status"], same[0]["message"]) == (str(held), message):
            return found
        whole = conditioned(before, kind, held=held, reason=reason, message=message)
        return {**found, "status": whole if admission is None else {**whole, "admission": admission}}

    cluster.api.objects.update(
        cluster.kind(_GROUP, "workloads", VERSION), metadata["namespace"], apply, metadata["name"]
    )


def _finish(cluster: Cluster) -> None:
    over = {each["metadata"]["uid"] for _, each in _queued(cluster) if is_over(each)}
    for each in cluster.every(_GROUP, "workloads", VERSION):
        if each["metadata"]["labels"][UID_LABEL] in over and not _is(each, "Finished"):
            message = "Job finished successfully"
            _set_condition(cluster, each, "Finished", held=True, reason="JobFinished", message=message)
