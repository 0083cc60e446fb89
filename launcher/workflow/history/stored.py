"""The stored checkpoints of a run, from its events."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from launcher.agent.attempt_state import COMMAND_ENDED
from launcher.model.enums import CheckpointMode
from launcher.model.plan import Plan
from launcher.model.report import EndedBy, StoredCheckpoints

_UNSTORED, _UNHANDLED, _LEFT = "no-checkpoint-yet", "signal-not-handled", "files-left"
PROBLEM_EVENTS = ("checkpoints-not-recognised", _UNSTORED, _UNHANDLED)
"""The agent's events about a trainer whose work may be lost; each is reported while the job runs and at its end."""


def asks_for_checkpoints(plan: Plan) -> bool:
    """Whether a plan requests stored checkpoints for its job."""
    return plan.request.workload.train is not None and plan.request.checkpoint.mode is not CheckpointMode.NONE


def stored_checkpoints(events: Iterable[Mapping[str, Any]]) -> StoredCheckpoints:
    """Number and layout of stored checkpoints, and the agent's events about those that were not stored.

    A later checkpoint ends the warning that there is none yet. A later signal to the trainer of the same attempt ends
    the warning that it has no handler. Files that the last attempt left in its checkpoint folder are a problem beside
    stored checkpoints: a final model may be among them. The reason why the last attempt failed is a problem if it is
    more than the exit code of its command. A checkpoint that a later attempt restores from the store counts too if no
    event says that it was uploaded: the event was lost with its node.

    >>> stored_checkpoints([{"event": "checkpoint-uploaded", "step": 5, "layout": "hf"}])
    StoredCheckpoints(count=1, layout='hf', problems=())
    >>> stored_checkpoints(
    ...     [{"event": "no-checkpoint-yet", "reason": "10 s"}, {"event": "checkpoint-uploaded"}]
    ... ).problems
    ()
    >>> stored_checkpoints(
    ...     [{"event": "checkpoint-uploaded"}, {"event": "files-left", "reason": "not stored: a"}]
    ... ).problems
    ('files-left: not stored: a',)
    >>> unhandled = {"event": "signal-not-handled", "attempt": 1, "reason": "no handler"}
    >>> signalled = {"event": "signalled", "processes": [7]}
    >>> [stored_checkpoints([unhandled, {**signalled, "attempt": attempt}]).problems for attempt in (1, 2)]
    [(), ('signal-not-handled: no handler',)]
    >>> stored_checkpoints([{"event": "failed", "ended_by": "time-limit", "reason": "it is over"}]).problems
    ('time-limit: it is over',)
    >>> failed = {"event": "failed", "ended_by": "failure"}
    >>> stored_checkpoints([{**failed, "reason": "the command ended with 1"}]).problems
    ()
    >>> missing = {**failed, "reason": "the command completed, but run.outputs names what does not exist: out"}
    >>> stored_checkpoints([missing]).problems
    ('failure: the command completed, but run.outputs names what does not exist: out',)
    >>> stored_checkpoints([missing, {"event": "attempt-started", "attempt": 2}]).problems
    ()
    >>> restored = {"event": "restored", "source": "store", "step": 9}
    >>> [stored_checkpoints([{"event": "checkpoint-uploaded", "step": step}, restored]).count for step in (8, 9)]
    [2, 1]
    >>> stored_checkpoints([{"event": "nothing-restored"}, restored]).count
    1
    >>> stored_checkpoints([restored, restored]).count  # of an earlier run
    0
    """
    count, layout, left, unhandled = 0, None, "", None
    problems: dict[str, str] = {}
    for event in _with_lost_uploads(events):
        kind = str(event.get("event"))
        if kind == "checkpoint-uploaded":
            count += 1
            layout = event.get("layout") or layout
            problems.pop(_UNSTORED, None)
        elif kind == "checkpoint-written":
            count += 1
            problems.pop(_UNSTORED, None)
        elif kind == "attempt-started":
            left = ""
            problems.pop(EndedBy.FAILURE, None)
        elif kind == "signalled" and event.get("processes") and event.get("attempt") == unhandled:
            problems.pop(_UNHANDLED, None)
        elif kind == _LEFT:
            left = f"{kind}: {event.get('reason')}"
        elif kind in PROBLEM_EVENTS:
            problems[kind] = f"{kind}: {event.get('reason')}"
            unhandled = event.get("attempt") if kind == _UNHANDLED else unhandled
        elif kind == "failed":
            problems |= _failure(event)
    if count and left:
        problems[_LEFT] = left
    return StoredCheckpoints(count=count, layout=layout, problems=tuple(problems.values()))


def _with_lost_uploads(events: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """The events; for a restore from the store of what this run has stored and no event reports, that of the upload."""
    newest: int | None = None
    for event in events:
        kind, step = event.get("event"), event.get("step")
        if kind == "nothing-restored":
            newest = -1 if newest is None else newest
        elif kind in ("checkpoint-uploaded", "restored") and isinstance(step, int):
            if kind == "restored" and event.get("source") == "store" and newest is not None and step > newest:
                yield {**event, "event": "checkpoint-uploaded"}
            newest = max(step, -1 if newest is None else newest)
        yield event


def _failure(event: Mapping[str, Any]) -> dict[str, str]:
    """The reason of a failure that is more than the exit code of the command, by its cause."""
    cause, reason = event.get("ended_by"), str(event.get("reason") or COMMAND_ENDED)
    if cause not in (EndedBy.TIME_LIMIT, EndedBy.FAILURE) or reason.startswith(COMMAND_ENDED):
        return {}
    return {str(cause): f"{cause}: {reason}"}
