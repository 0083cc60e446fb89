"""A run's records as one document, for the store of its job: another computer makes a run folder from it.

The rendered files, the assembly and the copied logs are not part of it: the logs come from the job's cluster, and the
other files stay in the folder of the launch.
"""

import getpass
import re
import socket
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from launcher.agent.shape import read
from launcher.model.errors import ImpossibleError, UnreadableInputError
from launcher.records.codec import Json, as_json
from launcher.records.document import json_object
from launcher.records.run_folder import LATEST, RUNS, RunFolder
from launcher.records.submission import API, CONTEXT, EKS, SANDBOX
from launcher.records.submission import FILE as SUBMISSION

SCHEMA = "slipway.run-copy/1"
PARTS = ("plan.json", "quote.json", SUBMISSION, "report.json", "outputs.json")
ORIGIN = "origin.json"
"""In a run folder made of a copy: who launched the run, on which computer and in which folder."""

_REMOTE = {"ssh", "ssm", "session", EKS, API, SANDBOX}
_NAMES = ("host", "instance", "region", "user", "kind")
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@/-]*")
"""Names that no program takes for an option or for more than one word."""


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


class _Origin(NamedTuple):
    """Who launched a run from where."""

    by: str
    host: str
    folder: str


def copy_of(name: str, folder: RunFolder, now: datetime) -> Json:
    """The records of a run folder, as far as they exist."""
    parts = {part: folder.read_json(part) for part in PARTS if (folder.path / part).is_file()}
    origin = _Origin(by=_user(), host=socket.gethostname(), folder=str(folder.path))
    if (folder.path / ORIGIN).is_file():
        # Whoever cancels a job from another computer has not launched it.
        origin = read(_Origin, folder.read_json(ORIGIN))
    return as_json(RunCopy(name=name, run=folder.path.name, **origin._asdict(), written_at=now, parts=parts))


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
    _refuse_choices(copy)
    return copy


def _refuse_choices(copy: RunCopy) -> None:
    """Refuse a job whose connection another person could have chosen: writers of a store run nothing on its readers.

    Raises:
        ImpossibleError: the connection is a local one or a context of the reader's own, or no plain name.
    """
    node = copy.parts.get(SUBMISSION, {}).get("head_node", {})
    via = node.get("via")
    # The host of an AWS service is its name in words, and no program gets it.
    plain = via == API or all(_PLAIN.fullmatch(str(node[key])) for key in _NAMES if node.get(key) is not None)
    if via == CONTEXT:
        message = f"the job of {copy.name} is in a cluster of the kubeconfig of {copy.host}; no copy of a run chooses a"
        hint = f"on {copy.host}: slipway status {copy.name}; here: kubectl get pods -A, with your own context"
        raise ImpossibleError(f"{message} context here", hint=hint)
    if node and (via not in _REMOTE or not plain):
        message = f"{copy.name} can be reached from the computer of its launch only, {copy.host}"
        raise ImpossibleError(message, hint=f"there: slipway status {copy.name}")


def unpack(copy: RunCopy, root: Path) -> RunFolder:
    """Make, or bring up to date, the run folder of a copy below `root`, and point `latest` to the newest one."""
    path = root / RUNS / copy.name / copy.run
    (path / "logs").mkdir(mode=0o700, parents=True, exist_ok=True)
    folder = RunFolder(path=path)
    for part in PARTS:
        if part in copy.parts:
            folder.write_json(part, copy.parts[part])
    folder.write_json(ORIGIN, _Origin(by=copy.by, host=copy.host, folder=copy.folder)._asdict())
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
