"""The checkpoint interval, which follows the measured cost of a checkpoint.

A job starts with the interval of its quote, which assumes a write time. The agent measures the write time and writes
Daly's optimum for it to SLIPWAY_CHECKPOINT_INTERVAL_FILE, which the trainer reads repeatedly. The interval is
never shorter than an upload.

Every checkpoint that is complete in the store adds a line to the metrics: `checkpoint_step`, `checkpoint_seconds` (to
write it on the node), `upload_seconds`, `checkpoint_bytes`. If a trainer writes its own `checkpoint_seconds`, the
trainer's value applies.
"""

import statistics
import threading
from collections import deque
from collections.abc import Callable

from launcher.agent.events import EventLog, utc_now
from launcher.agent.interval import daly_interval_s
from launcher.agent.node.progress import Metrics

_REMEMBERED = 5
_MIN_S, _MAX_S = 1.0, 86_400.0
_MIN_WRITE_S = 1e-3
_WORTH_A_CHANGE = 0.1
_NOW_S = 1.0
"""The interval while an immediate checkpoint is requested: the last checkpoint is always older than this."""


class Pace:
    """The interval between checkpoints. Safe to use from every thread."""

    def __init__(
        self,
        interval_s: float,
        *,
        mtbf_s: float | None,
        write: Callable[[float], None],
        metrics: Metrics,
        log: EventLog,
    ) -> None:
        """`mtbf_s` is the mean time between interruptions of the entire job; None: the interval never changes."""
        self._interval_s = interval_s
        self._mtbf_s = mtbf_s
        self._write = write
        self._metrics = metrics
        self._written_by_step: dict[int, float] = {}
        self._log = log
        self._written_s: deque[float] = deque(maxlen=_REMEMBERED)
        self._uploaded_s: deque[float] = deque(maxlen=_REMEMBERED)
        self._reported = False
        self._hastened = False
        self._lock = threading.Lock()
        self._set(interval_s)

    @property
    def interval_s(self) -> float:
        """The interval while no immediate checkpoint is requested."""
        return self._interval_s

    def record_write(self, step: int, seconds: float) -> None:
        """Record that a checkpoint was finished, and its observed write time."""
        with self._lock:
            self._written_by_step[step] = seconds
            if not self._reported:
                self._written_s.append(max(seconds, _MIN_WRITE_S))
            self._adapt()
            if self._hastened:
                self._hastened = False
                self._set(self._interval_s)

    def record_reported(self, seconds: float) -> None:
        """Record the checkpoint time that the trainer reports; from then on Slipway ignores observed write times."""
        with self._lock:
            if not self._reported:
                self._reported = True
                self._written_s.clear()
            self._written_s.append(max(seconds, _MIN_WRITE_S))
            self._adapt()

    def record_upload(self, step: int, *, seconds: float, size_bytes: int) -> None:
        """Record that a checkpoint is complete in the store, and its upload time."""
        with self._lock:
            written_s = self._written_by_step.get(step)
            self._written_by_step = {earlier: s for earlier, s in self._written_by_step.items() if earlier > step}
            self._uploaded_s.append(seconds)
            self._adapt()
        self._metrics.append(
            time=utc_now(),
            checkpoint_step=step,
            checkpoint_seconds=None if written_s is None else round(written_s, 3),
            upload_seconds=seconds,
            checkpoint_bytes=size_bytes,
        )

    def hasten(self) -> None:
        """Request the next checkpoint immediately; afterwards the previous interval applies again."""
        with self._lock:
            self._hastened = True
            self._set(min(_NOW_S, self._interval_s))

    def _adapt(self) -> None:
        if self._mtbf_s is None or not self._written_s:
            return
        write_s = statistics.median(self._written_s)
        upload_s = statistics.median(self._uploaded_s) if self._uploaded_s else 0.0
        best_s = daly_interval_s(checkpoint_s=write_s, mtbf_s=self._mtbf_s)
        pause_s = max(_MIN_S, upload_s, min(best_s, _MAX_S))
        if abs(pause_s - self._interval_s) < _WORTH_A_CHANGE * self._interval_s:
            return
        self._log.append(
            "interval",
            seconds=round(pause_s, 1),
            before=round(self._interval_s, 1),
            checkpoint_seconds=round(write_s, 3),
            upload_seconds=round(upload_s, 3),
            mtbf_s=self._mtbf_s,
        )
        self._interval_s = pause_s
        if not self._hastened:
            self._set(pause_s)

    def _set(self, seconds: float) -> None:
        try:
            self._write(seconds)
        except OSError as error:
            self._log.append("scratch-error", error=f"cannot write the checkpoint interval: {error}")
