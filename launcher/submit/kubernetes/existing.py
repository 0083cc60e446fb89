"""An existing cluster as its API describes it: nodes, operators, queues, autoscalers, the caller's permissions.

A value that these credentials may not read is None: unknown, and never interpreted as "nothing".
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from launcher.model.enums import Operator
from launcher.model.kubernetes import JOB_KINDS
from launcher.submit.kubernetes.connection import ApiRefusedError, Connection
from launcher.submit.kubernetes.jobs import served_operators
from launcher.submit.kubernetes.words import KUEUE_VERSIONS, UNHEALTHY

NAME_LABEL = "app.kubernetes.io/name"
INSTANCE_TYPE, ZONE_ID = "node.kubernetes.io/instance-type", "topology.k8s.aws/zone-id"
_BOUGHT = ("eks.amazonaws.com/capacityType", "karpenter.sh/capacity-type")
_KEEPERS = {
    "eks.amazonaws.com/nodegroup": "a managed node group",
    "karpenter.sh/nodepool": "Karpenter",
    UNHEALTHY: "HyperPod",
    "sagemaker.amazonaws.com/cluster-name": "HyperPod",
}
"""The manager of a node, by a label of the node."""
_TERMINATION_HANDLER = "aws-node-termination-handler"
_STOPPED = "None"
"""The stopPolicy of a queue that admits jobs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesNode:
    """A node of an existing cluster."""

    name: str
    instance_type: str
    zone_id: str | None
    # Its purchase option, in lower case; empty if no label names one.
    bought: str
    # Its manager, or "".
    keeper: str
    # Whether the node is ready and not cordoned.
    takes_pods: bool
    allocatable: Mapping[str, str]
    # The keys of its NoSchedule and NoExecute taints.
    taints: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedCluster:
    """The current state of a cluster."""

    version: str
    # The nodes of the wanted type.
    nodes: tuple[KubernetesNode, ...] | None
    # The nodes of each type, counted, if no node has the wanted type.
    types: Mapping[str, int]
    # The operators whose jobs the cluster accepts.
    operators: tuple[Operator, ...]
    # Karpenter node pools that may create nodes of the wanted type.
    pools: tuple[str, ...] | None
    # AWS Node Termination Handler is installed.
    drains: bool | None
    # The namespace's local queues, with the reason if a queue is stopped; None without Kueue.
    queues: Mapping[str, str] | None
    # The wanted class exists.
    priority: bool | None
    # The role that the job's service account names, if any.
    role: str | None


def describe(
    connection: Connection, *, instance_type: str, namespace: str, priority: str | None, account: str
) -> DescribedCluster:
    """Read the state of a cluster.

    `priority`: a priority class of Kueue; `account`: the job's service account.
    """
    version = str(connection.ask("GET", "/version").get("gitVersion", ""))
    query = {"labelSelector": f"{INSTANCE_TYPE}={instance_type}"}
    listing = _read(connection, "/api/v1/nodes", query)
    nodes = None if listing is None else tuple(_node(item) for item in listing.get("items", ()))
    return DescribedCluster(
        version=version,
        nodes=nodes,
        types=_types(connection) if not nodes else {},
        operators=served_operators(connection),
        pools=_pools(connection, instance_type),
        drains=_drains(connection),
        queues=_queues(connection, namespace),
        priority=_priority(connection, priority),
        role=_role_of(connection, namespace, account),
    )


def _read(connection: Connection, path: str, query: Mapping[str, str] | None = None) -> dict[str, Any] | None:
    """Return an answer; empty if the resource is missing, None if these credentials may not read it."""
    try:
        return connection.find(path, query=query) or {}
    except ApiRefusedError as refused:
        if refused.code == HTTPStatus.FORBIDDEN:
            return None
        raise


def _node(node: Mapping[str, Any]) -> KubernetesNode:
    labels, spec, status = node["metadata"].get("labels", {}), node.get("spec", {}), node.get("status", {})
    ready = any(
        condition["type"] == "Ready" and condition["status"] == "True" for condition in status.get("conditions", ())
    )
    taints = tuple(taint["key"] for taint in spec.get("taints", ()) if taint["effect"] in ("NoSchedule", "NoExecute"))
    bought = next((str(labels[label]) for label in _BOUGHT if label in labels), "")
    return KubernetesNode(
        name=node["metadata"]["name"],
        instance_type=labels.get(INSTANCE_TYPE, ""),
        zone_id=labels.get(ZONE_ID),
        bought=bought.lower().replace("_", "-"),
        keeper=next((word for label, word in _KEEPERS.items() if label in labels), ""),
        takes_pods=ready and not spec.get("unschedulable", False) and UNHEALTHY not in taints,
        allocatable=dict(status.get("allocatable", {})),
        taints=taints,
    )


def _types(connection: Connection) -> dict[str, int]:
    listing = _read(connection, "/api/v1/nodes", {"limit": "500"}) or {}
    counts: dict[str, int] = {}
    for item in listing.get("items", ()):
        name = item["metadata"].get("labels", {}).get(INSTANCE_TYPE, "another type")
        counts[name] = counts.get(name, 0) + 1
    return counts


def _pools(connection: Connection, instance_type: str) -> tuple[str, ...] | None:
    """The Karpenter node pools whose requirements permit an instance type."""
    listing = _read(connection, "/apis/karpenter.sh/v1/nodepools")
    if listing is None:
        return None
    return tuple(item["metadata"]["name"] for item in listing.get("items", ()) if _may_make(item, instance_type))


def _may_make(pool: Mapping[str, Any], instance_type: str) -> bool:
    family = instance_type.removeprefix("ml.").partition(".")[0]
    labels = {INSTANCE_TYPE: instance_type, "karpenter.k8s.aws/instance-family": family}
    for requirement in pool.get("spec", {}).get("template", {}).get("spec", {}).get("requirements", ()):
        label_value, values = labels.get(requirement["key"]), requirement.get("values", ())
        if label_value is None:
            continue
        if (requirement["operator"] == "In" and label_value not in values) or (
            requirement["operator"] == "NotIn" and label_value in values
        ):
            return False
    return True


def _drains(connection: Connection) -> bool | None:
    """Whether AWS Node Termination Handler is installed, as a DaemonSet or as a Deployment that reads a queue."""
    query = {"labelSelector": f"{NAME_LABEL}={_TERMINATION_HANDLER}"}
    answers = [_read(connection, f"/apis/apps/v1/{kind}", query) for kind in ("daemonsets", "deployments")]
    if any(answer and answer.get("items") for answer in answers):
        return True
    return None if any(answer is None for answer in answers) else False


def _queues(connection: Connection, namespace: str) -> dict[str, str] | None:
    for version in KUEUE_VERSIONS:
        listing = _read(connection, f"/apis/kueue.x-k8s.io/{version}/namespaces/{namespace}/localqueues")
        if listing:
            return {item["metadata"]["name"]: _stop_reason(item) for item in listing.get("items", ())}
    return None


def _stop_reason(queue: Mapping[str, Any]) -> str:
    if queue.get("spec", {}).get("stopPolicy", _STOPPED) != _STOPPED:
        return f"its stopPolicy is {queue['spec']['stopPolicy']}"
    conditions = queue.get("status", {}).get("conditions", ())
    inactive = (
        condition for condition in conditions if condition["type"] == "Active" and condition["status"] == "False"
    )
    return next(
        (str(condition.get("message") or condition.get("reason") or "it is not active") for condition in inactive), ""
    )


def _priority(connection: Connection, name: str | None) -> bool | None:
    """Whether a Kueue priority class exists; None if none is wanted, or if the credentials may not read it."""
    if name is None:
        return None
    answers = [
        _read(connection, f"/apis/kueue.x-k8s.io/{version}/workloadpriorityclasses/{name}")
        for version in KUEUE_VERSIONS
    ]
    return None if all(answer is None for answer in answers) else any(answers)


def missing_rights(connection: Connection, namespace: str, operator: Operator, account: str) -> tuple[str, ...]:
    """The permissions that the caller lacks to launch a job, follow it and remove it, in words."""
    job = JOB_KINDS[operator]
    needed = [(job.group, job.plural, verb) for verb in ("create", "get", "delete")]
    needed += [("", "services", "create"), ("", "services", "delete"), ("", "pods", "list"), ("", "events", "list")]
    if not _read(connection, f"/api/v1/namespaces/{namespace}"):
        needed += [("", "namespaces", "create"), ("", "serviceaccounts", "create")]
    elif not _read(connection, f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}"):
        needed.append(("", "serviceaccounts", "create"))
    return tuple(_action_text(right, namespace) for right in needed if not may(connection, right, namespace))


def may(connection: Connection, action: tuple[str, str, str], namespace: str) -> bool:
    """Whether the caller may perform an action, as the cluster reports it (SelfSubjectAccessReview)."""
    group, plural, verb = action
    attributes = {"group": group, "resource": plural, "verb": verb, "namespace": namespace}
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
    body = {**review, "spec": {"resourceAttributes": attributes}}
    answer = connection.ask("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body=body)
    return bool(answer.get("status", {}).get("allowed"))


def _action_text(action: tuple[str, str, str], namespace: str) -> str:
    group, plural, verb = action
    return f"{verb} {plural}{f'.{group}' if group else ''} in {namespace}"


def _role_of(connection: Connection, namespace: str, account: str) -> str | None:
    """The role that the jobs' service account names (IAM roles for service accounts); None if it names none."""
    document = _read(connection, f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}") or {}
    role = document.get("metadata", {}).get("annotations", {}).get("eks.amazonaws.com/role-arn")
    return None if role is None else str(role)


def short(nodes: Iterable[KubernetesNode], resource: str, count: int) -> tuple[str, ...]:
    """The nodes that report fewer devices of a resource than are needed."""
    return tuple(node.name for node in nodes if int(node.allocatable.get(resource, "0")) < count)
