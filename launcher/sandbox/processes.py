"""The processes of a sandbox: marked in their environment, found through /proc, ended together."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

NODE_MARK = "SLIPWAY_SANDBOX_NODE"
"""Environment variable of every process on a node of a sandbox; its value changes when the node is replaced."""

_PROC = Path("/proc")
_PAUSE_S = 0.02


def visible() -> bool:
    """Whether this system lists processes: macOS has no /proc, so a sandbox could not end its processes."""
    return (_PROC / "self" / "environ").exists()


def everything() -> Iterator[int]:
    """The ids of all visible processes."""
    return (int(entry.name) for entry in _PROC.iterdir() if entry.name.isdecimal())


def marked_processes(variable: str, value: str) -> set[int]:
    """The processes started with `variable=value` in their environment; zombies show none and are excluded."""
    entry = f"{variable}={value}".encode()
    return {pid for pid in everything() if entry in _read(pid, "environ").split(b"\0")}


def holding(paths: set[Path]) -> set[int]:
    """The processes that have one of the files open. Paths must be real paths, without symbolic links.

    A slurmstepd overwrites its environment with its title, so that `marked_processes` cannot see it.
    """
    names = {str(path) for path in paths}
    return {pid for pid in everything() if not names.isdisjoint(_open_files(pid))}


def with_descendants(pids: set[int]) -> set[int]:
    """The processes and all their descendants whose parent still exists."""
    children: dict[int, set[int]] = {}
    for pid in everything():
        status = _status(pid)
        children.setdefault(int(status[1]) if len(status) > 1 else 0, set()).add(pid)
    processes: set[int] = set()
    front = set(pids)
    while front:
        processes |= front
        front = set().union(*(children.get(pid, set()) for pid in front)) - processes
    return processes


def is_running(pid: int) -> bool:
    """Whether a process exists and is not a zombie (without a reaper, a killed process stays as a zombie)."""
    return next(iter(_status(pid)), "") not in ("", "Z", "X")


def end(find: Callable[[], set[int]], *, within_s: float = 10.0) -> set[int]:
    """Kill the processes that `find` returns, with SIGKILL, until it returns none.

    `find` is called repeatedly, because a dying process may still have started another.

    Returns the processes that remain at the end; empty if all are gone.
    """
    deadline = time.monotonic() + within_s
    killed: set[int] = set()
    while True:
        pids = find() - {os.getpid()}
        # One that is about to end shows no environment any more, and is found no more.
        remaining = {pid for pid in pids | killed if is_running(pid)}
        if not remaining or time.monotonic() > deadline:
            return remaining
        # Parents first, as their numbers go: a shell that outlives its child for a moment would write of its end.
        for pid in sorted(remaining & pids):
            send(pid, signal.SIGKILL)
        killed |= remaining
        time.sleep(_PAUSE_S)


def start(
    command: Sequence[str], *, folder: Path, environment: Mapping[str, str], output: Any = subprocess.PIPE
) -> "subprocess.Popen[bytes]":
    """Start a program of the sandbox: no input, one stream for all output, its own session.

    `output` is an open file instead of the pipe.
    """
    return subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def each_line(process: "subprocess.Popen[bytes]", take: Callable[[bytes], object]) -> None:
    """Pass on a program's output line by line, until the program closes its output or `take` raises."""
    assert process.stdout is not None  # noqa: S101 - `start` made a pipe
    with process.stdout, suppress(OSError, ValueError):
        for line in process.stdout:
            take(line)


def send(pid: int, number: int) -> None:
    """Send a signal to a process; do nothing if the process has ended."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _read(pid: int, name: str) -> bytes:
    """A file of /proc/PID; empty if the process is gone or belongs to another user."""
    try:
        return (_PROC / str(pid) / name).read_bytes()
    except OSError:
        return b""


def _open_files(pid: int) -> set[str]:
    names: set[str] = set()
    with suppress(OSError):
        for entry in (_PROC / str(pid) / "fd").iterdir():
            with suppress(OSError):
                names.add(str(entry.readlink()))
    return names


def _status(pid: int) -> list[str]:
    """The fields after the name in /proc/PID/stat, from the state on; a name may contain blanks and brackets."""
    return _read(pid, "stat").decode(errors="replace").rpartition(")")[2].split()
