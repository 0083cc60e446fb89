"""What a sandbox's two schedulers have in common: a job is a batch script, its life is a row of attempts."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from launcher.submit.jobs import Attempt, JobState, SchedulerError

__all__ = ["Attempt", "JobState", "Scheduler", "SchedulerError"]


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
