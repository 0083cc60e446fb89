"""A run's records as one document, for the store of its job: another computer makes a run folder from it.

The rendered files, the assembly and the copied logs are not part of it: the logs come from the job's cluster, and the
other files stay in the folder of the launch.
"""

import getpass
import socket
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from launcher.agent.shape import read
from launcher.model.errors import UnreadableInputError
from launcher.records.codec import Json, as_json
from launcher.records.document import json_object
from launcher.records.run_folder import LATEST, RUNS, RunFolder
from launcher.records.submission import FILE as SUBMISSION

SCHEMA = "slipway.run-copy/1"
PARTS = ("plan.json", "quote.json", SUBMISSION, "report.json", "outputs.json")


@json_object
class RunCopy:
    """A run's records by the name of their file, and who launched it from where."""

    schema: str = SCHEMA
    name: str
    run: str
    by: str
    host: str
    folder: str
    written_at: datetime
    parts: Mapping[str, Any]


def copy_of(name: str, folder: RunFolder, now: datetime) -> Json:
    """The records of a run folder, as far as they exist."""
    parts = {part: folder.read_json(part) for part in PARTS if (folder.path / part).is_file()}
    return as_json(
        RunCopy(
            name=name,
            run=folder.path.name,
            by=_user(),
            host=socket.gethostname(),
            folder=str(folder.path),
            written_at=now,
            parts=parts,
        )
    )


def read_copy(document: Any) -> RunCopy:
    """The copy in a document.

    Raises:
        UnreadableInputError: it is none.
    """
    try:
        copy = read(RunCopy, document)
    except ValueError as problem:
        raise UnreadableInputError(f"the stored run cannot be read: {problem}") from problem
    if copy.schema != SCHEMA:
        raise UnreadableInputError(f"the stored run has the schema {copy.schema!r}, expected {SCHEMA!r}")
    return copy


def unpack(copy: RunCopy, root: Path) -> RunFolder:
    """Make, or bring up to date, the run folder of a copy below `root`, and point `latest` to the newest one."""
    path = root / RUNS / copy.name / copy.run
    (path / "logs").mkdir(mode=0o700, parents=True, exist_ok=True)
    folder = RunFolder(path=path)
    for part in PARTS:
        if part in copy.parts:
            folder.write_json(part, copy.parts[part])
    newest = max(one.name for one in path.parent.iterdir() if one.is_dir() and not one.is_symlink())
    link = path.parent / LATEST
    link.unlink(missing_ok=True)
    link.symlink_to(newest)
    return folder


def _user() -> str:
    """The user's name on this computer; empty if the system has none."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return ""
