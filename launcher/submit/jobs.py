"""The interface to a scheduler, and its errors."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from launcher.model.errors import SlipwayError
from launcher.model.job import JobFacts, Submitted


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A piece of a file from an offset; `size` is the size of the complete file."""

    data: bytes
    size: int


class JobSource(Protocol):
    """The source of facts about jobs: Slurm on a head node, or a Kubernetes API."""

    def facts(self, job: Submitted) -> JobFacts | None:
        """The state of a job; None if the scheduler no longer knows the job."""

    def find(self, key: str, folder: str) -> Submitted | None:
        """The job that an earlier submission created; None if no such job exists.

        Raises:
            SchedulerError: the scheduler cannot report whether the job exists.
        """

    def read(self, job: Submitted, offsets: Mapping[str, int]) -> Mapping[str, Chunk | None]:
        """The contents of a job's files, each from its offset; None for a missing file."""

    def log_name(self, job: Submitted) -> str:
        """The name of the file that holds the job's output."""

    def release(self, job: Submitted) -> None:
        """Let a requeued job start immediately, if the scheduler permits callers to request that."""

    def nodes(self, job: Submitted) -> "JobNodes":
        """The nodes of a running job, for access by the user.

        Raises:
            ImpossibleError: the job does not run.
            SchedulerError: the scheduler cannot report the nodes.
        """

    def cancel(self, job: Submitted, *, only_pending: bool = False) -> bool:
        """Cancel a job, or only a pending job if `only_pending`. False if the job certainly had nothing to cancel.

        Raises:
            SchedulerError: the scheduler does not answer, or refuses.
        """


class JobNodes(Protocol):
    """The nodes of a running job, by name; the job's first node comes first."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the nodes."""

    def shell(self, node: str) -> int:
        """Open a shell on a node, on this terminal; return the shell's exit code."""

    def run(self, node: str, command: Sequence[str]) -> int:
        """Run a command on a node, with its output on this process's output; return the command's exit code."""

    def read(self, node: str, command: Sequence[str]) -> str:
        """The output of a short command on a node.

        Raises:
            SchedulerError: the command fails, or the node does not answer.
        """

    def tunnel(self, node: str, port: int, local_port: int, ready: Callable[[], None]) -> int:
        """Forward a local port to a port of a node until the user interrupts the tunnel.

        Raises:
            ImpossibleError: the local port is in use.
        """


class SchedulerError(SlipwayError):
    """The scheduler does not accept a job, or does not answer."""


class UnreachableError(SchedulerError):
    """The head node sent no complete answer: Slipway does not know whether the head node did anything."""


class CutOffError(UnreachableError):
    """An answer was cut off: a request that only reads can be repeated immediately."""


class SchedulerEndedError(SchedulerError):
    """The scheduler has ended, and its jobs with it."""


class NoPartitionError(SchedulerError):
    """A cluster has no nodes of the type that a job needs."""
