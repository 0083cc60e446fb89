"""The agent's folder on the node: one per job, owned by one agent at a time."""

import contextlib
import fcntl
import json
import os
import re
import shutil
import signal
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from launcher.agent import safe_json
from launcher.agent.checkpoint.entries import Layouts
from launcher.agent.checkpoint.finished import FinishedFolder
from launcher.agent.checkpoint.layouts import PATTERN, Layout
from launcher.agent.checkpoint.leftover_files import (
    Leftover,
    age_key,
    bring_back,
    entries,
    leftovers,
    move_aside,
    remove,
    set_aside,
)
from launcher.agent.checkpoint.unsent import (
    CHECKPOINTS_NAME,
    COPIES_NAME,
    PREVIOUS_NAME,
    READ_BACK_NAME,
    Unsent,
    UnsentCheckpoint,
    UnsentRecord,
)
from launcher.agent.checkpoint_keys import step_of_folder
from launcher.agent.errors import AgentError, OccupiedNodeError
from launcher.agent.manifest import HERE
from launcher.agent.node.leftover_processes import LOCK_NAME, end_leftovers, record_first_use
from launcher.agent.node.private_folder import make_private
from launcher.agent.node.process import boot_id, group_lives, signal_group, start_ticks
from launcher.agent.node.reserve import RESERVE_BYTES, Reserve, has_inodes

_OWNER_NAME = "owner.json"
_STORED_NAME = "stored.json"
_PARTIAL_SUFFIX = ".tmp"
_UNFINISHED = re.compile(r"(?:^|[._-])(?:tmp|temp|partial|incomplete|unfinished)(?:[._-]|\d|$)", re.IGNORECASE)
"""Names of files that a trainer was writing when it ended and would have renamed: they obstruct the next trainer."""
_UNKNOWN_SHARE = 10
"""Divisor of the disk size: a job of unknown size gets a tenth of the disk free at its start."""
_INTERVAL_NAME = "interval"
_WAIT_S = 60.0
_POLL_S = 0.2


class Scratch:
    """`<scratch>/slipway-<uid>/<job>/`: the checkpoint folder, the interval file, and the owner's record.

    Slipway moves the checkpoints of an earlier attempt to `previous`: the restore reuses files whose hash matches the
    store, and does not download them. A finished checkpoint that an earlier agent did not store is the newest of all,
    if it has not changed since. It is the only copy: it stays until it, or a newer one, is complete in the store
    (`unsent`), for any later job. All other files stay in place for a later attempt of the same run. Another job moves
    them to `aside`. Slipway removes them only if the disk has no room for this job.
    Other users of the node can neither create nor change any of these files: see `private_folder`.
    """

    def __init__(
        self,
        scratch: Path,
        *,
        job: str,
        run: str,
        uri: str = "",
        life: str = "",
        layouts: Layouts | None = None,
        on_removed: Callable[[Leftover, str], None] = lambda *_: None,
        on_ended: Callable[[list[str]], None] = lambda _: None,
    ) -> None:
        """Name the folder; `__enter__` claims it.

        Args:
            scratch: An absolute folder on the node.
            job: Name of the folder: the plan's name, and the node's number if the job has several nodes.
            run: Id of the run.
            uri: The URI of its checkpoints.
            life: Identifies this attempt of the job, the same on all its nodes.
            layouts: The layouts that count as checkpoints, if the agent restores them into the folder; None: files of
                an earlier attempt stay in place.
            on_removed: Called with every file or folder that was removed to make room, and the reason.
            on_ended: Called with the processes of ended attempts that still ran, once they are ended.
        """
        self._place = scratch
        self._layouts = layouts
        self._on_removed = on_removed
        self._on_ended = on_ended
        self.root = scratch / f"slipway-{os.geteuid()}" / job
        self.checkpoints = self.root / CHECKPOINTS_NAME
        self.previous = self.root / PREVIOUS_NAME
        self.read_back = self.root / READ_BACK_NAME
        self.copies = self.root / COPIES_NAME
        self.interval_file = self.root / _INTERVAL_NAME
        self._reserve = Reserve(self.root.parent)
        self._unsent = UnsentRecord(self.root, self._reserve)
        self._kept_of_others: list[UnsentCheckpoint] = []
        self._stored = Stored()
        self._newest_bytes = 0
        self._may_empty = False
        self._run = run
        self._uri = uri
        self._life = life
        self._lock = -1

    def __enter__(self) -> "Scratch":  # noqa: PYI034  typing.Self came with Python 3.11
        """Claim the folder, kill the processes that a killed agent left, and set its checkpoints aside."""
        try:
            self._make_folder()
            names = {path.name for path in self.root.iterdir()} - {LOCK_NAME, _OWNER_NAME + _PARTIAL_SUFFIX}
            if names and _OWNER_NAME not in names:
                raise AgentError(
                    f"{self.root} contains files that the agent did not create ({min(names)}); empty the folder "
                    "or set another"
                )
            self._lock = _acquire_lock(self.root / LOCK_NAME, wait_s=_WAIT_S)
            self._end_processes(self.root)
            owner = _owner(self.root)
            self._make_first_room()
            if not owner:
                self._write_owner({"run": self._run})  # before anything else: the folder is known by it
            self._set_aside(owner)
            self._renew_owner(owner)
            # Other jobs' checkpoints take space on a node that stays: what their store has is removed, the rest moved
            for folder in self._ended_jobs():
                self._end_processes(folder)
                unsent = UnsentRecord(folder, self._reserve).unsent_checkpoints()
                self._kept_of_others += unsent
                shutil.rmtree(folder / READ_BACK_NAME, ignore_errors=True)
                shutil.rmtree(folder / COPIES_NAME, ignore_errors=True)
                _put_away(folder, _read_stored(folder), unsent, run=str(_owner(folder).get("run", "")))
            self.make_room(shutil.disk_usage(self.root).total // _UNKNOWN_SHARE)
            self._reserve.fill()
        except OSError as error:
            raise AgentError(f"the scratch folder {self.root} cannot be used: {error}") from error
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._lock >= 0:
            try:
                if ended := end_leftovers(self.interval_file, gently=True):
                    self._on_ended(ended)
            except OccupiedNodeError as problem:
                self._on_ended([str(problem)])  # the next attempt refuses the node
            finally:
                os.close(self._lock)
                self._lock = -1

    def record_command(self, pid: int) -> None:
        """Record the command's process group, so that the next agent can kill the group if this agent is killed.

        The command's own process writes the record before it executes the command, so no command is unrecorded. If the
        write fails, the command runs anyway; `has_recorded` reports the failure.
        """
        with contextlib.suppress(OSError):
            self._write_owner({"run": self._run, "pid": pid, "start_ticks": start_ticks(pid), "boot": boot_id()})

    def has_recorded(self, pid: int) -> bool:
        """Whether the folder records the command's process group."""
        return _owner(self.root).get("pid") == pid

    def record_finished(self, finished: FinishedFolder) -> None:
        """Record that a checkpoint is finished, so that the next agent on this node can resume from it."""
        entry = Unsent(
            run=self._run,
            uri=self._uri,
            boot=boot_id(),
            files=finished.files,
            life=self._life,
            step=finished.step,
            entries=finished.entries,
            layout=finished.layout,
            unit=finished.unit,
            main=finished.main,
            mains=finished.mains,
            counted=finished.counted,
        )
        self._unsent.add(finished.name, entry)
        self._newest_bytes = sum(file.bytes for file in finished.files)

    def record_hashes(self, name: str, hashes: Mapping[str, str]) -> None:
        """Record the hashes of a finished checkpoint; the next agent trusts only a checkpoint with hashes."""
        self._unsent.vouch(name, hashes)
        self.make_room(self._newest_bytes)  # for the next one

    def release(self, step: int, *, layout: str = "") -> None:
        """Release a step that is complete in the store, and older steps: the node need not retain them.

        An empty `layout` leaves the layout unchanged.
        """
        rows = () if self._layouts is None else self._layouts.rows
        pattern = next((row.names for row in rows if row.layout == PATTERN), "")
        self._stored = Stored(uri=self._uri, step=step, layout=layout or self._stored.layout, pattern=pattern)
        self._reserve.replace(self.root / _STORED_NAME, json.dumps(asdict(self._stored)) + "\n")
        self._unsent.release(step, uri=self._uri)
        if self._may_empty:
            self.forget_previous()

    def owes(self) -> bool:
        """Whether a finished checkpoint of this job is not known to be in the store."""
        return self._unsent.owes(self._uri)

    def newest_finished(self) -> FinishedFolder | None:
        """The newest checkpoint in `previous` that was finished and hashed, and is unchanged since."""
        newest = self._unsent.newest(uri=self._uri, boot=boot_id())
        if newest is None:
            return None
        name, entry = newest
        return FinishedFolder(
            step=entry.step_in(name),
            path=entry.root(self.previous, name),
            files=entry.files,
            hashes=entry.hashes,
            folder=HERE if entry.entries else name,
            entries=entry.entries,
            layout=entry.layout,
            unit=entry.unit,
            mains=entry.leading,
            counted=entry.counted,
        )

    def life_of(self, finished: FinishedFolder) -> str:
        """The attempt in which a checkpoint of an earlier agent was finished; empty if unknown."""
        return self._unsent.life_of(finished.name)

    def unsent_checkpoints(self) -> list[UnsentCheckpoint]:
        """Finished checkpoints on this node, also of other jobs, that are not in the store and not used by this job."""
        unsent = (
            checkpoint for checkpoint in self._unsent.unsent_checkpoints() if self.previous in checkpoint.path.parents
        )
        return [*unsent, *self._kept_of_others]

    def leftovers(self) -> list[Leftover]:
        """Files on the node, of this and of other jobs, that are neither recognised nor known to be in the store."""
        leftover_paths = set_aside(self.root) + leftovers(entries(self.checkpoints), run=self._run)
        return leftover_paths + [leftover for root in self._ended_jobs() for leftover in set_aside(root)]

    def make_room(self, needed_bytes: int, *, useful: Collection[str] = (), starting: bool = False) -> None:
        """Remove files of earlier attempts and other jobs, oldest first, until the requested bytes are free.

        Superseded checkpoints go first, without a report. Finished checkpoints that are not in the store stay.

        `useful`: names in `previous` that stay. `starting`: no command runs; earlier checkpoints may be removed too.
        """
        if self._free_bytes() >= needed_bytes:
            return
        only_copies = _paths(self._unsent.unsent_checkpoints())
        useful_paths = {self.previous / name for name in useful}
        removable_paths = [path for path in entries(self.previous) if not _covers(path, only_copies | useful_paths)]
        for path in removable_paths:
            if self._stored.covers(path.name):
                remove(path)
        places = [path for path in removable_paths if os.path.lexists(path)]
        places += [path for path in entries(self.checkpoints) if starting and not path.name.startswith(".slipway")]
        removable = leftovers(places, run=self._run) + set_aside(self.root)
        removable += [leftover for root in self._ended_jobs() for leftover in set_aside(root)]
        for leftover in sorted(removable, key=age_key):
            free = self._free_bytes()
            if free >= needed_bytes:
                return
            reason = f"this job needs {needed_bytes:,} bytes, but {self._rest(free)}"
            remove(leftover.path)
            self._on_removed(leftover, reason)

    def forget_previous(self) -> None:
        """Remove the earlier attempts' checkpoints that the store has, or that a newer stored one superseded.

        Raises:
            OSError: the record cannot be written.
        """
        self._may_empty = False
        _remove_superseded(self.previous, self._stored, self._unsent.unsent_checkpoints())
        self._unsent.forget_missing()
        self._may_empty = self.previous.exists()

    def spend_reserve(self) -> bool:
        """Give the agent's reserve to what a full disk has no room for; return whether there was one."""
        return self._reserve.spend()

    def write_interval(self, seconds: float) -> None:
        """Write the checkpoint interval, which a trainer may read repeatedly."""
        self._reserve.replace(self.interval_file, f"{seconds:g}\n")

    def _make_folder(self) -> None:
        names = self.root.relative_to(self._place).parts
        try:
            make_private(self._place, *names)
        except OSError:  # of a full disk: a new job's folder takes room too
            for folder in self._ended_jobs():
                self._make_first_room_in(folder)
            self._reserve.spend()
            make_private(self._place, *names)

    def _end_processes(self, folder: Path) -> None:
        """End what an ended agent of a job left running: its command's group, and all others by their variables."""
        _end_leftover_command(folder)
        ended = end_leftovers(folder / _INTERVAL_NAME)
        if ended:
            self._on_ended(ended)

    def _make_first_room(self) -> None:
        """On a full disk, make room for the agent's records before the first of them is written.

        Of this job's checkpoints and those of ended jobs, those go that the store covers, the oldest first, then those
        that a trainer was writing when it ended. Neither is the only copy of a state.
        """
        if self._free_bytes() >= RESERVE_BYTES:
            return
        self._reserve.spend()
        self._make_first_room_in(self.root)
        for folder in self._ended_jobs():
            self._make_first_room_in(folder)

    def _make_first_room_in(self, folder: Path) -> None:
        stored, run = _read_stored(folder), str(_owner(folder).get("run", ""))
        only_copies = _paths(UnsentRecord(folder, self._reserve).unsent_checkpoints())
        paths = [path for name in (PREVIOUS_NAME, CHECKPOINTS_NAME) for path in entries(folder / name)]
        removable = leftovers((path for path in paths if not _covers(path, only_copies)), run=run)
        removable.sort(key=age_key)
        superseded = [old for old in removable if stored.covers(old.path.name)]
        unfinished = [old for old in removable if _UNFINISHED.search(old.path.name)]
        for leftover in (*superseded, *unfinished):
            free = self._free_bytes()
            if free >= RESERVE_BYTES:
                return
            reason = f"it is unfinished, and the disk is full: {self._rest(free)}"
            remove(leftover.path)
            if leftover in unfinished:
                self._on_removed(leftover, reason)

    def _set_aside(self, owner: dict[str, Any]) -> None:
        """Empty the checkpoint folder for this run: checkpoints go to `previous`, files of another run to `aside`."""
        self._unsent = UnsentRecord(self.root, self._reserve)
        self.previous.mkdir(exist_ok=True)
        self.checkpoints.mkdir(exist_ok=True)
        shutil.rmtree(self.read_back, ignore_errors=True)
        shutil.rmtree(self.copies, ignore_errors=True)
        self._stored = _read_stored(self.root)
        self._unsent.rename_foreign(uri=self._uri)
        if owner.get("run") != self._run:
            # Move what another run left to `aside`, but for the only copies, which this run may go on from
            _put_away(self.root, self._stored, self._unsent.unsent_checkpoints(), run=str(owner.get("run", "")))
            self.previous.mkdir(exist_ok=True)
            self.checkpoints.mkdir(exist_ok=True)
            self._move_checkpoints(None)
        bring_back(self.root, self.checkpoints, run=self._run)
        if self._layouts is not None:
            unfinished = [path for path in entries(self.checkpoints) if _UNFINISHED.search(path.name)]
            move_aside(self.root, unfinished, run=f"{self._run}.unfinished")
            self._move_checkpoints(self._layouts.only(self._stored.layout))
        if self._stored.uri != self._uri:
            self._stored = Stored()
            (self.root / _STORED_NAME).unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # entries of what is gone do no harm: a full disk may keep them
            self._unsent.forget_missing()

    def _move_checkpoints(self, layouts: Layouts | None) -> None:
        """Move the checkpoints of an earlier attempt to `previous`, which holds one checkpoint of each name.

        `layouts` None: only checkpoints that have no other copy.
        """
        only_copies = _paths(self._unsent.unsent_checkpoints())
        names = layouts.belongings(self.checkpoints) if layouts is not None else []
        names += [str(path.relative_to(self.checkpoints)) for path in only_copies if self.checkpoints in path.parents]
        for name in dict.fromkeys(names):
            path, target = self.checkpoints / name, self.previous / name
            worse = path if target in only_copies and path not in only_copies else target
            if os.path.lexists(worse):
                removed = leftovers([worse], run=self._run)[0]
                remove(worse)
                if removed.bytes and not path.is_symlink() and Layouts().step_of(name) is not None:
                    self._on_removed(removed, "another attempt wrote the same step")
            if worse is target:
                target.parent.mkdir(parents=True, exist_ok=True)
                path.rename(target)

    def _free_bytes(self) -> int:
        """The bytes that can be written: without inodes, no file takes any."""
        return shutil.disk_usage(self.root.parent).free if has_inodes(self.root.parent) else 0

    def _rest(self, free: int) -> str:
        return f"{free:,} bytes were free" if has_inodes(self.root.parent) else "the disk has hardly any inodes left"

    def _write_owner(self, owner: dict[str, object]) -> None:
        self._reserve.replace(self.root / _OWNER_NAME, json.dumps(owner) + "\n")

    def _renew_owner(self, owner: dict[str, Any]) -> None:
        """Record this run; a record of the same run is good enough if the disk has no room for another."""
        try:
            self._write_owner({"run": self._run, "boot": boot_id()})
        except OSError:
            if owner.get("run") != self._run:
                raise

    def _ended_jobs(self) -> Iterator[Path]:
        """The folders of other jobs on this node whose agent has ended, each locked during its inspection."""
        for folder in entries(self.root.parent):
            if folder == self.root or not (folder / _OWNER_NAME).is_file():
                continue
            try:
                lock = _acquire_lock(folder / LOCK_NAME, wait_s=0.0)
            except (AgentError, OSError):
                continue
            try:
                yield folder
            finally:
                os.close(lock)


def _acquire_lock(path: Path, *, wait_s: float) -> int:
    """An exclusive lock that the kernel releases when the process ends, for any reason."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        record_first_use(descriptor)
    except FileExistsError:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    patience = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= patience:
                os.close(descriptor)
                raise AgentError(
                    f"another agent uses {path.parent}; end that agent, or set another name or scratch folder "
                    "for this job"
                ) from None
            time.sleep(_POLL_S)
        else:
            return descriptor


def _end_leftover_command(root: Path) -> None:
    """Kill the command of a killed agent: no agent uploads its files, and the command occupies the accelerators."""
    owner = _owner(root)
    try:
        pid, ticks, boot = int(owner["pid"]), int(owner["start_ticks"]), owner["boot"]
    except (ValueError, KeyError, TypeError):
        return
    if boot != boot_id() or start_ticks(pid) not in (None, ticks):
        return  # the number belongs to another process now
    signal_group(pid, signal.SIGKILL)
    patience = time.monotonic() + _WAIT_S
    while group_lives(pid) and time.monotonic() < patience:
        time.sleep(_POLL_S)


def _owner(root: Path) -> dict[str, Any]:
    """The record of the last agent; empty if no record is readable."""
    try:
        owner = safe_json.load(root / _OWNER_NAME)
    except (OSError, ValueError):
        return {}
    return owner if isinstance(owner, dict) else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """The newest step that the agents of a job's folder know to be complete in the store: its URI, step and layout.

    `pattern`: the expression for its names, if the plan gave it.
    """

    uri: str = ""
    step: int | None = None
    layout: str = ""
    pattern: str = ""

    def covers(self, name: str) -> bool:
        """Whether the store has a checkpoint of that name, or a newer one."""
        own = (Layout(layout=PATTERN, names=self.pattern),) if self.pattern else ()
        rows = [row for row in (*Layouts().rows, *own) if row.key == self.layout]
        step = next((step for row in rows if (step := row.step_of(name)) is not None), None)
        step = step if self.layout else step_of_folder(name)
        return step is not None and self.step is not None and step <= self.step


def _read_stored(root: Path) -> Stored:
    try:
        stored = safe_json.load(root / _STORED_NAME)
        pattern = re.compile(str(stored.get("pattern", ""))).pattern
        layout = str(stored.get("layout", ""))
        return Stored(uri=str(stored["uri"]), step=int(stored["step"]), layout=layout, pattern=pattern)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, re.error):
        return Stored()


def _paths(unsent: list[UnsentCheckpoint]) -> set[Path]:
    return {path for checkpoint in unsent for path in checkpoint.paths or (checkpoint.path,)}


def _covers(path: Path, others: set[Path]) -> bool:
    return path in others or any(path in other.parents for other in others)


def _put_away(root: Path, stored: Stored, unsent: list[UnsentCheckpoint], *, run: str) -> None:
    """Remove a run's checkpoints that the store has, and move all others except the only copies to `aside`."""
    unsent_paths = _paths(unsent)
    for folder in (root / CHECKPOINTS_NAME, root / PREVIOUS_NAME):
        _remove_superseded(folder, stored, unsent)
        move_aside(root, (path for path in entries(folder) if not _covers(path, unsent_paths)), run=run)
        with contextlib.suppress(OSError):
            folder.rmdir()


def _remove_superseded(folder: Path, stored: Stored, unsent: list[UnsentCheckpoint]) -> None:
    """Remove checkpoints if the store has them or a newer one; remove the folder too if nothing is left in it."""
    unsent_paths = _paths(unsent)
    for path in entries(folder):
        if not _covers(path, unsent_paths) and stored.covers(path.name):
            remove(path)
    with contextlib.suppress(OSError):
        folder.rmdir()
