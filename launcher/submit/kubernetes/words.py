"""Kubernetes' reasons for a pod that does not run, in plain words."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from launcher.agent.exits import INTERRUPTED

_INSUFFICIENT = re.compile(r"(\d+) Insufficient ([a-z0-9./-]*[a-z0-9])", re.IGNORECASE)
_TAINT = re.compile(r"(\d+) node\(s\) had untolerated taint \{([^:}]+):? ?([^}]*)\}")
_SELECTOR = re.compile(r"(\d+) node\(s\) didn't match Pod's node affinity/selector")
_CORDONED = re.compile(r"(\d+) node\(s\) were unschedulable")
_NODES = re.compile(r"0/(\d+) nodes are available")
_SHORT = re.compile(r"insufficient unused quota for (\S+) in flavor \S+, (\S+) more needed")
_OVER = re.compile(r"insufficient quota for (\S+) in flavor .*request > maximum capacity \((\S+) > (\S+)\)")
UID_LABEL = "kueue.x-k8s.io/job-uid"
"""The label of a Kueue workload with its job's UID (kubernetes-sigs/kueue, pkg/controller/constants)."""
KUEUE_VERSIONS = ("v1beta2", "v1beta1")
"""Versions of Kueue's API, the newest first (kubernetes-sigs/kueue@ff69552 serves both)."""
WORKLOADS = "/apis/kueue.x-k8s.io/{version}/namespaces/{namespace}/workloads"
UNHEALTHY = "sagemaker.amazonaws.com/node-health-status"
"""HyperPod's taint of a node that has not passed, or no longer passes, its health checks."""
CHECKED = "health checks: "
"""Prefix of the reason for a pod whose nodes exist but are still under HyperPod's health checks."""
STARTING = ("being placed", "its image and its files are being downloaded")
"""The reasons of a pod that waits for no capacity."""
_DEVICES = {
    "nvidia.com/gpu": "GPUs",
    "aws.amazon.com/neuron": "Neuron devices",
    "vpc.amazonaws.com/efa": "EFA interfaces",
}
_IMAGE = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"})


def waiting(pod: Mapping[str, Any]) -> str:
    """Why a pod does not run; empty if it runs or has ended.

    >>> waiting({"status": {"phase": "Running"}})
    ''
    >>> ended = {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": {"exitCode": 3}}}
    >>> waiting({"status": {"phase": "Running", "containerStatuses": [ended]}})
    'it ended with 3 and is started again'
    """
    status = pod.get("status", {})
    if status.get("phase") not in (None, "Pending", "Running"):
        return ""
    scheduled = next(
        (condition for condition in status.get("conditions", ()) if condition["type"] == "PodScheduled"), None
    )
    if scheduled is not None and scheduled["status"] == "False":
        return placement_refusal(str(scheduled.get("message", "")))
    for container in (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())):
        reason = _container(container)
        if reason:
            return reason
    if status.get("phase") == "Running":
        return ""
    return STARTING[0] if scheduled is None else STARTING[1]


def placement_refusal(message: str) -> str:
    """The scheduler's message, in plain words.

    >>> placement_refusal("0/2 nodes are available: 2 Insufficient vpc.amazonaws.com/efa.")
    'no capacity: too few free EFA interfaces on 2 of 2 nodes'
    >>> placement_refusal("no nodes available to schedule pods")
    'no capacity: the cluster has no nodes yet'
    >>> placement_refusal("0/3 nodes are available: 2 node(s) had untolerated taint {%s: Unschedulable}." % UNHEALTHY)
    'health checks: HyperPod tests 2 of 3 nodes before they accept jobs'
    """
    total = _NODES.search(message)
    if total is None:
        return "no capacity: the cluster has no nodes yet" if "no nodes available" in message else message
    nodes = total[1]
    reasons = [
        f"too few free {_DEVICES.get(name, name)} on {count} of {nodes} nodes"
        for count, name in _INSUFFICIENT.findall(message)
    ]
    taints = _TAINT.findall(message)
    for count, key, _ in taints:
        if key == UNHEALTHY:
            return f"{CHECKED}HyperPod tests {count} of {nodes} nodes before they accept jobs"
    reasons += [f"taint {key}{f'={value}' if value else ''} on {count} of {nodes}" for count, key, value in taints]
    reasons += [
        f"{count} of {nodes} nodes do not match the job's node selector" for count in _SELECTOR.findall(message)
    ]
    reasons += [f"{count} of {nodes} nodes accept no pods (cordoned)" for count in _CORDONED.findall(message)]
    return f"no capacity: {'; '.join(reasons)}" if reasons else message


def _container(status: Mapping[str, Any]) -> str:
    waiting_state = status.get("state", {}).get("waiting") or {}
    reason, message = waiting_state.get("reason", ""), str(waiting_state.get("message", ""))
    if reason in _IMAGE:
        return f"image: {status.get('image')} cannot be pulled: {message or reason}"
    if reason == "CrashLoopBackOff":
        code = status.get("lastState", {}).get("terminated", {}).get("exitCode")
        ended = "it was interrupted" if code == INTERRUPTED else f"it ended with {code}"
        return f"{ended} and is started again" + (f": {message}" if message else "")
    if reason in ("CreateContainerConfigError", "CreateContainerError", "RunContainerError"):
        return f"container {status.get('name')} cannot start: {message or reason}"
    return ""


def hold_reason(job: Mapping[str, Any], workload: Mapping[str, Any] | None = None) -> str:
    """Why a job has no pods: its queue has not admitted it; empty if nothing holds the job."""
    spec = job.get("spec", {})
    queue = job.get("metadata", {}).get("labels", {}).get("kueue.x-k8s.io/queue-name")
    if spec.get("suspend") or spec.get("runPolicy", {}).get("suspend"):
        if not queue:
            return "it is suspended"
        why = _admission_refusal(workload or {})
        return f"quota: queue {queue} has not admitted it{f': {why}' if why else ''}"
    return ""


def _admission_refusal(workload: Mapping[str, Any]) -> str:
    """Why Kueue has not admitted a job, in plain words.

    >>> said = "pod set main: insufficient unused quota for nvidia.com/gpu in flavor a, 8 more needed"
    >>> _admission_refusal({"status": {"conditions": [{"type": "QuotaReserved", "status": "False", "message": said}]}})
    '8 more GPUs must become free'
    """
    conditions = {condition["type"]: condition for condition in workload.get("status", {}).get("conditions", ())}
    message = str(conditions.get("QuotaReserved", {}).get("message", ""))
    if conditions.get("Evicted", {}).get("reason") == "Preempted" and "Preempted" in message:
        return "a job of higher priority preempted it; it continues when there is capacity"
    short, over = _SHORT.search(message), _OVER.search(message)
    if over is not None:
        name = _DEVICES.get(over[1], over[1])
        return f"it asks for {over[2]} {name}, but the queue has only {over[3]} in total: the queue can never admit it"
    if short is not None:
        return f"{short[2]} more {_DEVICES.get(short[1], short[1])} must become free"
    return message


def newest_warning(events: Iterable[Mapping[str, Any]]) -> str:
    """The newest warning among a job's events: why no pod could be created; empty if none exists."""
    reasons = ("FailedCreate", "FailedMount", "FailedAttachVolume", "Evicted")
    relevant = [event for event in events if event.get("reason") in reasons]
    relevant.sort(key=lambda event: str(event.get("lastTimestamp") or event.get("eventTime") or ""))
    if not relevant:
        return ""
    message = str(relevant[-1].get("message", ""))
    return f"quota: {message}" if "exceeded quota" in message else message
