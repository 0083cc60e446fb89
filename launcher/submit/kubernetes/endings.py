"""Why a job has failed, in plain words: by its own condition, its pods' last states, and what was said of them."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from signal import Signals
from typing import Any

from launcher.agent.exits import GAVE_UP, INTERRUPTED, NEVER_AGAIN

_OF_JOB = {
    "BackoffLimitExceeded": "it failed more often than run.retries allows",
    "DeadlineExceeded": "its time limit (run.time_limit_h) is over",
}
"""Reasons of a Job's condition (k8s.io/api, batch/v1/types.go); others have words of their own."""
_OF_POD = {
    "Evicted": "was evicted from {node}",
    "NodeLost": "was lost with {node}, which answers no more",
    "Terminated": "ended with {node}, which was shut down",
    "NodeShutdown": "ended with {node}, which was shut down",
    "Shutdown": "ended with {node}, which was shut down",
    "Preempting": "had to make room on {node} for a critical pod",
    "DeadlineExceeded": "was active for longer than it may be",
}
"""Reasons of a pod's status (kubernetes, pkg/kubelet/eviction, nodeshutdown, preemption, and pkg/util/node)."""
_DISRUPTED = {
    "PreemptionByScheduler": "had to make room on {node} for a pod of a higher priority",
    "DeletionByTaintManager": "was taken off {node} because of a taint",
    "EvictionByEvictionAPI": "was evicted from {node} through the API, as by a drain",
    "DeletionByPodGC": "was lost with {node}, which is gone",
    "TerminationByKubelet": "was ended by {node}: too few resources, a shutdown, or a critical pod",
}
"""Reasons of a pod's condition DisruptionTarget (Kubernetes documentation, "Disruptions", of Kubernetes 1.34)."""
_EVENTS = ("Evicted", "OOMKilling", "Preempted", "TaintManagerEviction", "NodeNotReady", "Killing", "Failed")
_LARGEST = 128
"""An exit code of 128 and n says that signal n ended a process."""


def of_job(condition: Mapping[str, Any], pods: Sequence[Mapping[str, Any]], events: Iterable[Mapping[str, Any]]) -> str:
    """Why a job has failed.

    Args:
        condition: the job's own that says that it has.
        pods: those of its pods that are still there.
        events: what was said of pods of its namespace.

    >>> of_job({"reason": "BackoffLimitExceeded", "message": "Job has reached the specified backoff limit"}, [], [])
    'it failed more often than run.retries allows; none of its pods is there any more to say why'
    """
    reason, message = str(condition.get("reason", "")), _plain(str(condition.get("message", "")))
    judged = reason == "PodFailurePolicy"
    own = f"another try would not mend it: {message}" if judged else _OF_JOB.get(reason, message)
    last = of_pods(pods) or of_events(events)
    if not (last or pods or judged):
        last = "none of its pods is there any more to say why"
    return "; ".join(each for each in (own, last) if each)


def of_code(code: int) -> str:
    """Why a job has failed whose agents have counted its failures.

    >>> of_code(3), of_code(127)
    ('it failed more often than run.retries allows; ended with exit 3', 'another try would not mend it: exit 127')
    """
    if code in NEVER_AGAIN:
        return f"another try would not mend it: exit {code}"
    return f"{_OF_JOB['BackoffLimitExceeded']}; {_end({'reason': 'Error'}, code)}"


def last_word(pods: Iterable[Mapping[str, Any]]) -> str:
    """Why a pod has ended for good by its own decision; empty where none has."""
    for pod in pods:
        for each in pod.get("status", {}).get("containerStatuses", ()):
            message = str((each.get("state", {}).get("terminated") or {}).get("message", ""))
            if message.startswith(GAVE_UP):
                return f"pod {pod['metadata']['name']}: {_plain(message.removeprefix(GAVE_UP))}"
    return ""


def of_pods(pods: Sequence[Mapping[str, Any]]) -> str:
    """What ended the pod that failed last; empty where none has.

    A pod that saved and left because another one failed is no reason, unless there is no other.
    """
    found = [each for pod in pods for each in _ends(pod)]
    if not found:
        return ""
    _, _, said = max(found)
    return said


def of_events(events: Iterable[Mapping[str, Any]]) -> str:
    """The newest word on the end of a pod that is gone; empty where there is none."""
    found = [each for each in events if each.get("reason") in _EVENTS]
    if not found:
        return ""
    last = max(found, key=lambda each: str(each.get("lastTimestamp") or each.get("eventTime") or ""))
    return f"pod {last['involvedObject']['name']}: {last['reason']}: {str(last.get('message', '')).strip()}"


def _ends(pod: Mapping[str, Any]) -> Iterator[tuple[bool, str, str]]:
    """Each bad end of a pod: whether it tells more than that the pod left, when it was, and its words."""
    status, name = pod.get("status", {}), pod["metadata"]["name"]
    node = f"node {pod.get('spec', {}).get('nodeName') or 'unknown'}"
    ended = list(_containers(status))
    at = max((moment for moment, _, _ in ended), default="")
    whole = _whole(status, node)
    if whole:
        yield True, at, f"pod {name} {whole}"
        return
    for moment, code, text in ended:
        deleted = " after it was deleted" if "deletionTimestamp" in pod["metadata"] else ""
        yield code != INTERRUPTED, moment, f"pod {name}: {text}{deleted}"


def _whole(status: Mapping[str, Any], node: str) -> str:
    """What ended a pod as a whole; empty where its containers have to say it."""
    disrupted: Mapping[str, Any] = next(
        (
            each
            for each in status.get("conditions", ())
            if each["type"] == "DisruptionTarget" and each["status"] == "True"
        ),
        {},
    )
    words = _OF_POD.get(str(status.get("reason", ""))) or _DISRUPTED.get(str(disrupted.get("reason", "")))
    if words is None or status.get("phase") == "Succeeded":
        return ""
    message = _plain(str(status.get("message") or disrupted.get("message") or ""))
    return words.format(node=node) + (f" ({message})" if message else "")


def _containers(status: Mapping[str, Any]) -> Iterator[tuple[str, int, str]]:
    """Each bad end of a container: when, with what, and in words. One that was started again has the end before."""
    for part in ("initContainerStatuses", "containerStatuses"):
        for each in status.get(part, ()):
            for state in (each.get("state", {}), each.get("lastState", {})):
                ended = state.get("terminated") or {}
                code = int(ended.get("exitCode", 0))
                if code:
                    yield str(ended.get("finishedAt", "")), code, f"container {each['name']} {_end(ended, code)}"


def _end(ended: Mapping[str, Any], code: int) -> str:
    """How a container ended.

    >>> _end({"reason": "OOMKilled"}, 137), _end({"reason": "Error"}, 139), _end({"reason": "Error"}, 3)
    ('was killed because memory ran out (OOMKilled, exit 137)', 'was ended by SIGSEGV (exit 139)', 'ended with exit 3')
    """
    reason, message = str(ended.get("reason", "")), _plain(str(ended.get("message", "")))
    if reason == "OOMKilled":
        return f"was killed because memory ran out (OOMKilled, exit {code})"
    if code > _LARGEST and code - _LARGEST in set(Signals):
        return f"was ended by {Signals(code - _LARGEST).name} (exit {code})"
    if code == INTERRUPTED:
        return f"was told to go, saved and left (exit {code})"
    more = ", ".join(each for each in ("" if reason == "Error" else reason, message) if each)
    return f"ended with exit {code}" + (f" ({more})" if more else "")


def _plain(message: str) -> str:
    """A message in one line, without its end.

    >>> _plain("The node was low on resource:  memory. ")
    'The node was low on resource: memory'
    """
    return re.sub(r"\s+", " ", message).strip().rstrip(".")
