"""Stubs in the user's folder, which stand for content that is elsewhere: submodules, pointers of Git LFS and git-annex.

Each is refused before anything is deployed, with the command that brings the content.
"""

import os
import re
import shlex
from pathlib import Path, PurePosixPath

from launcher.catalog.regular_file import UnusableFileError, read_regular

GITMODULES = ".gitmodules"
MAX_BYTES = 1 << 20
MAX_INDEX_BYTES = 1 << 26
LONGEST_POINTER = 1024
"""Bytes; a pointer is shorter than this (git-lfs, docs/spec.md, "The Pointer")."""
_POINTER = (
    rb"version https://(?:git-lfs|hawser)\.github\.com/spec/v1\r?\n(?:[a-z0-9.-]+ [^\n]*\n)*?"
    rb"oid sha256:[0-9a-f]{64}\r?\n"
    rb"(?:[a-z0-9.-]+ [^\n]*\n)*?size (?P<size>[0-9]{1,15})\r?(?:\n|$)"
)
"""The same source: `version` first, then the keys in alphabetical order; hawser is the project's first name."""
_ANNEXED = rb"/annex/objects/[^\s/]+-s(?P<size>[0-9]{1,15})-[^\s/]*\r?\n?"
"""An unlocked file of git-annex without its content (git-annex, doc/internals/pointer_file.mdwn)."""
_SUBMODULE_PATH = r"(?m)^[ \t]*path[ \t]*=[ \t]*(?P<path>[^\r\n]+?)[ \t]*$"


def submodule_paths(root: Path) -> frozenset[str]:
    """The folders that the .gitmodules of a repository names; empty without such a file."""
    try:
        text = read_regular(root / GITMODULES, MAX_BYTES, within=root).decode("utf-8-sig", errors="replace")
    except (OSError, UnusableFileError):
        return frozenset()
    return frozenset(match["path"].strip('"').rstrip("/") for match in re.finditer(_SUBMODULE_PATH, text))


def is_empty(folder: Path) -> bool:
    """Whether a folder has no entry."""
    try:
        return next(folder.iterdir(), None) is None
    except OSError:
        return False


def empty_submodules(root: Path) -> list[str]:
    """The submodules of a folder without their files, each with a slash at its end; their folders may be missing.

    The folder may lie in a repository whose .gitmodules is above it.
    """
    top = next((above for above in (root, *root.parents) if (above / ".git").exists()), None)
    base = root if top is None or (root / GITMODULES).is_file() else top
    below = root.relative_to(base)
    names = []
    for path in submodule_paths(base):
        inside = PurePosixPath(path)
        if ".." in inside.parts or inside.is_absolute() or not inside.is_relative_to(below.as_posix()):
            continue
        missing = not os.path.lexists(base / path)
        if (missing or is_empty(base / path)) and _is_recorded(top, base, path):
            names.append(f"{inside.relative_to(below.as_posix())}/")
    return sorted(names)


def _is_recorded(top: Path | None, base: Path, path: str) -> bool:
    """Whether a repository has a submodule in its index: .gitmodules may still name a removed one.

    True without a repository, and if its index is not below `.git`, as in a worktree.
    """
    if top is None:
        return True
    try:
        index = read_regular(top / ".git" / "index", MAX_INDEX_BYTES)
    except (OSError, UnusableFileError):
        return True
    return os.fsencode((base / path).relative_to(top).as_posix()) + b"\0" in index


def submodule_problem(root: Path, name: str) -> tuple[str, str]:
    """The problem of a submodule without its files, by its path in the user's folder, and its fix."""
    folder, leave_out = root / name, f"or leave it out: add the line /{name} to .slipwayignore"
    top = next((above for above in folder.parents if (above / ".git").exists()), None)
    if top is None:
        return "is a submodule without its files", f"clone its repository there, as .gitmodules names it; {leave_out}"
    if folder.relative_to(top).as_posix() in submodule_paths(top):
        return "is a submodule without its files", f"git submodule update --init --recursive; {leave_out}"
    fix = f"put its files there, then git rm --cached {name} and git add {name}; {leave_out}"
    return "is recorded as a submodule, and no .gitmodules says of which repository", fix


def pointer_problem(path: Path, name: str, size: int) -> tuple[str, str] | None:
    """The problem of a pointer of Git LFS or git-annex in place of its file, and its fix; None for any other file.

    `size` is the file's, in bytes.
    """
    if size >= LONGEST_POINTER:
        return None
    text = read_regular(path, LONGEST_POINTER)
    leave_out = f"or leave it out: add the line /{name} to .slipwayignore"
    if match := re.match(_POINTER, text):
        pointer, command = "Git LFS", f'git lfs pull --include "{name}"'
    elif match := re.match(_ANNEXED, text):
        pointer, command = "git-annex", f"git annex get {shlex.quote(name)}"
    else:
        return None
    return f"is a {pointer} pointer: its {int(match['size']):,} bytes are not here", f"{command}; {leave_out}"
