"""A lock: one deployment of a name at a time from a folder. The lock ends with its process."""

import fcntl
import getpass
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from launcher.agent import safe_json
from launcher.model.errors import ImpossibleError
from launcher.records.run_folder import RUNS


@contextmanager
def deploying(root: Path, cluster: str, region: str) -> Iterator[None]:
    """Lock the name of a cluster or endpoint in a region for the duration of the block.

    The kernel releases the lock when its process ends in any way, so no lock remains. Deployments from another
    `root` or another computer are not detected.

    Raises:
        ImpossibleError: another process holds the lock; the message names the process.
    """
    folder = root / RUNS.parent / "locks"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder / f"{region}.{cluster}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as problem:
        raise ImpossibleError(f"cannot lock {cluster} in {folder}: {problem.strerror}") from problem
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as taken:
            raise _locked_error(handle, cluster, region) from taken
        os.ftruncate(handle, 0)
        os.pwrite(handle, json.dumps(_holder()).encode(), 0)
        yield
    finally:
        os.close(handle)


def _holder() -> dict[str, str | int]:
    user = str(os.getuid())
    with suppress(KeyError, OSError):
        user = getpass.getuser()
    began = datetime.now(UTC).isoformat(timespec="seconds")
    return {"pid": os.getpid(), "user": user, "host": socket.gethostname(), "began_at": began}


def _locked_error(handle: int, cluster: str, region: str) -> ImpossibleError:
    who = "another process"
    with suppress(ValueError, KeyError, TypeError):
        holder = safe_json.loads(os.pread(handle, 4096, 0))
        who = f"process {holder['pid']} of {holder['user']} on {holder['host']}, since {holder['began_at']}"
    return ImpossibleError(
        f"{cluster} is being deployed to {region} already, from this folder: {who}",
        hint="wait for it, or end it; nothing was changed",
    )
