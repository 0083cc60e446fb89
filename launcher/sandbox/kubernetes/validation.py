"""The API server's validation of objects: by their schema, and by the rules beyond the schema.

The strict schemas of `kubernetes-validate` validate Kubernetes' own kinds, custom kinds have their own schemas;
the rules that only the server's code contains (below, and pod_rules.py) are checked in addition.
"""

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

from jsonschema.exceptions import ValidationError
from jsonschema.protocols import Validator
from jsonschema.validators import Draft202012Validator
from referencing import Registry, Resource

from launcher.agent import safe_json
from launcher.model import eks
from launcher.sandbox.kubernetes import pod_rules, structure
from launcher.sandbox.kubernetes.cel_rules import unreadable
from launcher.sandbox.kubernetes.kinds import Kind, Kinds, shipped_kinds
from launcher.sandbox.kubernetes.statuses import RefusedError, invalid
from launcher.sandbox.kubernetes.structure import Cause

# What the API server and the operators ask of a job beyond its schema.
#
# Job: Kubernetes 1.34, pkg/apis/batch/validation/validation.go. PyTorchJob: kubeflow/training-operator v1.8,
# pkg/apis/kubeflow.org/v1/pytorch_validation.go.


_LONGEST_HOST = 63
_MAX_RULES, _MAX_CODES = 20, 255
_TEMPLATE = "spec.template.spec"
VERSION = eks.VERSION
"""The version of Kubernetes whose schemas validate: that of the clusters that plans create."""
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_LABEL_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_LONGEST_NAME, _LONGEST_LABEL = 253, 63


def job_problems(document: Mapping[str, Any]) -> list[Cause]:
    """Problems of a batch/v1 Job."""
    spec = document["spec"]
    pod = spec["template"].get("spec")
    if pod is None:
        return [(f"{_TEMPLATE}.containers", "Required value")]
    causes = [*pod_rules.pod_problems(pod, _TEMPLATE), *_numbers(spec), *_indexed_job_causes(document, spec)]
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


def _indexed_job_causes(document: Mapping[str, Any], spec: Mapping[str, Any]) -> Iterator[Cause]:
    if spec.get("completionMode", "NonIndexed") != "Indexed":
        if "backoffLimitPerIndex" in spec:
            yield "spec.backoffLimitPerIndex", "Invalid value: requires indexed completion mode"
        return
    if "completions" not in spec:
        yield "spec.completions", "Required value: when completion mode is Indexed"
        return
    host = f"{document['metadata'].get('name', '')}-{spec['completions'] - 1}"
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
    if len(rules) > _MAX_RULES:
        yield f"{path}.rules", f"Too many: {len(rules)}: must have at most {_MAX_RULES} items"
    names = {container["name"] for part in ("containers", "initContainers") for container in pod.get(part, ())}
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
    if not 1 <= len(values) <= _MAX_CODES:
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


def job_changes(document: Mapping[str, Any], old: Mapping[str, Any]) -> list[Cause]:
    """Forbidden changes of an existing Job."""
    spec, before = document["spec"], old["spec"]
    fixed = ["selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"]
    if not (before.get("suspend") and "startTime" not in old.get("status", {})):
        fixed.append("template")
    if spec.get("completionMode") != "Indexed" or spec.get("completions") != spec.get("parallelism"):
        fixed.append("completions")
    return [
        (f"spec.{name}", "Invalid value: field is immutable") for name in fixed if spec.get(name) != before.get(name)
    ]


def webhook_problems(document: Mapping[str, Any]) -> list[Cause]:
    """Problems that an operator's webhook reports for its jobs."""
    if document.get("kind") != "PyTorchJob":
        return []
    causes = []
    specs = document.get("spec", {}).get("pytorchReplicaSpecs") or {}
    for kind, template in specs.items():
        at = f"spec.pytorchReplicaSpecs[{kind}]"
        if kind not in ("Master", "Worker"):
            causes.append((at, f'Unsupported value: "{kind}": supported values: "Master", "Worker"'))
        if kind == "Master" and template.get("replicas", 1) != 1:
            causes.append((f"{at}.replicas", "Forbidden: must be 1"))
        if template.get("restartPolicy", "OnFailure") not in ("Always", "OnFailure", "Never", "ExitCode"):
            causes.append((f"{at}.restartPolicy", f'Unsupported value: "{template["restartPolicy"]}"'))
        containers = template.get("template", {}).get("spec", {}).get("containers", ())
        if not any(container.get("name") == "pytorch" for container in containers):
            text = "Required value: must have at least one container with name pytorch"
            causes.append((f"{at}.template.spec.containers", text))
    return causes


def refusals(
    document: Mapping[str, Any],
    *,
    version: str = VERSION,
    operators: tuple[str, ...] | None = None,
    kinds: tuple[Kind, ...] | None = None,
) -> list[str]:
    """The errors of a cluster about a new document; empty if the cluster accepts it.

    `operators` None: the kinds of all known operators; `kinds` replace them.
    """
    served = Kinds()
    named = ("training-operator", "hyperpod", "kueue") if operators is None else operators
    for kind in shipped_kinds(named) if kinds is None else kinds:
        served.add(kind)
    match = next((kind for kind in served if _is(document, kind)), None)
    if match is None:
        return [f"no kind {document.get('kind')} in {document.get('apiVersion')} here"]
    try:
        validate(match, document, None, version=version)
    except RefusedError as refused:
        return [f"{field}: {text}" if field else text for field, text in refused.causes] or [str(refused)]
    return []


def _is(document: Mapping[str, Any], kind: Kind) -> bool:
    return (document.get("apiVersion"), document.get("kind")) == (kind.api_version, kind.kind)


def validate(kind: Kind, document: Mapping[str, Any], old: Mapping[str, Any] | None, *, version: str = VERSION) -> None:
    """Refuse an object that a cluster would refuse.

    Raises:
        RefusedError: the object is invalid; the message has every reason.
    """
    if not _is(document, kind):
        identity = f"{document.get('apiVersion')}, Kind={document.get('kind')}"
        raise RefusedError("BadRequest", f"{identity} does not match the expected {kind.api_version}, Kind={kind.kind}")
    if kind.schema is None:
        _refuse_of_its_shape(document, version)
        causes = _kind_causes(kind, document, old)
    else:
        unknown = list(structure.unknown_fields(kind.schema, document))
        if unknown:
            listed = ", ".join(f'unknown field "{name}"' for name in unknown)
            raise RefusedError("BadRequest", f"strict decoding error: {listed}")
        # The rules see what the server keeps: defaults are filled in first.
        complete = structure.with_defaults(kind.schema, document)
        causes = list(structure.broken_rules(kind.schema, complete, old, lambda template: _template(template, version)))
        causes += webhook_problems(document)
    causes = [*_metadata(document), *causes]
    if causes:
        raise invalid(kind.kind, str(document.get("metadata", {}).get("name", "")), causes)


def _refuse_of_its_shape(document: Mapping[str, Any], version: str) -> None:
    """Decode as the server does: refuse invalid values and unknown fields before any other rule is checked."""
    texts = sorted(
        _problem_text(error) for error in _validator(_file_name(document), version).iter_errors(_plain(document))
    )
    if texts:
        raise RefusedError("BadRequest", f"strict decoding error: {', '.join(texts)}")


def _problem_text(problem: ValidationError) -> str:
    path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in problem.absolute_path).lstrip(".")
    if problem.validator == "additionalProperties":
        names = re.findall(r"'([^']+)'", problem.message)
        return ", ".join(f'unknown field "{f"{path}.{name}".lstrip(".")}"' for name in names)
    return f"{path}: {problem.message[:300]}"


def _file_name(document: Mapping[str, Any]) -> str:
    """The file name of a schema: the group without its domain, as in kubernetes-json-schema."""
    version = re.sub(r"^([^./]*)(?:\.[^/]*)?/", r"\1-", str(document["apiVersion"]))
    return f"{str(document['kind']).lower()}-{version}.json"


@cache
def _validator(name: str, version: str) -> Validator:
    registry: Registry[Any] = Registry()
    try:
        schema = safe_json.loads((_schemas(version) / name).read_bytes())
    except FileNotFoundError as problem:
        raise LookupError(f"kubernetes-validate has no {name} for Kubernetes {version}") from problem
    for resource in (Resource.from_contents(schema), _definitions(version)):
        registry = resource @ registry
    validator: Validator = Draft202012Validator(schema, registry=registry)
    return validator


@cache
def _definitions(version: str) -> Resource[Any]:
    return Resource.from_contents(safe_json.loads((_schemas(version) / "_definitions.json").read_bytes()))


def _schemas(version: str) -> Traversable:
    return files("kubernetes_validate") / "kubernetes-json-schema" / f"v{version}.0-local-strict"


def _plain(document: Mapping[str, Any]) -> Any:
    """The document as plain JSON values."""
    return safe_json.loads(json.dumps(document))


def _metadata(document: Mapping[str, Any]) -> list[Cause]:
    metadata, causes = document.get("metadata", {}), []
    name = metadata.get("name", "")
    if not name:
        causes.append(("metadata.name", "Required value: name or generateName is required"))
    elif len(name) > _LONGEST_NAME or not _SUBDOMAIN.fullmatch(name):
        text = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.'"
        causes.append(("metadata.name", f'Invalid value: "{name}": {text}'))
    return [*causes, *labels(metadata.get("labels", {}), "metadata.labels")]


def labels(values: Mapping[str, str], path: str) -> list[Cause]:
    """Problems of labels: a prefix must be a DNS name, name and value have at most 63 characters."""
    causes = []
    for key, value in values.items():
        prefix, _, name = key.rpartition("/")
        if (
            len(name) > _LONGEST_LABEL
            or not _LABEL_NAME.fullmatch(name)
            or (prefix and not _SUBDOMAIN.fullmatch(prefix))
        ):
            causes.append((path, f'Invalid value: "{key}": name part must consist of alphanumeric characters'))
        if len(value) > _LONGEST_LABEL or not _LABEL_VALUE.fullmatch(value):
            causes.append((path, f'Invalid value: "{value}": a valid label must be at most 63 characters'))
    return causes


def _kind_causes(kind: Kind, document: Mapping[str, Any], old: Mapping[str, Any] | None) -> list[Cause]:
    if kind.kind == "Job":
        return [*job_problems(document), *(job_changes(document, old) if old is not None else [])]
    if kind.kind == "Pod":
        return pod_rules.pod_problems(document["spec"], "spec") if old is None else pod_rules.pod_changes(document, old)
    if kind.kind == "PersistentVolumeClaim":
        return list(pod_rules.claim_problems(document["spec"], "spec"))
    if kind.kind == "CustomResourceDefinition":
        expected = f"{document['spec']['names']['plural']}.{document['spec']['group']}"
        if document["metadata"]["name"] != expected:
            return [("metadata.name", f'Invalid value: must be spec.names.plural+"."+spec.group: {expected}')]
        schemas = enumerate(version["schema"] for version in document["spec"]["versions"])
        return [cause for index, schema in schemas for cause in unreadable(schema, f"spec.versions[{index}].schema")]
    return []


def _template(template: Any, version: str) -> list[Cause]:
    document = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "t"}, "template": template}
    problems = _validator(_file_name(document), version).iter_errors(_plain(document))
    texts = [("", _problem_text(problem).replace("template.", "")) for problem in problems]
    if texts or "spec" not in template:
        return texts or [("spec", "Required value")]
    causes = labels(template.get("metadata", {}).get("labels", {}), "metadata.labels")
    return [*causes, *pod_rules.pod_problems(template["spec"], "spec")]
