"""The scheduler's decision for a pod: the fitting nodes, and the scheduler's message if no node fits."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from launcher.sandbox.kubernetes.pod_rules import quantity

Object = dict[str, Any]
_FITS = "NoSchedule", "NoExecute"
_UNSCHEDULABLE = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


def requests_of(pod: Mapping[str, Any]) -> Counter[str]:
    """A pod's requests: the sum of its containers, or the largest init container if that is more."""
    total: Counter[str] = Counter()
    for container in pod["spec"].get("containers", ()):
        for name, value in _container_requests(container).items():
            total[name] += value
    for container in pod["spec"].get("initContainers", ()):
        for name, value in _container_requests(container).items():
            total[name] = max(total[name], value)
    total["pods"] = 1
    return total


def _container_requests(container: Mapping[str, Any]) -> dict[str, Any]:
    resources = container.get("resources", {})
    quantities = {**resources.get("limits", {}), **resources.get("requests", {})}
    return {name: quantity(value) for name, value in quantities.items()}


def choose(
    pod: Mapping[str, Any], nodes: Sequence[Object], others: Iterable[Object], *, unready: str = ""
) -> tuple[str | None, str]:
    """The emptiest node that accepts a pod; if no node does, None and the reason.

    `unready` is the reason why no node can accept the pod.
    """
    if not nodes:
        return None, "no nodes available to schedule pods"
    no_help = f"0/{len(nodes)} nodes are available: {len(nodes)} Preemption is not helpful for scheduling"
    if unready:
        return None, f"0/{len(nodes)} nodes are available: {unready}. preemption: {no_help}."
    used: dict[str, Counter[str]] = {node["metadata"]["name"]: Counter() for node in nodes}
    for other in others:
        where = other["spec"].get("nodeName")
        if where in used:
            used[where].update(requests_of(other))
    reasons: Counter[str] = Counter()
    fitting = []
    for node in nodes:
        name = node["metadata"]["name"]
        lacking = _against(pod, node, used[name])
        if lacking:
            reasons.update(lacking)
        else:
            fitting.append((sum(used[name].values()), name))
    if fitting:
        return min(fitting)[1], ""
    listed = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))
    return None, f"0/{len(nodes)} nodes are available: {listed}. preemption: {no_help}."


def _against(pod: Mapping[str, Any], node: Object, used: Counter[str]) -> list[str]:
    """Why a node does not accept a pod: the reason of the first scheduler filter that rejects it."""
    spec, labels = pod["spec"], node["metadata"].get("labels", {})
    if node["spec"].get("unschedulable") and not _tolerates(spec, _UNSCHEDULABLE):
        return ["node(s) were unschedulable"]
    for taint in node["spec"].get("taints", ()):
        if taint["effect"] in _FITS and not _tolerates(spec, taint):
            value = f"{taint['key']}: {taint.get('value', '')}".rstrip() if taint.get("value") else f"{taint['key']}: "
            return [f"node(s) had untolerated taint {{{value}}}"]
    if not _matches_labels(spec, labels):
        return ["node(s) didn't match Pod's node affinity/selector"]
    conditions = node["status"].get("conditions", ())
    if not any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions):
        return ["node(s) had untolerated taint {node.kubernetes.io/not-ready: }"]
    room = {name: quantity(value) for name, value in node["status"]["allocatable"].items()}
    short = [name for name, quantity in requests_of(pod).items() if quantity > room.get(name, Decimal(0)) - used[name]]
    return ["Too many pods" if name == "pods" else f"Insufficient {name}" for name in sorted(short)]


def _tolerates(spec: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    return any(
        toleration.get("key") in (None, "", taint["key"])
        and toleration.get("effect", "") in ("", taint["effect"])
        and (toleration.get("operator", "Equal") == "Exists" or toleration.get("value", "") == taint.get("value", ""))
        for toleration in spec.get("tolerations", ())
    )


def tolerates(pod: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    """Whether a pod may stay on a node with a taint."""
    return _tolerates(pod["spec"], taint)


def admits(template: Mapping[str, Any], node: Object) -> bool:
    """Whether a DaemonSet's pods run on a node: they select its labels and tolerate its taints."""
    spec = template["spec"]
    taints = [taint for taint in node["spec"].get("taints", ()) if taint["key"] != _UNSCHEDULABLE["key"]]
    tolerated = all(_tolerates(spec, taint) for taint in taints if taint["effect"] in _FITS)
    return tolerated and _matches_labels(spec, node["metadata"].get("labels", {}))


def _matches_labels(spec: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    if any(labels.get(name) != value for name, value in spec.get("nodeSelector", {}).items()):
        return False
    affinity = spec.get("affinity", {}).get("nodeAffinity", {})
    terms = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", {}).get("nodeSelectorTerms", ())
    return not terms or any(
        all(_matches(expression, labels) for expression in term.get("matchExpressions", ())) for term in terms
    )


def _matches(requirement: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    value, operator = labels.get(requirement["key"]), requirement["operator"]
    values = requirement.get("values", ())
    return {
        "In": value in values,
        "NotIn": value not in values,
        "Exists": value is not None,
        "DoesNotExist": value is None,
    }.get(operator, False)
