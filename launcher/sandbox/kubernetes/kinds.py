"""The kinds of object that the API stores: their paths, and their validation."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from launcher.catalog import safe_yaml
from launcher.sandbox.kubernetes.statuses import RefusedError

_BUILT_IN = (
    ("", "v1", "namespaces", "Namespace", False),
    ("", "v1", "nodes", "Node", False),
    ("", "v1", "pods", "Pod", True),
    ("", "v1", "services", "Service", True),
    ("", "v1", "events", "Event", True),
    ("", "v1", "configmaps", "ConfigMap", True),
    ("", "v1", "secrets", "Secret", True),
    ("", "v1", "serviceaccounts", "ServiceAccount", True),
    ("", "v1", "persistentvolumes", "PersistentVolume", False),
    ("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", True),
    ("batch", "v1", "jobs", "Job", True),
    ("apps", "v1", "daemonsets", "DaemonSet", True),
    ("apps", "v1", "deployments", "Deployment", True),
    ("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", False),
    ("rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", False),
    ("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False),
    ("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False),
)
"""Kubernetes' own kinds that a launcher and its job use (API reference v1.34)."""
_FILE = Path(__file__).with_name("custom_kinds.yaml")
POD_TEMPLATE = "x-slipway-pod-template"
"""Marks a pod template in the sandbox's schemas of custom kinds; Kubernetes' own schema validates the template."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind. `schema` is the structural schema of a custom kind, None for Kubernetes' own kinds."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    schema: Mapping[str, Any] | None = field(default=None, hash=False, compare=False)

    @property
    def api_version(self) -> str:
        """The `apiVersion` of the kind's objects."""
        return f"{self.group}/{self.version}" if self.group else self.version


class Kinds:
    """The kinds of one cluster. A custom kind is added with its definition, which an operator's chart contains."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str, str], Kind] = {}
        for group, version, plural, kind, namespaced in _BUILT_IN:
            self.add(Kind(group=group, version=version, plural=plural, kind=kind, namespaced=namespaced))

    def add(self, kind: Kind) -> None:
        """Serve a kind."""
        self._found[kind.group, kind.version, kind.plural] = kind

    def at(self, group: str, version: str, plural: str) -> Kind:
        """The kind of a path.

        Raises:
            RefusedError: no kind is served at the path.
        """
        try:
            return self._found[group, version, plural]
        except KeyError:
            raise RefusedError("NotFound", "the server could not find the requested resource") from None

    def __iter__(self) -> Iterator[Kind]:
        """A copy of all kinds, because operators add kinds."""
        return iter(tuple(self._found.values()))


def shipped_kinds(names: tuple[str, ...]) -> list[Kind]:
    """The custom kinds of some operators, by their names in `custom_kinds.yaml`.

    Raises:
        KeyError: the operator is unknown.
    """
    operators = _operators()
    return [
        Kind(
            group=definition["group"],
            version=definition["version"],
            plural=definition["plural"],
            kind=definition["kind"],
            namespaced=definition.get("namespaced", True),
            schema=definition["schema"],
        )
        for name in names
        for definition in operators[name]
    ]


@cache
def _operators() -> dict[str, list[dict[str, Any]]]:
    """The shipped definitions, by operator; read once, because reading takes longer than a validation."""
    return dict(safe_yaml.loads(_FILE.read_text(encoding="utf-8"))["operators"])


def defined_kinds(definition: Mapping[str, Any]) -> list[Kind]:
    """The kinds of a CustomResourceDefinition, one for each served version."""
    spec = definition["spec"]
    return [
        Kind(
            group=spec["group"],
            version=version["name"],
            plural=spec["names"]["plural"],
            kind=spec["names"]["kind"],
            namespaced=spec["scope"] == "Namespaced",
            schema=version["schema"]["openAPIV3Schema"],
        )
        for version in spec["versions"]
        if version["served"]
    ]
