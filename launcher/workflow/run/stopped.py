"""Whether a run ended because its budget was used up, by the events that it left."""

from collections.abc import Iterable, Mapping
from typing import Any

from launcher.model.report import BudgetStop
from launcher.workflow.run.attempts import ENDINGS

STOPPED = "stopped"
"""The agent's word for that ending."""


def budget_stop(events: Iterable[Mapping[str, Any]]) -> BudgetStop | None:
    """What was spent of what, and what was kept; None where the last attempt goes on or ended otherwise.

    >>> saved, ended = {"event": "checkpoint-uploaded", "step": 40}, {"event": "stopped", "reason": "$9 of $10"}
    >>> budget_stop([saved, ended]).checkpoint_step
    40
    """
    last, step = None, None
    for event in events:
        kind = event.get("event")
        if kind == "attempt-started":
            last = None
        elif kind in ("checkpoint-uploaded", "restored"):
            step = max(int(event["step"]), step or 0)
        elif kind in ENDINGS:
            last = event
    if last is None or last.get("event") != STOPPED:
        return None
    return BudgetStop(reason=str(last.get("reason") or "the sum is used up"), checkpoint_step=step)
