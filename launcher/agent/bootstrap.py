"""The start of the single file: `build` adds this module to the file as `__main__.py`.

botocore reads its data from real files, so the archive is unpacked once into a private folder that is named by the
file's hash. The code runs on Python 3.6 and later, so that an old Python gives a clear message instead of a syntax
error: annotations are quoted, and only the standard library is imported.
"""

import contextlib
import hashlib
import os
import shutil
import signal
import stat
import sys
import tempfile
import zipfile
from pathlib import Path

OLDEST_PYTHON = (3, 10)
PAYLOAD = "lib/"
CACHE_VARIABLE = "SLIPWAY_AGENT_CACHE"
BAD_NODE = 78  # EX_CONFIG of sysexits.h


def start(archive: Path, arguments: "list[str]") -> int:
    """Unpack if needed, then run the agent; returns its exit code."""
    if sys.version_info < OLDEST_PYTHON:
        required = ".".join(str(number) for number in OLDEST_PYTHON)
        actual = ".".join(str(number) for number in sys.version_info[:3])
        sys.stderr.write(
            f"slipway-agent: needs Python {required} or later, got {actual} ({sys.executable}); start it with a "
            "later Python\n"
        )
        return BAD_NODE
    # A notice that comes while the program is still loading waits until it can be taken (`notices.Notices.listen`).
    if arguments[:1] == ["run"]:
        waiting = [signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM, signal.SIGINT, signal.SIGHUP]
        signal.pthread_sigmask(signal.SIG_BLOCK, waiting)
    digest = file_hash(archive)
    sys.path[0] = str(payload_folder(archive, digest))
    from launcher.agent.program import main  # noqa: PLC0415  it is there only now

    return main(arguments, build=digest)


def file_hash(path: Path) -> str:
    """SHA-256 of a file, hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for chunk in iter(lambda: file.read(1 << 20), b""):
            digest.update(chunk)
    return digest.hexdigest()


def payload_folder(archive: Path, digest: str) -> Path:
    """The folder that holds the archive's modules, created if it is missing or incomplete.

    The archive is unpacked next to the folder and renamed: of two parallel starts one wins, and both find a complete
    folder. A folder that another user could have written is not used.
    """
    with zipfile.ZipFile(str(archive)) as file:
        entries = [entry for entry in file.infolist() if entry.filename.startswith(PAYLOAD)]
        for root in cache_roots():
            try:
                root.mkdir(mode=0o700, parents=True, exist_ok=True)
                if not is_private(root):
                    continue
                folder = root / digest
                if not is_complete(folder, entries):
                    folder = unpack(file, entries, folder)
            except OSError:
                continue
            return folder / PAYLOAD
    raise SystemExit(f"slipway-agent: found no private folder to unpack into; set {CACHE_VARIABLE} to one")


def unpack(file: zipfile.ZipFile, entries: "list[zipfile.ZipInfo]", folder: Path) -> Path:
    """Unpack into a fresh folder and rename it into place; returns the folder to use."""
    fresh = Path(tempfile.mkdtemp(prefix="unpacking-", dir=str(folder.parent)))
    for entry in entries:
        file.extract(entry, str(fresh))
    try:
        fresh.rename(folder)
    except OSError:
        if is_complete(folder, entries):  # another start was first
            shutil.rmtree(str(fresh), ignore_errors=True)
            return folder
        damaged = Path(tempfile.mkdtemp(prefix="damaged-", dir=str(folder.parent)))
        folder.rename(damaged)
        fresh.rename(folder)
        shutil.rmtree(str(damaged), ignore_errors=True)
    return folder


def cache_roots() -> "list[Path]":
    """The folders to unpack into, the best one first."""
    home = os.environ.get("XDG_CACHE_HOME") or os.environ.get("HOME", "")
    roots = [
        Path(os.environ.get(CACHE_VARIABLE, "")),
        Path(home, *([] if os.environ.get("XDG_CACHE_HOME") else [".cache"]), "slipway-agent"),
    ]
    with contextlib.suppress(OSError):  # where nothing can be written there is none, and it may be unpacked already
        roots.append(Path(tempfile.gettempdir(), f"slipway-agent-{os.getuid()}"))
    return [root for root in roots if root.is_absolute()]


def is_private(folder: Path) -> bool:
    """Whether it is a real folder of this user that no other user can write to."""
    status = folder.lstat()
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o022


def is_complete(folder: Path, entries: "list[zipfile.ZipInfo]") -> bool:
    """Whether every file exists in its full size: a cleaner of temporary files may have removed some."""
    try:
        return all((folder / entry.filename).stat().st_size == entry.file_size for entry in entries)
    except OSError:
        return False


if __name__ == "__main__":
    code = start(Path(sys.argv[0]), sys.argv[1:])
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):  # of a log on a full disk: the code counts
            stream.flush()
    os._exit(code)  # a transfer that was given up may still hang in a thread; the node does not wait for it
