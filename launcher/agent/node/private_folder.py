"""A folder on a shared node that no other user can change, read or replace.

A user who may rename a folder can replace it, so every level counts: folders created here belong to this user with
mode 0700, and above them only root and this user may rename anything (as sshd's StrictModes requires).
"""

import os
import stat
from pathlib import Path

from launcher.agent.errors import AgentError

_PRIVATE = 0o700
_ELSEWHERE = "set another scratch folder (SLIPWAY_SCRATCH)"


def make_private(above: Path, *names: str) -> Path:
    """Create the folders `names` one below the other, and verify that each belongs to this user alone.

    The first of `names` should name the user.

    Returns the last folder.

    Raises:
        AgentError: a folder belongs to another user, is a link or is open to others; or others may rename one above.
    """
    above.mkdir(parents=True, exist_ok=True)
    _refuse_writable_parents(above)
    folder = above
    for name in names:
        folder = folder / name
        try:
            folder.mkdir(mode=_PRIVATE)
        except FileExistsError:
            _refuse_shared_folder(folder)
    for path in folder.iterdir():
        status = path.lstat()
        if stat.S_ISLNK(status.st_mode) or status.st_uid != os.geteuid():
            raise AgentError(f"{path} was not made by the agent of user {os.geteuid()}; inspect it and remove it")
    return folder


def _refuse_shared_folder(folder: Path) -> None:
    status, user = folder.lstat(), os.geteuid()
    if not stat.S_ISDIR(status.st_mode):
        kind = "a link" if stat.S_ISLNK(status.st_mode) else "no folder"
        raise AgentError(
            f"{folder} is {kind}; it must be a folder of user {user}: remove it, or set another scratch folder"
        )
    if status.st_uid != user:
        raise AgentError(
            f"{folder} belongs to user {status.st_uid}, not to {user}: another user created it; have it removed, "
            "or set another scratch folder (SLIPWAY_SCRATCH)"
        )
    mode = stat.S_IMODE(status.st_mode)
    if mode & 0o077:
        raise AgentError(
            f"{folder} is open to others (mode {mode:04o}, not {_PRIVATE:04o}), who may have changed its files; "
            "remove it, or set another scratch folder (SLIPWAY_SCRATCH)"
        )


def _refuse_writable_parents(folder: Path) -> None:
    """Refuse a location in which another user may rename this user's folder."""
    for place in {*_levels(folder), *_levels(folder.resolve())}:
        status = place.lstat()
        mode = stat.S_IMODE(status.st_mode)
        if status.st_uid not in (0, os.geteuid()):
            raise AgentError(f"{place} belongs to user {status.st_uid}, who can replace its contents; {_ELSEWHERE}")
        if stat.S_ISDIR(status.st_mode) and mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            raise AgentError(f"{place} is writable by all users and not sticky (mode {mode:04o}); {_ELSEWHERE}")


def _levels(folder: Path) -> list[Path]:
    return [folder, *folder.parents]
