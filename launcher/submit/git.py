"""Git, asked about folders that may be somebody else's: it reads, and starts no program that such a folder names."""

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
    variables = {name: value for name, value in environment.items() if not name.startswith("GIT_")}
    return subprocess.run(
        ["git", *OPTIONS, "-C", str(folder), *arguments],
        env={**variables, **ENVIRONMENT},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
