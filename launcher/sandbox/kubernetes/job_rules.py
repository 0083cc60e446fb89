"""What the API server and the operators ask of a job beyond its schema.

Job: Kubernetes 1.34, pkg/apis/batch/validation/validation.go. PyTorchJob: kubeflow/training-operator v1.8,
pkg/apis/kubeflow.org/v1/pytorch_validation.go.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from launcher.sandbox.kubernetes import pod_rules
from launcher.sandbox.kubernetes.structure import Cause

_LONGEST_HOST = 63
_MOST_RULES, _MOST_CODES = 20, 255
_TEMPLATE = "spec.template.spec"


def of_job(found: Mapping[str, Any]) -> list[Cause]:
    """What is wrong with a batch/v1 Job."""
    spec = found["spec"]
    pod = spec["template"].get("spec")
    if pod is None:
        return [(f"{_TEMPLATE}.containers", "Required value")]
    causes = [*pod_rules.of_spec(pod, _TEMPLATE), *_numbers(spec), *_indexed(found, spec)]
    if pod.get("restartPolicy", "Always") not in ("OnFailure", "Never"):
        text = f'Required value: valid values: "OnFailure", "Never"; got "{pod.get("restartPolicy", "Always")}"'
        causes.append((f"{_TEMPLATE}.restartPolicy", text))
    if "podFailurePolicy" in spec:
        causes += _failure_policy(spec, pod)
    return causes


def _numbers(spec: Mapping[str, Any]) -> Iterator[Cause]:
    names = ("parallelism", "completions", "backoffLimit", "activeDeadlineSeconds", "ttlSecondsAfterFinished")
    for name in (*names, "backoffLimitPerIndex", "maxFailedIndexes"):
        if spec.get(name, 0) < 0:
            yield f"spec.{name}", f"Invalid value: {spec[name]}: must be greater than or equal to 0"


def _indexed(found: Mapping[str, Any], spec: Mapping[str, Any]) -> Iterator[Cause]:
    if spec.get("completionMode", "NonIndexed") != "Indexed":
        if "backoffLimitPerIndex" in spec:
            yield "spec.backoffLimitPerIndex", "Invalid value: requires indexed completion mode"
        return
    if "completions" not in spec:
        yield "spec.completions", "Required value: when completion mode is Indexed"
        return
    host = f"{found['metadata'].get('name', '')}-{spec['completions'] - 1}"
    if len(host) > _LONGEST_HOST or "." in host:
        text = "will not able to create pod with invalid DNS label hostname"
        yield "metadata.name", f'Invalid value: "{host}": {text}: must be no more than {_LONGEST_HOST} characters'


def _failure_policy(spec: Mapping[str, Any], pod: Mapping[str, Any]) -> Iterator[Cause]:
    path = "spec.podFailurePolicy"
    if pod.get("restartPolicy") != "Never":
        yield (
            f"{_TEMPLATE}.restartPolicy",
            'Invalid value: only "Never" is supported when podFailurePolicy is specified',
        )
    if spec.get("podReplacementPolicy", "Failed") != "Failed":
        yield "spec.podReplacementPolicy", 'Unsupported value: supported values: "Failed"'
    rules = spec["podFailurePolicy"]["rules"]
    if len(rules) > _MOST_RULES:
        yield f"{path}.rules", f"Too many: {len(rules)}: must have at most {_MOST_RULES} items"
    names = {each["name"] for part in ("containers", "initContainers") for each in pod.get(part, ())}
    for index, rule in enumerate(rules):
        at = f"{path}.rules[{index}]"
        if rule["action"] not in ("Count", "FailIndex", "FailJob", "Ignore"):
            yield f"{at}.action", f'Unsupported value: "{rule["action"]}"'
        if ("onExitCodes" in rule) == bool(rule.get("onPodConditions")):
            yield at, "Invalid value: specifying one of OnExitCodes and OnPodConditions is required"
        if "onExitCodes" in rule:
            yield from _exit_codes(rule["onExitCodes"], f"{at}.onExitCodes", names)


def _exit_codes(rule: Mapping[str, Any], path: str, names: set[str]) -> Iterator[Cause]:
    values = rule["values"]
    if not 1 <= len(values) <= _MOST_CODES:
        yield f"{path}.values", "Invalid value: at least one value is required, and 255 at most"
    if list(values) != sorted(values):
        yield f"{path}.values", "Invalid value: must be ordered"
    if len(set(values)) != len(values):
        yield f"{path}.values", "Duplicate value"
    if rule["operator"] not in ("In", "NotIn"):
        yield f"{path}.operator", f'Unsupported value: "{rule["operator"]}": supported values: "In", "NotIn"'
    if rule["operator"] == "In" and 0 in values:
        yield f"{path}.values", "Invalid value: 0: must not be 0 for the In operator"
    if rule.get("containerName") is not None and rule["containerName"] not in names:
        yield f"{path}.containerName", f'Invalid value: "{rule["containerName"]}": must be one of the container names'


def changed(found: Mapping[str, Any], old: Mapping[str, Any]) -> list[Cause]:
    """What may not change of a Job that is there."""
    spec, before = found["spec"], old["spec"]
    fixed = ["selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"]
    if not (before.get("suspend") and "startTime" not in old.get("status", {})):
        fixed.append("template")
    if spec.get("completionMode") != "Indexed" or spec.get("completions") != spec.get("parallelism"):
        fixed.append("completions")
    return [
        (f"spec.{name}", "Invalid value: field is immutable") for name in fixed if spec.get(name) != before.get(name)
    ]


def of_custom(found: Mapping[str, Any]) -> list[Cause]:
    """What an operator's webhook asks of its jobs."""
    if found.get("kind") != "PyTorchJob":
        return []
    causes = []
    specs = found.get("spec", {}).get("pytorchReplicaSpecs") or {}
    for kind, each in specs.items():
        at = f"spec.pytorchReplicaSpecs[{kind}]"
        if kind not in ("Master", "Worker"):
            causes.append((at, f'Unsupported value: "{kind}": supported values: "Master", "Worker"'))
        if kind == "Master" and each.get("replicas", 1) != 1:
            causes.append((f"{at}.replicas", "Forbidden: must be 1"))
        if each.get("restartPolicy", "OnFailure") not in ("Always", "OnFailure", "Never", "ExitCode"):
            causes.append((f"{at}.restartPolicy", f'Unsupported value: "{each["restartPolicy"]}"'))
        containers = each.get("template", {}).get("spec", {}).get("containers", ())
        if not any(container.get("name") == "pytorch" for container in containers):
            text = "Required value: must have at least one container with name pytorch"
            causes.append((f"{at}.template.spec.containers", text))
    return causes
