"""The agent in a pod: it joins an attempt with the job's other pods, and stores the files that a pod would lose."""

import contextlib
import os
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from launcher.agent import exits
from launcher.agent.attempt_state import CANCEL_FILE, newest_step, telling_events
from launcher.agent.errors import StoreError
from launcher.agent.events import events_path
from launcher.agent.job import JobSpec, expand
from launcher.agent.node.notices import Notices
from launcher.agent.node.placement import Placement, placement
from launcher.agent.rendezvous import Rendezvous, folder_of
from launcher.agent.session import MARKED_NAME, Session
from launcher.agent.store.board import StoreBoard
from launcher.agent.store.journal import Journal
from launcher.agent.store.objects import Store

EVENTS, METRICS, LOG = "events.jsonl", "metrics.jsonl", "log.txt"
"""The files that the first pod stores; the others store `events-part1.jsonl` and `log-part1.txt`."""
OPERATOR, JOB = "SLIPWAY_OPERATOR", "job"
"""The variable that names a pod's operator, and the value for Kubernetes' own Job, which counts failures itself."""
UNFIT = "SLIPWAY_UNFIT"
"""The reason why no attempt can start in this pod, from its first process (templates/kubernetes/start.py)."""
REMARKS = "SLIPWAY_REMARKS"
"""What that process says of the job's secrets, in lines."""
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_TIMEOUT_S = 5.0
_KEEP_S, _KEEP_IN_HASTE_S = 60.0, 10.0
_PAUSE_S, _LONGEST_PAUSE_S = 10.0, 300.0
"""Pauses between two tries, doubled each time, like the kubelet's between two starts of a container."""
_LONGEST_WORD = 2000
"""Maximum characters of a pod's last message: Kubernetes retains the last 4096 bytes; the beginning matters."""
_MAX_HELD = 64_000_000
"""Maximum bytes of output that are buffered while the store does not answer."""


def run_in_pod(spec: JobSpec, journal: str, environment: Mapping[str, str]) -> int:
    """Run one attempt of the job in one of its pods; if the store refuses permanently, this pod ends permanently.

    Returns the exit code of the agent (`exits`).

    Raises:
        AgentError: the attempt cannot start.
    """
    try:
        return _run(spec, journal, environment)
    except StoreError as error:
        if not error.permanent:
            raise
        reason = f"the store permanently refuses access to the run's files, so attempts are not counted: {error}"
    _print(reason)
    # Kubernetes keeps the termination message. An operator that restarts every failure gets a success.
    try:
        Path(environment[exits.LAST_WORD]).write_text(exits.GAVE_UP + reason[:_LONGEST_WORD], encoding="utf-8")
    except (KeyError, OSError) as problem:
        _print(f"and the reason cannot be reported to Kubernetes: {problem!r}")
        return exits.BAD_JOB
    return exits.BAD_JOB if environment.get(OPERATOR) == JOB else exits.COMPLETED


def _run(spec: JobSpec, uri: str, environment: Mapping[str, str]) -> int:
    """Run one attempt; assumes that the store does not refuse permanently."""
    store = Store(uri, timeout_s=_TIMEOUT_S)
    notices = Notices(pod_grace_s=spec.grace_s, pod_cancelled=lambda: _is_cancelled(store))
    notices.listen()
    place = placement(spec.run, environment)
    rendezvous = Rendezvous(store, place, notify=_print, node_id=_node_boot_id(environment), retries=spec.retries)
    if UNFIT in environment:
        _store_refusal(spec, store, place, environment)
        rendezvous.refuse(exits.BAD_JOB)
        return exits.BAD_JOB if environment.get(OPERATOR) == JOB else exits.COMPLETED
    pause_s = 0.2 if environment.get("SLIPWAY_SANDBOX") == "1" else _PAUSE_S
    seat = _seat(rendezvous, notices, tries=1 + (spec.retries or 0), pause_s=pause_s)
    if rendezvous.completed:
        if rendezvous.failed is not None:
            _print(f"the job has failed with exit code {rendezvous.failed}: no further attempt is allowed")
            # A Job fails at this code; the other operators restart every failure, up to their own limit.
            return exits.STOPPED if environment.get(OPERATOR) == JOB else exits.COMPLETED
        # An operator that restarts failed pods must get a success, so that it starts nothing more.
        _print("the job was stopped at its budget" if rendezvous.stopped else "the job has completed")
        return exits.COMPLETED
    if seat is None:
        return exits.INTERRUPTED
    with contextlib.closing(_Output()) as output:
        journal = _journal(spec, store, seat, environment, output)
        _print(f"job {spec.run}, attempt {seat.attempt}, {seat.node} (node {seat.part + 1} of {seat.parts})")
        for remark in environment.get(REMARKS, "").splitlines():
            _print(remark)
        environment = {name: value for name, value in environment.items() if name != REMARKS}
        board = StoreBoard(store, folder_of(seat.attempt))
        code = Session(spec, environment, place=seat, notices=notices, board=board).run()
        if code == exits.COMPLETED and not rendezvous.complete(over=notices.pending):
            code = exits.INTERRUPTED
        rendezvous.leave(code, over=notices.pending, newest=_newest(spec, seat, environment))
        if code == exits.STOPPED:
            rendezvous.complete(over=lambda: True, stopped=True)
    journal.finish(within_s=_KEEP_IN_HASTE_S if notices.pending() else _KEEP_S)
    return code


def _is_cancelled(store: Store) -> bool:
    """Whether a person has cancelled the job; False if the store does not answer."""
    try:
        return store.find_text(CANCEL_FILE) is not None
    except StoreError as error:
        _print(f"cannot read whether the job was cancelled, so its end counts as an interruption: {error}")
        return False


def _store_refusal(spec: JobSpec, store: Store, place: Placement, environment: Mapping[str, str]) -> None:
    """Print why no attempt can start in this pod, and store it as the pod's log: nothing else shows it later."""
    with contextlib.closing(_Output()) as output:
        journal = _journal(spec, store, place, environment, output)
        _print(environment[UNFIT])
    journal.finish(within_s=_KEEP_IN_HASTE_S)


def _seat(rendezvous: Rendezvous, notices: Notices, *, tries: int, pause_s: float) -> Placement | None:
    """This pod's seat in an attempt. A refusing store is retried as often as attempts may fail: IAM is slow."""
    for number in range(1, tries):
        try:
            return rendezvous.join(over=notices.pending)
        except StoreError as error:
            _print(f"{error} (try {number} of {tries})")
        until = time.monotonic() + pause_s
        while time.monotonic() < until and not notices.pending():
            time.sleep(min(1.0, pause_s))
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
    return rendezvous.join(over=notices.pending)


def _node_boot_id(environment: Mapping[str, str]) -> str:
    """The identifier of the node and its current boot; empty if unknown."""
    boot = environment.get("SLIPWAY_BOOT_ID", "")
    with contextlib.suppress(OSError):
        boot = boot or _BOOT_ID.read_text(encoding="ascii").strip()
    return f"{environment.get('SLIPWAY_NODE', '')}/{boot}" if boot else ""


def _newest(spec: JobSpec, seat: Placement, environment: Mapping[str, str]) -> int | None:
    """The step of the newest complete checkpoint; None if unknown, as on all pods but the first, which commits."""
    if seat.part:
        return None
    newest = newest_step(telling_events(events_path(Path(expand(spec.events, environment)), part=seat.part)))
    # Checkpoints that a trainer stores itself may not be recognised.
    return None if newest < 0 and spec.checkpoint.mode == "own" else newest


def _journal(
    spec: JobSpec, store: Store, place: Placement, environment: Mapping[str, str], output: "_Output"
) -> Journal:
    events, metrics = (Path(expand(path, environment)) for path in (spec.events, spec.metrics))
    log = LOG if place.part == 0 else f"log-part{place.part}.txt"
    journal = Journal(store, lambda text: _print(f"cannot store this pod's log: {text}"))
    part_events = events_path(events, part=place.part)
    journal.keep_file(events_path(Path(EVENTS), part=place.part).name, part_events)
    journal.keep(log, output.take)
    if place.part == 0:
        journal.keep_file(METRICS, metrics)
    _remember_marks(spec, store, events, journal)
    journal.start()
    return journal


def _remember_marks(spec: JobSpec, store: Store, events: Path, journal: Journal) -> None:
    """Remember over attempts that a trainer marks finished checkpoints; the file for it is lost with the pod."""
    path = events.with_name(f"{MARKED_NAME}-{spec.run}")
    is_stored = bool(store.sizes("marked/"))
    if is_stored:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()

    def marked_notice() -> bytes:
        nonlocal is_stored
        if is_stored or not path.exists():
            return b""
        is_stored = True
        return b"1"

    journal.keep("marked", marked_notice)


class _Output:
    """The output of this process and all its child processes: passed on, and buffered until it is read."""

    def __init__(self) -> None:
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

    def take(self) -> bytes:
        with self._lock:
            data = bytes(self._held)
            self._held.clear()
        return data

    def close(self) -> None:
        """Restore the original outputs after passing on the remaining data."""
        sys.stdout.flush()
        sys.stderr.flush()
        os.dup2(self._before[0], 1)
        os.dup2(self._before[1], 2)
        self._pump.join(2.0)

    def _pass_on(self, reader: int) -> None:
        while data := os.read(reader, 65536):
            with self._lock:
                self._held += data
                del self._held[: max(0, len(self._held) - _MAX_HELD)]
            with contextlib.suppress(OSError):
                os.write(self._before[0], data)
        os.close(reader)


def _print(text: str) -> None:
    """Print to the pod's log; the first line of an attempt is recognised by its beginning."""
    with contextlib.suppress(OSError):
        sys.stderr.write(f"slipway: {text}\n")  # in one write: the command writes here as well
        sys.stderr.flush()
