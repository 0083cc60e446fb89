# ruff: noqa: INP001 - one file that is shipped as it is; the folder is the function's code
"""Counts the pods that use a cluster's nodes or wait for them, for the guard before it ends idle nodes.

A pod that can never start is not counted, but listed with its reason. The guard itself runs outside the cluster's
network and cannot reach a private API; the function that installs the chart runs inside and has access. Uses only the
standard library.
"""

import base64
import json
import os
import ssl
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any

CHIPS = ("nvidia.com/", "aws.amazon.com/neuron")
"""Prefixes of accelerator resources, for any pod that requests them, including jobs unknown to Slipway."""
JOB_LABEL, RETRIES = "slipway/job", "slipway/retries"
LIVING = {"fieldSelector": "status.phase!=Succeeded,status.phase!=Failed"}
ENDED = {"fieldSelector": "status.phase=Succeeded", "labelSelector": JOB_LABEL}
GAVE_UP = "slipway gave up: "
"""Prefix of the termination message of a pod that failed for good without a record in the store
(launcher/agent/exits.py)."""
PAGE = "500"
CANNOT_START = {
    *("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError"),
    *("CreateContainerConfigError", "CreateContainerError", "RunContainerError"),
}
"""Reasons of a waiting container (kubernetes v1.34, pkg/kubelet/images/types.go and kuberuntime_container.go)."""
RESTARTS = 5
"""Allowed restarts of a pod without a retries annotation: kubelet's back-off is longest from then on."""
SETTLED_S = 600.0
"""A container that ran this long has started: kubelet then resets its back-off (pkg/kubelet/kubelet.go)."""
INTERRUPTED = 75
MOST, LONGEST = 20, 300
"""Maximum number of stuck pods in the list, and of characters for each."""
Ask = Callable[[str], Mapping[str, Any]]
"""Returns the API's response for a path."""


def count_pods(ask: Ask, event: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """Count unfinished pods that use nodes or belong to Slipway's jobs, and list the pods that cannot start.

    `others` counts the pods among them that belong to no job of Slipway.

    Args:
        ask: the cluster's API.
        event: the guard's request. `hung_minutes`: minutes after which a pod that cannot start no longer counts (0:
        never).
            `whole`: all workers exist, so an unscheduled pod would wait in vain. `hosts`: the addresses of the nodes
            on which every pod counts except the cluster's own.
        now: the current time.
    """
    hosts = frozenset(event.get("hosts", ()))
    pods = [pod for pod in list_pods(ask, LIVING) if works(pod) or is_on(pod, hosts)]
    hung_s = 60.0 * float(event.get("hung_minutes", 0))
    whole = event.get("whole") is True
    at_work = {job_of(pod) for pod in pods}
    ended = list_pods(ask, ENDED) if hung_s and at_work - {None} else ()
    findings = [(pod, last_word(pod)) for pod in ended if job_of(pod) in at_work]
    findings += [(pod, stuck(pod, now, hung_s, whole=whole)) for pod in pods if hung_s]
    reasons = {name_of(pod): reason for pod, reason in findings if reason}
    # The other pods of a job wait for the one that cannot start, or that has failed.
    jobs = {job_of(pod) for pod, reason in findings if reason} - {None}
    working = [pod for pod in pods if name_of(pod) not in reasons and job_of(pod) not in jobs]
    named = [f"{name}: {reason}"[:LONGEST] for name, reason in reasons.items()]
    others = sum(job_of(pod) is None for pod in working)
    return {"pods": len(working), "others": others, "stuck": named[:MOST]}


def name_of(pod: Mapping[str, Any]) -> str:
    """The pod's namespace and name."""
    return f"{pod['metadata'].get('namespace', 'default')}/{pod['metadata']['name']}"


def job_of(pod: Mapping[str, Any]) -> tuple[str, str] | None:
    """The job of Slipway that a pod belongs to; None for any other pod."""
    label = (pod["metadata"].get("labels") or {}).get(JOB_LABEL)
    return None if label is None else (pod["metadata"].get("namespace", "default"), label)


def stuck(pod: Mapping[str, Any], now: datetime, hung_s: float, *, whole: bool) -> str:
    """Why a pod cannot start, and could not for `hung_s` seconds; "" if it may still start."""
    status = pod.get("status", {})
    scheduled: Mapping[str, Any] = next(
        (condition for condition in status.get("conditions", ()) if condition["type"] == "PodScheduled"), {}
    )
    since = datetime.fromisoformat(scheduled.get("lastTransitionTime") or pod["metadata"]["creationTimestamp"])
    if (now - since).total_seconds() < hung_s:
        return ""
    if scheduled.get("status") == "False":
        return f"{scheduled.get('reason', 'Unschedulable')}: {scheduled.get('message', '')}" if whole else ""
    retries = (pod["metadata"].get("annotations") or {}).get(RETRIES, "")
    most = int(retries) if retries.isdigit() else RESTARTS
    for state in (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())):
        waiting = state.get("state", {}).get("waiting") or {}
        if waiting.get("reason") in CANNOT_START:
            return f"{waiting['reason']}: container {state['name']}: {waiting.get('message', state.get('image', ''))}"
        if state.get("restartCount", 0) > most and loops(state, now):
            code = state["lastState"]["terminated"].get("exitCode")
            return (
                f"CrashLoopBackOff: container {state['name']} was restarted {state['restartCount']} times, exit {code}"
            )
    return ""


def loops(status: Mapping[str, Any], now: datetime) -> bool:
    """Whether a container fails soon after each start; an interruption is no failure."""
    last, running = status.get("lastState", {}).get("terminated") or {}, status.get("state", {}).get("running")
    if last.get("exitCode", 0) in (0, INTERRUPTED) or not (last.get("startedAt") and last.get("finishedAt")):
        return False
    lasted = [(last["startedAt"], datetime.fromisoformat(last["finishedAt"]))]
    lasted += [(running["startedAt"], now)] if running else []
    return all((end - datetime.fromisoformat(begin)).total_seconds() < SETTLED_S for begin, end in lasted)


def last_word(pod: Mapping[str, Any]) -> str:
    """Why a pod ended for good on its own decision; "" if it did not."""
    for status in pod.get("status", {}).get("containerStatuses", ()):
        message = (status.get("state", {}).get("terminated") or {}).get("message", "")
        if message.startswith(GAVE_UP):
            return str(message.removeprefix(GAVE_UP)).strip()
    return ""


def list_pods(ask: Ask, selectors: Mapping[str, str]) -> Iterator[Mapping[str, Any]]:
    """Every pod of the cluster that matches the selectors, page by page."""
    query = {**selectors, "limit": PAGE}
    while True:
        page = ask(f"/api/v1/pods?{urllib.parse.urlencode(query)}")
        yield from page["items"]
        after = page.get("metadata", {}).get("continue")
        if not after:
            return
        query = {**query, "continue": after}


def works(pod: Mapping[str, Any]) -> bool:
    """Whether a pod belongs to a job of Slipway or uses its node's accelerators."""
    if JOB_LABEL in (pod["metadata"].get("labels") or {}):
        return True
    spec = pod["spec"]
    for container in (*spec.get("initContainers", ()), *spec.get("containers", ())):
        resources = container.get("resources", {})
        for amounts in (resources.get("limits") or {}, resources.get("requests") or {}):
            if any(name.startswith(CHIPS) and str(count) != "0" for name, count in amounts.items()):
                return True
    return False


def is_on(pod: Mapping[str, Any], hosts: frozenset[str]) -> bool:
    """Whether a pod runs on one of these nodes, and is neither daemon nor static pod nor system pod.

    Namespaces that begin with "kube-" are Kubernetes' own (user guide, Namespaces).
    """
    if pod.get("status", {}).get("hostIP") not in hosts or pod["metadata"].get("namespace", "").startswith("kube-"):
        return False
    owners = pod["metadata"].get("ownerReferences") or ()
    return not any(owner["kind"] in {"DaemonSet", "Node"} for owner in owners)


def api(token: str) -> Ask:
    """The API of the cluster in the environment, with the permissions of the token's owner."""
    endpoint, authority = os.environ["CLUSTER_ENDPOINT"], base64.b64decode(os.environ["CLUSTER_AUTHORITY"]).decode()
    trusted = ssl.create_default_context(cadata=authority) if endpoint.startswith("https:") else None

    def ask(path: str) -> Mapping[str, Any]:
        request = urllib.request.Request(  # noqa: S310 - the cluster's own address
            endpoint + path, headers={"Authorization": f"Bearer {token}", "Accept": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=20, context=trusted) as answer:  # noqa: S310 - the same
            counts: Mapping[str, Any] = json.load(answer)
        return counts

    return ask
