"""The work of a number of instances of one type on a workload: hours, and their basis."""

from launcher.model.learned import Learned
from launcher.model.money import Assumption, Range
from launcher.model.record import record
from launcher.model.training import TrainingEstimate


@record
class Work:
    """The time one candidate machine count needs, before anything is said about money or spot.

    `hours` is wall time from the first step to the last with the failures expected of the hardware; spot interruptions
    are not in it. `checkpoint_interval_s` is the plan's, or the one those failures call for. `checkpoint_write_s` and
    `checkpoint_gb` are None where the workload says nothing of its size. `training` is None for a workload given in
    hours and for a cluster without a workload. `misfit` says why it cannot run at all. `failures_per_h` strike the job
    beside spot, each costing `failure_restart_h` and the work since the last checkpoint; `node_failures_per_h` of them
    are the machines' own. `failure_overhead` is what failures and checkpoints add to the hours, as a share of the hours
    without them. `boot` and `restart` are hours until machines of the type do their first step, and until lost ones are
    replaced, as one's own runs measured them; None where none did. `around_h` is what the plan's own steps and outputs
    take beside the command.
    """

    instance_type: str
    nodes: int
    hours: Range
    training: TrainingEstimate | None
    checkpoint_write_s: Range | None
    checkpoint_gb: float | None
    checkpoint_interval_s: float | None = None
    assumptions: tuple[Assumption, ...] = ()
    accelerator: str | None = None
    misfit: str | None = None
    failures_per_h: float = 0.0
    node_failures_per_h: float = 0.0
    failure_restart_h: float = 0.0
    failure_overhead: float = 0.0
    boot: Learned | None = None
    restart: Learned | None = None
    around_h: float = 0.0

    @property
    def failed_h(self) -> float:
        """Hours that failures add to a job given in hours of progress; 0 for others, whose hours hold everything."""
        if self.training is not None or not self.failure_overhead:
            return 0.0
        return self.hours.mid - self.hours.mid / (1 + self.failure_overhead)
