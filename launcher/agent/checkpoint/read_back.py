"""Reads the first complete checkpoint back from the store once, to measure the time: a spike ends before any resume.

`SLIPWAY_READ_BACK=1` in the job's environment enables it. The agent then requests the first checkpoint immediately,
regardless of the interval. The files go to a separate folder and are removed afterwards.
"""

import shutil
import threading

from launcher.agent.checkpoint.pace import Pace
from launcher.agent.checkpoint.restore import Restore
from launcher.agent.checkpoint.scratch import Scratch
from launcher.agent.errors import AgentError
from launcher.agent.events import EventLog
from launcher.agent.job import READ_BACK, JobSpec
from launcher.agent.manifest import Manifest
from launcher.agent.store.objects import Store

_ROOM = 3
"""Required free space as a multiple of the checkpoint's size: the trainer keeps writing and must not fill the disk."""


class ReadBack:
    """Reads one checkpoint back while the command runs; does nothing unless the job requests it."""

    def __init__(self, spec: JobSpec, scratch: Scratch, pace: Pace, log: EventLog, *, part: int) -> None:
        """Request the first checkpoint immediately if the job wants it read back."""
        self._policy, self._scratch, self._log, self._part = spec.checkpoint, scratch, log, part
        self._wanted = spec.env.get(READ_BACK) == "1"
        if self._wanted:
            pace.hasten()

    def checkpoint_stored(self, manifest: Manifest) -> None:
        """Handle a checkpoint that is complete in the store: read the first one back, in a separate thread."""
        if self._wanted:
            self._wanted = False
            threading.Thread(target=self._read, args=(manifest,), name="read-back", daemon=True).start()

    def _read(self, manifest: Manifest) -> None:
        place = self._scratch.read_back
        try:
            place.mkdir()
            free = shutil.disk_usage(place).free
            if free < _ROOM * manifest.bytes:
                reason = f"{manifest.bytes:,} bytes, of which {_ROOM} times as many should be free, and {free:,} are"
                self._log.append("read-back-skipped", step=manifest.step, reason=reason)
                return
            restored = Restore(
                store=Store(str(self._policy.uri), timeout_s=self._policy.timeout_s),
                checkpoints=place,
                previous=place / "none",
                part=self._part,
                on_skip=lambda _step, _reason: None,
            ).newest(at_most=manifest.step)
        except (AgentError, OSError) as error:
            self._log.append("read-back-failed", step=manifest.step, error=str(error))
        else:
            if restored is not None:
                self._log.append("read-back", step=restored.step, bytes=restored.bytes, seconds=restored.seconds)
        finally:
            shutil.rmtree(place, ignore_errors=True)
