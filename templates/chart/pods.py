# ruff: noqa: INP001 - one file that is shipped as it is; the folder is the function's code
"""Counts the pods that use a cluster's machines, or wait for them: the guard asks before it ends machines as idle.

A pod that can never start uses none, and is named with its reason. The guard itself runs outside the cluster's network,
where a private API does not answer; the function that installs the chart runs inside, and is let in. Standard library
alone.
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
"""What resources of chips begin with, whoever asks for them: also jobs that Slipway knows nothing of."""
JOB_LABEL, RETRIES = "slipway/job", "slipway/retries"
LIVING = "status.phase!=Succeeded,status.phase!=Failed"
PAGE = "500"
CANNOT_START = {
    *("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError"),
    *("CreateContainerConfigError", "CreateContainerError", "RunContainerError"),
}
"""Reasons of a waiting container (kubernetes v1.34, pkg/kubelet/images/types.go and kuberuntime_container.go)."""
RESTARTS = 5
"""Of a pod that does not say how often it may fail: kubelet waits the longest between two tries from here on."""
SETTLED_S = 600.0
"""A container that ran for so long has begun: kubelet forgets its failures then (pkg/kubelet/kubelet.go)."""
INTERRUPTED = 75
MOST, LONGEST = 20, 300
"""Stuck pods that are named, and characters of each."""
Ask = Callable[[str], Mapping[str, Any]]
"""Answers a path of the API."""


def counted(ask: Ask, event: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """How many pods that have not ended use machines, or are of Slipway's jobs; and those that cannot start, in words.

    `others` are those of them that are of no job of Slipway's.

    Args:
        ask: the cluster's API.
        event: the guard's question: after how many `hung_minutes` a pod that cannot start counts no more (0: never),
            whether the workers are `whole`: all are there, so that a pod without a place waits in vain, and the
            addresses of the machines (`hosts`) on which every pod counts but the cluster's own.
        now: the moment.
    """
    hosts = frozenset(event.get("hosts", ()))
    pods = [pod for pod in living(ask) if works(pod) or is_on(pod, hosts)]
    hung_s = 60.0 * float(event.get("hung_minutes", 0))
    whole = event.get("whole") is True
    words = {name_of(pod): stuck(pod, now, hung_s, whole=whole) if hung_s else "" for pod in pods}
    # The other pods of a job wait for the one that cannot start.
    jobs = {job_of(pod) for pod in pods if words[name_of(pod)]} - {None}
    working = [pod for pod in pods if not words[name_of(pod)] and job_of(pod) not in jobs]
    named = [f"{name}: {reason}"[:LONGEST] for name, reason in words.items() if reason]
    others = sum(job_of(pod) is None for pod in working)
    return {"pods": len(working), "others": others, "stuck": named[:MOST]}


def name_of(pod: Mapping[str, Any]) -> str:
    """Its namespace and name."""
    return f"{pod['metadata'].get('namespace', 'default')}/{pod['metadata']['name']}"


def job_of(pod: Mapping[str, Any]) -> tuple[str, str] | None:
    """The job of Slipway's that a pod belongs to."""
    label = (pod["metadata"].get("labels") or {}).get(JOB_LABEL)
    return None if label is None else (pod["metadata"].get("namespace", "default"), label)


def stuck(pod: Mapping[str, Any], now: datetime, hung_s: float, *, whole: bool) -> str:
    """Why a pod cannot start, and could not for so long; "" where it may."""
    status = pod.get("status", {})
    scheduled: Mapping[str, Any] = next(
        (each for each in status.get("conditions", ()) if each["type"] == "PodScheduled"), {}
    )
    since = datetime.fromisoformat(scheduled.get("lastTransitionTime") or pod["metadata"]["creationTimestamp"])
    if (now - since).total_seconds() < hung_s:
        return ""
    if scheduled.get("status") == "False":
        return f"{scheduled.get('reason', 'Unschedulable')}: {scheduled.get('message', '')}" if whole else ""
    retries = (pod["metadata"].get("annotations") or {}).get(RETRIES, "")
    most = int(retries) if retries.isdigit() else RESTARTS
    for each in (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())):
        waiting = each.get("state", {}).get("waiting") or {}
        if waiting.get("reason") in CANNOT_START:
            return f"{waiting['reason']}: container {each['name']}: {waiting.get('message', each.get('image', ''))}"
        if each.get("restartCount", 0) > most and loops(each, now):
            code = each["lastState"]["terminated"].get("exitCode")
            return f"CrashLoopBackOff: container {each['name']} was restarted {each['restartCount']} times, exit {code}"
    return ""


def loops(status: Mapping[str, Any], now: datetime) -> bool:
    """Whether a container fails soon after each start; one that was interrupted did not fail."""
    last, running = status.get("lastState", {}).get("terminated") or {}, status.get("state", {}).get("running")
    if last.get("exitCode", 0) in (0, INTERRUPTED) or not (last.get("startedAt") and last.get("finishedAt")):
        return False
    lasted = [(last["startedAt"], datetime.fromisoformat(last["finishedAt"]))]
    lasted += [(running["startedAt"], now)] if running else []
    return all((end - datetime.fromisoformat(begin)).total_seconds() < SETTLED_S for begin, end in lasted)


def living(ask: Ask) -> Iterator[Mapping[str, Any]]:
    """Every pod of the cluster that has not ended, page by page."""
    query = {"fieldSelector": LIVING, "limit": PAGE}
    while True:
        page = ask(f"/api/v1/pods?{urllib.parse.urlencode(query)}")
        yield from page["items"]
        after = page.get("metadata", {}).get("continue")
        if not after:
            return
        query = {**query, "continue": after}


def works(pod: Mapping[str, Any]) -> bool:
    """Whether a pod is there for its machine's chips."""
    if JOB_LABEL in (pod["metadata"].get("labels") or {}):
        return True
    spec = pod["spec"]
    for each in (*spec.get("initContainers", ()), *spec.get("containers", ())):
        resources = each.get("resources", {})
        for asked in (resources.get("limits") or {}, resources.get("requests") or {}):
            if any(name.startswith(CHIPS) and str(count) != "0" for name, count in asked.items()):
                return True
    return False


def is_on(pod: Mapping[str, Any], hosts: frozenset[str]) -> bool:
    """Whether a pod runs on such a machine, and is no daemon, no static pod and none of the system's.

    Names that begin with "kube-" are Kubernetes' own (user guide, Namespaces).
    """
    if pod.get("status", {}).get("hostIP") not in hosts or pod["metadata"].get("namespace", "").startswith("kube-"):
        return False
    owners = pod["metadata"].get("ownerReferences") or ()
    return not any(each["kind"] in {"DaemonSet", "Node"} for each in owners)


def api(token: str) -> Ask:
    """The API of the cluster that the environment names, as whoever the token is of."""
    endpoint, authority = os.environ["CLUSTER_ENDPOINT"], base64.b64decode(os.environ["CLUSTER_AUTHORITY"]).decode()
    trusted = ssl.create_default_context(cadata=authority) if endpoint.startswith("https:") else None

    def ask(path: str) -> Mapping[str, Any]:
        request = urllib.request.Request(  # noqa: S310 - the cluster's own address
            endpoint + path, headers={"Authorization": f"Bearer {token}", "Accept": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=20, context=trusted) as answer:  # noqa: S310 - the same
            found: Mapping[str, Any] = json.load(answer)
        return found

    return ask
