"""Everything that can announce an interruption, in one queue: the signals to the agent and the instance metadata."""

import queue
import signal
from collections.abc import Mapping
from types import FrameType

from launcher.agent.drain import drain_node
from launcher.agent.events import EventLog
from launcher.agent.imds import SpotWatch, endpoint
from launcher.agent.notice import CANCEL, SIGNAL, SPOT, Notice

SIGNALS = (signal.SIGUSR1, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""What the agent takes as a notice. The start of the program holds them back until `listen` lets them through."""


def heed(notice: Notice, *, drain: bool, log: EventLog) -> None:
    """Log a notice; drain the node if it is the node that goes: on a spot notice, not ahead of a time limit."""
    log.append("notice", source=notice.source, detail=notice.detail, at=notice.at, left_s=notice.left_s)
    if not drain or notice.source != SPOT:
        return
    failure = drain_node(f"slipway: spot {notice.detail} at {notice.at or 'once'}")
    if failure:
        log.append("drain-failed", error=failure)
    else:
        log.append("drained")


class Notices:
    """Notices in the order in which they came."""

    def __init__(self) -> None:
        """Nothing has come yet, and nobody listens."""
        self._queue: queue.SimpleQueue[Notice] = queue.SimpleQueue()
        self._watch: SpotWatch | None = None

    def listen(self) -> None:
        """Take the signals to this process as notices. Only the main thread may call this."""
        for number in SIGNALS:
            # nohup, and a shell's background, ask for a signal to be ignored before the program starts.
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._on_signal)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)

    def watch_metadata(self, environment: Mapping[str, str], *, poll_s: float, log: EventLog) -> None:
        """Watch the instance metadata, every `poll_s` seconds, and log what is wrong with it."""
        self._watch = SpotWatch(
            endpoint(environment),
            poll_s=poll_s,
            on_notice=self._queue.put,
            on_trouble=lambda text: log.append("metadata-trouble", error=text),
        )
        self._watch.start()

    def stop(self) -> None:
        """Stop watching the metadata."""
        if self._watch is not None:
            self._watch.stop()

    def pending(self) -> bool:
        """Whether a notice waits to be taken."""
        return not self._queue.empty()

    def next(self, *, wait_s: float) -> Notice | None:
        """The next notice, or None if none came within `wait_s` seconds."""
        try:
            return self._queue.get(block=wait_s > 0, timeout=wait_s or None)
        except queue.Empty:
            return None

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        # SimpleQueue.put may be called from a signal handler; nothing else may happen here.
        source = SIGNAL if number == signal.SIGUSR1 else CANCEL
        self._queue.put(Notice(source=source, detail=signal.Signals(number).name))
