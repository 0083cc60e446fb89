"""The user's recent runs on this computer, so that a run is found by its name from any folder.

One line per run in the user's state folder: the plan's name and the run's folder. The list is a convenience: without
it, a run is found in its own folder as ever.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from launcher.agent import safe_json

FILE = "recent-runs.jsonl"
FOUND = "found"
"""Beside it: the folder of runs that were launched on other computers (workflow/history/run_index.py)."""
MAX_LINES = 1000
"""Lines above which the older half is dropped."""
DEPTH = 3


def state_folder(environment: Mapping[str, str]) -> Path:
    """The folder of the user's state; it may not exist.

    >>> str(state_folder({"HOME": "/home/me"})), str(state_folder({"XDG_STATE_HOME": "/s", "HOME": "/home/me"}))
    ('/home/me/.local/state/slipway', '/s/slipway')
    """
    stated = Path(environment.get("XDG_STATE_HOME", ""))
    home = Path(environment["HOME"]) if environment.get("HOME") else Path.home()
    return (stated if stated.is_absolute() else home / ".local" / "state") / "slipway"


def remember(name: str, folder: Path, environment: Mapping[str, str]) -> None:
    """Add a run to the list. A list that cannot be written stays as it is: the run folder has everything."""
    path = state_folder(environment) / FILE
    with suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _shorten(path)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            line = json.dumps({"name": name, "folder": str(folder.resolve())})
            os.write(descriptor, f"{line}\n".encode(errors="surrogateescape"))
        finally:
            os.close(descriptor)


def root_of(name: str, environment: Mapping[str, str]) -> Path | None:
    """The folder from which the newest remembered run of a plan was launched, if the run's folder still exists."""
    return next((folder.parents[DEPTH] for known, folder in remembered_runs(environment) if known == name), None)


def remembered_runs(environment: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    """The name and the folder of each remembered run whose folder still exists, newest first."""
    # A run of another computer has a line for each command that found it.
    for line in dict.fromkeys(reversed(_lines(state_folder(environment) / FILE))):
        try:
            run = safe_json.loads(line)
        except ValueError:
            # A killed writer left half a line.
            continue
        if not isinstance(run, dict) or not isinstance(run.get("name"), str) or not isinstance(run.get("folder"), str):
            continue
        folder = Path(run["folder"])
        # ROOT/.slipway/runs/NAME/TIME
        if len(folder.parents) > DEPTH and folder.is_dir():
            yield run["name"], folder


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return []


def _shorten(path: Path) -> None:
    lines = _lines(path)
    if len(lines) > MAX_LINES:
        partial = path.with_name(f".{path.name}.{os.getpid()}")
        text = "\n".join(lines[len(lines) // 2 :]) + "\n"
        partial.write_text(text, encoding="utf-8", errors="surrogateescape")
        partial.chmod(0o600)
        partial.replace(path)
