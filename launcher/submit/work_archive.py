"""The user's folder as one archive: the same files always give the same bytes, regardless of owner and time.

In a git tree the archive holds tracked files in their current state, and new files that are not ignored. Elsewhere it
holds all files except obviously generated ones. In both cases private files are left out and listed
(launcher/submit/shipping_rules.py). Links remain links if their targets are inside the folder.
"""

import gzip
import hashlib
import os
import re
import shlex
import stat
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from subprocess import CompletedProcess

from launcher.catalog.regular_file import UnusableFileError, opened_regular
from launcher.model.errors import ImpossibleError
from launcher.model.finding import Finding, error
from launcher.model.job import GitState
from launcher.model.units import number_of
from launcher.submit.git import run_git
from launcher.submit.shipping_rules import GENERATED, ShippingRules, rules_of
from launcher.submit.stub_files import empty_submodules, is_empty, pointer_problem, submodule_problem

_PRIVATE_KEY = re.compile(
    rb"""(?m)^-----BEGIN[ ][A-Z0-9 ]*PRIVATE[ ]KEY([ ]BLOCK)?-----\s*$|"private_key"\s*:\s*"-----BEGIN[ ]""", re.VERBOSE
)
LOOKED_AT = 1 << 18
"""Bytes at the start of a file that Slipway searches for a private key: a key is alone, or near the top."""
MAX_BYTES = 512 * 1024 * 1024
"""Limit for all files together, before packing: for code, not data."""
MAX_FILES = 50_000
_ANNEX = ".git/annex/objects/"
"""In the target of a locked file's link (git-annex, internals)."""
_SHOWN = 5
_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkFiles:
    """The files of a folder to ship, by their names below `root`; see `WorkArchive` for the other fields."""

    root: Path
    names: tuple[str, ...]
    left_out: tuple[str, ...]
    git: GitState | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkArchive:
    """A packed archive."""

    path: Path
    sha256: str
    # The size of the archive.
    bytes: int
    # Its number of files.
    files: int
    # None outside git.
    git: GitState | None
    # Private items that were not packed: files, or folders with all their content.
    left_out: tuple[str, ...] = ()


def work_files(folder: Path, environment: Mapping[str, str]) -> WorkFiles:
    """The files of a folder to ship, after an inspection of the complete folder.

    Raises:
        ImpossibleError: the folder does not exist, is too large, or holds a file that cannot be shipped.
    """
    if not folder.is_dir():
        reason = f"{folder} is a file" if folder.exists() else f"no folder {folder}"
        raise ImpossibleError(
            f"run.workdir: {reason}",
            hint="set run.workdir to the folder of your trainer; the path is relative to the plan file",
        )
    root = Path(os.path.realpath(folder))
    git = git_state(root, environment)
    rules = rules_of(root)
    names_listed = _git_files(root, environment, rules) if git is not None else _files_below(root, rules)
    stubs = {name for name in empty_submodules(root) if rules.ships(name, tracked=True)}
    # Git names a deleted file too, and of a submodule whose folder is missing neither walk names anything.
    there = {name for name in names_listed if os.path.lexists(root / name)} | stubs
    names, left_out = _without_private(root, sorted(there), rules)
    _refuse_unsendable(root, names)
    return WorkFiles(root=root, names=tuple(names), left_out=left_out, git=git)


def pack(folder: Path, target: Path, environment: Mapping[str, str]) -> WorkArchive:
    """Pack a folder into a tar.gz archive.

    `target` must not be inside the folder.

    Raises:
        ImpossibleError: the folder does not exist, is too large, or holds a file that cannot be shipped.
    """
    work = work_files(folder, environment)
    with target.open("wb") as raw, gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as packed:
        _write(work.root, work.names, packed)
    digest = hashlib.sha256()
    with target.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return WorkArchive(
        path=target,
        sha256=digest.hexdigest(),
        bytes=target.stat().st_size,
        files=len(work.names),
        git=work.git,
        left_out=work.left_out,
    )


def _without_private(root: Path, names: Iterable[str], rules: ShippingRules) -> tuple[list[str], tuple[str, ...]]:
    """The files to ship, and the private files left out: private by name, or because they hold a private key."""
    shipped, left_out = [], []
    for name in names:
        private = rules.is_private(name)
        if private is None and rules.explicit_verdict(name) is None and _holds_key(root / name):
            private = name
        if private is None:
            shipped.append(name)
        else:
            left_out.append(private)
    return shipped, tuple(dict.fromkeys(left_out))


def _holds_key(path: Path) -> bool:
    """Whether a file holds a private key, in PEM or as a service account's JSON.

    Slipway refuses an unreadable file later, with the reason.
    """
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            return False
        with opened_regular(path) as stream:
            return _PRIVATE_KEY.search(stream.read(LOOKED_AT)) is not None
    except (OSError, ValueError):
        return False


def git_state(folder: Path, environment: Mapping[str, str]) -> GitState | None:
    """The revision of a folder; None if it is in no git tree, if git ignores it, or if git is not installed.

    Raises:
        ImpossibleError: git refuses to inspect the folder.
    """
    inside = _git(folder, environment, "rev-parse", "--is-inside-work-tree")
    if inside is None or (inside.returncode != 0 and b"not a git repository" in inside.stderr):
        return None
    if inside.returncode != 0:
        reason = inside.stderr.decode(errors="replace").strip().splitlines()
        hint = " ".join(reason[1:3])
        if b"safe.bareRepository" in inside.stderr:
            hint = "HEAD, objects and refs in it make it look like git's own folder: remove or rename them"
        raise ImpossibleError(f"run.workdir: git: {reason[0] if reason else 'failed'}", hint=hint)
    ignored = _git(folder, environment, "check-ignore", "--quiet", ".")
    if inside.stdout.strip() != b"true" or (ignored is not None and ignored.returncode == 0):
        return None
    head = _git(folder, environment, "rev-parse", "--verify", "--quiet", "HEAD")
    status = _git(folder, environment, "status", "--porcelain=v1", "--untracked-files=all", "--", ".")
    known = head is not None and head.returncode == 0
    return GitState(
        revision=head.stdout.decode().strip() if known and head is not None else None,
        dirty=status is None or status.returncode != 0 or bool(status.stdout.strip()),
    )


def _git(folder: Path, environment: Mapping[str, str], *arguments: str) -> CompletedProcess[bytes] | None:
    """Run git in a folder; None if git is not installed."""
    try:
        return run_git(folder, environment, *arguments)
    except OSError:
        return None


def _git_files(folder: Path, environment: Mapping[str, str], rules: ShippingRules) -> Iterator[str]:
    """The files that git lists in a folder, including submodules, and the ignored files that the rules readmit."""
    yield from (name for name, tracked in _tracked_files(folder, environment) if rules.ships(name, tracked=tracked))
    if rules.readmits:
        ignored = _lines(_git(folder, environment, "ls-files", "-z", "--others", "--ignored", "--exclude-standard"))
        yield from (name for name in ignored if rules.explicit_verdict(name) is True)


def _tracked_files(folder: Path, environment: Mapping[str, str]) -> Iterator[tuple[str, bool]]:
    """Every file that git tracks or would add, and whether it tracks it."""
    tracked = _lines(_git(folder, environment, "ls-files", "-z", "--cached"))
    fresh = _lines(_git(folder, environment, "ls-files", "-z", "--others", "--exclude-standard"))
    known = frozenset(tracked)
    for name in {*tracked, *fresh}:
        path = folder / name
        if path.is_symlink() or not path.is_dir():
            yield name, name in known
            continue
        # Git lists a folder only if it is a repository of its own, as a submodule is once its files are there. In one
        # that is still empty, git would answer for the repository around it.
        if (path / ".git").exists():
            below = _tracked_files(path, environment)
        else:
            below = ((inner_name, False) for inner_name in (_files_below(path, ShippingRules()), [""])[is_empty(path)])
        yield from ((f"{name.rstrip('/')}/{inner_name}", sure) for inner_name, sure in below)


def _lines(done: CompletedProcess[bytes] | None) -> list[str]:
    if done is None or done.returncode != 0:
        reason = "" if done is None else done.stderr.decode(errors="replace").strip()
        raise ImpossibleError(f"run.workdir: git ls-files failed: {reason}")
    return [os.fsdecode(name) for name in done.stdout.split(b"\0") if name]


def _files_below(folder: Path, rules: ShippingRules) -> Iterator[str]:
    for place, folders, files in os.walk(folder):
        below = Path(place).relative_to(folder)
        folders[:] = [
            child
            for child in folders
            if (rules.readmits or child not in GENERATED) and not (Path(place) / child / "pyvenv.cfg").is_file()
        ]
        links = [child for child in folders if (Path(place) / child).is_symlink()]
        for name in (*files, *links):
            path = (below / name).as_posix()
            if rules.ships(path, tracked=False):
                yield path


def _refuse_unsendable(root: Path, names: Iterable[str]) -> None:
    """Inspect every file before the first is packed; refuse files that cannot ship."""
    problems: list[Finding] = []
    sizes: dict[str, int] = {}
    names = tuple(names)
    shipped = {place for name in names for place in (name, *map(str, PurePosixPath(name).parents))}
    for name in names:
        reason, size = _shipping_refusal(root, name, shipped)
        sizes[name] = size
        if reason:
            problems.append(error("not-shippable", "run.workdir", f"{_printable(name)} {reason[0]}", reason[1]))
    total = sum(sizes.values())
    if total > MAX_BYTES or len(sizes) > MAX_FILES:
        largest = sorted(sizes, key=lambda name: -sizes[name])[:_SHOWN]
        listed = ", ".join(f"{_printable(name)} {sizes[name] / _MIB:,.0f} MiB" for name in largest)
        message = (
            f"holds {total / _MIB:,.0f} MiB in {number_of(len(sizes), 'file')}, allowed: {MAX_BYTES // _MIB} MiB in "
            f"{MAX_FILES:,}; the largest: {listed}"
        )
        hint = (
            "keep data in S3 and checkpoints outside the folder; files in .gitignore and .slipwayignore are not shipped"
        )
        problems.append(error("workdir-too-large", "run.workdir", message, hint))
    if not sizes:
        problems.append(error("workdir-empty", "run.workdir", "contains no file to ship"))
    if problems:
        raise ImpossibleError(f"{root} cannot be shipped", findings=problems[: 4 * _SHOWN])


def _shipping_refusal(root: Path, name: str, shipped: AbstractSet[str]) -> tuple[tuple[str, str] | None, int]:
    """Why a file cannot be shipped, with the fix, or None; and its size in bytes.

    `shipped` has the names of all files and folders that are shipped.
    """
    try:
        name.encode("utf-8")
        if name.endswith("/"):
            return submodule_problem(root, name), 0
        status = (root / name).lstat()
        size = status.st_size if stat.S_ISREG(status.st_mode) else 0
        return _problem(root, name, status, shipped), size
    except UnicodeEncodeError:
        return ("has a name that is not UTF-8", "rename it"), 0
    except (OSError, UnusableFileError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else problem
        return (f"cannot be read: {reason}", "make it readable, or ignore it in .gitignore"), 0


def _problem(root: Path, name: str, status: os.stat_result, shipped: AbstractSet[str]) -> tuple[str, str] | None:
    path = root / name
    if stat.S_ISLNK(status.st_mode):
        return _link_problem(root, path, shipped)
    if not stat.S_ISREG(status.st_mode):
        return "is neither a file nor a link", "remove it, or ignore it in .gitignore"
    with opened_regular(path):
        return pointer_problem(path, name, status.st_size)


def _link_problem(root: Path, path: Path, shipped: AbstractSet[str]) -> tuple[str, str] | None:
    """Why a link would lead nowhere on a node, and the fix; a link that leads nowhere here either is left as it is."""
    target, fix = path.readlink(), "replace it with a copy, or ignore it"
    if _ANNEX in str(target):
        return "is a link of git-annex, whose content is not shipped", f"git annex unlock {shlex.quote(path.name)}"
    try:
        real = path.resolve(strict=True)
    except FileNotFoundError:
        real = Path(os.path.realpath(path))
    except (OSError, RuntimeError):  # ELOOP
        return f"is a link that leads to itself, by {target}", "remove it, or ignore it"
    if target.is_absolute() or not real.is_relative_to(root):
        return f"is a link to a target outside the folder, {target}", fix
    name = real.relative_to(root).as_posix()
    if real.exists() and name not in shipped:
        return f"is a link to {name}, which is not shipped", f"add the line !{name} to .slipwayignore, or ignore both"
    return None


def _printable(name: str) -> str:
    return name.encode("utf-8", errors="replace").decode()


def _write(root: Path, names: Iterable[str], packed: gzip.GzipFile) -> None:
    """Write the files in order, without owners and modification times."""
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name in names:
            path = root / name
            member = tarfile.TarInfo(name)
            try:
                status = path.lstat()
                if stat.S_ISLNK(status.st_mode):
                    member.type, member.linkname, member.mode = tarfile.SYMTYPE, str(path.readlink()), 0o777
                    archive.addfile(member)
                    continue
                member.size, member.mode = status.st_size, 0o755 if status.st_mode & stat.S_IXUSR else 0o644
                with opened_regular(path) as content:
                    archive.addfile(member, content)
            except (OSError, UnusableFileError) as problem:
                raise ImpossibleError(
                    f"run.workdir: {name} changed or was deleted while it was packed: {problem}", hint="run it again"
                ) from problem
