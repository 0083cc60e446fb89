"""The end time and total cost of a job, from the trainer's last lines and the rates of its quote.

The meter that users watch, and the node's own message to users who do not watch, use the same calculation here.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any, NamedTuple

LOW, HIGH = 0.1, 0.9
"""Quantiles of the rates of single stretches: the range of the end if the rest is as fast, or as slow, as these."""
LINES = 100
"""Number of the trainer's last lines from which the rate is calculated."""
HOUR_S = 3600.0
_MAX_FALLEN, _MAX_FALLEN_SHARE = 2, 0.2
"""Lines with a higher step but no more seconds: the first of an attempt may resume behind the last of another."""
STRAGGLER, STRAGGLER_OVER = "straggler", "straggler-over"
"""The events of a node that is slower than the others, and that no longer is."""
WORK, CHIPS = "work", "chips"
"""What nodes are compared by: seconds of work, or the clock of their chips."""
LIMITS = {"budget_usd": "budget.max_usd", "launch_usd": "--max-usd"}
"""The spending limits of a quote, each with its setting; a quote has the lower one."""
RATE = "usd_per_hour"
QUOTED = (RATE, "other_usd", "usd_low", "usd_high", *LIMITS)
"""The known values of a job's quote: cost per hour, other costs (a prepaid fee too), range, spending limit."""
OF_TYPE = f"{RATE}."
"""Before an instance type, the name of the cost per hour of all nodes on it, where EC2 chooses among several types."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A report of the trainer: the step, tokens or samples so far, and seconds since its attempt started to train."""

    step: int
    tokens: float | None
    seconds: float
    samples: float | None = None

    def follows(self, before: "Point") -> bool:
        """Whether it is of the same attempt as the point before: each attempt counts its seconds from zero."""
        return self.seconds > before.seconds and self.step > before.step


class Span(NamedTuple):
    """A number and its range."""

    low: float
    mid: float
    high: float


def point_of(figures: Mapping[str, int | float]) -> Point | None:
    """A line of metrics as a point; None if it has no step or no seconds.

    >>> point_of({"step": 3, "seconds": 4.5, "loss": 2.0})
    Point(step=3, tokens=None, seconds=4.5, samples=None)
    """
    if not {"step", "seconds"} <= figures.keys():
        return None
    return Point(
        step=int(figures["step"]),
        tokens=figures.get("tokens"),
        seconds=float(figures["seconds"]),
        samples=figures.get("samples"),
    )


def stretches(points: Iterable[Point]) -> list[list[Point]]:
    """The points of each attempt, in order; none if the seconds do not count from its start.

    A trainer that reports the seconds of single steps would seem to run a thousand times faster in some stretches.

    >>> [[each.step for each in one] for one in stretches(Point(step=n, tokens=None, seconds=n % 4) for n in (1, 2, 4))]
    [[1, 2], [4]]
    >>> stretches(Point(step=n, tokens=None, seconds=2.0 + n % 2) for n in range(9))
    []
    """
    found: list[list[Point]] = []
    steps = fallen = 0
    for point in points:
        before = found[-1][-1] if found else None
        if before is None or not point.follows(before):
            found.append([])
        if before is not None and point.step > before.step:
            steps, fallen = steps + 1, fallen + (point.seconds <= before.seconds)
        found[-1].append(point)
    return found if fallen <= max(_MAX_FALLEN, _MAX_FALLEN_SHARE * steps) else []


def remaining_hours(points: Sequence[Point], steps: int | None) -> Span | None:
    """Hours until the last step: at the rate of all lines, and at those of their fast and slow stretches.

    >>> remaining_hours([Point(step=each, tokens=None, seconds=each * 36.0) for each in (1, 2, 3)], 103)
    Span(low=1.0, mid=1.0, high=1.0)
    """
    if steps is None or len(points) < 3:  # noqa: PLR2004 - two stretches
        return None
    missing = max(0, steps - points[-1].step)
    pairs = pairwise(points)
    single = sorted((after.seconds - before.seconds) / (after.step - before.step) for before, after in pairs)
    mid = (points[-1].seconds - points[0].seconds) / (points[-1].step - points[0].step)
    fast, slow = (single[round(share * (len(single) - 1))] for share in (LOW, HIGH))
    low, high = min(fast, mid), max(slow, mid)
    return Span(missing * low / HOUR_S, missing * mid / HOUR_S, missing * high / HOUR_S)


def straggler_usd(share: float, hours: float, usd_per_hour: Any) -> Any:
    """The cost of a slow node: the share of the remaining hours in which all nodes wait for it.

    >>> straggler_usd(0.125, 10.0, 80.0)
    100.0
    """
    return type(usd_per_hour)(share * hours) * usd_per_hour


def beyond(usd: Any, *, low: Any, high: Any, limit: tuple[Any, str] | None) -> dict[str, str]:
    """The warnings about a forecast in dollars, by kind: above the limit, or outside the quoted range.

    `limit` has the dollars and the name of its setting.

    >>> beyond(120, low=90, high=130, limit=(100, "--max-usd"))
    {'budget': 'the forecast, $120.00, is above the $100.00 of --max-usd'}
    """
    reasons: dict[str, str] = {}
    if limit is not None and usd > limit[0]:
        reasons["budget"] = f"the forecast, ${usd:,.2f}, is above the ${limit[0]:,.2f} of {limit[1]}"
    if low is not None and high is not None and not low <= usd <= high:
        reasons["quote"] = f"the forecast, ${usd:,.2f}, is outside of the quoted range, ${low:,.2f} to ${high:,.2f}"
    return reasons


def at_types(quoted: Mapping[str, float], types: Sequence[str]) -> dict[str, float]:
    """The values of a quote with the cost per hour on these instance types, one for each node; without types as quoted.

    >>> at_types({"usd_per_hour": 2.0, "usd_per_hour.g6.xlarge": 4.0}, ("g5.xlarge", "g6.xlarge"))["usd_per_hour"]
    3.0
    """
    if RATE not in quoted or not types:
        return dict(quoted)
    rates = [quoted.get(f"{OF_TYPE}{name}", quoted[RATE]) for name in types]
    return {**quoted, RATE: sum(rates) / len(rates)}


def usd_of_earlier(events: Iterable[Mapping[str, Any]], attempt: int, quoted: Mapping[str, float]) -> float | None:
    """The cost of the attempts before one, each at its types' rate, from its first event to its last.

    None if one of them left no event.

    >>> day = "2026-11-20T12:{}:00Z"
    >>> found = [{"attempt": 1, "time": day.format(minute)} for minute in ("00", "15", "30")]
    >>> [usd_of_earlier(found, number, {"usd_per_hour": 8.0}) for number in (2, 1, 3)]
    [4.0, 0.0, None]
    """
    times: dict[int, list[datetime]] = {number: [] for number in range(1, attempt)}
    types: dict[int, Sequence[str]] = {}
    for event in events:
        number, at = event.get("attempt"), event.get("time")
        if number in times and isinstance(at, str):
            times[number].append(datetime.fromisoformat(at.replace("Z", "+00:00")))  # Python 3.10 does not know Z
            types[number] = event.get("instance_types") or types.get(number, ())
    if not all(times.values()):
        return None
    hours = {number: (max(moments) - min(moments)).total_seconds() / HOUR_S for number, moments in times.items()}
    return sum((hours[number] * at_types(quoted, types[number]).get(RATE, 0.0) for number in times), 0.0)
