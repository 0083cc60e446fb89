"""Warns once if a job will exceed its budget, or cost other than quoted, even if no user watches the job."""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from launcher.agent import safe_json
from launcher.agent.events import FORECAST, EventLog
from launcher.agent.forecast import (
    HOUR_S,
    LIMITS,
    LINES,
    RATE,
    Point,
    beyond,
    point_of,
    remaining_hours,
    stretches,
    usd_of_earlier,
)

HOLDS_S = 600.0
"""A forecast must be out of range for this long: the first steps compile and fill caches."""
_MAX_BYTES = 16 << 20


class Remaining(NamedTuple):
    """The hours until the last step, and the seconds of a step."""

    hours: float
    step_s: float


class ForecastWatch:
    """Forecasts the end of a job and its cost from the trainer's metrics; logs each kind of warning once per job."""

    def __init__(
        self, quoted: Mapping[str, float], log: EventLog, *, earlier_usd: float, reported: Iterable[str], now: float
    ) -> None:
        self._quoted = quoted
        self._log = log
        self._earlier_usd = earlier_usd
        self._reported = set(reported)
        self._begun = now
        self._points: deque[Point] = deque(maxlen=LINES)
        self._steps: int | None = None
        self._since: dict[str, float] = {}

    def lines(self, lines: Iterable[Mapping[str, int | float]], now: float) -> None:
        """Process lines of metrics, and log every forecast that was out of range for long enough."""
        for figures in lines:
            self._steps = int(figures["steps"]) if "steps" in figures else self._steps
            point = point_of(figures)
            if point is None:
                continue
            self._points.append(point)
        usd = self._dollars(now)
        if usd is None:
            return
        quoted = self._quoted
        limit = next(((quoted[key], name) for key, name in LIMITS.items() if key in quoted), None)
        exceeded = beyond(usd, low=quoted.get("usd_low"), high=quoted.get("usd_high"), limit=limit)
        self._since = {kind: self._since.get(kind, now) for kind in exceeded}
        for kind, reason in exceeded.items():
            if kind not in self._reported and now - self._since[kind] >= HOLDS_S:
                self._reported.add(kind)
                self._log.append(FORECAST, kind=kind, reason=reason)

    def remaining(self) -> Remaining | None:
        """The time until the last step; None if the trainer has not reported enough."""
        points = self._attempt_points()
        span = remaining_hours(points, self._steps)
        if span is None:
            return None
        first, last = points[0], points[-1]
        return Remaining(hours=span.mid, step_s=(last.seconds - first.seconds) / (last.step - first.step))

    def _attempt_points(self) -> Sequence[Point]:
        attempts = stretches(self._points)
        return attempts[-1] if attempts else ()

    def _dollars(self, now: float) -> float | None:
        remaining_h, rate = remaining_hours(self._attempt_points(), self._steps), self._quoted.get(RATE)
        if remaining_h is None or rate is None:
            return None
        hours = (now - self._begun) / HOUR_S + remaining_h.mid
        return rate * hours + self._earlier_usd + self._quoted.get("other_usd", 0.0)


def watch(
    quoted: Mapping[str, float] | None, events: Path, log: EventLog, *, attempt: int, now: float
) -> ForecastWatch | None:
    """The watch of an attempt; None if the job has no quote, or if the cost of its earlier attempts is unknown.

    `quoted` has the rate of the attempt's own instance types (`forecast.at_types`).
    """
    if quoted is None:
        return None
    earlier = list(_events(events))
    try:
        earlier_usd = usd_of_earlier(earlier, attempt, quoted)
    except (TypeError, ValueError):  # another process has written the file
        earlier_usd = None
    if earlier_usd is None:
        return None
    reported = [str(event.get("kind")) for event in earlier if event.get("event") == FORECAST]
    return ForecastWatch(quoted, log, earlier_usd=earlier_usd, reported=reported, now=now)


def _events(path: Path) -> Iterable[dict[str, Any]]:
    try:
        with path.open("rb") as file:
            lines = file.read(_MAX_BYTES).splitlines()
    except OSError:
        return
    for line in lines:
        try:
            event = safe_json.loads(line, figures=True)
        except ValueError:
            continue
        if isinstance(event, dict):
            yield event
