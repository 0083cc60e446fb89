"""The Job controller: the pods of a Job, one for each index, and the effect of their ends.

As in Kubernetes 1.34 (pkg/controller/job): the pod failure policy is evaluated before a failure counts; a pod is
replaced after it has ended; the Job has failed, or is complete, when its last pod has ended.
"""

import secrets
from collections.abc import Mapping
from typing import Any

from launcher.sandbox.kubernetes.controllers import ControlledCluster, condition, is_over, with_condition
from launcher.sandbox.kubernetes.store import Object, now

INDEX = "batch.kubernetes.io/job-completion-index"
NAME, CONTROLLER = "batch.kubernetes.io/job-name", "batch.kubernetes.io/controller-uid"
TRACKED = "batch.kubernetes.io/job-tracking"
"""The finalizer that keeps an ended pod until the controller has counted it."""


def reconcile(cluster: ControlledCluster, job: Object) -> None:
    """Reconcile a Job once."""
    spec, status, metadata = job["spec"], job.get("status", {}), job["metadata"]
    if spec.get("managedBy", "kubernetes.io/job-controller") != "kubernetes.io/job-controller":
        return
    pods = cluster.pods_of(metadata["namespace"], metadata["uid"])
    if "deletionTimestamp" in metadata or is_over(job):
        _release(cluster, pods)
        return
    counted = _count_pods(cluster, job, pods)
    living = [pod for pod in pods if not _has_ended(pod)]
    failure = condition(job, "FailureTarget") or _failed_status(cluster, job, counted)
    done = sorted(counted["done"])
    completions = spec.get("completions", spec["parallelism"])
    after: Object = {
        **status,
        "startTime": status.get("startTime", now()),
        "active": len(living),
        "succeeded": len(done),
        "failed": counted["failed"],
        "completedIndexes": ",".join(str(index) for index in done),
        "uncountedTerminatedPods": {},
    }
    if spec.get("suspend"):
        for running in living:
            cluster.delete_pod(running)
        after.pop("startTime")
        after = with_condition(after, "Suspended", "JobSuspended", "Job suspended")
    elif failure is not None:
        after = _end_job(cluster, after, living, ("FailureTarget", "Failed"), failure)
    elif len(done) >= completions:
        why = {"reason": "CompletionsReached", "message": "Reached expected number of succeeded pods"}
        after = _end_job(cluster, after, living, ("SuccessCriteriaMet", "Complete"), why)
    else:
        after["conditions"] = [row for row in after.get("conditions", []) if row["type"] != "Suspended"]
        _start_missing(cluster, job, pods, set(done), completions)
    cluster.set_status("batch", "jobs", job, after)


def _end_job(
    cluster: ControlledCluster, status: Object, living: list[Object], kinds: tuple[str, str], why: Object
) -> Object:
    """The status of a decided Job: delete its running pods, and add the final condition when no pod runs."""
    status = with_condition(status, kinds[0], why["reason"], why["message"])
    for pod in living:
        cluster.delete_pod(pod)
    if not living:
        status = with_condition(status, kinds[1], why["reason"], why["message"])
        if kinds[1] == "Complete":
            status["completionTime"] = now()
    return status


def _count_pods(cluster: ControlledCluster, job: Object, pods: list[Object]) -> dict[str, Any]:
    status = job.get("status", {})
    done = {int(index) for index in status.get("completedIndexes", "").split(",") if index}
    failed, fatal = status.get("failed", 0), None
    for pod in pods:
        if not _has_ended(pod) or TRACKED not in pod["metadata"].get("finalizers", ()):
            continue
        index = int(pod["metadata"]["annotations"].get(INDEX, len(done)))
        if pod["status"]["phase"] == "Succeeded":
            done.add(index)
        else:
            action, why = _action(job, pod)
            failed += action != "Ignore"
            fatal = why if action == "FailJob" else fatal
            cluster.replace_after(job, index, delay=action != "Ignore")
        cluster.untrack(pod, TRACKED)
    return {"done": done, "failed": failed, "fatal": fatal}


def _action(job: Object, pod: Object) -> tuple[str, str]:
    for number, rule in enumerate(job["spec"].get("podFailurePolicy", {}).get("rules", ())):
        where = f"matching {rule['action']} rule at index {number}"
        name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        if "onExitCodes" in rule:
            match = _exit_matching(rule["onExitCodes"], pod)
            if match is not None:
                return rule["action"], f"Container {match[0]} for pod {name} failed with exit code {match[1]} {where}"
        for pattern in rule.get("onPodConditions", ()):
            row = condition(pod, pattern["type"])
            if row is not None and row["status"] == pattern.get("status", "True"):
                return rule["action"], f"Pod {name} has condition {pattern['type']} {where}"
    return "Count", ""


def _exit_matching(rule: Mapping[str, Any], pod: Object) -> tuple[str, int] | None:
    """The first failed container whose exit code matches a rule; None if no container matches."""
    statuses = [*pod["status"].get("initContainerStatuses", ()), *pod["status"].get("containerStatuses", ())]
    for status in statuses:
        code = status["state"].get("terminated", {}).get("exitCode", 0)
        if code == 0 or rule.get("containerName") not in (None, status["name"]):
            continue
        if (code in rule["values"]) == (rule["operator"] == "In"):
            return status["name"], code
    return None


def _failed_status(cluster: ControlledCluster, job: Object, counted: Mapping[str, Any]) -> Object | None:
    spec = job["spec"]
    if counted["fatal"]:
        return {"reason": "PodFailurePolicy", "message": counted["fatal"]}
    if counted["failed"] > spec["backoffLimit"]:
        return {"reason": "BackoffLimitExceeded", "message": "Job has reached the specified backoff limit"}
    started, limit = job.get("status", {}).get("startTime"), spec.get("activeDeadlineSeconds")
    if started and limit is not None and cluster.seconds_since(started) > limit:
        return {"reason": "DeadlineExceeded", "message": "Job was active longer than specified deadline"}
    return None


def _start_missing(
    cluster: ControlledCluster, job: Object, pods: list[Object], done: set[int], completions: int
) -> None:
    spec = job["spec"]
    running = [pod for pod in pods if not _has_ended(pod)]
    indexes = {int(pod["metadata"]["annotations"].get(INDEX, -1)) for pod in running}
    free = [index for index in range(completions) if index not in done and index not in indexes]
    room = min(spec["parallelism"], completions - len(done)) - len(running)
    for index in free[: max(0, room)]:
        if cluster.may_replace(job, index):
            cluster.create_pod(_pod(job, index), job)


def _pod(job: Object, index: int) -> Object:
    template, name = job["spec"]["template"], job["metadata"]["name"]
    indexed = job["spec"]["completionMode"] == "Indexed"
    labels = {
        NAME: name,
        "job-name": name,
        CONTROLLER: job["metadata"]["uid"],
        "controller-uid": job["metadata"]["uid"],
    }
    metadata = template.get("metadata", {})
    spec = {**template["spec"]}
    annotations = {**metadata.get("annotations", {})}
    if indexed:
        labels[INDEX] = annotations[INDEX] = str(index)
        spec.setdefault("hostname", f"{name}-{index}")
        variable = {
            "name": "JOB_COMPLETION_INDEX",
            "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}},
        }
        for part in ("containers", "initContainers"):
            if part in spec:
                spec[part] = [{**container, "env": [*container.get("env", ()), variable]} for container in spec[part]]
    middle = f"{name}-{index}" if indexed else name
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{middle[:57]}-{secrets.token_hex(3)[:5]}",
            "labels": {**metadata.get("labels", {}), **labels},
            "annotations": annotations,
            "finalizers": [TRACKED],
        },
        "spec": spec,
    }


def _has_ended(pod: Object) -> bool:
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def _release(cluster: ControlledCluster, pods: list[Object]) -> None:
    for pod in pods:
        if TRACKED in pod["metadata"].get("finalizers", ()):
            cluster.untrack(pod, TRACKED)
