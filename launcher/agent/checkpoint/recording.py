"""Records on the node of what is finished and what is stored; a disk that takes none is reported, and stops nothing."""

from collections.abc import Callable, Mapping

from launcher.agent.checkpoint.finished import FinishedFolder
from launcher.agent.checkpoint.scratch import Scratch
from launcher.agent.events import EventLog


class Recording:
    """One node's records."""

    def __init__(self, scratch: Scratch, log: EventLog) -> None:
        self._scratch = scratch
        self._log = log

    def record_set(self, folder: FinishedFolder) -> None:
        """Record a finished checkpoint again, as a set with others."""
        self._write(lambda: self._scratch.record_finished(folder), f"the set of {folder.name}")

    def record_hashes(self, name: str, hashes: Mapping[str, str]) -> None:
        """Record the hashes of a finished folder, so that the next agent on this node can verify its content."""
        self._write(lambda: self._scratch.record_hashes(name, hashes), f"the hashes of {name}")

    def record_stored(self, step: int, *, layout: str = "") -> None:
        """Record that a step is complete in the store: the node need not retain it."""
        self._write(lambda: self._scratch.release(step, layout=layout), f"that step {step} is in the store")

    def _write(self, record: Callable[[], None], what: str) -> None:
        try:
            record()
        except OSError as error:
            self._log.append("scratch-error", error=f"cannot record {what}: {error}")
