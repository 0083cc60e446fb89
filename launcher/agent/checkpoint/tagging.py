"""The thread that tags what is superseded, beside the uploads: several requests at once, and none after a notice.

The first node finds out what is superseded, for it alone commits. Of much it leaves a part to the other nodes, whose
threads wait for that (`sheets`). What is not tagged when it is stopped, the next life of the job tags: `retention`
looks at the store, not at a list.
"""

import contextlib
import os
import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

from launcher.agent.checkpoint.claim import Claim
from launcher.agent.checkpoint.retention import LATER_VERSION, Kept, Retention, read_record, write_record
from launcher.agent.checkpoint.sheets import PORTION, Hand, Sheet, Sheets
from launcher.agent.checkpoint.tags import WORKERS, Tags
from launcher.agent.errors import StoreError, TakenOverError
from launcher.agent.events import EventLog
from launcher.agent.manifest import step_of_key
from launcher.agent.node.peers import Peers
from launcher.agent.store.objects import Store

_RETRY_S = 30.0
_LAST_RETRY_S = 1.0
"""While the job waits for it to end."""
_LOOK_S = 1.0
_NICENESS = 10
_NOT_COMPARED = "steps of different layouts are not compared"


class Tagging(threading.Thread):
    """Tags what a retention finds superseded, whenever it is woken."""

    def __init__(self, store: Store, log: EventLog, claim: Claim, retention: Retention, peers: Peers) -> None:
        """Prepare the thread.

        Args:
            store: Where the objects are.
            log: Where it is said what was tagged, and what went wrong.
            claim: Asked before every batch.
            retention: Says what is superseded.
            peers: The other nodes of the job.
        """
        super().__init__(name="tagging", daemon=True)
        self.retention = retention
        self._log = log
        self._claim = claim
        self._part = peers.part
        self._tags = Tags(store)
        self._sheets = Sheets(store, peers, owner=claim.token)
        self._hand = Hand(store, peers)
        self._changed = threading.Condition()
        self._wanted = False
        self._no_more = False

    def wake(self) -> None:
        """Something has been superseded."""
        with self._changed:
            self._wanted = True
            self._changed.notify()

    def stop(self) -> None:
        """A notice is pending: no request begins any more."""
        self._tags.stopped.set()
        with self._changed:
            self._no_more = True
            self._changed.notify()

    def finish(self, deadline: float) -> None:
        """Tag what is left, and end the thread; at once where nothing may be tagged before the deadline.

        Args:
            deadline: Monotonic seconds at which to stop.
        """
        if self._claim.may_tag_at >= deadline:
            self.stop()
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
        if self._part > 0:
            self._lend_a_hand()
            return
        while self._waited():
            try:
                while self._tag_what_is_superseded():
                    pass  # look again: a step in which nothing is left is done with
            except TakenOverError:
                return  # whoever commits finds out, and says so
            except StoreError as error:
                self._log.append("retention-failed", error=str(error))
                if not self._paused(permanent=error.permanent):
                    return
                self.wake()

    def _paused(self, *, permanent: bool) -> bool:
        """Wait before the next try; whether there is to be one."""
        with self._changed:
            if self._no_more and permanent:
                return False
            self._changed.wait_for(lambda: self._no_more, timeout=_RETRY_S)
        return not self._tags.stopped.wait(_LAST_RETRY_S if self._no_more else 0.0)

    def _waited(self) -> bool:
        """Whether there is something to do, once there is."""
        with self._changed:
            while not self._wanted and not self._no_more:
                self._changed.wait()
            wanted, self._wanted = self._wanted, False
        pause = self._claim.may_tag_at - time.monotonic()
        if wanted and pause > 0:
            self._tags.stopped.wait(pause)
        return wanted and not self._tags.stopped.is_set()

    def _tag_what_is_superseded(self) -> bool:
        """Whether anything was tagged."""
        steps = []
        for step, keys in self.retention.superseded():
            left = iter(keys)
            while portion := list(islice(left, PORTION)):
                self._tag_with_others(portion)
                if self._tags.stopped.is_set():
                    return False
            steps.append(step)
        if steps:
            self._log.append("checkpoints-superseded", steps=steps)
        if others := self.retention.of_other_layouts():
            self._report_other_layouts(others)
        return bool(steps)

    def _report_other_layouts(self, others: Iterable[Kept]) -> None:
        by_layout: dict[str, set[int]] = {}
        for checkpoint in others:
            layout = min(checkpoint.layouts, default="").partition("/")[0]
            by_layout.setdefault(layout, set()).add(checkpoint.step)
        for layout, steps in sorted(by_layout.items()):
            later = layout == LATER_VERSION
            of, why = (layout, "this one cannot read them") if later else (f"of layout {layout}", _NOT_COMPARED)
            words = f"{len(steps)} checkpoints {of}, steps {min(steps)} to {max(steps)}"
            reason = f"the store has {words}: they stay, for {why}"
            self._log.append("other-layout-kept", layout=layout, steps=sorted(steps), reason=reason)

    def _tag_with_others(self, keys: list[str]) -> None:
        """Tag some objects, with the other nodes if it is worth it; all of them, if nothing stops it."""
        self._claim.check()
        self._tag(self._sheets.share_out(keys))
        while self._sheets.are_out and not self._tags.stopped.wait(_LOOK_S):
            tagged, back = self._sheets.returned()
            for key in tagged:
                self.retention.tagged(key)
            self._tag(back)

    def _tag(self, keys: Iterable[str]) -> None:
        for key in self._tags.put(keys, check=self._claim.check):
            self.retention.tagged(key)

    def _lend_a_hand(self) -> None:
        """On another node than the first: tag what that one has left to it, until the job ends."""
        while not self._tags.stopped.wait(_LOOK_S) and not self._no_more:
            try:
                sheet = self._hand.take()
                if sheet is not None:
                    self._tag_sheet(sheet)
            except TakenOverError:
                continue  # who asked for it has ended, or was replaced
            except StoreError as error:  # the first node takes it back
                self._log.append("retention-failed", error=str(error))

    def _tag_sheet(self, sheet: Sheet) -> None:
        tagged = list(self._tags.put(sheet.keys, check=lambda: self._claim.check_holder(sheet.owner)))
        if len(tagged) == len(sheet.keys):
            self._hand.give_back(sheet)


def protect(store: Store, keys: Iterable[str]) -> None:
    """Tag objects as ones that stay: their checkpoint is the newest whole one again, since newer ones are not whole.

    Args:
        store: Where they are.
        keys: Which.
    """
    wanted = sorted(set(keys))
    steps = {step_of_key(key) for key in wanted}
    remembered = read_record(store)
    if steps & remembered.keys():
        write_record(store, {step: keys for step, keys in remembered.items() if step not in steps})
    with ThreadPoolExecutor(WORKERS) as pool:
        list(pool.map(lambda key: store.set_superseded(key, superseded=False), wanted))
