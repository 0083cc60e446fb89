"""The nodes of a Kubernetes cluster: their states, and how to cordon, drain and uncordon one.

Reading needs `list` on nodes and pods, and a drain `patch` on nodes and `create` on `pods/eviction`: the role of a
cluster of Slipway has them (AmazonEKSClusterAdminPolicy), and AmazonEKSEditPolicy lacks the rights on nodes (EKS user
guide, access policy permissions, read 2026-11-28).
"""

import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from launcher.model.cluster_nodes import ClusterNode, NodeUse
from launcher.model.kubernetes import JOB_KINDS, JOB_LABEL
from launcher.submit.kubernetes.connection import ApiRefusedError, Connection
from launcher.submit.kubernetes.words import KUEUE_VERSIONS, UNHEALTHY, WORKLOADS

NODES = "/api/v1/nodes"
_GROUPS = ("eks.amazonaws.com/nodegroup", "sagemaker.amazonaws.com/instance-group-name", "karpenter.sh/nodepool")
_INSTANCE = re.compile(r"i-[0-9a-f]{8,17}$")
"""The end of a providerID: `aws:///ZONE/i-...` of EKS, `.../hyperpod-ID-i-...` of HyperPod."""
_LIVING = ("Pending", "Running")
_NOT_FOUND = 404
_MAX_LOGS, _LOG_LINES = 16, 1000
"""Pods whose output is read for diagnostics, and lines of each container."""


def read_nodes(connection: Connection) -> tuple[ClusterNode, ...]:
    """Every node, by its name."""
    nodes = connection.ask("GET", NODES)["items"]
    pods = connection.ask("GET", "/api/v1/pods")["items"]
    on_node: dict[str, list[dict[str, Any]]] = {}
    for pod in pods:
        on_node.setdefault(str(pod["spec"].get("nodeName", "")), []).append(pod)
    described = (_node(node, on_node.get(node["metadata"]["name"], [])) for node in nodes)
    return tuple(sorted(described, key=lambda node: node.name))


def _node(node: Mapping[str, Any], pods: Sequence[Mapping[str, Any]]) -> ClusterNode:
    metadata, spec = node["metadata"], node.get("spec", {})
    labels, created = metadata.get("labels", {}), datetime.fromisoformat(metadata["creationTimestamp"])
    jobs = [pod for pod in pods if JOB_LABEL in pod["metadata"].get("labels", {})]
    living = [pod for pod in jobs if pod["status"].get("phase") in _LIVING]
    job = living[0]["metadata"]["labels"][JOB_LABEL] if living else None
    use, state, reason = _use(node, busy=job is not None)
    instance = _INSTANCE.search(str(spec.get("providerID", "")))
    idle = job is None and use is not NodeUse.STARTING
    return ClusterNode(
        name=str(metadata["name"]),
        instance=None if instance is None else instance[0],
        instance_type=str(labels.get("node.kubernetes.io/instance-type", "")),
        group=next((str(labels[label]) for label in _GROUPS if label in labels), ""),
        use=use,
        state=state,
        reason=reason,
        job=job,
        up_since=created,
        idle_since=max([created, *_ends(jobs)]) if idle else None,
        pods=tuple(str(pod["metadata"]["name"]) for pod in living),
    )


def _use(node: Mapping[str, Any], *, busy: bool) -> tuple[NodeUse, str, str]:
    """What a node does, its state in Kubernetes' words, and the reason."""
    spec, status = node.get("spec", {}), node.get("status", {})
    ready = next((each for each in status.get("conditions", ()) if each["type"] == "Ready"), None)
    if ready is None:
        return NodeUse.STARTING, "NotReady", "its kubelet has not reported yet"
    if ready["status"] != "True":
        reason = ": ".join(filter(None, (str(ready.get("reason", "")), str(ready.get("message", "")))))
        return NodeUse.DOWN, "NotReady", reason
    unhealthy = next((taint for taint in spec.get("taints", ()) if taint["key"] == UNHEALTHY), None)
    if unhealthy is not None:
        return NodeUse.DOWN, "Ready", f"HyperPod: {unhealthy.get('value') or 'under health checks'}"
    if spec.get("unschedulable"):
        return NodeUse.DRAINING if busy else NodeUse.DRAINED, "Ready,SchedulingDisabled", ""
    return NodeUse.BUSY if busy else NodeUse.IDLE, "Ready", ""


def _ends(pods: Sequence[Mapping[str, Any]]) -> list[datetime]:
    """When the containers of pods ended."""
    states = [
        status.get("state", {}).get("terminated")
        for pod in pods
        for status in pod.get("status", {}).get("containerStatuses", ())
    ]
    return [datetime.fromisoformat(state["finishedAt"]) for state in states if state and state.get("finishedAt")]


def cordon(connection: Connection, node: str, *, schedulable: bool = False) -> None:
    """Let a node accept no more pods, or let it accept pods again."""
    connection.ask(
        "PATCH",
        f"{NODES}/{node}",
        body={"spec": {"unschedulable": not schedulable}},
        form="application/merge-patch+json",
    )


def drain(connection: Connection, node: str) -> int:
    """Cordon a node and evict its pods, except those of DaemonSets, as `kubectl drain --ignore-daemonsets` does.

    Returns:
        The number of evicted pods: each has its own grace period to save.
    """
    cordon(connection, node)
    evicted = 0
    for pod in evictable(connection, node):
        metadata = pod["metadata"]
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": metadata["name"], "namespace": metadata["namespace"]},
        }
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/eviction"
        try:
            connection.ask("POST", path, body=body)
        except ApiRefusedError as refused:
            # It has ended meanwhile.
            if refused.code != _NOT_FOUND:
                raise
        evicted += 1
    return evicted


def evictable(connection: Connection, node: str) -> list[dict[str, Any]]:
    """The pods of a node that a drain evicts and that have not ended."""
    listing = connection.ask("GET", "/api/v1/pods", query={"fieldSelector": f"spec.nodeName={node}"})
    return [
        pod
        for pod in listing["items"]
        if not {owner["kind"] for owner in pod["metadata"].get("ownerReferences", ())} & {"DaemonSet", "Node"}
        and pod.get("status", {}).get("phase") in _LIVING
    ]


def diagnostics(connection: Connection, namespace: str) -> dict[str, str]:
    """The state of a cluster and a namespace, by file name: objects as JSON, and the end of the output of pods.

    Events of nodes are in the namespace `default`. A refusal is the text of its file; a kind that the cluster does not
    have has no file.
    """
    within = f"/api/v1/namespaces/{namespace}"
    jobs = {f"{kind.plural}.json": kind.path.format(namespace=namespace) for kind in JOB_KINDS.values()}
    queued = {
        f"workloads-{version}.json": WORKLOADS.format(version=version, namespace=namespace)
        for version in KUEUE_VERSIONS
    }
    paths = {
        "version.json": "/version",
        "nodes.json": NODES,
        "node-events.json": "/api/v1/namespaces/default/events",
        "daemonsets.json": "/apis/apps/v1/daemonsets",
        "pods.json": f"{within}/pods",
        "events.json": f"{within}/events",
    }
    texts = {}
    for name, path in (paths | jobs | queued).items():
        query = {"fieldSelector": "involvedObject.kind=Node"} if name == "node-events.json" else None
        try:
            objects = connection.find(path, query=query)
        except ApiRefusedError as refused:
            texts[name] = refused.message
            continue
        if objects is None:
            continue
        texts[name] = json.dumps(objects, indent=1)
        if name == "pods.json":
            texts |= _logs(connection, within, objects["items"])
    return texts


def _logs(connection: Connection, within: str, pods: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The end of the output of each container, of pods that failed first, then of the newest ones."""
    newest = sorted(pods, key=lambda pod: str(pod["metadata"]["creationTimestamp"]), reverse=True)
    chosen = sorted(newest, key=lambda pod: pod.get("status", {}).get("phase") != "Failed")[:_MAX_LOGS]
    logs = {}
    for pod in chosen:
        name, parts = pod["metadata"]["name"], []
        for container in (*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]):
            query = {"container": str(container["name"]), "tailLines": str(_LOG_LINES), "timestamps": "true"}
            try:
                printed = connection.text(f"{within}/pods/{name}/log", query=query)
            except ApiRefusedError as refused:
                printed = refused.message
            parts.append(f"== {container['name']}\n{printed.rstrip()}\n")
        logs[f"logs/{name}.txt"] = "\n".join(parts)
    return logs
