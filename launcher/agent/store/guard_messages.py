"""Messages to the guard for users who may not follow the job: objects in the store.

A node may not publish anything. The guard polls every five minutes, sends the messages to the cluster's topic and
removes them (templates/guard/job_messages.py).
"""

import contextlib
import json
import threading
from collections.abc import Iterator, Mapping
from typing import Any

from launcher.agent.errors import StoreError
from launcher.agent.events import NEWER, EventLog
from launcher.agent.store.objects import Store

SCHEMA = "slipway.message/1"
REPORTED_EVENTS = frozenset(
    {
        "checkpoint-dropped",
        "checkpoint-removed",
        "checkpoints-not-recognised",
        "forecast",
        "no-checkpoint-yet",
        "signal-not-handled",
        "straggler",
    }
)
"""The events that users must receive; templates/guard/job_messages.py has the text for each."""
MAX_MESSAGES = 20
"""Maximum number of objects of one attempt: more would not inform the user better; the log has the others."""
_AGAIN_S, _AT_THE_END_S = 10.0, 5.0
_TIMEOUT_S = 5.0


class GuardMessages(threading.Thread):
    """Writes one object for each event that users must receive, and retries until it succeeds."""

    def __init__(self, uri: str, job: str) -> None:
        super().__init__(name="guard-messages", daemon=True)
        self._store = Store(uri, timeout_s=_TIMEOUT_S)
        self._job = job
        self._changed = threading.Condition()
        self._left: list[tuple[str, str]] = []
        self._number = 0
        self._no_more = False

    def enqueue(self, event: Mapping[str, Any]) -> None:
        """Queue a logged event if users must receive it; a checkpoint dropped for a newer one is not such an event."""
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
            if self._number <= MAX_MESSAGES:
                key = f"{event['run']}-{event['attempt']}-{self._number}.json"
                self._left.append((key, json.dumps(document)))
                self._changed.notify()

    def finish(self, within_s: float) -> None:
        """Write the rest, and end the thread; messages not written in time are dropped."""
        with self._changed:
            self._no_more = True
            self._changed.notify()
        self.join(within_s)
        self._store.cancel()

    def run(self) -> None:
        """Write until no message is left and no more can come."""
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
    """Forward logged events to the guard while the block runs; `uri` None: no guard reads them."""
    if uri is None:
        yield
        return
    messages = GuardMessages(uri, job)
    log.subscribe(messages.enqueue)
    messages.start()
    try:
        yield
    finally:
        messages.finish(_AT_THE_END_S)
