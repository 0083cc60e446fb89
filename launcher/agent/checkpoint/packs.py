"""Packs: many small files in a few objects.

A request per file would need minutes for 50,000 files of 1 KiB. If a node's part has more than 1,000 files below 256
KiB, Slipway writes these files to packs of up to 8 MiB: the contents in the order of their paths, and nothing else.
The manifest lists every file with its SHA-256, the pack's key and its offset. A pack in which nothing changed since the
newest complete checkpoint is not sent again.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from launcher.agent.checkpoint.files import LocalFile
from launcher.agent.errors import UnusableCheckpointError
from launcher.agent.manifest import StoredFile
from launcher.agent.manifest_tree import mode_text

SMALL_BYTES = 256 * 1024
MANY = 1000
PACK_BYTES = 8 * 1024 * 1024

Contents = tuple[tuple[str, int], ...]
"""The identity of a pack: hash and size of each of its files, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pack:
    """The content of a pack, and its files with their hashes."""

    content: bytes
    files: tuple[LocalFile, ...]
    contents: Contents

    def stored_files(self, key: str, part: int) -> Iterator[StoredFile]:
        """The manifest entries of the pack's files in the object `key`."""
        offset = 0
        for local, (digest, size) in zip(self.files, self.contents, strict=True):
            mode = mode_text(local.mode)
            yield StoredFile(path=local.path, bytes=size, sha256=digest, key=key, part=part, offset=offset, mode=mode)
            offset += size


def groups(files: Iterable[LocalFile]) -> list[list[LocalFile]]:
    """The files of each pack; empty if too few files are small."""
    small = [file for file in files if file.bytes < SMALL_BYTES]
    if len(small) <= MANY:
        return []
    packs: list[list[LocalFile]] = [[]]
    size = 0
    for file in small:
        if size + file.bytes > PACK_BYTES:
            packs.append([])
            size = 0
        packs[-1].append(file)
        size += file.bytes
    return packs


def read_pack(folder: Path, files: Iterable[LocalFile], source: Callable[[LocalFile], Path]) -> Pack:
    """Read the files of a pack; `source`: where the content of a file is read.

    Raises:
        UnusableCheckpointError: a file disappeared or changed its size.
    """
    files = tuple(files)
    pieces, contents = [], []
    for local in files:
        try:
            piece = source(local).read_bytes()
        except OSError as error:
            raise UnusableCheckpointError(f"{folder.name}: {error}") from error
        if len(piece) != local.bytes:
            raise UnusableCheckpointError(f"{folder.name} changed after it was finished: {local.path}")
        pieces.append(piece)
        contents.append((sha256(piece).hexdigest(), len(piece)))
    return Pack(content=b"".join(pieces), files=files, contents=tuple(contents))


def known_packs(files: Iterable[StoredFile]) -> dict[Contents, str]:
    """The keys of a checkpoint's packs, by content."""
    by_key: dict[str, list[StoredFile]] = {}
    for file in files:
        if file.offset is not None:
            by_key.setdefault(file.key, []).append(file)
    keys = {}
    for key, members in by_key.items():
        members.sort(key=lambda file: (file.offset or 0, file.bytes))
        if _fill(members):
            keys[tuple((file.sha256, file.bytes) for file in members)] = key
    return keys


def _fill(files: list[StoredFile]) -> bool:
    """Whether the files follow each other without a gap."""
    end = 0
    for file in files:
        if file.offset != end:
            return False
        end += file.bytes
    return True


def unpack(pack: Path, files: Iterable[StoredFile], folder: Path) -> str:
    """Write the files of a pack, each only if its content matches the manifest.

    Returns the first mismatch; empty if all files match.
    """
    content = memoryview(pack.read_bytes())
    for file in files:
        begin = file.offset or 0
        piece = content[begin : begin + file.bytes]
        if (digest := sha256(piece).hexdigest()) != file.sha256 or len(piece) != file.bytes:
            return f"{file.path} has SHA-256 {digest} instead of {file.sha256}"
        path = folder / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(piece)
    return ""
