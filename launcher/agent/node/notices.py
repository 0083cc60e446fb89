"""Everything that can announce an end, in one queue: signals, the instance metadata, a date, the job's other nodes."""

import queue
import signal
import threading
from collections.abc import Mapping
from datetime import datetime, timezone
from types import FrameType

from launcher.agent.events import EventLog
from launcher.agent.node.drain import drain_node
from launcher.agent.node.imds import SpotWatch, endpoint
from launcher.agent.node.notice import CANCEL, CAPACITY_END, POD_END, SIGNAL, SPOT, Notice

SIGNALS = (signal.SIGUSR1, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""What the agent takes as a notice. The start of the program holds them back until `listen` lets them through."""

_LEFT_AT_CAPACITY_END_S = 900.0
"""From the last checkpoint to the first instance that AWS ends: what `leave_before_s` adds to AWS's own lead."""


def heed(notice: Notice, *, drain: bool, log: EventLog) -> None:
    """Log a notice; drain the node if it is this node that goes, so that the requeued job does not land on it again."""
    log.append(
        "notice" if notice.ends else "rebalance-recommended",
        source=notice.source,
        detail=notice.detail,
        at=notice.at,
        left_s=notice.left_s,
        **({} if notice.node is None else {"from_node": notice.node}),
    )
    if not drain or notice.node is not None or notice.source not in (SPOT, CAPACITY_END):
        return
    failure = drain_node(f"slipway: {notice.source} {notice.detail} at {notice.at or 'once'}")
    if failure:
        log.append("drain-failed", error=failure)
    else:
        log.append("drained")


class Notices:
    """Notices in the order in which they came."""

    def __init__(self, *, pod_grace_s: float | None = None) -> None:
        """Nothing has come yet, and nobody listens.

        Args:
            pod_grace_s: In a pod, the seconds from SIGTERM to its end; None: SIGTERM is a cancel.
        """
        self._pod_grace_s = pod_grace_s
        self._queue: queue.SimpleQueue[Notice] = queue.SimpleQueue()
        self._ends = False
        self._watch: SpotWatch | None = None
        self._timer: threading.Timer | None = None

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
            on_notice=self.put,
            on_trouble=lambda text: log.append("metadata-trouble", error=text),
        )
        self._watch.start()

    def watch_end(self, leaves_at: datetime, *, ends_at: str) -> None:
        """Give notice at a date, at once if it has passed.

        Args:
            leaves_at: When the job is to leave, with a zone.
            ends_at: When the capacity ends, as the notice has it.
        """
        notice = Notice(source=CAPACITY_END, detail="the capacity ends", at=ends_at, left_s=_LEFT_AT_CAPACITY_END_S)
        wait_s = (leaves_at - datetime.now(timezone.utc)).total_seconds()
        if wait_s <= 0:
            self.put(notice)
            return
        self._timer = threading.Timer(min(wait_s, threading.TIMEOUT_MAX), self.put, (notice,))
        self._timer.daemon = True
        self._timer.start()

    def stop(self) -> None:
        """Stop watching."""
        if self._watch is not None:
            self._watch.stop()
        if self._timer is not None:
            self._timer.cancel()

    def put(self, notice: Notice) -> None:
        """Add a notice."""
        # A signal handler calls this: a flag and SimpleQueue.put are safe there, an Event's lock would not be.
        self._ends = self._ends or notice.ends
        self._queue.put(notice)

    def pending(self) -> bool:
        """Whether a notice that ends the attempt has come."""
        return self._ends

    def next(self, *, wait_s: float) -> Notice | None:
        """The next notice, or None if none came within `wait_s` seconds."""
        try:
            return self._queue.get(block=wait_s > 0, timeout=wait_s or None)
        except queue.Empty:
            return None

    def next_end(self) -> Notice | None:
        """The next notice that ends the attempt, if one has come; without one, advice stays where it is."""
        advice = []
        while (notice := self.next(wait_s=0)) is not None:
            if notice.ends:
                return notice
            advice.append(notice)
        for each in advice:
            self._queue.put(each)
        return None

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        name = signal.Signals(number).name
        if number == signal.SIGTERM and self._pod_grace_s is not None:
            self.put(Notice(source=POD_END, detail=name, left_s=self._pod_grace_s))
            return
        self.put(Notice(source=SIGNAL if number == signal.SIGUSR1 else CANCEL, detail=name))
