"""The thread that tags superseded objects during the uploads: several requests in parallel, none after a notice.

Only the first node commits, so the first node finds superseded objects. It shares long lists with the other nodes
(`TagPart`). The next attempt tags the rest if the thread stops: `retention` inspects the store, not a list.
"""

import contextlib
import json
import math
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice

from launcher.agent import safe_json
from launcher.agent.checkpoint.claim import Claim
from launcher.agent.checkpoint.retention import (
    LATER_VERSION,
    WITHDRAWN,
    RetainedCheckpoint,
    Retention,
    read_record,
    write_record,
)
from launcher.agent.checkpoint_keys import step_of_key
from launcher.agent.errors import StoreError, TakenOverError
from launcher.agent.events import EventLog
from launcher.agent.node.peers import Peers
from launcher.agent.shape import read
from launcher.agent.store.objects import Store

WORKERS = 8
"""Parallel requests. S3 allows 3,500 writes a second below one prefix (S3 User Guide, "Best practices design patterns:
optimizing Amazon S3 performance", read 2026-11-20); eight stay far below it and leave connections to the uploads."""
BATCH = 500
"""Number of objects between two checks that tagging is still allowed."""
_RETRY_S = 30.0
_LAST_RETRY_S = 1.0
"""The pause before a retry while the job waits for the thread to end."""
_POLL_S = 1.0
_NICENESS = 10
_NOT_COMPARED = "steps of different layouts are not compared"
SCHEMA = "slipway.tagging/1"
FOLDER = "tagging"
MAX_TAKERS = 7
"""Maximum number of sheets at a time, in addition to the first node's own share."""
LONGEST = 2000
"""Maximum number of keys on a sheet."""
SHORTEST = 100
"""Minimum number of keys on a sheet."""
PORTION = (MAX_TAKERS + 1) * LONGEST
"""Number of keys that are distributed together, including the first node's own share."""
_PATIENCE_S = 120.0
_ASK_AGAIN_S = 2.0


class Tags:
    """Sets tags until stopped."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.stopped = threading.Event()

    def put(self, keys: Iterable[str], *, check: Callable[[], None]) -> Iterator[str]:
        """Tag objects as superseded. Yields the keys that carry the tag; fewer than requested if tagging stopped."""
        remaining = iter(keys)
        with ThreadPoolExecutor(WORKERS) as pool:
            while (batch := list(islice(remaining, BATCH))) and not self.stopped.is_set():
                check()
                yield from (key for key in pool.map(self._tag, batch) if key is not None)

    def _tag(self, key: str) -> str | None:
        """Tag one object; return None if it was not tagged because tagging was stopped."""
        if self.stopped.is_set():
            return None
        try:
            self._store.set_superseded(key, superseded=True)
        except StoreError as error:
            if not error.missing:  # it has expired, as it was to
                raise
        return key


# The nodes of a job share the work of tagging: the first one writes sheets of keys, others take one each.
#
# What is superseded the first node alone decides. Of many objects it puts a part each on up to seven sheets,
# `tagging/0.json` and on, and says in its own state which nodes they are for: every time others, in turn. A node tags
# what is on its sheet and writes in its place that it is done. What does not come back, because a node has ended, is
# gone or cannot tag, the first node tags itself: to tag twice does no harm.
#
# Eight nodes at once are 64 requests at once, some 2,000 a second, and so the most: S3 takes 3,500 writes a second
# below one prefix, and checkpoints go there too. To the first node it is two requests a sheet beside the looks, to
# the others two. The folder that the nodes share has no more work: all read the first node's state anyway.


@dataclass(frozen=True, slots=True, kw_only=True)
class TagPart:
    """A sheet: one node's share of the tagging work.

    Attributes:
        number: Sequence number of the distribution, from 1.
        slot: Index of the sheet in the distribution, from 0.
        owner: Token of the claim under which the sheet is valid.
        keys: The objects to tag.
        done: All objects are tagged; `keys` is then empty.
    """

    number: int
    slot: int
    owner: str
    keys: tuple[str, ...] = ()
    done: bool = False

    @property
    def key(self) -> str:
        """The sheet's key in the store."""
        return f"{FOLDER}/{self.slot}.json"

    def to_json(self) -> str:
        """The text of the sheet."""
        values = {"number": self.number, "owner": self.owner, "done": self.done, "keys": list(self.keys)}
        return json.dumps({"schema": SCHEMA, **values}) + "\n"


def parse(text: str, slot: int) -> TagPart | None:
    """Parse a sheet; None if the text is unreadable or names a key that is no part of a checkpoint."""
    try:
        document = safe_json.loads(text)
        if not isinstance(document, dict) or document.get("schema") != SCHEMA:
            return None
        sheet = read(TagPart, {**document, "slot": slot}, whole=True)
    except ValueError:
        return None
    return sheet if all(step_of_key(key) is not None for key in sheet.keys) else None


class TagParts:
    """The sheets that the first node has distributed."""

    def __init__(self, store: Store, peers: Peers, *, owner: str) -> None:
        self._store = store
        self._peers = peers
        self._owner = owner
        self._number = 0
        self._next = 0
        # Each sheet with the node that tags its keys, and the time since when.
        self._out: list[tuple[TagPart, int, float]] = []
        self._ask_at = 0.0

    @property
    def are_out(self) -> bool:
        """Whether a sheet has not been returned yet."""
        return bool(self._out)

    def share_out(self, keys: list[str]) -> list[str]:
        """Distribute keys on sheets, and forget earlier sheets.

        Returns the keys that the caller must tag.

        Raises:
            StoreError: the store did not accept a sheet; no node was notified of any sheet.
        """
        self._out = []
        takers = self._takers(len(keys) // SHORTEST - 1)
        if not takers:
            return keys
        self._number += 1
        share = math.ceil(len(keys) / (len(takers) + 1))
        for slot, part in enumerate(takers):
            sheet_keys = tuple(keys[share * (slot + 1) : share * (slot + 2)])
            sheet = TagPart(number=self._number, slot=slot, owner=self._owner, keys=sheet_keys)
            self._store.write_text(sheet.key, sheet.to_json())
            self._out.append((sheet, part, time.monotonic()))
        self._ask_at = time.monotonic() + _ASK_AGAIN_S
        self._peers.publish_state(tagging=[self._number, takers])
        return keys[:share]

    def take_results(self) -> tuple[list[str], list[str]]:
        """The results since the last call: the keys that are tagged, and those that the first node must tag itself."""
        if time.monotonic() < self._ask_at:
            return [], []
        self._ask_at = time.monotonic() + _ASK_AGAIN_S
        gathered = self._peers.gather()
        tagged: list[str] = []
        back: list[str] = []
        for out in list(self._out):
            sheet, part, since = out
            lost = bool(gathered.ended >> part & 1) or part in gathered.silent
            if self._is_done(sheet):
                tagged += sheet.keys
            elif lost or time.monotonic() - since >= _PATIENCE_S:
                back += sheet.keys
            else:
                continue
            self._out.remove(out)
        return tagged, back

    def _is_done(self, sheet: TagPart) -> bool:
        stored = self._store.find_text(sheet.key)
        return stored is not None and parse(stored.text, sheet.slot) == replace(sheet, keys=(), done=True)

    def _takers(self, most: int) -> list[int]:
        """The next nodes in turn, among the nodes that are available."""
        number = min(most, MAX_TAKERS)
        if number <= 0 or self._peers.alone:
            return []
        gathered = self._peers.gather()
        present = [p for p in range(1, self._peers.parts) if not gathered.ended >> p & 1 and p not in gathered.silent]
        if not present:
            return []
        begin = self._next % len(present)
        self._next += number
        return (present[begin:] + present[:begin])[:number]


class TagWorker:
    """The tagging work of the other nodes."""

    def __init__(self, store: Store, peers: Peers) -> None:
        self._store = store
        self._peers = peers
        self._seen = 0

    def take(self) -> TagPart | None:
        """Return the sheet for this node, once; None while no sheet exists.

        Raises:
            StoreError: the store cannot be read; the first node takes that sheet back after a timeout.
        """
        number, takers = _parse_assignment(self._peers.first().get("tagging"))
        if number <= self._seen or self._peers.part not in takers:
            return None
        self._seen = number
        slot = takers.index(self._peers.part)
        stored = self._store.find_text(f"{FOLDER}/{slot}.json")
        sheet = parse(stored.text, slot) if stored is not None else None
        return sheet if sheet is not None and sheet.number == number and not sheet.done else None

    def give_back(self, sheet: TagPart) -> None:
        """Report that all objects on a sheet are tagged."""
        self._store.write_text(sheet.key, replace(sheet, keys=(), done=True).to_json())


def _parse_assignment(value: object) -> tuple[int, list[int]]:
    """The number and the nodes that the first node announced; 0 and an empty list if it announced none."""
    match value:
        case [int(number), list(takers)]:
            return number, takers
        case _:
            return 0, []


class Tagging(threading.Thread):
    """Tags the superseded objects that a retention finds, whenever the thread is woken."""

    def __init__(self, store: Store, log: EventLog, claim: Claim, retention: Retention, peers: Peers) -> None:
        super().__init__(name="tagging", daemon=True)
        self.retention = retention
        self._log = log
        self._claim = claim
        self._part = peers.part
        self._tags = Tags(store)
        self._sheets = TagParts(store, peers, owner=claim.token)
        self._worker = TagWorker(store, peers)
        self._changed = threading.Condition()
        self._wanted = False
        self._no_more = False

    def wake(self) -> None:
        """Notify the thread that objects have been superseded."""
        with self._changed:
            self._wanted = True
            self._changed.notify()

    def stop(self) -> None:
        """Handle a pending notice: start no further request."""
        self._tags.stopped.set()
        with self._changed:
            self._no_more = True
            self._changed.notify()

    def finish(self, deadline: float) -> None:
        """Tag the rest, and end the thread; end immediately if tagging is forbidden until the deadline.

        `deadline` is in monotonic seconds.
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
        """Tag until no more work can come."""
        with contextlib.suppress(OSError, AttributeError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)  # of this thread, on Linux
        if self._part > 0:
            self._tag_for_the_first()
            return
        while self._wait():
            try:
                while self._tag_superseded():
                    pass  # look again: a step in which nothing is left is done with
            except TakenOverError:
                return  # the committing thread detects the loss and reports it
            except StoreError as error:
                self._log.append("retention-failed", error=str(error))
                if not self._wait_after_failure(permanent=error.permanent):
                    return
                self.wake()

    def _wait_after_failure(self, *, permanent: bool) -> bool:
        with self._changed:
            if self._no_more and permanent:
                return False
            self._changed.wait_for(lambda: self._no_more, timeout=_RETRY_S)
        return not self._tags.stopped.wait(_LAST_RETRY_S if self._no_more else 0.0)

    def _wait(self) -> bool:
        """Wait for work or the end; return whether work exists and tagging is allowed."""
        with self._changed:
            while not self._wanted and not self._no_more:
                self._changed.wait()
            pending, self._wanted = self._wanted, False
        pause = self._claim.may_tag_at - time.monotonic()
        if pending and pause > 0:
            self._tags.stopped.wait(pause)
        return pending and not self._tags.stopped.is_set()

    def _tag_superseded(self) -> bool:
        steps = []
        for step, keys in self.retention.superseded_steps():
            remaining = iter(keys)
            while portion := list(islice(remaining, PORTION)):
                # Tag some objects, with the other nodes if it is worth it; all of them, if nothing stops it
                self._claim.check()
                self._tag(self._sheets.share_out(portion))
                while self._sheets.are_out and not self._tags.stopped.wait(_POLL_S):
                    tagged, back = self._sheets.take_results()
                    for key in tagged:
                        self.retention.record_tag(key)
                    self._tag(back)
                if self._tags.stopped.is_set():
                    return False
            steps.append(step)
        if steps:
            self._log.append("checkpoints-superseded", steps=steps)
        if others := self.retention.other_layouts():
            self._report_other_layouts(others)
        return bool(steps)

    def _report_other_layouts(self, others: Iterable[RetainedCheckpoint]) -> None:
        by_layout: dict[str, set[int]] = {}
        for checkpoint in others:
            layout = min(checkpoint.layouts, default="").partition("/")[0]
            by_layout.setdefault(layout, set()).add(checkpoint.step)
        for layout, steps in sorted(by_layout.items()):
            known = {LATER_VERSION: "this version cannot read them", WITHDRAWN: "a user withdrew them"}
            of, why = (layout, known[layout]) if layout in known else (f"of layout {layout}", _NOT_COMPARED)
            summary = f"{len(steps)} checkpoints {of}, steps {min(steps)} to {max(steps)}"
            reason = f"the store has {summary}: they are kept because {why}"
            self._log.append("other-layout-kept", layout=layout, steps=sorted(steps), reason=reason)

    def _tag(self, keys: Iterable[str]) -> None:
        for key in self._tags.put(keys, check=self._claim.check):
            self.retention.record_tag(key)

    def _tag_for_the_first(self) -> None:
        """On other nodes than the first: tag the sheets that the first node assigns, until the job ends."""
        while not self._tags.stopped.wait(_POLL_S) and not self._no_more:
            try:
                sheet = self._worker.take()
                if sheet is not None:
                    self._tag_sheet(sheet)
            except TakenOverError:
                continue  # the requester has ended, or was replaced
            except StoreError as error:  # the first node takes it back
                self._log.append("retention-failed", error=str(error))

    def _tag_sheet(self, sheet: TagPart) -> None:
        tagged = list(self._tags.put(sheet.keys, check=lambda: self._claim.check_holder(sheet.owner)))
        if len(tagged) == len(sheet.keys):
            self._worker.give_back(sheet)


def protect(store: Store, keys: Iterable[str]) -> None:
    """Tag objects as retained: their checkpoint is the newest complete one again, since newer ones are incomplete."""
    ordered = sorted(set(keys))
    steps = {step_of_key(key) for key in ordered}
    remembered = read_record(store)
    if steps & remembered.keys():
        write_record(store, {step: keys for step, keys in remembered.items() if step not in steps})
    with ThreadPoolExecutor(WORKERS) as pool:
        list(pool.map(lambda key: store.set_superseded(key, superseded=False), ordered))
