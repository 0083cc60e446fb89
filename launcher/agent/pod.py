"""The agent in a pod: it meets the job's other pods, and writes down in the store what a pod would take with it."""

import contextlib
import os
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

from launcher.agent import exits
from launcher.agent.events import events_path
from launcher.agent.job import JobSpec, expand
from launcher.agent.meeting import Meeting, folder_of
from launcher.agent.node.notices import Notices
from launcher.agent.node.placement import Placement, placement
from launcher.agent.session import MARKED_NAME, Session
from launcher.agent.store.board import StoreBoard
from launcher.agent.store.journal import Journal
from launcher.agent.store.objects import Store

EVENTS, METRICS, LOG = "events.jsonl", "metrics.jsonl", "log.txt"
"""What the first pod keeps; the others keep `events-part1.jsonl` and `log-part1.txt`."""
_TIMEOUT_S = 5.0
_KEEP_S, _KEEP_IN_HASTE_S = 60.0, 10.0
_MOST_HELD = 64_000_000
"""Bytes of output that are held while the store does not answer."""


def run_in_pod(spec: JobSpec, journal: str, environment: Mapping[str, str]) -> int:
    """Run one attempt of the job, as one pod of it.

    Args:
        spec: The job.
        journal: The run's own place in the store.
        environment: The agent's.

    Returns:
        The exit code of the agent (`exits`).

    Raises:
        AgentError: It cannot begin.
    """
    notices = Notices(pod_grace_s=spec.grace_s)
    notices.listen()
    store = Store(journal, timeout_s=_TIMEOUT_S)
    meeting = Meeting(store, placement(spec.run, environment), say=_say)
    place = meeting.join(over=notices.pending)
    if meeting.completed:
        # An operator that starts what failed again has to be told that there is nothing left to start.
        _say("the job was stopped at its budget" if meeting.stopped else "the job has completed")
        return exits.COMPLETED
    if place is None:
        return exits.INTERRUPTED
    with contextlib.closing(_Output()) as output:
        kept = _journal(spec, store, place, environment, output)
        _say(f"job {spec.run}, attempt {place.attempt}, {place.node} (pod {place.part + 1} of {place.parts})")
        board = StoreBoard(store, folder_of(place.attempt))
        code = Session(spec, environment, place=place, notices=notices, board=board).run()
        if code == exits.COMPLETED and not meeting.complete(over=notices.pending):
            code = exits.INTERRUPTED
        if code == exits.STOPPED:
            meeting.complete(over=lambda: True, stopped=True)
    kept.finish(within_s=_KEEP_IN_HASTE_S if notices.pending() else _KEEP_S)
    return code


def _journal(
    spec: JobSpec, store: Store, place: Placement, environment: Mapping[str, str], output: "_Output"
) -> Journal:
    """What keeps this pod's files, at work."""
    events, metrics = (Path(expand(path, environment)) for path in (spec.events, spec.metrics))
    log = LOG if place.part == 0 else f"log-part{place.part}.txt"
    journal = Journal(store, lambda text: _say(f"what this pod writes is not kept: {text}"))
    own = events_path(events, part=place.part)
    journal.keep_file(events_path(Path(EVENTS), part=place.part).name, own)
    journal.keep(log, output.taken)
    if place.part == 0:
        journal.keep_file(METRICS, metrics)
    _remember_marks(spec, store, events, journal)
    journal.start()
    return journal


def _remember_marks(spec: JobSpec, store: Store, events: Path, journal: Journal) -> None:
    """That a trainer marks what it has finished is known over attempts; the file that says so goes with the pod."""
    path = events.with_name(f"{MARKED_NAME}-{spec.run}")
    known = bool(store.sizes("marked/"))
    if known:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()

    def news() -> bytes:
        nonlocal known
        if known or not path.exists():
            return b""
        known = True
        return b"1"

    journal.keep("marked", news)


class _Output:
    """What this process and all that it starts print: passed on, and held until it is taken."""

    def __init__(self) -> None:
        """Take the place of both outputs."""
        self._held = bytearray()
        self._lock = threading.Lock()
        sys.stdout.flush()
        sys.stderr.flush()
        self._before = os.dup(1), os.dup(2)
        reader, writer = os.pipe()
        os.dup2(writer, 1)
        os.dup2(writer, 2)
        os.close(writer)
        self._pump = threading.Thread(target=self._pass_on, args=(reader,), name="output", daemon=True)
        self._pump.start()

    def taken(self) -> bytes:
        """What has come since the last call."""
        with self._lock:
            data = bytes(self._held)
            self._held.clear()
        return data

    def close(self) -> None:
        """Give the outputs back; what is on its way is passed on first."""
        sys.stdout.flush()
        sys.stderr.flush()
        os.dup2(self._before[0], 1)
        os.dup2(self._before[1], 2)
        self._pump.join(2.0)

    def _pass_on(self, reader: int) -> None:
        while data := os.read(reader, 65536):
            with self._lock:
                self._held += data
                del self._held[: max(0, len(self._held) - _MOST_HELD)]
            with contextlib.suppress(OSError):
                os.write(self._before[0], data)
        os.close(reader)


def _say(text: str) -> None:
    """Into the pod's log; the first line of an attempt is told from others by how it begins."""
    with contextlib.suppress(OSError):
        sys.stderr.write(f"slipway: {text}\n")  # in one write: the command writes here as well
        sys.stderr.flush()
