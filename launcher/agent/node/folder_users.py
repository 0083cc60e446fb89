"""Processes that use a job's folder on the node without a mark of the job: they cleared their environment.

Such a process belongs to an ended attempt if it writes below the folder, or works in it, and nobody else answers for
it: its user is the agent's, and it and all processes above it, up to the one that adopts orphans, have no terminal, no
login from elsewhere, no mark of a job, and hold no agent's lock.
"""

import os
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

from launcher.agent.node.process import PARENT, STATE, TERMINAL, stat_fields
from launcher.agent.node.process_table import Process, environment_of, process_of

_PROC = Path("/proc")
_INIT = 1
_LOGIN_VARIABLES = ("SSH_CONNECTION", "SSH_CLIENT", "SSH_TTY")
"""Variables of sshd(8); a program that somebody runs without a terminal (`ssh NODE tail -f FILE`, sftp) has them."""
_WRITES = os.O_WRONLY | os.O_RDWR


def find_folder_users(folder: Path, *, lock_name: str, mark: str) -> tuple[Process, ...]:
    """The processes of ended attempts that use `folder`.

    Args:
        folder: The job's folder.
        lock_name: Name of the file in a job's folder that its agent holds open.
        mark: The variable that marks the processes of any job.
    """
    parents = {pid: parent for pid in _pids() if (parent := _parent(pid)) is not None}
    above_agent = set(_up(os.getpid(), parents))
    root = os.path.realpath(folder)
    locks = str(Path(root).parent), f"/{lock_name}"
    users = []
    for pid in parents.keys() - above_agent - {_INIT}:
        writes = _is_mine(pid) and _writes_below(pid, root)
        if not (writes or (_is_mine(pid) and _works_below(pid, root))):
            continue
        chain = list(_up(pid, parents, until=above_agent))
        adopted = parents[chain[-1]] in {_INIT, *above_agent} - {os.getpid()}
        # A notebook or a service may work in the folder for its user; a process that also has a parent is one.
        if not adopted or (len(chain) > 1 and not writes):
            continue
        if not any(_is_answered_for(one, locks, mark) for one in chain) and (process := process_of(pid)):
            users.append(process)
    return tuple(users)


def is_written(path: Path) -> bool:
    """Whether a process of the agent's user has a file, or one below a folder, open for writing."""
    real = os.path.realpath(path)
    return any(_is_mine(pid) and _writes_below(pid, real) for pid in _pids())


def _pids() -> list[int]:
    return [int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit()]


def _parent(pid: int) -> int | None:
    fields = stat_fields(pid)
    return int(fields[PARENT]) if fields and fields[STATE] not in ("Z", "X") else None


def _up(pid: int, parents: dict[int, int], until: Collection[int] = ()) -> Iterator[int]:
    """A process and those above it, without the first of the system and without those of `until`."""
    seen = set[int]()
    while pid in parents and pid != _INIT and pid not in until and pid not in seen:
        seen.add(pid)
        yield pid
        pid = parents[pid]


def _is_mine(pid: int) -> bool:
    try:
        return _PROC.joinpath(str(pid)).stat().st_uid == os.geteuid()
    except OSError:
        return False  # it has ended


def _is_answered_for(pid: int, locks: tuple[str, str], mark: str) -> bool:
    fields, environment = stat_fields(pid), environment_of(pid)
    return (
        not _is_mine(pid)
        or not fields
        or fields[TERMINAL] != "0"
        or mark in environment
        or any(name in environment for name in _LOGIN_VARIABLES)
        or any(path.startswith(f"{locks[0]}/") and path.endswith(locks[1]) for _, path in _open_files(pid))
    )


def _works_below(pid: int, root: str) -> bool:
    try:
        return f"{_PROC.joinpath(str(pid), 'cwd').readlink()}/".startswith(f"{root}/")
    except OSError:
        return False  # it has ended


def _writes_below(pid: int, root: str) -> bool:
    """Whether it has `root`, or a file below it, open for writing, or mapped into its memory to write to it."""
    for descriptor, path in _open_files(pid):
        if f"{path}/".startswith(f"{root}/") and _flags(pid, descriptor) & _WRITES:
            return True
    try:
        with _PROC.joinpath(str(pid), "maps").open(encoding="utf-8", errors="surrogateescape") as maps:
            return any(_is_shared_writable(line) and f" {root}/" in f"{line.rstrip()}/" for line in maps)
    except OSError:
        return False


def _is_shared_writable(line: str) -> bool:
    """Whether a line of /proc/PID/maps is of a mapping that writes to its file.

    >>> _is_shared_writable("7f0000000000-7f0000001000 rw-s 00000000 08:01 5 /x"), _is_shared_writable("0-1 rw-p 0")
    (True, False)
    """
    rights = line.split(" ", 2)[1]
    return rights[1] == "w" and rights[3] == "s"


def _open_files(pid: int) -> Iterator[tuple[str, str]]:
    try:
        descriptors = list(_PROC.joinpath(str(pid), "fd").iterdir())
    except OSError:
        return  # of another user, or ended
    for descriptor in descriptors:
        with suppress(OSError):  # closed meanwhile
            yield descriptor.name, str(descriptor.readlink())


def _flags(pid: int, descriptor: str) -> int:
    """The flags with which a file was opened (proc_pid_fdinfo(5): octal)."""
    with suppress(OSError, ValueError):
        for line in _PROC.joinpath(str(pid), "fdinfo", descriptor).read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition(":")
            if name == "flags":
                return int(value, 8)
    return 0
