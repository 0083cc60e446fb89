"""The work of a number of instances of one type on a workload: hours, and their basis."""

from launcher.model.enums import TargetKind
from launcher.model.learned import Learned
from launcher.model.money import Assumption, Range
from launcher.model.record import record
from launcher.model.training import TrainingEstimate


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
    around_h: float = 0.0
    # The time for what nodes fetch from outside AWS before the first step: each at its own speed, or on the targets of
    # `nat_kinds` all through one NAT. None of it if the user's own runs measured the start-up.
    fetch_h: float = 0.0
    shared_fetch_h: Range | None = None
    nat_kinds: frozenset[TargetKind] = frozenset()

    def fetch_hours(self, kind: TargetKind) -> Range | None:
        """The time for what nodes of a target fetch; None if there is none, or if it is in the measured start-up."""
        if self.boot is not None:
            return None
        if kind in self.nat_kinds and self.shared_fetch_h is not None:
            return self.shared_fetch_h
        return Range(low=self.fetch_h, mid=self.fetch_h, high=self.fetch_h) if self.fetch_h else None
