"""Files of a git revision, read from the repository without touching its tree."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from launcher.model.errors import UnreadableInputError
from launcher.submit.git import run_git

UNBORN = "HEAD"
"""The revision that a new repository does not have yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """One commit, seen from a folder of its repository: names are relative to that folder."""

    name: str
    commit: str
    folder: Path
    environment: Mapping[str, str] = field(repr=False)

    def files(self) -> tuple[str, ...]:
        """The files at and below the folder."""
        listed = _git(self.folder, self.environment, "ls-tree", "-r", "-z", "--name-only", self.commit)
        return tuple(os.fsdecode(name) for name in listed.split(b"\0") if name)

    def read(self, path: str) -> str:
        """The text of a file, its path relative to the folder.

        Raises:
            UnreadableInputError: the revision has no such file, or it is not UTF-8.
        """
        data = _git(self.folder, self.environment, "show", f"{self.commit}:./{path}")
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as problem:
            raise UnreadableInputError(f"{self.name}:{path} is not UTF-8 text") from problem


def find_revision(name: str, folder: Path, environment: Mapping[str, str]) -> Revision | None:
    """The commit that a name refers to in the repository around a folder; None if the commit or repository is missing.

    >>> find_revision("--upload-pack=x", Path("."), {}) is None
    True
    """
    if not name or name.startswith("-"):
        return None
    try:
        commit = _git(folder, environment, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
    except UnreadableInputError:
        if name != UNBORN:
            return None
        commit = _empty_tree(folder, environment)
    if not commit:
        return None
    return Revision(name=name, commit=commit.decode().strip(), folder=folder, environment=environment)


def _empty_tree(folder: Path, environment: Mapping[str, str]) -> bytes:
    """The tree without files, which stands for HEAD before the first commit; empty outside a repository."""
    try:
        _git(folder, environment, "rev-parse", "--git-dir")
        return _git(folder, environment, "hash-object", "-t", "tree", os.devnull)
    except UnreadableInputError:
        return b""


def _git(folder: Path, environment: Mapping[str, str], *arguments: str) -> bytes:
    try:
        done = run_git(folder, environment, *arguments)
    except OSError as problem:
        raise UnreadableInputError(f"git cannot be run: {problem.strerror}") from problem
    if done.returncode != 0:
        error_lines = done.stderr.decode(errors="replace").strip().splitlines()
        raise UnreadableInputError(f"git {arguments[0]}: {error_lines[0] if error_lines else 'failed'}")
    return done.stdout
