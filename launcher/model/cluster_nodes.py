"""The nodes of a cluster: their state, and what a person can do with one of them."""

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from enum import StrEnum

from launcher.model.errors import ImpossibleError
from launcher.model.record import record
from launcher.model.units import HOUR_S, duration_text


class NodeUse(StrEnum):
    """What a node does. OFF: the scheduler knows the node, and no instance runs for it."""

    BUSY = "busy"
    IDLE = "idle"
    STARTING = "starting"
    DRAINING = "draining"
    DRAINED = "drained"
    DOWN = "down"
    OFF = "off"

    @property
    def needs_boot_output(self) -> bool:
        """Whether the node's boot output may show why no job runs on it."""
        return self in (NodeUse.STARTING, NodeUse.DOWN)


class NodeAction(StrEnum):
    """An action on one node."""

    DRAIN = "drain"
    REBOOT = "reboot"
    REPLACE = "replace"
    RESUME = "resume"
    CHECK = "check"


@record
class ClusterNode:
    """A node of a cluster that runs jobs, as its scheduler and its service report it."""

    # The scheduler's name of the node.
    name: str
    # Its instance in EC2 or HyperPod; None if none runs, or if the scheduler does not say which one.
    instance: str | None
    instance_type: str
    # Its partition or node group.
    group: str
    use: NodeUse
    # The scheduler's own word for its state, and the reason that the scheduler or the service gives.
    state: str
    reason: str
    # The job that runs on it.
    job: str | None
    # The start of its instance, and the end of its last job; None if unknown.
    up_since: datetime | None
    idle_since: datetime | None
    # The last lines of its boot output, of a node that starts or is down.
    boot: tuple[str, ...] = ()
    # The pods of the job that run on it: agents know their node by the pod's name.
    pods: tuple[str, ...] = ()


@record
class NodeInstance:
    """An instance of a cluster's nodes: the names and addresses by which a scheduler may know it, and its state."""

    id: str
    names: frozenset[str]
    group: str
    # EC2's name of its type.
    instance_type: str
    launched_at: datetime
    # The service's own word and message, empty if its instances have none of their own.
    state: str = ""
    message: str = ""


@record
class NodeFacts:
    """A node with what an action on it depends on: dollars an hour of it and of its job, and the job's unsaved work."""

    node: ClusterNode
    usd_per_hour: Decimal | None
    job_usd_per_hour: Decimal | None = None
    # Seconds since the job's newest checkpoint, or since its start; None if unknown.
    unsaved_s: float | None = None
    # A node of the dearest type that EC2 may choose for a new one; None if there is no choice.
    dearest_usd_per_hour: Decimal | None = None

    @property
    def continues(self) -> str:
        """The sentence for a job that an action leaves alone."""
        if self.node.job is None:
            return "no job runs on it"
        return f"job {self.node.job} continues to its end on it; no other job starts there"

    @property
    def keeps(self) -> str:
        """The sentence for a job on a node that accepts jobs again."""
        return "no job runs on it" if self.node.job is None else f"job {self.node.job} continues"

    @property
    def loses(self) -> str:
        """The sentence for a job that an action ends without a chance to save."""
        if self.node.job is None:
            return "no job runs on it"
        began = (
            f"job {self.node.job} ends with it on all its nodes, and starts again from its newest checkpoint, or step 0"
        )
        if self.unsaved_s is None:
            return f"{began}; the work since then is lost"
        lost = self._dollars(self.job_usd_per_hour, self.unsaved_s)
        return f"{began}: the last {duration_text(self.unsaved_s)} are lost{lost}"

    def saves(self, part: str) -> str:
        """The sentence for a job that is notified of the end of its `part` on the node, and saves."""
        if self.node.job is None:
            return "no job runs on it"
        return (
            f"job {self.node.job} loses {part}: the agent saves within the grace period, and the job starts again"
            " from that checkpoint once it has as many nodes as before"
        )

    @property
    def usd_text(self) -> str:
        """The node's dollars an hour."""
        return "an unknown rate" if self.usd_per_hour is None else f"${self.usd_per_hour:,.2f} an hour"

    @property
    def new_billed(self) -> str:
        """The dollars an hour of a new node in its place, which may have another type."""
        dearest = self.dearest_usd_per_hour
        return self.usd_text if dearest is None else f"at most ${dearest:,.2f} an hour (EC2 chooses its type)"

    @staticmethod
    def _dollars(rate: Decimal | None, seconds: float) -> str:
        return "" if rate is None else f" (${rate * Decimal(seconds / HOUR_S):,.2f} of all its nodes)"


@record
class NodeEffect:
    """What an action does, as sentences: to the running job, to the node, and to the bill.

    `ends_job`: a job that runs on the node ends by it.
    """

    job: str
    node: str
    cost: str
    ends_job: bool = False


def without_health_checks() -> ImpossibleError:
    """The refusal of a health check where the service has none."""
    return ImpossibleError(
        "only HyperPod checks the health of a node on request",
        hint="slipway exec NAME --node N -- dcgmi diag -r 2 tests the GPUs of a node that has DCGM",
    )


def node_numbered(nodes: Sequence[ClusterNode], wanted: str) -> ClusterNode | None:
    """A node by its name, its instance, a pod on it, or its number in the list, from 0."""
    named = next((node for node in nodes if wanted in (node.name, node.instance, *node.pods)), None)
    if named is None and wanted.isdecimal() and int(wanted) < len(nodes):
        return nodes[int(wanted)]
    return named
