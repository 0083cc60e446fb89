"""An existing Kubernetes cluster that a plan names, as the sandbox creates it: with all that the plan's job needs."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingCluster:
    """Nodes of one type, and the other requirements of the job."""

    name: str
    # Nodes of HyperPod, whose `instance_type` begins with `ml.`.
    managed: bool
    instance_type: str
    # The number of nodes.
    count: int
    capacity_type: str
    zone_id: str
    namespace: str
    # Names of launcher/sandbox/kubernetes/custom_kinds.yaml.
    operators: tuple[str, ...]
    # A queue of Kueue in `namespace`, or None.
    queue: str | None
    priority: str | None
    # PersistentVolumeClaims in `namespace`, each bound to a file system that every node may write to.
    claims: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """The cluster as JSON values."""
        return asdict(self)

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """The cluster from its JSON values."""
        return cls(**{**document, "operators": tuple(document["operators"]), "claims": tuple(document["claims"])})
