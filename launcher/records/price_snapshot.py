"""A snapshot of prices: the files of a price cache in one ZIP file, with a separate file of its SHA-256."""

import hashlib
import re
import zipfile
from pathlib import Path

from launcher.catalog.regular_file import UnusableFileError, opened_regular, read_regular
from launcher.catalog.tables import PRICE_TABLES, SOURCES
from launcher.model.errors import UnreadableInputError

SUFFIX = ".sha256"
MAX_BYTES = 200_000_000
"""Limit of a snapshot, and of one file in it: a hundred times the size of every region's prices."""
_DAY = (1980, 1, 1, 0, 0, 0)
"""The time of every member, so that equal prices give equal files."""
_PATHS = tuple(table.path for table in (*PRICE_TABLES, SOURCES))


def pack(folder: Path, target: Path) -> str:
    """Write the snapshot of a price folder, and a `sha256sum` line in a file next to it; return the digest."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in _PATHS:
            if (folder / path).is_file():
                member = zipfile.ZipInfo(path, _DAY)
                member.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(member, (folder / path).read_bytes())
    digest = hashlib.sha256(target.read_bytes()).hexdigest()
    target.with_name(target.name + SUFFIX).write_text(f"{digest}  {target.name}\n", encoding="utf-8")
    return digest


def unpack(path: Path, expected: str | None, folder: Path) -> str:
    """Extract the files of a snapshot into a folder, and return its SHA-256.

    `expected` is 64 hexadecimal digits; None: the first word of the digest file. Other members of the ZIP file are
    ignored.

    Raises:
        UnreadableInputError: the digest is missing or differs, or the file is not a snapshot.
    """
    try:
        content = read_regular(path, MAX_BYTES)
        stated = _read_digest(path) if expected is None else expected.lower()
    except (OSError, UnusableFileError) as cause:
        reason = (cause.strerror if isinstance(cause, OSError) else None) or str(cause)
        raise _unreadable(path, reason, "name a file that can be read") from cause
    digest = hashlib.sha256(content).hexdigest()
    if digest != stated:
        problem = f"its SHA-256 is {digest}, expected {stated}"
        raise _unreadable(path, problem, "download the file and its digest again")
    try:
        with zipfile.ZipFile(path) as archive:
            members = [member for member in archive.infolist() if member.filename in _PATHS]
            for member in members:
                _within(member.file_size, path)
                target = folder / member.filename
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(archive.read(member))
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError) as cause:
        raise _unreadable(path, f"not a ZIP file that can be read: {cause}") from cause
    if not any(member.filename != SOURCES.path for member in members):
        raise _unreadable(path, f"no price file in it, such as {_PATHS[0]}")
    return digest


def _read_digest(path: Path) -> str:
    digest_file = path.with_name(path.name + SUFFIX)
    if not digest_file.is_file():
        raise _unreadable(
            path, f"no digest: {digest_file.name} is not next to it", "download it too, or give --sha256 DIGEST"
        )
    with opened_regular(digest_file) as stream:
        word = stream.read(64).decode("utf-8", errors="replace").lower()
    if not re.fullmatch("[0-9a-f]{64}", word):
        raise _unreadable(path, f"{digest_file.name} does not begin with a SHA-256 of 64 hexadecimal digits")
    return word


def _within(size: int, path: Path) -> None:
    if size > MAX_BYTES:
        raise _unreadable(path, f"{size:,} bytes, at most {MAX_BYTES:,} are read")


def _unreadable(path: Path, problem: str, hint: str = "make snapshot writes one") -> UnreadableInputError:
    return UnreadableInputError(f"snapshot {path}: {problem}", hint=hint)
