"""A plan that `slipway plan -o FILE` saved, to be deployed exactly as saved."""

import json
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from launcher.agent import safe_json
from launcher.agent.shape import read
from launcher.catalog.regular_file import read_regular
from launcher.model.errors import ImpossibleError, UnreadableInputError
from launcher.model.money import UsdRange
from launcher.model.quote import Quote
from launcher.model.record import record
from launcher.plan_file import MAX_BYTES, SAVED
from launcher.records.codec import money
from launcher.records.run_folder import write_whole


@record
class SavedPlan:
    """The facts of a saved plan that a deployment is compared with."""

    name: str
    digest: str
    saved_at: datetime
    # The displayed high estimate, in dollars.
    usd_high: Decimal
    # The dollars with which its stacks were synthesised.
    amounts: Mapping[str, Decimal]
    # The hash of each template of its stacks; empty if the plan has no stacks of its own.
    stacks: Mapping[str, str]


def write_saved(path: Path, saved: SavedPlan, quoted: Quote, plan: Mapping[str, Any], quote: Mapping[str, Any]) -> None:
    """Write a saved plan atomically."""
    usd = quoted.usd
    document = {
        "schema": SAVED,
        "name": saved.name,
        "digest": saved.digest,
        "saved_at": saved.saved_at.isoformat(),
        "usd": None if usd is None else {"low": money(usd.low), "mid": money(usd.mid), "high": money(usd.high)},
        "amounts": {name: money(amount) for name, amount in saved.amounts.items()},
        "stacks": dict(saved.stacks),
        "plan": plan,
        "quote": quote,
    }
    try:
        write_whole(path, json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    except OSError as problem:
        hint = "name a file in a writable folder with free space"
        raise ImpossibleError(f"cannot write {path}: {problem.strerror}", hint=hint) from problem


def refuse_other_file(path: Path) -> None:
    """Refuse to replace a file that is not a saved plan.

    Raises:
        ImpossibleError: the path is a folder, or the file exists, is not empty, and is not a saved plan.
    """
    if path.is_dir():
        raise ImpossibleError(f"cannot write {path}: it is a folder", hint="name a file in it")
    try:
        replaceable = not path.is_file() or not path.stat().st_size or read_saved(path) is not None
    except UnreadableInputError:
        replaceable = True  # a saved plan that is not complete
    if not replaceable:
        hint = "name another file, or remove this one"
        raise ImpossibleError(f"{path} exists and is not a saved plan: it is not replaced", hint=hint)


def read_saved(path: Path) -> SavedPlan | None:
    """The facts of a saved plan for the comparison; None for any other file, such as a plan file.

    Raises:
        UnreadableInputError: the file has the schema of a saved plan, but is invalid.
    """
    try:
        document = safe_json.loads(read_regular(path, MAX_BYTES))
    except (OSError, ValueError):
        # A plan file is YAML; what is wrong with it, or that there is none, its own parser says.
        return None
    if not isinstance(document, dict) or document.get("schema") != SAVED:
        return None
    again = "slipway plan FILE -o SAVED writes a new one"
    try:
        read(UsdRange, document.get("usd"), "usd")
        read(dict[str, Any], document.get("plan"), "plan")
        saved = read(SavedPlan, {**document, "usd_high": document["usd"]["high"]}, whole=True)
    except ValueError as cause:
        raise UnreadableInputError(f"{path} is not a complete saved plan: {cause}", hint=again) from cause
    for name, usd in (("usd.high", saved.usd_high), *saved.amounts.items()):
        if usd < 0:
            raise UnreadableInputError(f"{path} is not a complete saved plan: {name} is below 0", hint=again)
    return saved
