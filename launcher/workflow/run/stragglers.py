"""The nodes that slow a running job down, from the events of its agents, with dollars of this moment."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from launcher.agent.forecast import CHIPS, STRAGGLER, STRAGGLER_OVER, straggler_usd
from launcher.model.meter import Meter
from launcher.model.money import CENT
from launcher.model.report import Attempt
from launcher.model.straggler import Straggler
from launcher.model.units import HOUR_S
from launcher.planning.start_up import RESTART_H
from launcher.workflow.history.attempts import attempts, unsaved_s


def stragglers(events: Sequence[Mapping[str, Any]], reading: Meter | None, now: datetime) -> tuple[Straggler, ...]:
    """The nodes that the running attempt's agent has named as slow, and not yet as fast again."""
    ran = attempts(events)
    if not ran or ran[-1].ended_at is not None:
        return ()
    slow: dict[str, Mapping[str, Any]] = {}
    for event in events:
        node = str(event.get("slow_node"))
        if event.get("event") == "attempt-started":
            slow.clear()
        elif event.get("event") == STRAGGLER:
            slow[node] = event
        elif event.get("event") == STRAGGLER_OVER:
            slow.pop(node, None)
    lost_s = unsaved_s(events, now)
    rate = _rate(ran[-1], reading)
    return tuple(_straggler(node, event, reading, rate, lost_s) for node, event in slow.items())


def _rate(attempt: Attempt, reading: Meter | None) -> Decimal | None:
    """The growth of the cost with each hour of an attempt, at the rate of its types; None without a quoted total."""
    cost = None if reading is None else reading.quoted.cost
    if cost is None:
        return None
    return cost.an_hour_more + cost.rates.for_types(attempt.instance_types, cost.usd_per_hour) - cost.usd_per_hour


def _straggler(
    node: str, event: Mapping[str, Any], reading: Meter | None, rate: Decimal | None, lost_s: float | None
) -> Straggler:
    left = None if reading is None or reading.left_h is None else reading.left_h.mid
    share = min(1.0, max(0.0, float(event.get("share") or 0.0)))
    again_h = RESTART_H + (lost_s or 0.0) / HOUR_S
    # What the agent said of dollars then is no longer true.
    reason = re.split("; (?:until the end )?this costs ", str(event.get("reason") or ""))[0]
    return Straggler(
        node=node,
        percent=int(event.get("percent") or 0),
        basis=str(event.get("basis") or ""),
        at_most=bool(event.get("at_most", event.get("basis") == CHIPS)),
        reason=reason,
        hours_until_end=None if left is None else left * share,
        usd_until_end=None if left is None or rate is None else straggler_usd(share, left, rate).quantize(CENT),
        usd_per_hour=None if rate is None else straggler_usd(share, 1.0, rate).quantize(CENT),
        replace_hours=again_h,
        replace_usd=None if rate is None else (rate * Decimal(again_h)).quantize(CENT),
    )
