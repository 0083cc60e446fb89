"""What a sandbox's two schedulers have in common: a job is a batch script, its life is a row of attempts."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from launcher.model.errors import SlipwayError


class JobState(StrEnum):
    """Where a job stands. A job that waits for another attempt is pending."""

    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def final(self) -> bool:
        """Whether nothing more happens to it."""
        return self in (JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One run of a job's batch script. `number` counts from 1; what is not over has neither end nor exit code.

    `signal` is the signal that ended the script, 0 for none. `nodes` are names. An attempt that ended because a node
    was lost (`node_lost`) has no exit code either.
    """

    number: int
    started_at: datetime
    ended_at: datetime | None
    exit_code: int | None
    signal: int
    nodes: tuple[str, ...]
    node_lost: bool = False


class SchedulerError(SlipwayError):
    """A job that cannot be taken, or a scheduler that does not answer."""


class Scheduler(Protocol):
    """Runs batch scripts on the nodes of one cluster."""

    @property
    def name(self) -> str:
        """What the report says: "slurm" or "local"."""

    def submit(self, script: Path, *, folder: Path, environment: Mapping[str, str]) -> str:
        """Hand in a batch script; the job's id.

        Args:
            script: a script with #SBATCH lines.
            folder: the folder it is submitted from and started in.
            environment: the whole environment of the submission, which the job gets.

        Raises:
            SchedulerError: it was refused.
        """

    def state(self, job: str) -> JobState:
        """Where a job stands.

        Raises:
            SchedulerError: there is no such job.
        """

    def attempts(self, job: str) -> tuple[Attempt, ...]:
        """The attempts of a job, oldest first."""

    def nodes(self, job: str) -> tuple[str, ...]:
        """The nodes that a job runs on now, the batch script's first; empty while it does not run."""

    def busy(self, node: str) -> bool:
        """Whether a job runs on a node now."""

    def release(self, job: str) -> None:
        """Let a job that was put back into the queue start soon; Slurm would have it wait for two minutes."""

    def cancel(self, job: str) -> None:
        """End a job for good."""

    def node_lost(self, node: str) -> None:
        """Take note that a node and all that ran on it are gone."""

    def node_replaced(self, node: str) -> None:
        """Take note that a lost node is there again, empty."""

    def stop(self) -> None:
        """End what it runs itself."""
