"""The existing Kubernetes cluster that a plan names, in the sandbox: with everything that the plan's job needs."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingCluster:
    """A number of nodes of one type, and the job's other requirements.

    `managed`: HyperPod nodes, whose `instance_type` begins with `ml.`. `operators` are names of
    launcher/sandbox/kubernetes/custom_kinds.yaml; `queue` is Kueue's, in `namespace`; None for none.
    `claims` are PersistentVolumeClaims there, each bound to a file system that every node may write to.
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
        """It as JSON values."""
        return asdict(self)

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """The one that a document holds."""
        return cls(**{**document, "operators": tuple(document["operators"]), "claims": tuple(document["claims"])})
