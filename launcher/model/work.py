"""The work of a number of instances of one type on a workload: hours, and their basis."""

from dataclasses import field
from typing import Protocol

from launcher.model.enums import Egress, NatMode, Optimizer, PurchaseOption, TargetKind
from launcher.model.learned import Learned
from launcher.model.money import Assumption, Range
from launcher.model.plan import Place
from launcher.model.record import record
from launcher.model.training import TrainingEstimate


class EgressChoice(Protocol):
    """How the nodes of a job's new network can reach the internet (planning/egress_choice.py)."""

    def able(self, kind: TargetKind) -> tuple[Egress, ...]:
        """The ways that work for the job on a target."""
        ...

    def choose(self, kind: TargetKind, option: PurchaseOption) -> Egress | None:
        """The plan's way, or the cheapest one; None if Slipway creates no network."""
        ...

    def mode(self, kind: TargetKind, option: PurchaseOption) -> NatMode | None:
        """The value of `network.nat` that a plan needs for the chosen way; None if it has that way without one."""
        ...

    def waiting_usd(self, egress_mode: Egress, kind: TargetKind, option: PurchaseOption) -> float:
        """Dollars of the nodes while they wait for what they fetch by a way."""
        ...

    def with_choice(self, kind: TargetKind, option: PurchaseOption, nat: NatMode | None) -> "EgressChoice":
        """The same with the way of a plan that was chosen before, at other prices; `nat` as `mode` gives it."""
        ...

    def fetch_hours(self, egress_mode: Egress | None, kind: TargetKind) -> Range | None:
        """The time for what nodes of a target fetch from outside AWS before the first step; None if there is none."""
        ...


@record
class Work:
    """The time that one candidate node count needs, before prices and spot are considered."""

    instance_type: str
    nodes: int
    # Wall time from the first step to the last, with expected hardware failures and without spot interruptions.
    hours: Range
    # None for a workload given in hours and for a cluster without a workload.
    training: TrainingEstimate | None
    # None if the workload does not define its size.
    checkpoint_write_s: Range | None
    checkpoint_gb: float | None
    # The plan's, or the best for the expected failures.
    checkpoint_interval_s: float | None = None
    assumptions: tuple[Assumption, ...] = ()
    accelerator: str | None = None
    # The reason why it cannot run at all.
    misfit: str | None = None
    # What the estimate assumes so that it fits the memory of the chips: a leaner recipe, or more than the usual
    # share of the memory.
    tight: str | None = None
    # The leaner optimizer that this takes, where the plan leaves the optimizer open: it changes what the job computes.
    leaner_optimizer: Optimizer | None = None
    # The chips that the hours count, where the job's command leaves others idle; "" if the user's own runs count.
    counted_chips: str | None = None
    # Failures other than spot, and the part that nodes cause. Each costs `failure_restart_h` and the work since the
    # last checkpoint.
    failures_per_h: float = 0.0
    node_failures_per_h: float = 0.0
    failure_restart_h: float = 0.0
    # The time that failures and checkpoints add, as a share of the hours without them.
    failure_overhead: float = 0.0
    # Hours until nodes of the type run their first step, and until lost nodes are replaced, as the user's own runs
    # measured them; None without such runs.
    boot: Learned | None = None
    restart: Learned | None = None
    # The time of the plan's own steps and outputs in addition to the command.
    outside_command_h: float = 0.0
    # How the nodes of a new network reach the internet, and the time for what they fetch; None for a cluster without
    # a job.
    egress_choice: EgressChoice | None = field(default=None, compare=False)

    def egress(self, place: Place) -> Egress | None:
        """How the nodes of a place reach the internet; None if Slipway creates no network for them."""
        return None if self.egress_choice is None else self.egress_choice.choose(place.target, place.option)

    def fetch_hours(self, place: Place) -> Range | None:
        """The time for what the nodes of a place fetch; None if there is none, or if it is in the measured start-up."""
        if self.boot is not None or self.egress_choice is None:
            return None
        return self.egress_choice.fetch_hours(self.egress_choice.choose(place.target, place.option), place.target)
