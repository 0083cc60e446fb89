"""Bringing one finished folder into the store: hash, send what is new, say what is there."""

import hashlib
import os
import secrets
import stat
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from launcher.agent.errors import UnusableCheckpointError
from launcher.agent.events import utc_now
from launcher.agent.manifest import Manifest, StoredFile, object_key
from launcher.agent.store.objects import Store

_CHUNK_BYTES = 1 << 22


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who uploads: the run, its attempt (from 1), and which node of how many.

    `session` names this life of the job, the same on all its nodes and never used again: what one life announced must
    not be taken for a part of the next one's checkpoint.
    """

    run: str
    attempt: int
    session: str
    part: int
    parts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalFile:
    """A file as it was found: path below the folder, size in bytes, modification time and inode."""

    path: str
    bytes: int
    modified_ns: int
    inode: int


def local_files(folder: Path) -> tuple[LocalFile, ...]:
    """Every file below `folder`, sorted by path. A link to a file counts as that file; empty folders are not kept.

    Raises:
        UnusableCheckpointError: The folder, or something in it, went away or cannot be stored: a link to a folder, a
            socket, a name that is not UTF-8.
    """
    try:
        return tuple(sorted(_walk(folder), key=lambda file: file.path))
    except OSError as error:
        raise UnusableCheckpointError(f"{folder.name}: {error}") from error


def sha256_of(path: Path) -> str:
    """SHA-256 of a file's content, hexadecimal."""
    digest = hashlib.sha256()
    # One large buffer for all of it: memory that is asked for anew at every read costs more than the reading, and
    # between two reads a thread may wait for the interpreter.
    buffer = memoryview(bytearray(_CHUNK_BYTES))
    with path.open("rb", buffering=0) as file:
        while size := file.readinto(buffer):
            digest.update(buffer[:size])
    return digest.hexdigest()


class Sender:
    """Uploads folders for one node.

    Files that an earlier try of the same folder brought over, and files whose content the newest whole checkpoint
    already holds, are not sent again.
    """

    def __init__(self, store: Store, identity: Identity, *, known: Iterable[StoredFile] = ()) -> None:
        """Keep the store.

        Args:
            store: Where to.
            identity: Who uploads.
            known: Files of the newest whole checkpoint.
        """
        self._store = store
        self._identity = identity
        self._sent: dict[tuple[int, str], StoredFile] = {}
        self.remember(known)

    def remember(self, files: Iterable[StoredFile]) -> None:
        """The newest whole checkpoint's files: only their objects are sure to stay, and so may be pointed to."""
        self._known = {(file.sha256, file.bytes): file.key for file in files}
        self._sent = {}

    def send(self, folder: Path, step: int) -> tuple[Manifest, int]:
        """Upload what is new in `folder` and return this node's part of the manifest with the bytes sent.

        Raises:
            UnusableCheckpointError: The folder changed or went away meanwhile.
            StoreError: The store did not take it.
        """
        begun = time.monotonic()
        before = local_files(folder)
        token = f"{self._identity.part}-{secrets.token_hex(4)}"
        base = f"step-{step}/{self._identity.session}/{token}"
        files, sent = [], []
        with self._store.uploads() as uploads:
            try:
                for local in before:
                    stored = self._stored(folder, local, base, step)
                    files.append(stored)
                    if stored.key.startswith(f"{base}/"):
                        uploads.upload(folder / local.path, stored.key)
                        sent.append(stored)
                uploads.wait()
            finally:  # what arrived is not sent again by the next try
                self._sent.update({(step, stored.path): stored for stored in sent if stored.key in uploads.arrived})
        if local_files(folder) != before:
            raise UnusableCheckpointError(f"{folder.name} changed while it was uploaded")
        self._sent = {at: stored for at, stored in self._sent.items() if at[0] != step}
        manifest = Manifest(
            run=self._identity.run,
            attempt=self._identity.attempt,
            step=step,
            folder=folder.name,
            part=self._identity.part,
            parts=self._identity.parts,
            files=tuple(files),
            written_at=utc_now(),
            seconds=round(time.monotonic() - begun, 3),
        )
        return manifest, sum(file.bytes for file in sent)

    def _stored(self, folder: Path, local: LocalFile, base: str, step: int) -> StoredFile:
        """Where the file's content is, or will be: an object that holds it already, or a new key below `base`."""
        try:
            digest = sha256_of(folder / local.path)
        except OSError as error:
            raise UnusableCheckpointError(f"{folder.name}: {error}") from error
        earlier = self._sent.get((step, local.path))
        key = self._known.get((digest, local.bytes))
        if earlier is not None and earlier.sha256 == digest:
            key = earlier.key
        return StoredFile(
            path=local.path,
            bytes=local.bytes,
            sha256=digest,
            key=key or object_key(base, local.path),
            part=self._identity.part,
        )


def _walk(folder: Path) -> Iterator[LocalFile]:
    for root, folders, names in os.walk(folder, onerror=_raise):
        folders.sort()
        for name in names + [name for name in folders if (Path(root) / name).is_symlink()]:
            path = Path(root) / name
            status = path.stat()
            if not stat.S_ISREG(status.st_mode) or not _is_utf8(name):
                raise UnusableCheckpointError(f"{folder.name} holds {name!r}: not a file, or its name is not UTF-8")
            yield LocalFile(
                path=path.relative_to(folder).as_posix(),
                bytes=status.st_size,
                modified_ns=status.st_mtime_ns,
                inode=status.st_ino,
            )


def _is_utf8(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _raise(error: OSError) -> None:
    raise error
