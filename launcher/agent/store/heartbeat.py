"""A heartbeat for the guard in the account: one object per node of a job, written every few minutes.

The guard ends idle nodes, and a job that waits without using a CPU looks idle. While its nodes write, the guard does
not end them, unless all of them report no activity for `guardrails.hung_minutes`.
"""

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from launcher.agent import safe_json
from launcher.agent.attempt_state import HEARTBEAT_FOLDER, HEARTBEAT_S
from launcher.agent.errors import StoreError
from launcher.agent.events import EventLog, report_lost
from launcher.agent.store.objects import Store

SCHEMA = "slipway.heartbeat/1"
_SAMPLE_S = 60.0
_AT_THE_END_S = 5.0
_TIMEOUT_S = 5.0


class Heartbeat(threading.Thread):
    """Watches one node, and writes its state until the attempt is over."""

    def __init__(self, uri: str, about: Mapping[str, Any], still_s: Callable[[float], float], log: EventLog) -> None:
        """`still_s` returns the seconds without activity at a moment in monotonic seconds."""
        super().__init__(name="heartbeat", daemon=True)
        self._store = Store(f"{uri}/{HEARTBEAT_FOLDER}", timeout_s=_TIMEOUT_S)
        self._about = about
        self._still_s = still_s
        self._log = log
        self._problem_reported = False
        self._over = threading.Event()

    def run(self) -> None:
        """Write immediately, every few minutes, and at the end."""
        self._report_lost()
        next_at = time.monotonic()
        while not self._over.wait(0.0 if next_at <= time.monotonic() else _SAMPLE_S):
            now = time.monotonic()
            still_s = self._still_s(now)
            if now >= next_at:
                self._beat(still_s, over=False)
                next_at = time.monotonic() + HEARTBEAT_S
        self._beat(0.0, over=True)

    def _report_lost(self) -> None:
        """Report an earlier attempt whose last heartbeat says that it runs; the first node reports for all."""
        if self._about["part"]:
            return
        with contextlib.suppress(StoreError, ValueError, TypeError, KeyError):  # no heartbeat, or no agent's
            stored = self._store.find_text(self._key)
            if stored is None:
                return
            earlier = safe_json.loads(stored.text)
            if earlier["run"] == self._about["run"] and earlier["over"] is False:
                report_lost(self._log, int(earlier["attempt"]), self._about["attempt"], stored.written_s)

    @property
    def _key(self) -> str:
        return f"{self._about['run']}-{self._about['part']}.json"

    def _beat(self, still_s: float, *, over: bool) -> None:
        """Write the object; log the first failure only, and continue with the next object."""
        document = {"schema": SCHEMA, **self._about, "still_s": round(still_s), "over": over}
        try:
            self._store.write_text(self._key, json.dumps(document))
        except StoreError as error:
            if not self._problem_reported:
                self._problem_reported = True
                self._log.append("store-error", error=f"the guard may consider this node idle: {error}")

    def finish(self) -> None:
        """Report that the attempt is over; after a few seconds give up, and the object becomes stale."""
        self._over.set()
        self.join(_AT_THE_END_S)
        self._store.cancel()


@contextlib.contextmanager
def beating(
    uri: str | None, about: Mapping[str, Any], still_s: Callable[[float], float], log: EventLog
) -> Iterator[None]:
    """Write while the block runs; `uri` None: no guard reads the heartbeat."""
    if uri is None:
        yield
        return
    beats = Heartbeat(uri, about, still_s, log)
    beats.start()
    try:
        yield
    finally:
        beats.finish()
