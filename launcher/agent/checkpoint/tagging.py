"""The thread that tags what is superseded, beside the uploads: several requests at once, and none after a notice.

What is not tagged when it is stopped, the next life of the job tags: `retention` looks at the store, not at a list.
"""

import contextlib
import os
import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

from launcher.agent.checkpoint.claim import Claim
from launcher.agent.checkpoint.retention import Retention, read_record, write_record
from launcher.agent.errors import StoreError, TakenOverError
from launcher.agent.events import EventLog
from launcher.agent.manifest import step_of_key
from launcher.agent.store.objects import Store

WORKERS = 8
"""Requests at once. S3 takes 3,500 writes a second below one prefix (S3 User Guide, "Best practices design patterns:
optimizing Amazon S3 performance", read 2026-11-20); eight stay far below it and leave the uploads their connections."""
_BATCH = 500
"""Objects between two looks whether this agent still is the owner."""
_RETRY_S = 30.0
_NICENESS = 10


class Tagging(threading.Thread):
    """Tags what a retention finds superseded, whenever it is woken."""

    def __init__(self, store: Store, log: EventLog, claim: Claim, retention: Retention) -> None:
        """Prepare the thread.

        Args:
            store: Where the objects are.
            log: Where it is said what was tagged, and what went wrong.
            claim: Asked before every batch.
            retention: Says what is superseded.
        """
        super().__init__(name="tagging", daemon=True)
        self.retention = retention
        self._store = store
        self._log = log
        self._claim = claim
        self._changed = threading.Condition()
        self._wanted = False
        self._no_more = False
        self._stopped = threading.Event()

    def wake(self) -> None:
        """Something has been superseded."""
        with self._changed:
            self._wanted = True
            self._changed.notify()

    def stop(self) -> None:
        """A notice is pending: no request begins any more."""
        self._stopped.set()
        with self._changed:
            self._no_more = True
            self._changed.notify()

    def finish(self, deadline: float) -> None:
        """Tag what is left, and end the thread.

        Args:
            deadline: Monotonic seconds at which to stop.
        """
        with self._changed:
            self._no_more = True
            self._changed.notify()
        if self.is_alive():
            self.join(max(0.0, deadline - time.monotonic()))
        self.stop()

    def run(self) -> None:
        """Tag until nothing more comes."""
        with contextlib.suppress(OSError, AttributeError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)  # of this thread, on Linux
        while self._waited():
            try:
                while self._tag_what_is_superseded():
                    pass  # look again: a step in which nothing is left is done with
            except TakenOverError:
                return  # whoever commits finds out, and says so
            except StoreError as error:
                self._log.append("retention-failed", error=str(error))
                if not self._stopped.wait(0.0 if self._no_more else _RETRY_S):
                    self.wake()

    def _waited(self) -> bool:
        """Whether there is something to do, once there is."""
        with self._changed:
            while not self._wanted and not self._no_more:
                self._changed.wait()
            wanted, self._wanted = self._wanted, False
        pause = self._claim.may_tag_at - time.monotonic()
        if wanted and pause > 0:
            self._stopped.wait(pause)
        return wanted and not self._stopped.is_set()

    def _tag_what_is_superseded(self) -> bool:
        """Whether anything was tagged."""
        steps = []
        with ThreadPoolExecutor(WORKERS) as pool:
            for step, keys in self.retention.superseded():
                left = iter(keys)
                while batch := list(islice(left, _BATCH)):
                    if self._stopped.is_set():
                        return False
                    self._claim.check()
                    for done in pool.map(self._tag, batch):
                        if done is not None:
                            self.retention.tagged(done)
                if self._stopped.is_set():
                    return False
                steps.append(step)
        if steps:
            self._log.append("checkpoints-superseded", steps=steps)
        return bool(steps)

    def _tag(self, key: str) -> str | None:
        """Tag one object; None: it was not, because everything is to stop."""
        if self._stopped.is_set():
            return None
        try:
            self._store.set_superseded(key, superseded=True)
        except StoreError as error:
            if not error.missing:  # it has expired, as it was to
                raise
        return key


def protect(store: Store, keys: Iterable[str]) -> None:
    """Tag objects as ones that stay: their checkpoint is the newest whole one again, since newer ones are not whole.

    Args:
        store: Where they are.
        keys: Which.

    Raises:
        StoreError: The store did not take it.
    """
    wanted = sorted(set(keys))
    steps = {step_of_key(key) for key in wanted}
    remembered = read_record(store)
    if steps & remembered.keys():
        write_record(store, {step: keys for step, keys in remembered.items() if step not in steps})
    with ThreadPoolExecutor(WORKERS) as pool:
        list(pool.map(lambda key: store.set_superseded(key, superseded=False), wanted))
