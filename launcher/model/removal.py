"""The removal of a cluster: the deleted stacks, the retained resources, and their cost."""

from decimal import Decimal
from enum import StrEnum

from launcher.model.money import sum_usd
from launcher.model.record import record


class RetainedKind(StrEnum):
    """The kind of a retained resource."""

    CHECKPOINTS = "checkpoints"
    NETWORK = "network"
    LOGS = "logs"
    CLUSTER = "cluster"
    NAMESPACE = "namespace"
    REQUESTS = "requests"
    LOAD_BALANCER = "load-balancer"
    VOLUME = "volume"
    INTERFACE = "network-interface"
    GROUP = "security-group"


@record
class Retained:
    """One retained resource, and the reason.

    `gib` is its size, None without a size or if it was not checked. `usd_per_month` is None without a price, with
    the reason in `unpriced`; both are None if this cluster does not pay for the resource.
    """

    kind: RetainedKind
    name: str
    reason: str
    gib: float | None = None
    usd_per_month: Decimal | None = None
    unpriced: str | None = None


@record
class Created:
    """A resource that a cluster created: its id or name, the command that deletes it, and a volume's type and GiB."""

    kind: RetainedKind
    name: str
    command: str
    volume_type: str | None = None
    gib: float | None = None


@record
class Removal:
    """A removed cluster or endpoint, or one about to be removed."""

    cluster: str
    region: str
    done: bool
    # The names of the deleted stacks, in order of deletion, with the state of each.
    stacks: tuple[tuple[str, str], ...]
    # The cluster's running instances by type before the removal.
    instances: tuple[tuple[str, int], ...]
    kept: tuple[Retained, ...]
    # An endpoint, not a cluster.
    endpoint: bool = False
    # With their states: the removed jobs on an existing cluster, else the jobs that end with the cluster.
    jobs: tuple[tuple[str, str], ...] = ()
    # The existing cluster on which the jobs of the plan ran.
    on: str | None = None
    # The jobs that end with the cluster store a checkpoint first.
    saves: bool = False

    @property
    def usd_per_month(self) -> Decimal:
        """The monthly cost of the retained resources that have a price."""
        return sum_usd(retained.usd_per_month for retained in self.kept)

    @property
    def incomplete(self) -> bool:
        """Whether a retained resource that costs money has no price."""
        return any(retained.unpriced is not None for retained in self.kept)
