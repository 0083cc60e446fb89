"""The work of a number of instances of one type on a workload: hours, and their basis."""

from launcher.model.learned import Learned
from launcher.model.money import Assumption, Range
from launcher.model.record import record
from launcher.model.training import TrainingEstimate


@record
class Work:
    """The time that one candidate node count needs, before prices and spot are considered.

    `hours` is wall time from the first step to the last, including expected hardware failures but no spot
    interruptions. `checkpoint_interval_s` is the plan's, or the best for those failures. `checkpoint_write_s` and
    `checkpoint_gb` are None if the workload does not define its size. `training` is None for a workload given in
    hours and for a cluster without a workload. `misfit` is the reason why it cannot run at all; `tight` says what the
    estimate assumes so that it fits the memory of the chips: a leaner recipe, or more than the usual share of the
    memory. `failures_per_h` are
    the failures other than spot, each costing `failure_restart_h` and the work since the last checkpoint; the part
    `node_failures_per_h` is caused by nodes. `failure_overhead` is the time that failures and checkpoints add, as a
    share of the hours without them. `boot` and `restart` are the hours until nodes of the type run their first step,
    and until lost nodes are replaced, as the user's own runs measured them; None without such runs. `around_h` is the
    time of the plan's own steps and outputs in addition to the command.
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
    tight: str | None = None
    failures_per_h: float = 0.0
    node_failures_per_h: float = 0.0
    failure_restart_h: float = 0.0
    failure_overhead: float = 0.0
    boot: Learned | None = None
    restart: Learned | None = None
    around_h: float = 0.0
