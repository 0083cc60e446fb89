"""The agent's folder on the node: one a job, owned by one agent at a time."""

import contextlib
import fcntl
import json
import os
import shutil
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from launcher.agent.checkpoint.files import LocalFile
from launcher.agent.checkpoint.unsent import CHECKPOINTS_NAME, PREVIOUS_NAME, READ_BACK_NAME, Kept, Unsent, UnsentRecord
from launcher.agent.checkpoint.watch import FinishedFolder
from launcher.agent.errors import AgentError
from launcher.agent.manifest import step_of_folder
from launcher.agent.node.private_folder import make_private
from launcher.agent.node.process import group_lives, signal_group, start_ticks

_OWNER_NAME = "owner.json"
_LOCK_NAME = "lock"
_PARTIAL_SUFFIX = ".tmp"
_WAIT_S = 60.0
_LOOK_S = 0.2


class Scratch:
    """`<scratch>/slipway-<uid>/<job>/`: the checkpoint folder, the interval file, and who owns them.

    What another run left there is removed. What an earlier attempt of the same run left is set aside in `previous`: the
    restore takes from it what is the same as in the store, by its hash, and need not fetch it again. A checkpoint that
    an earlier agent had seen finished and not yet brought into the store is the newest of all, if it has not changed
    since. It is the only copy: it stays until it, or a newer one, is whole in the store (`unsent`), whoever comes.
    Other users of the machine can neither make nor change any of that: see `private_folder`.
    """

    def __init__(self, scratch: Path, *, job: str, run: str, uri: str = "", life: str = "") -> None:
        """Name the folder; `__enter__` claims it.

        Args:
            scratch: An absolute folder on the node.
            job: Name of the folder: the plan's name, and the node's number where there are several.
            run: Id of the run.
            uri: Where its checkpoints go.
            life: Names this life of the job, on all its nodes alike.
        """
        self._place = scratch
        self.root = scratch / f"slipway-{os.geteuid()}" / job
        self.checkpoints = self.root / CHECKPOINTS_NAME
        self.previous = self.root / PREVIOUS_NAME
        self.read_back = self.root / READ_BACK_NAME
        self.interval_file = self.root / "interval"
        self._unsent = UnsentRecord(self.root)
        self._kept_of_others: list[Kept] = []
        self._may_empty = False
        self._run = run
        self._uri = uri
        self._life = life
        self._lock = -1

    def __enter__(self) -> "Scratch":  # noqa: PYI034  typing.Self came with Python 3.11
        """Claim the folder, end what an agent that was killed left running, and empty it.

        Raises:
            AgentError: Another agent holds it, it holds what is not ours, or it cannot be written.
        """
        try:
            make_private(self._place, *self.root.relative_to(self._place).parts)
            self._refuse_what_is_not_ours()
            self._lock = _locked(self.root / _LOCK_NAME, wait_s=_WAIT_S)
            _end_leftover_command(self.root)
            owner = _owner(self.root)
            if not owner:
                self._write_owner({"run": self._run})  # before anything else: the folder is known by it
            self._set_aside(owner)
            self._write_owner({"run": self._run, "boot": _boot()})
            self._empty_ended_jobs()
        except OSError as error:
            raise AgentError(f"the scratch folder {self.root} cannot be used: {error}") from error
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Let go of the folder."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def record_command(self, pid: int) -> None:
        """Write down the command's process group, so that the next agent can end it if this one is killed.

        The command's own process does it, before the command is in it: there is none that is not written down. Where
        that fails the command runs all the same; `has_recorded` tells.
        """
        with contextlib.suppress(OSError):
            self._write_owner({"run": self._run, "pid": pid, "start_ticks": start_ticks(pid), "boot": _boot()})

    def has_recorded(self, pid: int) -> bool:
        """Whether the command's process group stands in the folder."""
        return _owner(self.root).get("pid") == pid

    def record_finished(self, folder: Path, files: tuple[LocalFile, ...]) -> None:
        """Write down that a checkpoint is finished, so that the next agent on this node can go on from it.

        Args:
            folder: In the checkpoint folder.
            files: What it held when it was finished.

        Raises:
            OSError: It cannot be written.
        """
        entry = Unsent(run=self._run, uri=self._uri, boot=_boot(), files=files, life=self._life)
        self._unsent.add(folder.name, entry)

    def record_hashes(self, name: str, hashes: Mapping[str, str]) -> None:
        """Write down what a finished checkpoint holds: by that alone the next agent believes it.

        Args:
            name: Of its folder.
            hashes: SHA-256 by path.

        Raises:
            OSError: It cannot be written.
        """
        self._unsent.vouch(name, hashes)

    def release(self, step: int) -> None:
        """A step is whole in the store: neither it nor an older one has to be kept here.

        Raises:
            OSError: It cannot be written.
        """
        self._unsent.release(step, uri=self._uri)
        if self._may_empty:
            self.forget_previous()

    def owes(self) -> bool:
        """Whether a finished checkpoint of this job is not known to be in the store."""
        return self._unsent.owes(self._uri)

    def newest_finished(self) -> FinishedFolder | None:
        """The newest checkpoint in `previous` that was finished and read, and looks as it did then."""
        found = self._unsent.newest(uri=self._uri, boot=_boot())
        step = None if found is None else step_of_folder(found[0].name)
        if found is None or step is None:
            return None
        return FinishedFolder(step=step, path=found[0], files=found[1].files, hashes=found[1].hashes)

    def life_of(self, finished: FinishedFolder) -> str:
        """The life of the job in which a checkpoint of an earlier attempt was finished; empty where nobody knows."""
        return self._unsent.life_of(finished.path.name)

    def kept(self) -> list[Kept]:
        """What is finished on this node, not in the store, and not what this job goes on from; of other jobs too."""
        return [kept for kept in self._unsent.kept() if kept.path.parent == self.previous] + self._kept_of_others

    def forget_previous(self) -> None:
        """Remove what is left of earlier attempts' checkpoints, but nothing that has no other copy.

        Raises:
            OSError: It cannot be written down.
        """
        self._may_empty = False
        _remove_all_but(self.previous, self._unsent.kept())
        self._unsent.forget_what_is_gone()
        self._may_empty = self.previous.exists()

    def write_interval(self, seconds: float) -> None:
        """Set the checkpoint interval that a trainer may read again and again."""
        _replace(self.interval_file, f"{seconds:g}\n")

    def _set_aside(self, owner: dict[str, Any]) -> None:
        """Empty the checkpoint folder: into `previous` if it is of the same run; of others only what has no copy."""
        self._unsent = UnsentRecord(self.root)
        self.previous.mkdir(exist_ok=True)
        self.checkpoints.mkdir(exist_ok=True)
        shutil.rmtree(self.read_back, ignore_errors=True)
        for path in list(self.checkpoints.iterdir()):
            if path.is_dir() and not path.is_symlink() and step_of_folder(path.name) is not None:
                there = self.previous / path.name
                if self._unsent.is_in(there) and not self._unsent.is_in(path):
                    continue
                shutil.rmtree(there, ignore_errors=True)
                path.rename(there)
        shutil.rmtree(self.checkpoints)
        self.checkpoints.mkdir()
        self._unsent.rename_foreign(uri=self._uri)
        if owner.get("run") != self._run:
            _remove_all_but(self.previous, self._unsent.kept())
            self.previous.mkdir(exist_ok=True)
        self._unsent.forget_what_is_gone()

    def _write_owner(self, owner: dict[str, object]) -> None:
        _replace(self.root / _OWNER_NAME, json.dumps(owner) + "\n")

    def _refuse_what_is_not_ours(self) -> None:
        names = {path.name for path in self.root.iterdir()} - {_LOCK_NAME, _OWNER_NAME + _PARTIAL_SUFFIX}
        if names and _OWNER_NAME not in names:
            raise AgentError(
                f"{self.root} holds files that the agent did not make ({min(names)}); empty it or name another"
            )

    def _empty_ended_jobs(self) -> None:
        """Other jobs' checkpoints take space on a node that stays; where their agent is gone they are removed."""
        for folder in self.root.parent.iterdir():
            if folder == self.root or not (folder / _OWNER_NAME).is_file():
                continue
            try:
                lock = _locked(folder / _LOCK_NAME, wait_s=0.0)
            except (AgentError, OSError):
                continue
            try:
                _end_leftover_command(folder)
                kept = UnsentRecord(folder).kept()
                self._kept_of_others += kept
                for name in (CHECKPOINTS_NAME, PREVIOUS_NAME, READ_BACK_NAME):
                    _remove_all_but(folder / name, kept)
            finally:
                os.close(lock)


def _locked(path: Path, *, wait_s: float) -> int:
    """An exclusive lock that the kernel takes back when the process ends, however it ends."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    patience = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= patience:
                os.close(descriptor)
                raise AgentError(
                    f"another agent holds {path.parent}; end it, or give the job another name or scratch"
                ) from None
            time.sleep(_LOOK_S)
        else:
            return descriptor


def _end_leftover_command(root: Path) -> None:
    """Kill the command of an agent that was killed: nobody uploads what it writes, and it holds the accelerators."""
    owner = _owner(root)
    try:
        pid, ticks, boot = int(owner["pid"]), int(owner["start_ticks"]), owner["boot"]
    except (ValueError, KeyError, TypeError):
        return
    if boot != _boot() or start_ticks(pid) not in (None, ticks):
        return  # the number belongs to another process now
    signal_group(pid, signal.SIGKILL)
    patience = time.monotonic() + _WAIT_S
    while group_lives(pid) and time.monotonic() < patience:
        time.sleep(_LOOK_S)


def _owner(root: Path) -> dict[str, Any]:
    """What the last agent wrote about itself; empty where there is nothing to read."""
    try:
        owner = json.loads((root / _OWNER_NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return owner if isinstance(owner, dict) else {}


def _remove_all_but(folder: Path, kept: list[Kept]) -> None:
    """Remove a folder with what is in it, except for what is kept."""
    staying = {each.path for each in kept if each.path.parent == folder}
    if not staying:
        shutil.rmtree(folder, ignore_errors=True)
        return
    for path in folder.iterdir():
        if path in staying:
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _boot() -> str:
    """Names this boot of the machine; empty where the kernel does not tell."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def _replace(path: Path, text: str) -> None:
    partial = path.with_name(path.name + _PARTIAL_SUFFIX)
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)
