"""Messages to the guard for people who may not follow the job: objects in the store.

A node may not publish anything. The guard looks every five minutes, sends what it finds to the cluster's topic and
removes it (templates/guard/trouble.py).
"""

import contextlib
import json
import threading
from collections.abc import Iterator, Mapping
from typing import Any

from launcher.agent.errors import StoreError
from launcher.agent.events import NEWER, EventLog
from launcher.agent.store.objects import Store

SCHEMA = "slipway.trouble/1"
REPORTED_EVENTS = frozenset(
    {
        "checkpoint-dropped",
        "checkpoint-removed",
        "checkpoints-not-recognised",
        "forecast",
        "no-checkpoint-yet",
        "signal-not-handled",
    }
)
"""The events that people must hear of; templates/guard/trouble.py has the words for each."""
MOST = 20
"""Objects of one attempt: who has read so many of them knows; the log has the others."""
_AGAIN_S, _AT_THE_END_S = 10.0, 5.0
_TIMEOUT_S = 5.0


class GuardMessages(threading.Thread):
    """Writes one object for each event that people must hear of, and tries until it works."""

    def __init__(self, uri: str, job: str) -> None:
        super().__init__(name="guard-messages", daemon=True)
        self._store = Store(uri, timeout_s=_TIMEOUT_S)
        self._job = job
        self._changed = threading.Condition()
        self._left: list[tuple[str, str]] = []
        self._number = 0
        self._no_more = False

    def hear(self, event: Mapping[str, Any]) -> None:
        """Take an event of the log, where people must hear of it; a checkpoint that a newer one stands for is none."""
        if event["event"] not in REPORTED_EVENTS or event["reason"] == NEWER:
            return
        document = {
            "schema": SCHEMA,
            "at": event["time"],
            "job": self._job,
            "attempt": event["attempt"],
            "event": event["event"],
            "what": f"step {event['step']}" if "step" in event else event.get("folder"),
            "reason": event["reason"],
        }
        with self._changed:
            self._number += 1
            if self._number <= MOST:
                key = f"{event['run']}-{event['attempt']}-{self._number}.json"
                self._left.append((key, json.dumps(document)))
                self._changed.notify()

    def finish(self, within_s: float) -> None:
        """Write what is left, and end the thread; what takes longer is left."""
        with self._changed:
            self._no_more = True
            self._changed.notify()
        self.join(within_s)
        self._store.cancel()

    def run(self) -> None:
        """Write until there is nothing left and nothing more to come."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._left or self._no_more)
                if not self._left:
                    return
                key, text = self._left[0]
            try:
                self._store.write_text(key, text)
            except StoreError:
                with self._changed:
                    self._changed.wait(1.0 if self._no_more else _AGAIN_S)
                continue
            with self._changed:
                self._left.pop(0)


@contextlib.contextmanager
def forwarding(uri: str | None, job: str, log: EventLog) -> Iterator[None]:
    """Send word of what is logged while the block runs; None: nobody looks for it."""
    if uri is None:
        yield
        return
    messages = GuardMessages(uri, job)
    log.subscribe(messages.hear)
    messages.start()
    try:
        yield
    finally:
        messages.finish(_AT_THE_END_S)
