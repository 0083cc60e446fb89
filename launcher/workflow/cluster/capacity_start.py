"""Nodes of purchased capacity: Slipway starts them when the capacity begins, not before."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from launcher.aws.calls import forbidden
from launcher.aws.session import Session
from launcher.model.enums import PREPAID
from launcher.model.errors import AwsError
from launcher.model.plan import Plan
from launcher.model.stages import Notify
from launcher.pricing.blocks import begins
from launcher.workflow.cluster.deployed import DeployedCluster


@dataclass(slots=True, kw_only=True)
class CapacityStart:
    """Starts the stopped nodes of a plan's own cluster: immediately, or when the reservation begins.

    `waits` is False if nothing is waited for: in a sandbox every block of a cluster has begun.
    """

    plan: Plan
    deployed: DeployedCluster
    session: Session
    cluster: str
    notify: Notify
    waits: bool = True
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    done: bool = False

    @property
    def left_s(self) -> float:
        """Seconds until the purchased capacity begins; 0 after the begin, and if the plan has no begin."""
        now = self.clock()
        starts_at = begins(self.plan.request.purchase, self.plan.place.option, now) if self.waits else None
        return (starts_at - now).total_seconds() if starts_at is not None else 0.0

    def check(self) -> None:
        """Start the nodes, once, if the capacity has begun.

        Raises:
            AwsError: a call failed, and missing permissions are not the reason.
        """
        if self.done or self.left_s:
            return
        self.done = True
        try:
            started = self.deployed.start_nodes(self.plan, self.session, self.cluster)
        except AwsError as problem:
            if not forbidden(problem):
                raise
            self.notify(f"warning: nodes of {self.cluster} that are stopped stay so: {problem.message}")
            return
        if started and self.plan.place.option in PREPAID:
            self.notify(f"starting the {self.plan.place.nodes} nodes of {self.cluster}: the reservation has started")
        elif started:
            self.notify(f"the nodes of {self.cluster} were stopped: starting them; they are billed from now on")
