"""slipway.cost/1: what exists in an account and what it costs an hour."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from launcher.model.spending import StackCost, hourly
from launcher.records.documents import money


def cost_document(
    as_of: datetime, stacks: Sequence[StackCost], unanswered: Sequence[tuple[str, str]]
) -> dict[str, Any]:
    """Stacks as the contract's JSON; `unanswered` are regions that could not be asked, with the reason."""
    return {
        "schema": "slipway.cost/1",
        "as_of": as_of.isoformat(),
        "usd_per_hour": money(hourly(stacks)),
        "stacks": [_stack(each) for each in stacks],
        "unanswered": [{"region": region, "reason": reason} for region, reason in unanswered],
    }


def _stack(cost: StackCost) -> dict[str, Any]:
    return {
        "name": cost.name,
        "kind": cost.kind,
        "region": cost.region,
        "owner": cost.owner,
        "since": cost.since.isoformat(),
        "usd_per_hour": money(cost.usd_per_hour),
        "usd_so_far": money(cost.usd_so_far),
        "ends_at": cost.ends_at.isoformat() if cost.ends_at is not None else None,
        "down_command": cost.down_command,
        "note": cost.note,
    }
