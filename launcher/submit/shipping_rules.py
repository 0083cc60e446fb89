"""Which files of the user's folder are shipped by default, and how the user includes or leaves out others.

Three sets of rules, the last one that speaks of a file decides: what is plainly made, what is private, and the folder's
own `.slipwayignore`, which is read as git reads a `.gitignore`. What is made and tracked by git is shipped; what is
private is not, unless a line with `!` names it or a folder above it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import translate
from pathlib import Path, PurePosixPath

from pathspec.patterns.gitignore.base import GitIgnorePatternError
from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

from launcher.catalog.regular_file import UnusableFileError, read_regular
from launcher.model.errors import ImpossibleError

IGNORE_FILE = ".slipwayignore"
"""At the top of `run.workdir`."""
MAX_BYTES = 1 << 20
"""Limit of a `.slipwayignore`."""
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
_FOLDER_MARK = "ps_d"
"""The group in pathspec's expressions that matches the slash after a folder's name."""
_POSIX = {
    "[:digit:]": "0-9",
    "[:alpha:]": "A-Za-z",
    "[:alnum:]": "0-9A-Za-z",
    "[:lower:]": "a-z",
    "[:upper:]": "A-Z",
    "[:xdigit:]": "0-9A-Fa-f",
    "[:space:]": " \t",
}
"""Classes in brackets that git knows and pathspec 1.1 does not."""


@dataclass(slots=True, kw_only=True)
class ShippingRules:
    """The rules of one folder."""

    rules: tuple[GitIgnoreSpecPattern, ...] = ()
    _folders: dict[str, bool | None] = field(default_factory=dict)

    @property
    def readmits(self) -> bool:
        """Whether any rule readmits something."""
        return any(rule.include is False for rule in self.rules)

    def explicit_verdict(self, name: str) -> bool | None:
        """The verdict of the user's own rules on a file: True to ship it, False to leave it out, None if none match.

        As in git, nothing below a folder that is left out is readmitted. A folder that is readmitted takes its files
        along, unless a rule leaves these out.
        """
        above = self._folder(name.rpartition("/")[0])
        own = None if above is False else self._last(name)
        return above if own is None else own

    def _folder(self, folder: str) -> bool | None:
        """The verdict on a folder, by its path without a slash at the end; "" is the top."""
        if not folder:
            return None
        if folder not in self._folders:
            above = self._folder(folder.rpartition("/")[0])
            own = None if above is False else self._last(f"{folder}/")
            self._folders[folder] = above if own is None else own
        return self._folders[folder]

    def _last(self, path: str) -> bool | None:
        """The verdict of the last rule that matches a path itself rather than a folder above it."""
        for rule in reversed(self.rules):
            match = rule.match_file(path)
            if match is None:
                continue
            mark = match.match.start(_FOLDER_MARK) if _FOLDER_MARK in match.match.re.groupindex else -1
            if mark in (-1, len(path) - 1):
                return not rule.include
        return None

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


def rules_of(folder: Path) -> ShippingRules:
    """The rules of a folder, from its `.slipwayignore` if that file exists.

    Raises:
        ImpossibleError: the file is no regular file in the folder, cannot be read, or is not text.
    """
    try:
        text = read_regular(folder / IGNORE_FILE, MAX_BYTES, within=folder).decode("utf-8-sig")
    except FileNotFoundError:
        return ShippingRules()
    except (OSError, UnusableFileError, UnicodeDecodeError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else problem
        reason = "it is not UTF-8 text" if isinstance(problem, UnicodeDecodeError) else reason
        raise ImpossibleError(
            f"run.workdir: {IGNORE_FILE} cannot be read: {reason}", hint="write it as a text file in run.workdir"
        ) from problem
    return ShippingRules(rules=tuple(parse_rules(text)))


def parse_rules(text: str) -> Iterator[GitIgnoreSpecPattern]:
    r"""The rules of a `.slipwayignore`, in the format of gitignore(5); as in git, an invalid line says nothing.

    >>> [rule.include for rule in parse_rules("# data\n*.bin\n\n!small.bin\n!\n")]
    [True, False]
    """
    for line in text.splitlines():
        try:
            rule = GitIgnoreSpecPattern(_as_git_reads(line))
        except (GitIgnorePatternError, re.error):
            continue
        if rule.include is not None:
            yield rule


def _as_git_reads(line: str) -> str:
    """A line in the form in which pathspec 1.1 matches what git 2.39 matches; the tests compare both."""
    line = line if line.endswith("\\ ") else line.rstrip()
    for name, characters in _POSIX.items():
        line = line.replace(name, characters)
    pattern = line.removeprefix("!")
    if pattern == "/":
        return ""
    if pattern in {"*/", "**/", "/**/"}:  # pathspec stops at the first slash of a path
        return line.replace(pattern, "?*/")
    return f"{line}/*" if pattern.endswith("/**") else line  # `data/**` is what is in data, not data
