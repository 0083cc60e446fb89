"""Where and how a job is launched."""

from collections.abc import Callable
from dataclasses import dataclass

from launcher.model.meter import Meter
from launcher.records.run_folder import RunFolder
from launcher.workflow.deploy.context import DeployOptions
from launcher.workflow.run.follow import Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchOptions(DeployOptions):
    """Where and how to launch."""

    # Receives the progress of the job.
    progress: Callable[[Progress], None]
    # The scheduler of a sandbox's cluster.
    scheduler: str = "auto"
    # Whether to cancel a job that has waited for nodes as long as the plan allows; None: it continues to wait.
    give_up: Callable[[], bool] | None = None
    # Seconds between two polls; None: as often as the job's source allows.
    poll_s: float | None = None
    # When the sandbox simulates the loss of a node, in seconds after the first complete checkpoint; None: never.
    interrupt_after_s: float | None = None
    # Decides at every poll, from the run folder, whether the job has served its purpose: it is cancelled then.
    stop_when: Callable[[RunFolder], bool] | None = None
    # Receives the job's meter every half minute.
    meter: Callable[[Meter], None] = lambda _: None
    # Start without earlier checkpoints.
    fresh: bool = False
    # The job resumes from this step; checkpoints of later steps are withdrawn.
    from_step: int | None = None
    # No other candidate takes the place of one without instances.
    exact: bool = False
    # Called before a job is submitted while another job of its plan runs; raises if the user declines.
    second: Callable[[str], None] = lambda _: None
