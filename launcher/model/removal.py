"""The removal of a cluster: which stacks go, what stays, and its cost."""

from decimal import Decimal
from enum import StrEnum

from launcher.model.money import sum_usd
from launcher.model.record import record


class RetainedKind(StrEnum):
    """What kind of thing stays."""

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
    """One thing that stays, and why.

    `gib` is its size, None where it has none or nobody looked. `usd_per_month` is None where there is no price, with
    the reason in `unpriced`; both are None for what is not this cluster's to pay.
    """

    kind: RetainedKind
    name: str
    reason: str
    gib: float | None = None
    usd_per_month: Decimal | None = None
    unpriced: str | None = None


@record
class Created:
    """A thing that a cluster has made: its id or name, the command that deletes it, and a volume's type and GiB."""

    kind: RetainedKind
    name: str
    command: str
    volume_type: str | None = None
    gib: float | None = None


@record
class Removal:
    """A cluster or an endpoint taken down, or about to be.

    `stacks` are the names of those that go, in the order of their going, and the state of each; `instances` the
    cluster's running machines by type before it went. `endpoint` says that it is one. Of a plan whose jobs went to a
    cluster that exists, `on` is that cluster, and `jobs` are those that go, with the state of each.
    """

    cluster: str
    region: str
    done: bool
    stacks: tuple[tuple[str, str], ...]
    instances: tuple[tuple[str, int], ...]
    kept: tuple[Retained, ...]
    endpoint: bool = False
    jobs: tuple[tuple[str, str], ...] = ()
    on: str | None = None

    @property
    def usd_per_month(self) -> Decimal:
        """What stays, as far as it is priced."""
        return sum_usd(retained.usd_per_month for retained in self.kept)

    @property
    def incomplete(self) -> bool:
        """Whether something that stays and is paid for has no price."""
        return any(retained.unpriced is not None for retained in self.kept)
