"""Git, asked about folders that may be somebody else's: it reads, and starts no program that such a folder names."""

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

OPTIONS = (
    # A folder that only looks like a repository (HEAD, objects, refs, config) is part of a tree that anybody can push,
    # and its config names programs (CVE-2022-24765's kin; git 2.38 and later know the option).
    *("-c", "safe.bareRepository=explicit"),
    *("-c", "core.fsmonitor=false"),
    *("-c", "core.hooksPath=/dev/null"),
)
PROGRAM = re.compile(rb"filter\..+\.(clean|smudge|process|required)", re.IGNORECASE)
"""The keys of filters, which git runs to compare files with its index. Those of the user's own config, as LFS, stay."""
ENVIRONMENT = {
    "LC_ALL": "C",
    # What a partial clone lacks would be fetched by ssh or by a remote's helper, and asked for with a prompt.
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_PAGER": "cat",
}


def run_git(folder: Path, environment: Mapping[str, str], *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Run git in a folder, without the variables that would point it at another tree or at other settings.

    Raises:
        OSError: git is not installed.
    """
    variables = {name: value for name, value in environment.items() if not name.startswith("GIT_")} | ENVIRONMENT
    listed = _git(folder, variables, "config", "--null", "--show-scope", "--name-only", "--list").stdout.split(b"\0")
    pairs = zip(listed[::2], listed[1::2], strict=False)
    theirs = sorted(
        {key for scope, key in pairs if scope not in {b"system", b"global", b"command"} and PROGRAM.fullmatch(key)}
    )
    settings = {"GIT_CONFIG_COUNT": str(len(theirs))}
    for number, key in enumerate(theirs):
        value = "false" if key.lower().endswith(b"required") else ""
        settings |= {f"GIT_CONFIG_KEY_{number}": os.fsdecode(key), f"GIT_CONFIG_VALUE_{number}": value}
    return _git(folder, variables | settings, *arguments)


def _git(folder: Path, variables: Mapping[str, str], *arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        ["git", *OPTIONS, "-C", str(folder), *arguments],
        env=variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
