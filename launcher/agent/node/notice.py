"""A notice that the node or the job is about to end: its source, and the time of the end."""

import json
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from typing import Any

from launcher.agent import safe_json

SPOT = "spot"
CAPACITY_END = "capacity-end"
SIGNAL = "signal"
TIME_LIMIT = "time-limit"
POD_END = "pod-end"
LOST = "node-lost"
CANCEL = "cancel"
BUDGET = "budget"
FAILURE = "failure"
TAKEN_OVER = "taken-over"
REBALANCE = "rebalance"
SOURCES = (SPOT, CAPACITY_END, SIGNAL, TIME_LIMIT, POD_END, LOST, CANCEL, BUDGET, FAILURE, TAKEN_OVER, REBALANCE)

SPOT_NOTICE_S = 120.0
"""EC2 gives a spot notice two minutes ahead (EC2 User Guide, "Spot Instance interruption notices", read 2026-11-20)."""
_MAX_NUMBER = 1e9
"""Maximum of any number in a notice of another node: seconds, or an exit code."""

_ACTIONS = ("terminate", "stop", "hibernate")


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """A coming end, or a recommendation to prepare for one.

    Attributes:
        source: SPOT (the instance metadata), CAPACITY_END (the block or plan ends), SIGNAL (SIGUSR1, from the scheduler
            ahead of a time limit), TIME_LIMIT (the same by the agent's own clock), POD_END (SIGTERM to a pod, which
            ends after its grace period), LOST (SIGUSR2: another node of the job is gone without notice), CANCEL
            (SIGTERM elsewhere), BUDGET (the guard in the account: the spending limit is reached), FAILURE (the command
            failed on another node), TAKEN_OVER (another agent now writes these checkpoints) or REBALANCE (EC2 advises
            to leave; nothing ends yet).
        detail: The action or the signal, as text.
        at: ISO time at which the node ends, if known.
        left_s: Seconds until then, if known; never more than the two minutes of a spot notice, so that a wrong
            clock does not make the agent wait for a node that is gone.
        node: The other node of the job that sent the notice; None for this node.
        code: With FAILURE: the exit code of the command on that node.
    """

    source: str
    detail: str
    at: str | None = None
    left_s: float | None = None
    node: str | None = None
    code: int | None = None

    @property
    def ends(self) -> bool:
        """Whether the attempt ends."""
        return self.source != REBALANCE

    @property
    def saves(self) -> bool:
        """Whether the agent first requests a save: the command can save, and its checkpoint still counts."""
        return self.source in (SPOT, CAPACITY_END, SIGNAL, TIME_LIMIT, POD_END, LOST, CANCEL, BUDGET)

    def to_json(self) -> str:
        """The JSON text for other nodes."""
        return json.dumps(asdict(self)) + "\n"


def parse_notice(text: str, *, now: datetime) -> Notice:
    """Parse a notice that another node wrote with `Notice.to_json`.

    Args:
        text: The JSON text.
        now: The time, with a zone, to recalculate the time left of a spot notice. If no time is left by this clock,
            or more than the other node had, the clock is wrong, and the other node's value applies.

    Raises:
        ValueError: the text is not a notice.
    """
    document = safe_json.loads(text)
    if not isinstance(document, dict) or document.get("source") not in SOURCES:
        raise ValueError(f"got {text[:200]!r}; a notice has a source, one of {', '.join(SOURCES)}")
    try:
        notice = Notice(**document)
    except TypeError as error:
        raise ValueError(f"not a notice: {error}") from error
    texts: list[Any] = [notice.detail, notice.at, notice.node]
    numbers: list[Any] = [notice.left_s, notice.code]
    if any(text is not None and not isinstance(text, str) for text in texts) or any(
        number is not None and (type(number) not in (int, float) or not abs(number) < _MAX_NUMBER) for number in numbers
    ):
        raise ValueError(f"got {text[:200]!r}; a value of the notice has the wrong type")
    left_s = notice.left_s
    if notice.source == SPOT:
        notice_s = SPOT_NOTICE_S if left_s is None else min(SPOT_NOTICE_S, max(0.0, left_s))
        left_s = _left_s(notice.at, now)
        left_s = left_s if 0 < left_s <= notice_s else notice_s
    return Notice(**{**asdict(notice), "left_s": left_s})


def spot_notice(body: str, *, now: datetime) -> Notice:
    """The notice in the response of `/latest/meta-data/spot/instance-action`.

    `body` is like `{"action": "terminate", "time": "2026-11-20T14:10:00Z"}`; `now` has a zone.

    Raises:
        ValueError: the body is not a notice.

    >>> notice = spot_notice(
    ...     '{"action": "stop", "time": "2026-11-20T14:10:00Z"}', now=datetime(2026, 11, 20, 14, 9, tzinfo=timezone.utc)
    ... )
    >>> notice.source, notice.detail, notice.left_s
    ('spot', 'stop', 60.0)
    """
    document = _mapping(body, "an action")
    if document.get("action") not in _ACTIONS:
        raise ValueError(f"got {body[:200]!r}; a notice has an action, one of {', '.join(_ACTIONS)}")
    text = document.get("time")
    at = text if isinstance(text, str) and _time(text) is not None else None
    return Notice(source=SPOT, detail=str(document["action"]), at=at, left_s=_left_s(at, now))


def rebalance_notice(body: str) -> Notice:
    """The recommendation in the response of `/latest/meta-data/events/recommendations/rebalance`.

    `body` is like `{"noticeTime": "2026-11-20T14:08:00Z"}`.

    >>> rebalance_notice('{"noticeTime": "2026-11-20T14:08:00Z"}').detail
    'recommended at 2026-11-20T14:08:00Z'
    """
    document = _mapping(body, "a noticeTime")
    if not document.get("noticeTime"):
        raise ValueError(f"got {body[:200]!r}; a recommendation has a noticeTime")
    return Notice(source=REBALANCE, detail=f"recommended at {document['noticeTime']}")


def _mapping(body: str, where: str) -> dict[str, Any]:
    document = safe_json.loads(body)
    if not isinstance(document, dict):
        raise ValueError(f"got {body[:200]!r}; it must be a mapping with {where}")  # noqa: TRY004  the text is wrong
    return document


def _time(text: str) -> datetime | None:
    try:
        return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc)
    except ValueError:
        return None


def _left_s(at: str | None, now: datetime) -> float:
    """Seconds until a spot interruption; two minutes if its time is unknown."""
    moment = _time(at) if at is not None else None
    if moment is None:
        return SPOT_NOTICE_S
    return round(min(SPOT_NOTICE_S, max(0.0, (moment - now).total_seconds())), 1)
