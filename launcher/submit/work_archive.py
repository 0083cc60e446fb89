"""The user's folder as one archive: the same files always give the same bytes, regardless of owner and time.

In a git tree the archive holds tracked files in their current state, and new files that are not ignored. Elsewhere it
holds all files except obviously generated ones. In both cases private files are left out and listed
(launcher/submit/work_archive.py). Links remain links if their targets are inside the folder.
"""

import gzip
import hashlib
import os
import re
import stat
import subprocess
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import translate
from pathlib import Path, PurePosixPath

from launcher.model.errors import ImpossibleError
from launcher.model.finding import Finding, error

# Files of the user's folder that are not shipped by default, and how the user includes them.
#
# Three sets of rules, the last one that speaks of a file decides: what is plainly made, what is private, and the
# folder's own `.slipwayignore`, which is written as a `.gitignore` is. One difference: `!keys/id_rsa` readmits a file
# below a folder that is left out, without a line for the folder. What is made and tracked by git is shipped; what is
# private is not.


IGNORE_FILE = ".slipwayignore"
"""At the top of `run.workdir`."""
GENERATED = frozenset(
    (
        *(".DS_Store", ".git", ".hg", ".ipynb_checkpoints", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".slipway"),
        *(".svn", ".tox", ".venv", "__pycache__", "cdk.out", "node_modules"),
    )
)
"""Names that are left out in every folder, unless git tracks them. A folder with a pyvenv.cfg is left out too."""
PRIVATE = (
    *(".aws", ".azure", ".docker", ".env*", ".git-credentials", ".gnupg", ".huggingface", ".kube", ".netrc", ".npmrc"),
    *(".pgpass", ".pypirc", ".ssh", "_netrc", "id_dsa*", "id_ecdsa*", "id_ed25519*", "id_rsa*"),
    *(".bash_history", ".boto", ".my.cnf", ".python_history", ".s3cfg", ".terraformrc", ".vault-token", ".zsh_history"),
    *("application_default_credentials.json", "client_secret*.json", "credentials.json", "kubeconfig", "rclone.conf"),
    *("terraform.tfstate*", "*.tfstate", "*.tfstate.backup"),
)
"""Names, in any case, that usually hold credentials; left out and listed in every folder, tracked or not."""
PRIVATE_WITHIN = {"huggingface": ("token", "stored_tokens")}
"""Names that hold credentials in a folder of a given name: the token cache of huggingface_hub, `.cache/huggingface`."""
_PRIVATE_NAME = re.compile("|".join(translate(pattern) for pattern in PRIVATE), re.IGNORECASE)
_PRIVATE_KEY = re.compile(
    rb"""(?m)^-----BEGIN[ ][A-Z0-9 ]*PRIVATE[ ]KEY([ ]BLOCK)?-----\s*$|"private_key"\s*:\s*"-----BEGIN[ ]""", re.VERBOSE
)
LOOKED_AT = 1 << 18
"""Bytes at the start of a file that Slipway searches for a private key: a key is alone, or near the top."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One line of a `.slipwayignore`: its pattern, whether it readmits files, whether it matches folders only."""

    pattern: re.Pattern[str]
    readmits: bool
    folders_only: bool


@dataclass(slots=True, kw_only=True)
class ShippingRules:
    """The rules of one folder. `readmits` is true if any rule readmits a file."""

    rules: tuple[Rule, ...] = ()
    _folders: dict[str, bool | None] = field(default_factory=dict)

    @property
    def readmits(self) -> bool:
        """Whether any rule readmits something."""
        return any(rule.readmits for rule in self.rules)

    def explicit_verdict(self, name: str) -> bool | None:
        """The verdict of the user's own rules on a file: True to ship it, False to leave it out, None if none match."""
        index, verdict = -1, None
        parts = PurePosixPath(name).parts
        for depth in range(1, len(parts) + 1):
            path, folder = "/".join(parts[:depth]), depth < len(parts)
            for number, rule in enumerate(self.rules):
                if number >= index and (folder or not rule.folders_only) and rule.pattern.fullmatch(path):
                    index, verdict = number, rule.readmits
        return verdict

    def is_private(self, name: str) -> str | None:
        """The shortest part of a path with a private name; None if no part has one, or if the user readmits it."""
        if self.explicit_verdict(name) is True:
            return None
        parts = PurePosixPath(name).parts
        for depth, part in enumerate(parts, start=1):
            within = PRIVATE_WITHIN.get(parts[depth - 2].lower(), ()) if depth > 1 else ()
            if _PRIVATE_NAME.fullmatch(part) or part.lower() in within:
                return "/".join(parts[:depth])
        return None

    def ships(self, name: str, *, tracked: bool) -> bool:
        """Whether a file ships according to its name; private files are decided separately (see `is_private`)."""
        verdict = self.explicit_verdict(name)
        if verdict is not None:
            return verdict
        return tracked or not GENERATED & set(PurePosixPath(name).parts)


def holds_private_key(path: Path) -> bool:
    """Whether a file holds a private key, in PEM or as a service account's JSON."""
    with path.open("rb") as stream:
        return _PRIVATE_KEY.search(stream.read(LOOKED_AT)) is not None


def rules_of(folder: Path) -> ShippingRules:
    """The rules of a folder, from its `.slipwayignore` if that file exists.

    Raises:
        ImpossibleError: the file cannot be read, or is not text.
    """
    path = folder / IGNORE_FILE
    if not path.exists():
        return ShippingRules()
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else "it is not UTF-8 text"
        raise ImpossibleError(f"run.workdir: {IGNORE_FILE} cannot be read: {reason}") from problem
    return ShippingRules(rules=tuple(parsed(text)))


def parsed(text: str) -> Iterator[Rule]:
    r"""The rules of a `.slipwayignore`, in the format of gitignore(5).

    >>> [rule.readmits for rule in parsed("# data\n*.bin\n\n!small.bin\n")]
    [False, True]
    """
    for line in text.splitlines():
        pattern = line if line.endswith("\\ ") else line.rstrip()
        if not pattern or pattern.startswith("#"):
            continue
        readmits = pattern.startswith("!")
        pattern = pattern.removeprefix("!")
        folders_only = pattern.endswith("/")
        pattern = pattern.rstrip("/")
        if pattern:
            yield Rule(pattern=re.compile(_expression(pattern)), readmits=readmits, folders_only=folders_only)


def _expression(pattern: str) -> str:
    r"""A pattern of gitignore(5) as a regular expression over a complete path.

    >>> bool(re.fullmatch(_expression("*.bin"), "a/b.bin")), bool(re.fullmatch(_expression("/*.bin"), "a/b.bin"))
    (True, False)
    >>> bool(re.fullmatch(_expression("a/**/z"), "a/z")), bool(re.fullmatch(_expression("a/**"), "a"))
    (True, False)
    """
    anchored = "/" in pattern
    segments = pattern.removeprefix("/").split("/")
    expression = "" if anchored else "(?:.*/)?"
    for number, segment in enumerate(segments):
        last = number == len(segments) - 1
        if segment == "**":
            expression += ".+" if last else "(?:.*/)?"
        else:
            expression += _segment(segment) + ("" if last else "/")
    return f"(?s:{expression})"


def _segment(segment: str) -> str:
    expression, at = "", 0
    while at < len(segment):
        char = segment[at]
        at += 1
        end = segment.find("]", at + 1) if char == "[" else -1
        if char == "*":
            expression += "" if expression.endswith("[^/]*") else "[^/]*"
        elif char == "?":
            expression += "[^/]"
        elif char == "[" and end > 0:
            inner = segment[at:end].replace("\\", "\\\\").replace("[", "\\[")
            expression += f"(?!/)[^{inner[1:]}]" if inner[0] in "!^" and len(inner) > 1 else f"(?!/)[{inner}]"
            at = end + 1
        elif char == "\\" and at < len(segment):
            expression += re.escape(segment[at])
            at += 1
        else:
            expression += re.escape(char)
    return expression


MAX_BYTES = 512 * 1024 * 1024
"""Limit for all files together, before packing: for code, not data."""
MAX_FILES = 50_000
_SHOWN = 5
_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class GitState:
    """The git revision of a folder; `dirty`: the folder holds changes or new files that are in no commit."""

    revision: str | None
    dirty: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkFiles:
    """The files of a folder to ship, by their names below `root`; see `WorkArchive` for the other fields."""

    root: Path
    names: tuple[str, ...]
    left_out: tuple[str, ...]
    git: GitState | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkArchive:
    """A packed archive; `bytes` is the size of the archive, `files` its number of files. `git` is None outside git.

    `left_out` names the private items that were not packed: files, or folders with all their content.
    """

    path: Path
    sha256: str
    bytes: int
    files: int
    git: GitState | None
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
    root = folder.resolve()
    git = git_state(root, environment)
    rules = rules_of(root)
    names_listed = _listed(root, environment, rules) if git is not None else _files_below(root, rules)
    names, left_out = _without_private(
        root, sorted(name for name in names_listed if os.path.lexists(root / name)), rules
    )
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
    """Whether a file holds a private key; Slipway refuses an unreadable file later, with the reason."""
    try:
        return stat.S_ISREG(path.lstat().st_mode) and holds_private_key(path)
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
        raise ImpossibleError(f"run.workdir: git: {reason[0] if reason else 'failed'}", hint=" ".join(reason[1:3]))
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


def _git(folder: Path, environment: Mapping[str, str], *arguments: str) -> subprocess.CompletedProcess[bytes] | None:
    """Run git in a folder; None if git is not installed. Omits variables that would point git at another tree."""
    variables = {name: value for name, value in environment.items() if not name.startswith("GIT_")}
    try:
        return subprocess.run(
            ["git", "-C", str(folder), *arguments], env={**variables, "LC_ALL": "C"}, capture_output=True, check=False
        )
    except OSError:
        return None


def _listed(folder: Path, environment: Mapping[str, str], rules: ShippingRules) -> Iterator[str]:
    """The files that git lists in a folder, including submodules, and the ignored files that the rules readmit."""
    yield from (name for name, tracked in _shown(folder, environment) if rules.ships(name, tracked=tracked))
    if rules.readmits:
        ignored = _lines(_git(folder, environment, "ls-files", "-z", "--others", "--ignored", "--exclude-standard"))
        yield from (name for name in ignored if rules.explicit_verdict(name) is True)


def _shown(folder: Path, environment: Mapping[str, str]) -> Iterator[tuple[str, bool]]:
    """Every file that git tracks or would add, and whether it tracks it."""
    tracked = _lines(_git(folder, environment, "ls-files", "-z", "--cached"))
    fresh = _lines(_git(folder, environment, "ls-files", "-z", "--others", "--exclude-standard"))
    known = frozenset(tracked)
    for name in {*tracked, *fresh}:
        path = folder / name
        if path.is_dir() and not path.is_symlink():
            inner = path.resolve()
            if git_state(inner, environment) is not None:
                below = _shown(inner, environment)
            else:
                below = ((inner_name, False) for inner_name in _files_below(inner, ShippingRules()))
            yield from ((f"{name.rstrip('/')}/{inner_name}", sure) for inner_name, sure in below)
        else:
            yield name, name in known


def _lines(done: subprocess.CompletedProcess[bytes] | None) -> list[str]:
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
    for name in names:
        reason, size = _examined(root, name)
        sizes[name] = size
        if reason:
            problems.append(error("not-shippable", "run.workdir", f"{_printable(name)} {reason[0]}", reason[1]))
    total = sum(sizes.values())
    if total > MAX_BYTES or len(sizes) > MAX_FILES:
        largest = sorted(sizes, key=lambda name: -sizes[name])[:_SHOWN]
        listed = ", ".join(f"{_printable(name)} {sizes[name] / _MIB:,.0f} MiB" for name in largest)
        message = (
            f"holds {total / _MIB:,.0f} MiB in {len(sizes):,} files, allowed: {MAX_BYTES // _MIB} MiB in "
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


def _examined(root: Path, name: str) -> tuple[tuple[str, str] | None, int]:
    path = root / name
    try:
        name.encode("utf-8")
        status = path.lstat()
        if stat.S_ISLNK(status.st_mode):
            target = path.readlink()
            if target.is_absolute() or not Path(os.path.realpath(path)).is_relative_to(root):
                way_out = "replace it with a copy, or ignore it"
                return (f"is a link to a target outside the folder, {target}", way_out), 0
            return None, 0
        if not stat.S_ISREG(status.st_mode):
            return ("is neither a file nor a link", "remove it, or ignore it in .gitignore"), 0
        with path.open("rb"):
            return None, status.st_size
    except UnicodeEncodeError:
        return ("has a name that is not UTF-8", "rename it"), 0
    except OSError as problem:
        return (f"cannot be read: {problem.strerror}", "make it readable, or ignore it in .gitignore"), 0


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
                with path.open("rb") as content:
                    archive.addfile(member, content)
            except OSError as problem:
                raise ImpossibleError(
                    f"run.workdir: {name} changed or was deleted while it was packed: {problem}", hint="run it again"
                ) from problem
