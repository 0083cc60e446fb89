"""A job on a cluster, from its submission and its scheduler: a script with attempts."""

from datetime import datetime
from enum import StrEnum

from launcher.model.record import record


@record
class Submitted:
    """A job that Slurm has accepted. `key` is its name in Slurm, `folder` its folder on the head node."""

    job: str
    key: str
    folder: str


class JobState(StrEnum):
    """The state of a job. A job that waits for another attempt is pending."""

    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def final(self) -> bool:
        """Whether the state can no longer change."""
        return self in (JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED)


@record
class SchedulerAttempt:
    """One run of a job's batch script; a running attempt has neither end nor exit code."""

    # From 1.
    number: int
    started_at: datetime
    ended_at: datetime | None
    exit_code: int | None
    # The signal that ended the script, 0 for none.
    signal: int
    # Their names.
    nodes: tuple[str, ...]
    # Whether the attempt ended because a node was lost; then it has no exit code either.
    node_lost: bool = False


@record
class BillableTime:
    """Seconds per instance that a service trained, and seconds that it bills at the on-demand rate."""

    trained_s: int
    billed_s: int

    @property
    def text(self) -> str:
        """Both numbers in words, with the saving against on demand.

        >>> BillableTime(trained_s=400, billed_s=100).text
        '100 of 400 seconds billed for each instance, 75% off on demand'
        """
        saved = f", {1 - self.billed_s / self.trained_s:.0%} off on demand" if self.billed_s < self.trained_s else ""
        return f"{self.billed_s:,} of {self.trained_s:,} seconds billed for each instance{saved}"


@record
class JobFacts:
    """A job as its scheduler reports it now."""

    state: JobState
    # The scheduler's name of the state.
    word: str
    # Why a job waits, empty if it does not.
    reason: str
    # The number of requeues.
    restarts: int
    # The nodes on which it runs.
    nodes: tuple[str, ...]
    # The last known one, None for a job that has never run.
    attempt: SchedulerAttempt | None
    # The job has failed, and its other pods keep their nodes until it is cancelled.
    keeps_nodes: bool = False
    # The time that its service bills, None without such a service.
    billable: BillableTime | None = None


@record
class GitState:
    """The git revision of a folder; `dirty`: the folder holds changes or new files that are in no commit."""

    revision: str | None
    dirty: bool
