"""That the node or the job is about to end: what said so, and when it ends."""

import json
from dataclasses import dataclass
from datetime import datetime, timezone

SPOT = "spot"
SIGNAL = "signal"
CANCEL = "cancel"

SPOT_NOTICE_S = 120.0
"""EC2 gives a spot notice two minutes ahead (EC2 User Guide, "Spot Instance interruption notices", read 2026-11-20)."""

_ACTIONS = ("terminate", "stop", "hibernate")


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """An interruption to come.

    Attributes:
        source: SPOT (the instance metadata), SIGNAL (SIGUSR1, from the scheduler ahead of a time limit) or CANCEL
            (SIGTERM).
        detail: In words: the action, or the signal.
        at: ISO time at which the node goes, if it is known.
        left_s: Seconds until then, if it is known; never more than the two minutes of a spot notice, so that a wrong
            clock does not make the agent wait for a node that is gone.
    """

    source: str
    detail: str
    at: str | None = None
    left_s: float | None = None


def spot_notice(body: str, *, now: datetime) -> Notice:
    """The notice in the answer of `/latest/meta-data/spot/instance-action`.

    Args:
        body: `{"action": "terminate", "time": "2026-11-20T14:10:00Z"}`.
        now: The time, with a zone.

    Raises:
        ValueError: It is not a notice.

    >>> spot_notice(
    ...     '{"action": "stop", "time": "2026-11-20T14:10:00Z"}', now=datetime(2026, 11, 20, 14, 9, tzinfo=timezone.utc)
    ... )
    Notice(source='spot', detail='stop', at='2026-11-20T14:10:00Z', left_s=60.0)
    """
    document = json.loads(body)
    if not isinstance(document, dict) or document.get("action") not in _ACTIONS:
        raise ValueError(f"got {body[:200]!r}; a notice has an action, one of {', '.join(_ACTIONS)}")
    action, text = str(document["action"]), document.get("time")
    try:
        at = datetime.strptime(str(text), "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc)
    except ValueError:
        return Notice(source=SPOT, detail=action, left_s=SPOT_NOTICE_S)
    left_s = round(min(SPOT_NOTICE_S, max(0.0, (at - now).total_seconds())), 1)
    return Notice(source=SPOT, detail=action, at=str(text), left_s=left_s)
