"""Processes that use a job's folder on the node without a mark of the job: they cleared their environment.

Such a process belongs to an ended attempt if it writes below the folder, or works in it, and nobody else answers for
it: its user is the agent's, and it and all processes above it, up to the one that adopts orphans, have no terminal, no
login from elsewhere, no mark of a job, and hold no agent's lock.
"""

import os
from collections.abc import Collection, Iterator
from pathlib import Path

from launcher.agent.node.process import (
    FLAGS,
    PARENT,
    START,
    STATE,
    TERMINAL,
    open_files,
    pids,
    proc_file,
    stat_fields,
)
from launcher.agent.node.process_table import Process, environment_of, process_of

_INIT = 1
_KERNEL_THREAD = 0x00200000
"""PF_KTHREAD in the flags of proc_pid_stat(5): a node has thousands of them, and none has a file."""
_LOGIN_VARIABLES = ("SSH_CONNECTION", "SSH_CLIENT", "SSH_TTY")
"""Variables of sshd(8); a program that somebody runs without a terminal (`ssh NODE tail -f FILE`, sftp) has them."""
_WRITES = os.O_WRONLY | os.O_RDWR


def find_folder_users(folder: Path, *, lock_name: str, mark: str, first_use: int = 0) -> tuple[Process, ...]:
    """The processes of ended attempts that use `folder`.

    Args:
        folder: The job's folder.
        lock_name: Name of the file in a job's folder that its agent holds open.
        mark: The variable that marks the processes of any job.
        first_use: Clock ticks from boot to the first use of the folder: no older process has mapped a file of it. The
            kernel writes a process's mappings out for each reader, ten times as much work as its open files.
    """
    stats = {pid: fields for pid in pids() if (fields := stat_fields(pid)) and fields[STATE] not in ("Z", "X")}
    parents = {pid: int(fields[PARENT]) for pid, fields in stats.items()}
    above_agent = set(_up(os.getpid(), parents))
    root = os.path.realpath(folder)
    locks = str(Path(root).parent), f"/{lock_name}"
    users = []
    for pid in parents.keys() - above_agent - {_INIT}:
        if int(stats[pid][FLAGS]) & _KERNEL_THREAD or not _is_mine(pid):
            continue
        writes = _writes_below(pid, root) or (int(stats[pid][START]) >= first_use and _maps_below(pid, root))
        if not (writes or _works_below(pid, root)):
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
    return any(_is_mine(pid) and (_writes_below(pid, real) or _maps_below(pid, real)) for pid in pids())


def _up(pid: int, parents: dict[int, int], until: Collection[int] = ()) -> Iterator[int]:
    """A process and those above it, without the first of the system and without those of `until`."""
    seen = set[int]()
    while pid in parents and pid != _INIT and pid not in until and pid not in seen:
        seen.add(pid)
        yield pid
        pid = parents[pid]


def _is_mine(pid: int) -> bool:
    try:
        return os.stat(f"/proc/{pid}").st_uid == os.geteuid()  # noqa: PTH116  as in `process`
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
        or any(path.startswith(f"{locks[0]}/") and path.endswith(locks[1]) for _, path in open_files(pid))
    )


def _works_below(pid: int, root: str) -> bool:
    try:
        return f"{os.readlink(f'/proc/{pid}/cwd')}/".startswith(f"{root}/")  # noqa: PTH115  as in `process`
    except OSError:
        return False  # it has ended


def _writes_below(pid: int, root: str) -> bool:
    """Whether it has `root`, or a file below it, open for writing."""
    return any(
        f"{path}/".startswith(f"{root}/") and _flags(pid, descriptor) & _WRITES for descriptor, path in open_files(pid)
    )


def _maps_below(pid: int, root: str) -> bool:
    """Whether it has `root`, or a file below it, mapped into its memory to write to it."""
    maps = proc_file(pid, "maps")
    if os.fsencode(root) not in maps:
        return False
    lines = maps.decode("utf-8", errors="surrogateescape").removesuffix("\n").split("\n")
    return any(_is_shared_writable(line) and f" {root}/" in f"{line.rstrip()}/" for line in lines)


def _is_shared_writable(line: str) -> bool:
    """Whether a line of /proc/PID/maps is of a mapping that writes to its file.

    >>> _is_shared_writable("7f0000000000-7f0000001000 rw-s 00000000 08:01 5 /x"), _is_shared_writable("0-1 rw-p 0")
    (True, False)
    """
    rights = line.split(" ", 2)[1]
    return rights[1] == "w" and rights[3] == "s"


def _flags(pid: int, descriptor: str) -> int:
    """The flags with which a file was opened (proc_pid_fdinfo(5): octal)."""
    for line in proc_file(pid, f"fdinfo/{descriptor}").splitlines():
        name, _, value = line.partition(b":")
        if name == b"flags":
            return int(value, 8)
    return 0
