"""The agent's folder on the node: one a job, owned by one agent at a time, emptied before it is used."""

import fcntl
import json
import os
import shutil
import signal
import time
from pathlib import Path
from types import TracebackType

from launcher.agent.errors import AgentError
from launcher.agent.process import group_lives, signal_group, start_ticks

_OWNER_NAME = "owner.json"
_LOCK_NAME = "lock"
_CHECKPOINTS_NAME = "checkpoints"
_PARTIAL_SUFFIX = ".tmp"
_WAIT_S = 60.0
_LOOK_S = 0.2


class Scratch:
    """`<scratch>/slipway-<uid>/<job>/`: the checkpoint folder, the interval file, and who owns them.

    Whatever an earlier attempt or run left there is removed: what was finished is in the store, and what is not in the
    store was not proven to be finished.
    """

    def __init__(self, scratch: Path, *, job: str, run: str) -> None:
        """Name the folder; `__enter__` claims it.

        Args:
            scratch: An absolute folder on the node.
            job: Name of the folder: the plan's name, and the node's number where there are several.
            run: Id of the run.
        """
        self.root = scratch / f"slipway-{os.getuid()}" / job
        self.checkpoints = self.root / _CHECKPOINTS_NAME
        self.interval_file = self.root / "interval"
        self._run = run
        self._lock = -1

    def __enter__(self) -> "Scratch":  # noqa: PYI034  typing.Self came with Python 3.11
        """Claim the folder, end what an agent that was killed left running, and empty it.

        Raises:
            AgentError: Another agent holds it, it holds what is not ours, or it cannot be written.
        """
        try:
            self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._refuse_what_is_not_ours()
            self._lock = _locked(self.root / _LOCK_NAME, wait_s=_WAIT_S)
            _end_leftover_command(self.root)
            self._write_owner({"run": self._run})
            self._empty_ended_jobs()
            shutil.rmtree(self.checkpoints, ignore_errors=True)
            self.checkpoints.mkdir()
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
        """Write down the command's process group, so that the next agent can end it if this one is killed."""
        self._write_owner({"run": self._run, "pid": pid, "start_ticks": start_ticks(pid), "boot": _boot()})

    def write_interval(self, seconds: float) -> None:
        """Set the checkpoint interval that a trainer may read again and again."""
        _replace(self.interval_file, f"{seconds:g}\n")

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
                shutil.rmtree(folder / _CHECKPOINTS_NAME, ignore_errors=True)
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
    try:
        owner = json.loads((root / _OWNER_NAME).read_text(encoding="utf-8"))
        pid, ticks, boot = int(owner["pid"]), int(owner["start_ticks"]), owner["boot"]
    except (OSError, ValueError, KeyError, TypeError):
        return
    if boot != _boot() or start_ticks(pid) not in (None, ticks):
        return  # the number belongs to another process now
    signal_group(pid, signal.SIGKILL)
    patience = time.monotonic() + _WAIT_S
    while group_lives(pid) and time.monotonic() < patience:
        time.sleep(_LOOK_S)


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
