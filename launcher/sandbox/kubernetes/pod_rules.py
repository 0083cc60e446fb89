"""The API server's validation of pods beyond the schema (Kubernetes 1.34, pkg/apis/core/validation/validation.go)."""

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from launcher.sandbox.kubernetes.structure import Cause

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_LONGEST = 63
_ENV = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*")
_QUANTITY = re.compile(r"([+-]?[0-9]+(?:\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?")
_BINARY: dict[str | None, Decimal | int] = {f"{letter}i": 1024**power for power, letter in enumerate("KMGTPE", start=1)}
_DECIMAL: dict[str | None, Decimal | int] = {
    letter: Decimal(10) ** (3 * power) for power, letter in enumerate("kMGTPE", start=1)
}
_SMALL: dict[str | None, Decimal | int] = {"n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3")}
_FACTORS: dict[str | None, Decimal | int] = {None: 1, **_BINARY, **_DECIMAL, **_SMALL}
_FIELDS = re.compile(
    r"metadata\.(name|namespace|uid|annotations\['[^']+'\]|labels\['[^']+'\])"
    r"|spec\.(nodeName|serviceAccountName)|status\.(hostIP|hostIPs|podIP|podIPs)"
)
_ACCESS = ("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod")


def quantity(text: str | int) -> Decimal:
    """A quantity as a number.

    >>> quantity("2Gi"), quantity("1500m"), quantity(8)
    (Decimal('2147483648'), Decimal('1.500'), Decimal('8'))
    """
    match = _QUANTITY.fullmatch(str(text))
    if match is None:
        raise ValueError(f"no quantity: {text!r}")
    number, suffix = match.groups()
    try:
        if suffix and suffix[0] in "eE" and len(suffix) > 1:
            return Decimal(f"{number}{suffix}")
        return Decimal(number) * _FACTORS[suffix]
    except (InvalidOperation, KeyError) as problem:
        raise ValueError(f"no quantity: {text!r}") from problem


def is_extended(name: str) -> bool:
    """Whether a resource belongs to a device plugin: it has a domain other than Kubernetes' own."""
    return "/" in name and "kubernetes.io/" not in name


def pod_problems(spec: Mapping[str, Any], path: str) -> list[Cause]:
    """Problems of a pod's specification."""
    volumes = {volume["name"] for volume in spec.get("volumes", ())}
    if len(volumes) != len(spec.get("volumes", ())):
        return [(f"{path}.volumes", "Duplicate value: names of volumes")]
    causes = list(_sources(spec.get("volumes", ()), f"{path}.volumes"))
    names: set[str] = set()
    for part in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(part, ())):
            at = f"{path}.{part}[{index}]"
            if container["name"] in names:
                causes.append((f"{at}.name", f'Duplicate value: "{container["name"]}"'))
            names.add(container["name"])
            causes += _container(container, at, volumes)
    if not spec.get("containers"):
        causes.append((f"{path}.containers", "Required value"))
    if spec.get("restartPolicy", "Always") not in ("Always", "OnFailure", "Never"):
        text = f'Unsupported value: "{spec["restartPolicy"]}": supported values: "Always", "OnFailure", "Never"'
        causes.append((f"{path}.restartPolicy", text))
    if spec.get("terminationGracePeriodSeconds", 0) < 0:
        causes.append((f"{path}.terminationGracePeriodSeconds", "Invalid value: must be greater than or equal to 0"))
    for name in ("hostname", "subdomain"):
        if name in spec and (len(spec[name]) > _LONGEST or not _LABEL.fullmatch(spec[name])):
            causes.append((f"{path}.{name}", f'Invalid value: "{spec[name]}": must be a lowercase RFC 1123 label'))
    return [*causes, *_tolerations(spec.get("tolerations", ()), f"{path}.tolerations")]


def _sources(volumes: Any, path: str) -> Iterator[Cause]:
    for index, volume in enumerate(volumes):
        types = [key for key in volume if key != "name"]
        if not types:
            yield f"{path}[{index}]", "Required value: must specify a volume type"
        for further in types[1:]:
            yield f"{path}[{index}].{further}", "Forbidden: may not specify more than 1 volume type"


def claim_problems(spec: Mapping[str, Any], path: str) -> Iterator[Cause]:
    """Problems of a PersistentVolumeClaim's specification."""
    modes = spec.get("accessModes", ())
    if not modes:
        yield f"{path}.accessModes", "Required value: at least 1 access mode is required"
    for given in modes:
        if given not in _ACCESS:
            listed = ", ".join(f'"{mode}"' for mode in sorted(_ACCESS))
            yield f"{path}.accessModes", f'Unsupported value: "{given}": supported values: {listed}'
    if "ReadWriteOncePod" in modes and len(modes) > 1:
        yield f"{path}.accessModes", "Forbidden: may not use ReadWriteOncePod with other access modes"
    storage = spec.get("resources", {}).get("requests", {}).get("storage")
    if storage is None:
        yield f"{path}.resources[storage]", "Required value"
    elif quantity(storage) <= 0:
        yield f"{path}.resources[storage]", f'Invalid value: "{storage}": must be greater than zero'


def _container(container: Mapping[str, Any], path: str, volumes: set[str]) -> Iterator[Cause]:
    if len(container["name"]) > _LONGEST or not _LABEL.fullmatch(container["name"]):
        yield f"{path}.name", f'Invalid value: "{container["name"]}": must be a lowercase RFC 1123 label'
    if not container.get("image"):
        yield f"{path}.image", "Required value"
    for index, variable in enumerate(container.get("env", ())):
        yield from _variable(variable, f"{path}.env[{index}]")
    mounted: set[str] = set()
    for index, mount in enumerate(container.get("volumeMounts", ())):
        at = f"{path}.volumeMounts[{index}]"
        if mount["name"] not in volumes:
            yield f"{at}.name", f'Not found: "{mount["name"]}"'
        if mount["mountPath"] in mounted:
            yield f"{at}.mountPath", f'Invalid value: "{mount["mountPath"]}": must be unique'
        mounted.add(mount["mountPath"])
    yield from _resources(container.get("resources", {}), f"{path}.resources")


def _variable(variable: Mapping[str, Any], path: str) -> Iterator[Cause]:
    if not _ENV.fullmatch(variable["name"]):
        yield f"{path}.name", f'Invalid value: "{variable["name"]}": a valid environment variable name'
    source = variable.get("valueFrom")
    if source is None:
        return
    if variable.get("value"):
        yield f"{path}.valueFrom", "Invalid value: may not be specified when `value` is not empty"
    if len(source) != 1:
        yield f"{path}.valueFrom", "Invalid value: may not have more than one field specified at a time"
    field = source.get("fieldRef", {}).get("fieldPath")
    if field is not None and not _FIELDS.fullmatch(field):
        yield f"{path}.valueFrom.fieldRef.fieldPath", f'Invalid value: "{field}": error converting fieldPath'


def _resources(resources: Mapping[str, Any], path: str) -> Iterator[Cause]:
    """Problems of requests and limits: devices are integers and not shared, hugepages also need a CPU or memory."""
    limits, requests = resources.get("limits", {}), resources.get("requests", {})
    for part, quantities in (("limits", limits), ("requests", requests)):
        for name, value in quantities.items():
            try:
                number = quantity(value)
            except ValueError:
                yield (
                    f"{path}.{part}[{name}]",
                    f'Invalid value: "{value}": quantities must match the regular expression',
                )
                return
            if number < 0:
                yield f"{path}.{part}[{name}]", f'Invalid value: "{value}": must be greater than or equal to 0'
            if is_extended(name) and number != int(number):
                yield f"{path}.{part}[{name}]", f'Invalid value: "{value}": must be an integer'
    yield from _within_limits(limits, requests, path)
    named = {*limits, *requests}
    if any(name.startswith("hugepages-") for name in named) and not named & {"cpu", "memory"}:
        yield path, "Forbidden: HugePages require cpu or memory"


def _within_limits(limits: Mapping[str, Any], requests: Mapping[str, Any], path: str) -> Iterator[Cause]:
    for name in requests:
        at = f"{path}.requests"
        if name not in limits:
            if is_extended(name) or name.startswith("hugepages-"):
                yield f"{path}.limits", "Required value: Limit must be set for non overcommitable resources"
            continue
        request, most = quantity(requests[name]), quantity(limits[name])
        if request != most and (is_extended(name) or name.startswith("hugepages-")):
            yield at, f'Invalid value: "{requests[name]}": must be equal to {name} limit of {limits[name]}'
        elif request > most:
            yield at, f'Invalid value: "{requests[name]}": must be less than or equal to {name} limit of {limits[name]}'


def _tolerations(tolerations: Any, path: str) -> Iterator[Cause]:
    for index, toleration in enumerate(tolerations):
        at, operator = f"{path}[{index}]", toleration.get("operator", "Equal")
        if operator not in ("Equal", "Exists"):
            yield f"{at}.operator", f'Unsupported value: "{operator}": supported values: "Equal", "Exists"'
        if operator == "Exists" and toleration.get("value"):
            yield f"{at}.operator", "Invalid value: value must be empty when `operator` is 'Exists'"
        if not toleration.get("key") and operator != "Exists":
            yield f"{at}.operator", "Invalid value: operator must be Exists when `key` is empty"
        if toleration.get("effect", "") not in ("", "NoSchedule", "PreferNoSchedule", "NoExecute"):
            yield f"{at}.effect", f'Unsupported value: "{toleration["effect"]}"'
        if "tolerationSeconds" in toleration and toleration.get("effect") != "NoExecute":
            yield f"{at}.effect", "Invalid value: effect must be 'NoExecute' when `tolerationSeconds` is set"


def pod_changes(document: Mapping[str, Any], old: Mapping[str, Any]) -> list[Cause]:
    """Forbidden changes of an existing pod: nearly all of its specification."""
    free = ("activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds", "nodeName", "schedulingGates")

    def fixed_fields(spec: Mapping[str, Any]) -> dict[str, Any]:
        unchanged = {name: value for name, value in spec.items() if name not in free}
        parts = ("containers", "initContainers")
        return {**unchanged, **{part: [{**row, "image": ""} for row in unchanged.get(part, ())] for part in parts}}

    if fixed_fields(document["spec"]) != fixed_fields(old["spec"]):
        return [("spec", "Forbidden: pod updates may not change fields other than `spec.containers[*].image`")]
    return []
