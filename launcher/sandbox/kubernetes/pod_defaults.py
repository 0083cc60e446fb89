"""The API server's defaults of pods and Jobs (Kubernetes 1.34, pkg/apis/{core,batch}/v1/defaults.go)."""

import copy
from collections.abc import Mapping
from typing import Any

Object = dict[str, Any]
_TOLERATED_S = 300


def with_pod_defaults(pod: Object) -> Object:
    """A pod with its defaults, including the two tolerations of lost nodes that admission adds."""
    spec = _spec(pod["spec"])
    keys = {toleration.get("key") for toleration in spec.get("tolerations", ())}
    more = [
        {
            "key": f"node.kubernetes.io/{key}",
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": _TOLERATED_S,
        }
        for key in ("not-ready", "unreachable")
        if f"node.kubernetes.io/{key}" not in keys
    ]
    spec["tolerations"] = [*spec.get("tolerations", ()), *more]
    return {**pod, "spec": spec, "status": {"phase": "Pending", "qosClass": _quality(spec)}}


def with_job_defaults(job: Object) -> Object:
    """A Job with its defaults and an empty status."""
    spec = dict(job["spec"])
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("podReplacementPolicy", "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed")
    template = copy.deepcopy(spec["template"])
    spec["template"] = {**template, "spec": _spec(template["spec"])}
    return {**job, "spec": spec, "status": {}}


def _spec(template: Mapping[str, Any]) -> Object:
    spec = copy.deepcopy(dict(template))
    for name, value in (
        ("restartPolicy", "Always"),
        ("terminationGracePeriodSeconds", 30),
        ("dnsPolicy", "ClusterFirst"),
        ("schedulerName", "default-scheduler"),
        ("serviceAccountName", "default"),
    ):
        spec.setdefault(name, value)
    for container in (*spec.get("containers", ()), *spec.get("initContainers", ())):
        limits = container.get("resources", {}).get("limits", {})
        if limits:
            container["resources"]["requests"] = {**limits, **container["resources"].get("requests", {})}
        latest = ":" not in container["image"].rpartition("/")[2] or container["image"].endswith(":latest")
        container.setdefault("terminationMessagePath", "/dev/termination-log")
        container.setdefault("imagePullPolicy", "Always" if latest else "IfNotPresent")
    return spec


def _quality(spec: Mapping[str, Any]) -> str:
    resources = [container.get("resources", {}) for container in (*spec["containers"], *spec.get("initContainers", ()))]
    if not any(resource.get("limits") or resource.get("requests") for resource in resources):
        return "BestEffort"
    exact = all(
        {"cpu", "memory"} <= set(resource.get("limits", {}))
        and resource["limits"] == resource.get("requests", resource["limits"])
        for resource in resources
    )
    return "Guaranteed" if exact else "Burstable"
