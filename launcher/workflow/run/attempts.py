"""The attempts of a run, read from the events that the agent and the launcher left."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from launcher.model.report import Attempt

ENDINGS = ("completed", "interrupted", "failed", "cancelled")


def read_events(path: Path) -> list[dict[str, Any]]:
    """The events of a file, in order; a last line that is still being written is left out."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return []
    events = []
    for line in lines:
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(event, dict):
            events.append(event)
    return events


@dataclass(frozen=True, slots=True, kw_only=True)
class _Numbered:
    """An attempt with its number."""

    number: int
    attempt: Attempt


def attempts(events: Iterable[Mapping[str, Any]]) -> tuple[Attempt, ...]:
    """The attempts that the events tell of, in order.

    The agent's `attempt-started`, `restored` and ending events make an attempt; `attempt-progress`, which the launcher
    adds while it follows, gives the last step.
    """
    found: list[_Numbered] = []
    for event in events:
        kind = event.get("event")
        if kind == "attempt-started":
            found.append(_Numbered(number=int(event["attempt"]), attempt=_begun(event)))
        elif found and event.get("attempt") == found[-1].number:
            found[-1] = replace(found[-1], attempt=_updated(found[-1].attempt, event))
    return tuple(each.attempt for each in found)


def _begun(event: Mapping[str, Any]) -> Attempt:
    """An attempt that has just started."""
    return Attempt(
        started_at=datetime.fromisoformat(event["time"]),
        ended_at=None,
        exit_code=None,
        ended_by=None,
        resumed_from_step=0,
        last_step=None,
    )


def _updated(attempt: Attempt, event: Mapping[str, Any]) -> Attempt:
    """An attempt with one more event of its own."""
    kind = event.get("event")
    if kind == "restored":
        return replace(attempt, resumed_from_step=int(event["step"]))
    if kind == "attempt-progress":
        return replace(attempt, last_step=int(event["step"]))
    if kind in ENDINGS:
        return replace(
            attempt,
            ended_at=datetime.fromisoformat(event["time"]),
            exit_code=event.get("exit_code"),
            ended_by=event.get("ended_by"),
        )
    return attempt
