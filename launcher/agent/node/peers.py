"""Messages between the agents of one job: a folder on the file system that the job's nodes share.

`peers/<session>/` next to the events holds, for every attempt of the job,

    news.json      the notices of all nodes (`shared_notices`)
    part-K.json    the state of node K: its heartbeat, restored checkpoint and end; the states of the nodes below it

The folder exists before the job starts, works without S3, and costs nothing to read. A rename replaces each file, so
that each `open` sees the newest one on NFS too (close-to-open consistency); `news.json` exists from the start, because
NFS may cache that a name is missing. Heartbeats are counted, not timed: clocks of nodes need not agree.

With any number of nodes, each does at most a few operations a second: it reads the news and the first node's file
once a second and writes its own every 5 s. With nodes below it, it reads at most 32 of their files in 2.5 s and writes
its own once a second when they changed, else every 2.5 s (`python -m benchmarks.many_nodes`).
"""

import json
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from launcher.agent import safe_json
from launcher.agent.events import EventLog
from launcher.agent.node import gathering, shared_notices
from launcher.agent.node.board import Board, FolderBoard
from launcher.agent.node.gathering import Gathered, Listener
from launcher.agent.node.notice import Notice, parse_notice
from launcher.agent.node.placement import Placement

BEAT_S = 5.0
LOST_AFTER_S = 20.0
"""A node without a heartbeat for this long is lost: four heartbeats, some of which a slow file system may delay."""

_POLL_S = 1.0
_GATHER_S = 2.5
_MAX_HEARD = 32
_LOST_POLL_S = 1.0
_NEWS_NAME = "news.json"


def in_folder(folder: Path, place: Placement) -> FolderBoard:
    """The board of a job whose nodes share a folder, which belongs to that one job."""
    return FolderBoard(folder / "peers" / place.session)


class Peers(threading.Thread):
    """Sends and receives the messages of one node. With a single node it does nothing."""

    def __init__(self, board: Board, place: Placement, log: EventLog, *, on_notice: Callable[[Notice], None]) -> None:
        super().__init__(name="peers", daemon=True)
        self._board = board
        self._place = place
        self._log = log
        self._on_notice = on_notice
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._state: dict[str, Any] = {"node": place.node, "beat": 0}
        self._address = "127.0.0.1" if place.parts == 1 else own_address(place.node)
        if place.part == 0:
            self._state["address"] = self._address
        self._listener = Listener(place.part, place.parts, now=time.monotonic())
        self._first: dict[str, Any] = {}
        self._first_read_at = self._first_changed_at = time.monotonic()
        self._published: dict[str, Notice] = {}
        self._known: set[str] = set()
        self._problem_reported = False

    @property
    def alone(self) -> bool:
        """Whether the job has no other node."""
        return self._place.parts == 1

    @property
    def part(self) -> int:
        """The number of this node, from 0."""
        return self._place.part

    @property
    def parts(self) -> int:
        """The number of nodes."""
        return self._place.parts

    def open(self) -> None:
        """Create the folder, announce this node, and start to listen."""
        if self.alone:
            return
        try:
            self._board.open(_NEWS_NAME)
            if self.part == 0:
                self._board.remove_earlier()
        except OSError as error:
            self._report(error)
        self._first_changed_at = time.monotonic()
        self._write_state()
        self.start()

    def close(self, **ending: Any) -> None:
        """Announce how this node ended, and stop the heartbeat."""
        if self.alone:
            return
        self._over.set()
        self._gather()
        self.publish_state(ended=True, **ending)

    def publish_state(self, **facts: Any) -> None:
        """Publish facts about this node for the others."""
        if self.alone:
            return
        with self._lock:
            self._state |= facts
        self._write_state()

    def publish(self, notice: Notice) -> None:
        """Send a notice of this node to all others."""
        if self.alone or notice.node is not None:
            return
        with self._lock:
            self._published[notice.source] = Notice(
                source=notice.source,
                detail=notice.detail,
                at=notice.at,
                left_s=notice.left_s,
                node=self._place.node,
                code=notice.code,
            )
        self._publish_all(newest=notice.source)

    def first(self) -> dict[str, Any]:
        """The last state that the first node published; read at most once a second."""
        now = time.monotonic()
        if self.part == 0:
            with self._lock:
                return dict(self._state)
        with self._lock:
            is_due = not self._first or now - self._first_read_at >= _POLL_S
            self._first_read_at = now if is_due else self._first_read_at
        if is_due:
            state = self._read_state(0)
            with self._lock:
                if state is not None and state != self._first:
                    self._first, self._first_changed_at = state, now
        with self._lock:
            return self._first

    @property
    def meeting_variables(self) -> dict[str, str]:
        """What torchrun of this node tells the others: its rank among the nodes, and the address it is reached at.

        The first node must have rank 0: trainers write markers, trackers and metrics there, where the agent reads
        them. A static rendezvous takes the rank from here. A c10d rendezvous, which a command may ask for, sorts the
        nodes by address as text (torch 1.9 to 2.13, dynamic_rendezvous.py), and only the first one's is connected to.
        So the others have theirs in IPv6 form, which sorts behind every IPv4 address.

        Without an address torchrun takes the host's name, which not every service resolves. None for a host whose own
        hosts file has its name on loopback, as Debian's has (127.0.1.1).
        """
        if self.alone:
            return {}
        rank = {"PET_NODE_RANK": str(self.part)}
        if self._address.startswith("127.0."):
            return rank
        return rank | {"PET_LOCAL_ADDR": f"::ffff:{self._address}" if self.part else self._address}

    def address_of_first(self) -> str:
        """The address of the first node, after waiting for it; empty if it publishes none."""
        deadline = time.monotonic() + LOST_AFTER_S
        while not isinstance(address := self.first().get("address"), str) and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        return address if isinstance(address, str) else ""

    def first_silent_s(self) -> float:
        """Seconds since the first node's file last changed."""
        with self._lock:
            return time.monotonic() - self._first_changed_at

    def gather(self) -> Gathered:
        """The known state of this node and those below it; on the first node, of all nodes."""
        with self._lock:
            return self._states_below()

    def overview(self) -> Gathered:
        """The known state of all nodes; callable on every node."""
        if self.part == 0:
            return self.gather()
        first, silent_s = self.first(), self.first_silent_s()
        overview = gathering.later(gathering.parse(first.get("below")), silent_s)
        if silent_s >= 4 * BEAT_S and not first.get("ended"):
            name = gathering.name_of(0, first)
            overview = gathering.join_states(overview, Gathered(silent={0: name}, silent_s=silent_s))
        return overview

    def lost_nodes(self, *, after_s: float | None = None) -> dict[int, str]:
        """The lost nodes: not ended, and without a heartbeat for `after_s` seconds (`LOST_AFTER_S`).

        Waits at most that long, plus the time that states need through the tree. If the first node has ended, its last
        state is final.

        Returns:
            Their names by number (only a few of many); empty as soon as every node has sent a heartbeat. The call does
            not wait for a node that is known to be lost.
        """
        if self.alone:
            return {}
        asked_at = time.monotonic()
        deadline = (
            asked_at + (LOST_AFTER_S if after_s is None else after_s) + 2 * _GATHER_S * gathering.depth(self.parts)
        )
        while True:
            overview = self.overview()
            now = time.monotonic()
            final = self.part > 0 and bool(self.first().get("ended"))
            if overview.silent or final or overview.age_s < now - asked_at or now >= deadline:
                return dict(overview.silent)
            time.sleep(min(_LOST_POLL_S, max(0.01, deadline - now)))

    def run(self) -> None:
        """Listen, gather and send heartbeats until closed."""
        hears = bool(gathering.children(self.part, self.parts))
        speaks_every_s = _GATHER_S if hears else BEAT_S
        speak_at = gather_at = time.monotonic()
        while not self._over.wait(_POLL_S):
            self.listen()
            self.first()
            if hears and time.monotonic() >= gather_at:
                before = self.gather()
                self._gather()
                gather_at = time.monotonic() + _GATHER_S * min(1.0, self._listener.wide / _MAX_HEARD) - _POLL_S / 10
                speak_at = speak_at if gathering.is_same_state(before, self.gather()) else 0.0
            if time.monotonic() < speak_at:
                continue
            speak_at = time.monotonic() + speaks_every_s
            with self._lock:
                self._state["beat"] += 1
            self._write_state()

    def listen(self) -> None:
        """Read new notices of the others, and publish this node's own again if they are missing."""
        if self.alone:
            return
        try:
            notices = self._notices()
        except (OSError, ValueError) as error:
            self._report(error)
            return
        for fields in notices.values():
            text = json.dumps(fields, sort_keys=True)
            with self._lock:
                is_known = text in self._known
                self._known.add(text)
            if not is_known and fields.get("node") != self._place.node:
                self._on_text(text)
        if self._published.keys() - notices.keys():
            self._publish_all()

    def _on_text(self, text: str) -> None:
        try:
            notice = parse_notice(text, now=datetime.now(timezone.utc))
        except ValueError as error:
            self._report(error)
        else:
            self._on_notice(notice)

    def _publish_all(self, *, newest: str | None = None) -> None:
        try:
            notices = before = self._notices()
        except (OSError, ValueError):
            notices, before = {}, None
        with self._lock:
            state = dict(self._published)
        for source, notice in state.items():
            if source == newest or source not in notices:
                notices = shared_notices.with_notice(notices, notice) or notices
        if notices != before:
            self._replace(_NEWS_NAME, json.dumps(notices) + "\n")

    def _notices(self) -> dict[str, dict[str, Any]]:
        return shared_notices.parse_shared_notices(self._read(_NEWS_NAME))

    def _states_below(self) -> Gathered:
        return self._listener.gather(self._state, time.monotonic(), silent_after_s=4 * BEAT_S)

    def _gather(self) -> None:
        with self._lock:
            parts = self._listener.parts_to_read(_MAX_HEARD, time.monotonic())
        for part in parts:
            state = self._read_state(part)
            with self._lock:
                self._listener.update(part, state, time.monotonic())

    def _read_state(self, part: int) -> dict[str, Any] | None:
        try:
            state = safe_json.loads(self._read(f"part-{part}.json"))
        except (OSError, ValueError):
            return None
        return state if isinstance(state, dict) else None

    def _write_state(self) -> None:
        # The last write has the last state; readers do not wait for the file system or the store.
        with self._writing:
            with self._lock:
                below = {}
                if gathering.children(self.part, self.parts):
                    below["below"] = self._states_below().to_json()
                text = json.dumps({**self._state, **below}) + "\n"
            self._replace(f"part-{self.part}.json", text)

    def _read(self, name: str) -> str:
        return self._board.read(name)

    def _replace(self, name: str, text: str) -> None:
        try:
            self._board.replace(name, text, by=self.part)
        except OSError as error:
            self._report(error)

    def _report(self, error: Exception) -> None:
        if not self._problem_reported:
            self._problem_reported = True
            self._log.append(
                "peers-error", error=f"other nodes cannot be reached through {self._board.location}: {error}"
            )


def own_address(node: str) -> str:
    """The address of this node's name in the job, else of its host name; loopback only without another.

    The host name may be no name in the network: every container of a SageMaker training job is called "aws".
    """
    addresses = []
    for name in (node, socket.gethostname()):
        with suppress(OSError):
            addresses.append(socket.gethostbyname(name))
    return next((address for address in addresses if not address.startswith("127.")), (*addresses, "127.0.0.1")[0])
