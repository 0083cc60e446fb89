"""A person's approval of one launch, deployment or removal: a file of the user's state folder, used once.

`slipway approve` writes an approval after a question in a terminal. A command that carries it out (`--approval ID`)
takes the file away before it acts, so that an approval is used once even by two commands at the same time.
"""

import json
import os
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import Enum
from pathlib import Path

from launcher.agent import safe_json
from launcher.agent.shape import read
from launcher.catalog.regular_file import read_regular
from launcher.model.errors import ImpossibleError, UnreadableInputError
from launcher.records.codec import as_json
from launcher.records.recent_runs import state_folder
from launcher.records.run_folder import write_whole

SCHEMA = "slipway.approval/1"
FOLDER = "approvals"
ID = re.compile("[0-9a-f]{12}")
MAX_BYTES = 65_536
AGAIN = "a person runs slipway approve in a terminal: FILE --max-usd 500 --for 2h, or NAME --action down"


class Action(Enum):
    """What an approval allows."""

    LAUNCH = "launch"
    DEPLOY = "deploy"
    DOWN = "down"


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """One action that a person allowed.

    `folder` is where the action runs, `file` the plan file or, for a removal, the name of the cluster or endpoint.
    `digest` is that of the quote, `settings` the values over the plan file, `max_usd` the dollars compared with the
    high estimate, `stop_usd` the sum at which the guard in the account ends the nodes. A removal has none of these.
    """

    id: str
    action: Action
    name: str
    folder: str
    file: str
    settings: tuple[str, ...]
    digest: str | None
    sandbox: bool
    region: str | None
    max_usd: Decimal | None
    stop_usd: Decimal | None
    approved_at: datetime
    expires_at: datetime


def new_id() -> str:
    """An unused id."""
    return secrets.token_hex(6)


def write_approval(approval: Approval, environment: Mapping[str, str]) -> None:
    """Keep an approval in the user's state folder, readable by the user alone.

    Raises:
        ImpossibleError: the folder cannot be written.
    """
    path = _path(approval.id, environment)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(path, json.dumps({"schema": SCHEMA, **as_json(approval)}, indent=2) + "\n")
    except OSError as problem:
        hint = "make the folder writable, or set XDG_STATE_HOME to one that is"
        raise ImpossibleError(f"cannot write {path}: {problem.strerror}", hint=hint) from problem


def open_approvals(environment: Mapping[str, str], now: datetime) -> list[Approval]:
    """The approvals that are neither used nor expired, the one that ends first at the top.

    Raises:
        UnreadableInputError: one of the files is damaged.
    """
    folder = state_folder(environment) / FOLDER
    known = [_read(path) for path in folder.glob("*.json") if ID.fullmatch(path.stem)]
    return sorted((approval for approval in known if approval.expires_at > now), key=lambda one: one.expires_at)


def find_approval(given: str, environment: Mapping[str, str], now: datetime) -> Approval:
    """An approval that can be used now.

    Raises:
        UnreadableInputError: the id is none, or its file is damaged.
        ImpossibleError: there is no such approval, or it is used or expired.
    """
    if not ID.fullmatch(given):
        raise UnreadableInputError(
            f"an approval has 12 hexadecimal digits, got {given!r}", hint="slipway approve lists the open approvals"
        )
    path = _path(given, environment)
    if _used_path(path).exists():
        raise ImpossibleError(f"approval {given} is used or was taken back: each is for one action", hint=AGAIN)
    if not path.exists():
        raise ImpossibleError(f"there is no approval {given}", hint=AGAIN)
    approval = _read(path)
    if approval.expires_at <= now:
        raise ImpossibleError(f"approval {given} expired at {approval.expires_at:%Y-%m-%d %H:%M} UTC", hint=AGAIN)
    return approval


def claim(approval: Approval, environment: Mapping[str, str]) -> None:
    """Use an approval up.

    Raises:
        ImpossibleError: another command has used it.
    """
    path = _path(approval.id, environment)
    try:
        # A link fails where it exists; a rename would replace it.
        os.link(path, _used_path(path))
        path.unlink()
    except (FileExistsError, FileNotFoundError) as problem:
        raise ImpossibleError(
            f"approval {approval.id} is used or was taken back: each is for one action", hint=AGAIN
        ) from problem
    except OSError as problem:
        raise ImpossibleError(f"cannot use approval {approval.id}: {problem.strerror}", hint=AGAIN) from problem


def revoke(given: str, environment: Mapping[str, str], now: datetime) -> Approval:
    """Take an open approval back.

    Raises:
        SlipwayError: it is not open.
    """
    approval = find_approval(given, environment, now)
    claim(approval, environment)
    return approval


def _path(given: str, environment: Mapping[str, str]) -> Path:
    return state_folder(environment) / FOLDER / f"{given}.json"


def _used_path(path: Path) -> Path:
    return path.with_suffix(".used")


def _read(path: Path) -> Approval:
    try:
        return read(Approval, safe_json.loads(read_regular(path, MAX_BYTES)), exact=True, whole=True)
    except (OSError, ValueError) as problem:
        raise UnreadableInputError(f"{path} is no approval: {problem}", hint="remove the file") from problem
