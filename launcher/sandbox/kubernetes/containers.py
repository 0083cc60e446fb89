"""The environment and volumes of a container's processes on this computer.

A pod here is not isolated: its processes see this computer's files. The path of a mounted volume is therefore replaced
by the path of its folder: in the command, the arguments, the working folder and the values of variables. File contents
are not changed. The path of a termination message is replaced by a file for each container. The name of a headless
service's pod resolves to this computer.
"""

import base64
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from launcher.sandbox import namespaces

FindObject = Callable[[str, str], Mapping[str, Any] | None]
"""An object by the plural of its kind and its name, in the pod's namespace."""
_REFERENCE = re.compile(r"\$\$|\$\(([-._a-zA-Z][-._a-zA-Z0-9]*)\)")


class ContainerError(Exception):
    """A container that cannot be started; `reason` is the kubelet's term."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def expand_names(text: str, values: Mapping[str, str]) -> str:
    """A text with $(NAME) expanded; `$$` is one dollar, and unknown names stay unchanged (Kubernetes' own rule).

    >>> expand_names("$(A) $$(A) $(B)", {"A": "1"})
    '1 $(A) $(B)'
    """

    def fill(match: re.Match[str]) -> str:
        return "$" if match[0] == "$$" else values.get(match[1], match[0])

    return _REFERENCE.sub(fill, text)


def create_volumes(pod: Mapping[str, Any], folder: Path, claims: Path, find: FindObject) -> dict[str, Path]:
    """Create a pod's volumes; return the folder of each by its name, except memory-backed ones, which have no folder.

    Raises:
        ContainerError: a volume refers to an absent object, or its kind is not emulated.
    """
    paths: dict[str, Path] = {}
    for volume in pod["spec"].get("volumes", ()):
        place, kind = folder / "volumes" / volume["name"], next(name for name in volume if name != "name")
        if kind == "emptyDir" and volume["emptyDir"].get("medium") == "Memory":
            continue
        if kind == "persistentVolumeClaim":
            place = claims / volume[kind]["claimName"]
        place.mkdir(parents=True, exist_ok=True)
        paths[volume["name"]] = place
        if kind in ("configMap", "secret"):
            _fill(place, volume[kind], kind, find)
        elif kind not in ("emptyDir", "hostPath", "persistentVolumeClaim"):
            raise ContainerError("FailedMount", f'volume "{volume["name"]}": the sandbox does not support {kind}')
    return paths


def _fill(place: Path, source: Mapping[str, Any], kind: str, find: FindObject) -> None:
    name = source.get("name") or source.get("secretName")
    object_ = find("configmaps" if kind == "configMap" else "secrets", str(name))
    if object_ is None and not source.get("optional"):
        kind_word = "configmap" if kind == "configMap" else "secret"
        raise ContainerError("FailedMount", f'MountVolume.SetUp failed for volume: {kind_word} "{name}" not found')
    data = _data(object_ or {})
    paths = {item["key"]: item["path"] for item in source.get("items", ())} or {key: key for key in data}
    for key, path in paths.items():
        target = place / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data[key])
        target.chmod(source.get("defaultMode", 0o644))


def _data(source: Mapping[str, Any]) -> dict[str, bytes]:
    if source.get("kind") == "Secret":
        texts = {key: value.encode() for key, value in source.get("stringData", {}).items()}
        return {**{key: base64.b64decode(value) for key, value in source.get("data", {}).items()}, **texts}
    return {key: value.encode() for key, value in source.get("data", {}).items()}


def variables(container: Mapping[str, Any], pod: Mapping[str, Any], find: FindObject) -> dict[str, str]:
    """The variables that a container sets.

    Raises:
        ContainerError: a variable refers to an absent object.
    """
    values: dict[str, str] = {}
    for reference in container.get("envFrom", ()):
        plural = "configmaps" if "configMapRef" in reference else "secrets"
        source = reference.get("configMapRef") or reference["secretRef"]
        referenced = find(plural, source["name"])
        if referenced is None and not source.get("optional"):
            raise ContainerError("CreateContainerConfigError", f'{plural[:-1]} "{source["name"]}" not found')
        prefix = reference.get("prefix", "")
        values |= {f"{prefix}{key}": value.decode() for key, value in _data(referenced or {}).items()}
    for variable in container.get("env", ()):
        source = variable.get("valueFrom")
        value = (
            expand_names(variable.get("value", ""), values) if source is None else _referred_value(source, pod, find)
        )
        if value is not None:
            values[variable["name"]] = value
    return values


def own_names(container: Mapping[str, Any]) -> frozenset[str]:
    """The variables with metadata of the pod, such as its name: no address, though a service may have the same name."""
    fields = (
        (variable["name"], variable.get("valueFrom", {}).get("fieldRef", {})) for variable in container.get("env", ())
    )
    return frozenset(name for name, field in fields if field.get("fieldPath", "").startswith("metadata."))


def _referred_value(source: Mapping[str, Any], pod: Mapping[str, Any], find: FindObject) -> str | None:
    """The value of a variable from another object; None for a missing optional one."""
    if "fieldRef" in source:
        return _field(source["fieldRef"]["fieldPath"], pod)
    for key, plural in (("secretKeyRef", "secrets"), ("configMapKeyRef", "configmaps")):
        if key in source:
            key_name = source[key]
            data = _data(find(plural, key_name["name"]) or {})
            if key_name["key"] not in data and not key_name.get("optional"):
                message = f"couldn't find key {key_name['key']} in {plural[:-1]} {key_name['name']}"
                raise ContainerError("CreateContainerConfigError", message)
            return data[key_name["key"]].decode() if key_name["key"] in data else None
    raise ContainerError("CreateContainerConfigError", f"no {next(iter(source))} in the sandbox")


def address_of(pod: Mapping[str, Any]) -> str:
    """The address of a pod on this computer."""
    return namespaces.address(str(pod["metadata"]["uid"]), 1) if namespaces.can_name_hosts() else "127.0.0.1"


def _field(path: str, pod: Mapping[str, Any]) -> str:
    match = re.fullmatch(r"metadata\.(annotations|labels)\['([^']+)'\]", path)
    if match:
        return str(pod["metadata"].get(match[1], {}).get(match[2], ""))
    if path in ("status.hostIP", "status.hostIPs"):
        return "127.0.0.1"
    if path in ("status.podIP", "status.podIPs"):
        return address_of(pod)
    value: Any = pod
    for step in path.split("."):
        value = value.get(step, "") if isinstance(value, Mapping) else ""
    return str(value)


class Paths:
    """Replaces mounted paths by folders, and the host names of a service's pods by this computer's address."""

    def __init__(
        self, container: Mapping[str, Any], volumes: Mapping[str, Path], services: frozenset[str], last_word: Path
    ) -> None:
        mounts = {
            mount["mountPath"].rstrip("/"): volumes[mount["name"]] / mount.get("subPath", "")
            for mount in container.get("volumeMounts", ())
            if mount["name"] in volumes
        }
        for mount in mounts.values():
            mount.mkdir(parents=True, exist_ok=True)
        mounts[container["terminationMessagePath"]] = last_word
        self._mounts = mounts
        listed = "|".join(re.escape(mount) for mount in sorted(mounts, key=len, reverse=True))
        self._pattern = re.compile(rf"(?<![\w.-])({listed})(?![\w.-])")
        names = "|".join(re.escape(service) for service in sorted(services, key=len, reverse=True))
        suffix = r"(?:\.[a-z0-9-]+(?:\.svc(?:\.cluster\.local)?)?)?"
        self._hosts = re.compile(rf"(?<![\w.-])(?:[a-z0-9-]+\.)?(?:{names}){suffix}(?![\w.-])") if services else None

    def __call__(self, text: str) -> str:
        """A text with both replacements."""
        text = self._pattern.sub(lambda match: str(self._mounts[match[1]]), text)
        return text if self._hosts is None else self._hosts.sub("127.0.0.1", text)


def program_of(container: Mapping[str, Any], environment: Mapping[str, str]) -> None:
    """Refuse a container whose program is not on this computer, as a kubelet refuses an image without the program.

    Images are not pulled. A registry below `.invalid` is unreachable (RFC 6761).

    Raises:
        ContainerError: the image cannot be pulled, there is no command, or the program does not exist.
    """
    registry = container["image"].partition("/")[0]
    if registry.endswith(".invalid"):
        message = f'Back-off pulling image "{container["image"]}": lookup {registry}: no such host'
        raise ContainerError("ImagePullBackOff", message)
    if not container.get("command"):
        raise ContainerError("CreateContainerError", "no command specified: the sandbox runs no images")
    if shutil.which(container["command"][0], path=environment.get("PATH")) is None:
        message = f'exec: "{container["command"][0]}": executable file not found in $PATH: unknown'
        raise ContainerError("RunContainerError", message)
