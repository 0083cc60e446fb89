"""The user's command and all processes that it starts: one process group, signalled together."""

import contextlib
import ctypes
import errno
import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from launcher.agent import exits

_PR_SET_PDEATHSIG = 1  # <linux/prctl.h>
_PROC = Path("/proc")
STATE, PARENT, _GROUP, TERMINAL, FLAGS, USER_TICKS, SYSTEM_TICKS, START = 0, 1, 2, 4, 6, 11, 12, 19
"""Fields of /proc/PID/stat, counted from the state (proc_pid_stat(5): fields 3, 4, 5, 7, 9, 14, 15 and 22)."""
_LACKS = frozenset(
    {errno.EAGAIN, errno.ENOMEM, errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.EIO, errno.ESTALE}
)
"""Errors of a node that has no memory, space, processes or descriptors left, or whose disk fails."""
_MARKS = ("SLIPWAY_RUN", "SLIPWAY_ATTEMPT", "SLIPWAY_CHECKPOINT_DIR")


class Command:
    """One run of the command, in its own session."""

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        workdir: Path,
        environment: Mapping[str, str],
        record: Callable[[int], None] = lambda _: None,
    ) -> None:
        """`record` gets the group's id in the new process, before the command. The command dies with this thread."""
        self.marks = {name: environment[name] for name in _MARKS if name in environment}
        """Variables that only the environment of this command's processes contains."""
        agent, libc = os.getpid(), ctypes.CDLL(None)

        def begin() -> None:  # in the new process: nothing but system calls, for other threads may have held a lock
            if hasattr(libc, "prctl"):
                libc.prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL))
            if os.getppid() != agent:  # the process ended before the signal
                os._exit(1)
            record(os.getpid())

        self._process = subprocess.Popen(
            list(arguments),
            cwd=workdir,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=begin,  # noqa: PLW1509  see there
        )

    @property
    def pid(self) -> int:
        """The id of the first process, and of the group."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """The exit code of the first process; None while it runs, negative for a signal."""
        return self._process.poll()

    def group_lives(self) -> bool:
        """Whether any process of the group still runs, the first one or another."""
        return self.returncode is None or group_lives(self.pid)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the entire group."""
        signal_group(self.pid, number)


def start_failure_code(error: OSError) -> int:
    """The exit code for a command that could not be started: another attempt may, if only the node lacked something."""
    if error.errno in _LACKS:
        return exits.INTERNAL
    return exits.NOT_FOUND if isinstance(error, FileNotFoundError) else exits.NOT_EXECUTABLE


def signal_group(group: int, number: signal.Signals) -> None:
    """Send a signal to a process group, if it exists."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return
    except PermissionError:
        return  # macOS says this of a group that consists of zombies


def group_lives(group: int) -> bool:
    """Whether a process of the group runs. Zombies do not count: a container may have no process that reaps them."""
    if not _PROC.joinpath("self/stat").exists():
        try:
            os.killpg(group, 0)
        except (ProcessLookupError, PermissionError):
            return False
        return True
    for pid in pids():
        fields = stat_fields(pid)
        if fields and int(fields[_GROUP]) == group and fields[STATE] not in ("Z", "X"):
            return True
    return False


def start_ticks(pid: int) -> int | None:
    """Start of a process in clock ticks since boot, which with the pid identifies it; None if it does not exist."""
    fields = stat_fields(pid)
    return int(fields[START]) if fields else None


def boot_id() -> str:
    """The identifier of the node's current boot; empty if the kernel does not report it."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def stat_fields(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the state on; empty if the process does not exist."""
    return proc_file(pid, "stat").rpartition(b")")[2].decode("ascii").split()


# A node has hundreds of processes, each with files to read: pathlib would take most of the time of every look at them.


def pids() -> list[int]:
    """The ids of all processes of the node."""
    return [int(name) for name in os.listdir(_PROC) if name.isdigit()]  # noqa: PTH208


def proc_file(pid: int, name: str) -> bytes:
    """The content of a file of /proc/PID; empty if the process has ended, or is another user's."""
    try:
        with open(f"{_PROC}/{pid}/{name}", "rb", buffering=0) as file:  # noqa: PTH123
            return file.readall()
    except OSError:
        return b""


def open_files(pid: int) -> Iterator[tuple[str, str]]:
    """The open files of a process, as descriptor and path; none if it has ended, or is another user's."""
    folder = f"{_PROC}/{pid}/fd"
    with contextlib.suppress(OSError):
        for descriptor in os.listdir(folder):  # noqa: PTH208
            with contextlib.suppress(OSError):  # closed meanwhile
                yield descriptor, os.readlink(f"{folder}/{descriptor}")  # noqa: PTH115
