"""What a manifest says of a checkpoint's tree beside the content of its files: links, permission bits, empty folders.

A link is stored as a link if it leads to something of the same checkpoint; its target is relative. Its target may pass
through other links. A manifest comes from a bucket and is not trusted: a link that leads out of its checkpoint, to
nothing or in a circle, or that has the place of a file or folder, makes it unusable. Standard library only.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from launcher.agent.errors import ManifestError

DEFAULT_MODE = 0o644
"""The permission bits of a file whose entry has no `mode`."""
_MODE = re.compile(r"0[0-7]{3}")
_MAX_TARGET = 1023
"""Maximum bytes of a link's target: PATH_MAX leaves room for the folders above."""
MAX_HOPS = 40
"""Maximum number of links in one path on Linux (MAXSYMLINKS of <linux/namei.h>)."""
_MAX_WORK = 5_000_000
"""Maximum number of path components that are read to follow a manifest's links; 100,000 links need some 15 each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredLink:
    """A symbolic link of a checkpoint: its path, its target relative to its own folder, and the node that has it."""

    path: str
    target: str
    part: int = 0


class _Placed(Protocol):
    """A file or link of a manifest."""

    @property
    def path(self) -> str: ...

    @property
    def part(self) -> int: ...


Entry = TypeVar("Entry", bound=_Placed)


def entries_for(entries: Iterable[Entry], part: int) -> tuple[Entry, ...]:
    """The files or links that a node restores, of all parts; of several with a path its own part's, else the lowest.

    Sorted by path.
    """
    chosen: dict[str, Entry] = {}
    for entry in sorted(entries, key=lambda entry: (entry.part != part, entry.part)):
        chosen.setdefault(entry.path, entry)
    return tuple(chosen[path] for path in sorted(chosen))


def mode_text(mode: int) -> str:
    """The `mode` of a file's entry; empty for the default, and for 0: unknown.

    >>> mode_text(0o100755), mode_text(0o100644), mode_text(0o104750)
    ('0755', '', '0750')
    """
    bits = mode & 0o777
    return "" if bits in (0, DEFAULT_MODE) else f"{bits:04o}"


def mode_problem(mode: str) -> str:
    """Why a `mode` is refused; empty if it is allowed: a restore sets neither setuid, setgid nor sticky bits."""
    if not mode or _MODE.fullmatch(mode):
        return ""
    return f"got {mode!r}; it must be four octal digits from 0000 to 0777"


def canonical_target(path: str, target: str) -> bool:
    """Whether a target is relative, without needless parts, and by its text below the folder of its checkpoint.

    >>> canonical_target("a/b", "../c"), canonical_target("a/b", "../../c"), canonical_target("b", "/etc")
    (True, False, False)
    >>> canonical_target("b", "a/../c"), canonical_target("b", "."), canonical_target("a/b/c", "..")
    (False, False, True)
    """
    names = target.split("/")
    up = next((number for number, name in enumerate(names) if name != ".."), len(names))
    deep = path.count("/")
    if "\0" in target or any(name in ("", ".", "..") for name in names[up:]):
        return False
    return up < deep or (up == deep and up < len(names))


def check_tree(paths: Iterable[str], links: Collection[StoredLink], folders: Collection[str]) -> None:
    """Check the places of a manifest's files, which have the given `paths`, of its links and of its empty folders.

    Raises:
        ManifestError: no node could have written them, or a link is not allowed.
    """
    files = frozenset(paths)
    inside = {*folders}
    for path in (*files, *folders, *(link.path for link in links)):
        inside.update(folders_above(path))
    if both := files & inside:
        raise ManifestError(f"path: {min(both)!r} is both a file and a folder")
    _check_targets(files, inside, links)


def complete_tree(
    folder: Path, files: Iterable[tuple[str, str]], links: Iterable[StoredLink], folders: Iterable[str]
) -> None:
    """Complete a restored folder: `files` are pairs of path and `mode`. Links come last, so that none is followed.

    Raises:
        OSError: the folder cannot be written, or a link's place is taken.
    """
    for path, mode in files:
        bits = int(mode, 8) if mode else DEFAULT_MODE
        if (folder / path).stat().st_mode & 0o7777 != bits:
            (folder / path).chmod(bits)
    for path in folders:
        (folder / path).mkdir(parents=True, exist_ok=True)
    for link in links:
        (folder / link.path).parent.mkdir(parents=True, exist_ok=True)
        (folder / link.path).symlink_to(link.target)


def _check_targets(files: frozenset[str], inside: set[str], links: Collection[StoredLink]) -> None:
    targets: dict[str, set[str]] = {}
    for link in links:
        targets.setdefault(link.path, set()).add(link.target)
        if link.path in files or link.path in inside:
            raise ManifestError(f"link {link.path!r}: a file or folder has the same place")
        if len(link.target.encode()) > _MAX_TARGET or not canonical_target(link.path, link.target):
            raise ManifestError(
                f"link {link.path!r}: got {link.target[:80]!r}; it must be a relative path within the checkpoint"
            )
    # Only links that differ between the nodes make their trees differ.
    differing = {path for path, of_path in targets.items() if len(of_path) > 1}
    left = _MAX_WORK
    for part in sorted({link.part for link in links if link.path in differing}) or [0]:
        view = {link.path: link.target for link in entries_for(links, part)}
        for path in view:
            left -= _follow(path, view, files, inside)[1]
            if left < 0:
                raise ManifestError("not a manifest: its links are too many to follow")


def end_of(path: str, links: Mapping[str, str], files: Collection[str], folders: Collection[str]) -> str:
    """The path to which a link of a checkpoint leads; `links`: targets by path.

    Raises:
        ManifestError: it leads to nothing in the checkpoint, in a circle or to a folder that it is in.
    """
    return _follow(path, links, files, folders)[0]


def _follow(path: str, links: Mapping[str, str], files: Collection[str], inside: Collection[str]) -> tuple[str, int]:
    """Follow a link to its end; return that, and the number of names passed."""
    above = path.split("/")[:-1]
    pending = links[path].split("/")[::-1]
    hops = steps = 1
    while pending:
        steps += 1 + len(above)
        name = pending.pop()
        if name == "..":
            if not above:
                raise ManifestError(f"link {path!r}: it leads out of the checkpoint")
            above.pop()
            continue
        here = "/".join((*above, name))
        if here in links:
            hops += 1
            if hops > MAX_HOPS:
                raise ManifestError(f"link {path!r}: it leads in a circle")
            pending += links[here].split("/")[::-1]
        elif here in inside or (here in files and not pending):
            above.append(name)
        else:
            raise ManifestError(f"link {path!r}: it leads to nothing in the checkpoint")
    if path.startswith("".join(f"{name}/" for name in above)):
        raise ManifestError(f"link {path!r}: it leads to a folder that it is in")
    return "/".join(above), steps


def folders_above(path: str) -> Iterable[str]:
    """The folders above a path."""
    folder = path.rpartition("/")[0]
    while folder:
        yield folder
        folder = folder.rpartition("/")[0]
