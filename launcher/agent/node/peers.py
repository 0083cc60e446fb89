"""What the agents of one job tell each other: a folder on the file system that the job's nodes share.

`peers/<session>/` beside the events holds, for every life of the job,

    notice.json, failure.json, rebalance.json   the newest notice of each kind, from whichever node it came
    part-K.json                                 how node K is: its beat, the checkpoint it restored, its end

The folder and not the store: it is there before the job starts (job.json is read from it), it works when S3 does not,
and a look costs nothing. The files exist from the start and are replaced by a rename, so that the `open` of every look
sees the newest one on NFS too (close-to-open consistency; a name that is not there yet may be remembered as missing).
Beats are counted, not timed: clocks of nodes need not agree.
"""

import json
import shutil
import threading
import time
from collections.abc import Callable, Iterable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from launcher.agent.events import EventLog
from launcher.agent.node.notice import FAILURE, REBALANCE, Notice, parse_notice
from launcher.agent.node.placement import Placement

FOLDER_NAME = "peers"
BEAT_S = 5.0
LOST_AFTER_S = 20.0
"""A node whose beat stands still for this long is gone: four beats, of which a slow file system may swallow some."""

_LOOK_S = 1.0
_LOST_LOOK_S = 2.5
_KINDS = ("notice", "failure", "rebalance")
_TEMPORARY = ".new"


class Peers(threading.Thread):
    """One node's ear and voice. With a single node it does nothing."""

    def __init__(self, folder: Path, place: Placement, log: EventLog, *, on_notice: Callable[[Notice], None]) -> None:
        """Prepare the thread.

        Args:
            folder: Where the events are.
            place: Which node this is.
            log: Where trouble is said, once.
            on_notice: Called with every notice of another node.
        """
        super().__init__(name="peers", daemon=True)
        self._folder = folder / FOLDER_NAME / place.session
        self._place = place
        self._log = log
        self._on_notice = on_notice
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._state: dict[str, Any] = {"node": place.node, "beat": 0}
        self._heard: dict[str, str] = dict.fromkeys(_KINDS, "")
        self._gone: dict[int, dict[str, Any] | None] = {}
        self._troubled = False

    @property
    def alone(self) -> bool:
        """Whether there is no other node."""
        return self._place.parts == 1

    @property
    def part(self) -> int:
        """The number of this node, from 0."""
        return self._place.part

    @property
    def others(self) -> tuple[int, ...]:
        """The numbers of all other nodes."""
        return tuple(part for part in range(self._place.parts) if part != self._place.part)

    def open(self) -> None:
        """Make the folder, say that this node is there, and begin to listen."""
        if self.alone:
            return
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            for kind in _KINDS:
                self._folder.joinpath(f"{kind}.json").touch()
            if self._place.part == 0:
                self._remove_earlier_lives()
        except OSError as error:
            self._tell(error)
        self._write_state()
        self.start()

    def close(self, **ending: Any) -> None:
        """Say how this node ended, and fall silent."""
        if self.alone:
            return
        self._over.set()
        self.say(ended=True, **ending)

    def say(self, **facts: Any) -> None:
        """Let the others read something of this node."""
        if self.alone:
            return
        with self._lock:
            self._state |= facts
        self._write_state()

    def publish(self, notice: Notice) -> None:
        """Pass a notice of this node on to all others."""
        if self.alone or notice.node is not None:
            return
        kind = {FAILURE: "failure", REBALANCE: "rebalance"}.get(notice.source, "notice")
        text = Notice(
            source=notice.source,
            detail=notice.detail,
            at=notice.at,
            left_s=notice.left_s,
            node=self._place.node,
            code=notice.code,
        ).to_json()
        with self._lock:
            self._heard[kind] = text
        self._replace(f"{kind}.json", text)

    def states(self, parts: Iterable[int]) -> dict[int, dict[str, Any]]:
        """What nodes last said of themselves, by their numbers; one that has not spoken yet is left out."""
        found = {}
        for part in parts:
            try:
                state = json.loads(self._folder.joinpath(f"part-{part}.json").read_text(encoding="utf-8"))
            except (OSError, ValueError):
                continue
            if isinstance(state, dict):
                found[part] = state
        return found

    def lost(self, *, after_s: float = LOST_AFTER_S) -> dict[int, str]:
        """The nodes that are gone: not ended, and without a beat for `after_s` seconds. Waits that long at most.

        Returns:
            Their names by their numbers; empty as soon as every node has given a sign of life. One that was found to be
            gone before and has not spoken since is not waited for again.
        """
        if self.alone:
            return {}
        silent = set(self.others)
        first = self.states(silent)
        if gone := {part for part in silent & self._gone.keys() if self._gone[part] == first.get(part)}:
            return _names(gone, first)
        deadline = time.monotonic() + after_s
        while True:
            now = self.states(silent)
            silent = {part for part in silent if not _is_alive(first.get(part), now.get(part))}
            if not silent or time.monotonic() >= deadline:
                self._gone |= {part: now.get(part) for part in silent}
                return _names(silent, now)
            time.sleep(min(_LOST_LOOK_S, max(0.01, deadline - time.monotonic())))

    def run(self) -> None:
        """Listen and beat until it is over."""
        beat_at = time.monotonic() + BEAT_S
        while not self._over.wait(_LOOK_S):
            self.listen()
            if time.monotonic() >= beat_at:
                beat_at = time.monotonic() + BEAT_S
                with self._lock:
                    self._state["beat"] += 1
                self._write_state()

    def listen(self) -> None:
        """Hear what the others have said up to now."""
        for kind in _KINDS if not self.alone else ():
            try:
                text = self._folder.joinpath(f"{kind}.json").read_text(encoding="utf-8")
            except OSError as error:
                self._tell(error)
                continue
            with self._lock:
                known = not text or text == self._heard[kind]
                self._heard[kind] = text
            if known:
                continue
            try:
                notice = parse_notice(text, now=datetime.now(timezone.utc))
            except ValueError as error:
                self._tell(error)
                continue
            if notice.node != self._place.node:
                self._on_notice(notice)

    def _write_state(self) -> None:
        with self._lock:
            text = json.dumps(self._state) + "\n"
            self._replace(f"part-{self._place.part}.json", text)

    def _replace(self, name: str, text: str) -> None:
        partial = self._folder / f"{name}{_TEMPORARY}{self._place.part}"
        try:
            partial.write_text(text, encoding="utf-8")
            partial.replace(self._folder / name)
        except OSError as error:
            self._tell(error)

    def _remove_earlier_lives(self) -> None:
        """The folder of the events belongs to one job, so whatever else is here is of a life that is over."""
        for folder in self._folder.parent.iterdir():
            if folder != self._folder:
                shutil.rmtree(folder, ignore_errors=True)

    def _tell(self, error: Exception) -> None:
        if not self._troubled:
            self._troubled = True
            self._log.append("peers-trouble", error=f"other nodes cannot be reached through {self._folder}: {error}")


def _names(parts: Iterable[int], states: dict[int, dict[str, Any]]) -> dict[int, str]:
    """The names of nodes by their numbers, in order."""
    return {part: str(states.get(part, {}).get("node", f"number {part}")) for part in sorted(parts)}


def _is_alive(before: dict[str, Any] | None, now: dict[str, Any] | None) -> bool:
    """Whether a node has ended in good order or given a sign of life in between."""
    return now is not None and (bool(now.get("ended")) or now != before)
