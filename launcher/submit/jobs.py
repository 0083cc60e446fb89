"""The interface to a scheduler, and its errors."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from launcher.model.errors import SlipwayError
from launcher.model.job import JobFacts, Submitted


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A piece of a file from an offset on; `size` is the whole file's."""

    data: bytes
    size: int


class JobSource(Protocol):
    """What is asked for jobs: Slurm on a head node, or a Kubernetes API."""

    def facts(self, job: Submitted) -> JobFacts | None:
        """How a job is doing; None where it is forgotten."""

    def find(self, key: str, folder: str) -> Submitted | None:
        """The job that an earlier submission has made; None where there is none.

        Raises:
            SchedulerError: it cannot be found out.
        """

    def read(self, job: Submitted, offsets: Mapping[str, int]) -> Mapping[str, Chunk | None]:
        """What the files of a job hold from an offset on; None for one that is not there."""

    def log_name(self, job: Submitted) -> str:
        """The name of the file that holds what the job prints."""

    def release(self, job: Submitted) -> None:
        """Let a job that was put back begin again at once, where that is for somebody to say."""

    def nodes(self, job: Submitted) -> "Nodes":
        """The nodes of a job that runs, for a person.

        Raises:
            ImpossibleError: it does not run.
            SchedulerError: they cannot be asked for.
        """

    def cancel(self, job: Submitted, *, only_pending: bool = False) -> bool:
        """End a job for good; where it is said, only if it does not run. False where there was surely nothing to end.

        Raises:
            SchedulerError: it cannot be asked, or refuses.
        """


class Nodes(Protocol):
    """The nodes of a job that runs, by their names, the first node of the job first."""

    @property
    def names(self) -> tuple[str, ...]:
        """What they are called."""

    def shell(self, node: str) -> int:
        """Open a shell on a node, on this terminal; its exit code."""

    def run(self, node: str, words: Sequence[str]) -> int:
        """Run a command on a node, with its output on this process's; its exit code."""

    def tunnel(self, node: str, port: int, local_port: int, ready: Callable[[], None]) -> int:
        """Lead a port of this machine to a port of a node until the user interrupts it.

        Raises:
            ImpossibleError: the port of this machine is taken.
        """


class SchedulerError(SlipwayError):
    """A job that cannot be taken, or a scheduler that does not answer."""


class UnreachableError(SchedulerError):
    """No whole answer came from the head node: whether anything was done there is not known."""


class CutOffError(UnreachableError):
    """An answer ended before it was whole: what only reads can be asked again at once."""


class GoneError(SchedulerError):
    """The scheduler has ended, and its jobs with it."""


class NoPartitionError(SchedulerError):
    """A cluster has no nodes of the type that a job wants."""
