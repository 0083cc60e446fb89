"""An existing Kubernetes cluster that a plan names, as the sandbox creates it: with all that the plan's job needs."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingCluster:
    """`count` nodes of one type, and the other requirements of the job.

    `managed`: nodes of HyperPod, whose `instance_type` begins with `ml.`. `operators` are names of
    launcher/sandbox/kubernetes/custom_kinds.yaml; `queue` is a queue of Kueue in `namespace`, or None.
    `claims` are PersistentVolumeClaims in `namespace`, each bound to a file system that every node may write to.
    """

    name: str
    managed: bool
    instance_type: str
    count: int
    capacity_type: str
    zone_id: str
    namespace: str
    operators: tuple[str, ...]
    queue: str | None
    priority: str | None
    claims: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """The cluster as JSON values."""
        return asdict(self)

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """The cluster from its JSON values."""
        return cls(**{**document, "operators": tuple(document["operators"]), "claims": tuple(document["claims"])})
