"""What of the user's folder never leaves this machine unless the user says so, and how the user says so.

Three sets of rules, the last one that speaks of a file decides: what is plainly made, what is private, and the
folder's own `.slipwayignore`, which is written as a `.gitignore` is. One difference: `!keys/id_rsa` readmits a file
below a folder that is left out, without a line for the folder. What is made and tracked by git is shipped; what is
private is not.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import translate
from pathlib import Path, PurePosixPath

from launcher.model.errors import ImpossibleError

IGNORE_FILE = ".slipwayignore"
"""At the top of `run.workdir`."""
MADE = frozenset(
    (
        *(".DS_Store", ".git", ".hg", ".ipynb_checkpoints", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".slipway"),
        *(".svn", ".tox", ".venv", "__pycache__", "cdk.out", "node_modules"),
    )
)
"""Names that are left out wherever they are, unless git tracks them. A folder with a pyvenv.cfg is left out too."""
PRIVATE = (
    *(".aws", ".azure", ".docker", ".env*", ".git-credentials", ".gnupg", ".huggingface", ".kube", ".netrc", ".npmrc"),
    *(".pgpass", ".pypirc", ".ssh", "_netrc", "id_dsa*", "id_ecdsa*", "id_ed25519*", "id_rsa*"),
    *(".bash_history", ".boto", ".my.cnf", ".python_history", ".s3cfg", ".terraformrc", ".vault-token", ".zsh_history"),
    *("application_default_credentials.json", "client_secret*.json", "credentials.json", "kubeconfig", "rclone.conf"),
    *("terraform.tfstate*", "*.tfstate", "*.tfstate.backup"),
)
"""Names, in any case, that hold credentials as a rule; left out and named wherever they are, tracked or not."""
PRIVATE_WITHIN = {"huggingface": ("token", "stored_tokens")}
"""Names that hold credentials in a folder of another name: the token cache of huggingface_hub, `.cache/huggingface`."""
_PRIVATE_NAME = re.compile("|".join(translate(each) for each in PRIVATE), re.IGNORECASE)
_PRIVATE_KEY = re.compile(
    rb"""(?m)^-----BEGIN[ ][A-Z0-9 ]*PRIVATE[ ]KEY([ ]BLOCK)?-----\s*$|"private_key"\s*:\s*"-----BEGIN[ ]""", re.VERBOSE
)
LOOKED_AT = 1 << 18
"""Bytes at the beginning of a file that are searched for a private key: it is alone, or near the top."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One line of a `.slipwayignore`: what it matches, whether it readmits, whether it speaks of folders alone."""

    pattern: re.Pattern[str]
    readmits: bool
    folders_only: bool


@dataclass(slots=True, kw_only=True)
class ShippingRules:
    """The rules of one folder. `readmits` says whether any line brings something back."""

    rules: tuple[Rule, ...] = ()
    _folders: dict[str, bool | None] = field(default_factory=dict)

    @property
    def readmits(self) -> bool:
        """Whether any rule readmits something."""
        return any(each.readmits for each in self.rules)

    def asked(self, name: str) -> bool | None:
        """What the user's own rules say of a file: True it goes, False it stays, None nothing.

        Args:
            name: the file's path below the folder, with forward slashes.
        """
        index, verdict = -1, None
        parts = PurePosixPath(name).parts
        for depth in range(1, len(parts) + 1):
            path, folder = "/".join(parts[:depth]), depth < len(parts)
            for number, rule in enumerate(self.rules):
                if number >= index and (folder or not rule.folders_only) and rule.pattern.fullmatch(path):
                    index, verdict = number, rule.readmits
        return verdict

    def is_private(self, name: str) -> str | None:
        """The shortest part of a path that is private by its name; None where none is, or the user readmits it."""
        if self.asked(name) is True:
            return None
        parts = PurePosixPath(name).parts
        for depth, part in enumerate(parts, start=1):
            within = PRIVATE_WITHIN.get(parts[depth - 2].lower(), ()) if depth > 1 else ()
            if _PRIVATE_NAME.fullmatch(part) or part.lower() in within:
                return "/".join(parts[:depth])
        return None

    def ships(self, name: str, *, tracked: bool) -> bool:
        """Whether a file goes as far as names tell, private ones aside (see `is_private`)."""
        verdict = self.asked(name)
        if verdict is not None:
            return verdict
        return tracked or not MADE & set(PurePosixPath(name).parts)


def holds_private_key(path: Path) -> bool:
    """Whether a file holds a private key, in PEM or as a service account's JSON."""
    with path.open("rb") as stream:
        return _PRIVATE_KEY.search(stream.read(LOOKED_AT)) is not None


def rules_of(folder: Path) -> ShippingRules:
    """The rules of a folder, with its `.slipwayignore` where it has one.

    Raises:
        ImpossibleError: that file cannot be read, or is not text.
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
    r"""A pattern of gitignore(5) as a regular expression over a whole path.

    >>> bool(re.fullmatch(_expression("*.bin"), "a/b.bin")), bool(re.fullmatch(_expression("/*.bin"), "a/b.bin"))
    (True, False)
    >>> bool(re.fullmatch(_expression("a/**/z"), "a/z")), bool(re.fullmatch(_expression("a/**"), "a"))
    (True, False)
    """
    anchored = "/" in pattern
    segments = pattern.removeprefix("/").split("/")
    found = "" if anchored else "(?:.*/)?"
    for number, segment in enumerate(segments):
        last = number == len(segments) - 1
        if segment == "**":
            found += ".+" if last else "(?:.*/)?"
        else:
            found += _segment(segment) + ("" if last else "/")
    return f"(?s:{found})"


def _segment(segment: str) -> str:
    """One part of a pattern between slashes."""
    found, at = "", 0
    while at < len(segment):
        char = segment[at]
        at += 1
        end = segment.find("]", at + 1) if char == "[" else -1
        if char == "*":
            found += "" if found.endswith("[^/]*") else "[^/]*"
        elif char == "?":
            found += "[^/]"
        elif char == "[" and end > 0:
            inner = segment[at:end].replace("\\", "\\\\").replace("[", "\\[")
            found += f"(?!/)[^{inner[1:]}]" if inner[0] in "!^" and len(inner) > 1 else f"(?!/)[{inner}]"
            at = end + 1
        elif char == "\\" and at < len(segment):
            found += re.escape(segment[at])
            at += 1
        else:
            found += re.escape(char)
    return found
