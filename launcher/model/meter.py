"""The meter of a running job: progress, rate and forecast cost, next to the quote."""

from collections.abc import Callable, Sequence
from dataclasses import field
from datetime import datetime
from decimal import Decimal
from itertools import pairwise
from statistics import median

from launcher.agent.forecast import Point, beyond, remaining_hours
from launcher.model.money import CENT, Range, UsdRange
from launcher.model.record import INTERNAL, record
from launcher.model.run_cost import NO_RATES, RunCost, RunRates, run_cost


@record(described=False)
class Terms:
    """The quote of a run: `usd_per_hour` of all nodes, `hours` of the job, estimated rate and MFU."""

    usd: UsdRange | None
    usd_per_hour: Decimal | None
    hours: Range
    tokens_per_s: Range | None
    mfu: Range | None = field(metadata=INTERNAL)
    interruptions: float | None
    interval_s: float | None = field(metadata=INTERNAL)
    budget_usd: Decimal | None
    # The setting of that limit: the plan's, or the launch's.
    budget_name: str = field(default="budget.max_usd", metadata=INTERNAL)
    rates: RunRates = field(default=NO_RATES, metadata=INTERNAL)

    @property
    def cost(self) -> RunCost | None:
        """The cost of the run as a function of its hours; None without a total."""
        return run_cost(None if self.usd is None else self.usd.mid, self.hours.mid, self.usd_per_hour, self.rates)


@record
class SpotNow:
    """The current spot rate: dollars an hour of all nodes, None if unknown; `note` has the date or the reason."""

    usd_per_hour: Decimal | None
    note: str


@record
class Meter:
    """The state of a job at one moment."""

    # The trainer's reports.
    step: int | None
    steps: int | None
    tokens: int | None
    # The rate of the trainer's last lines, and the resulting MFU.
    tokens_per_s: float | None
    mfu: float | None
    # The time until the last step, from the rates of single intervals; None if the trainer does not report the
    # number of steps.
    left_h: Range | None
    hours: float
    # The cost of start-up and of the hours of all attempts by the quote.
    usd: Decimal | None
    # The cost with the remaining hours, the idle tail, storage, and all prepaid fees.
    forecast: UsdRange | None
    interruptions: int
    # Below 0: late.
    next_checkpoint_s: float | None
    quoted: Terms
    # In the sandbox.
    simulated: bool
    # For a run on spot.
    spot: SpotNow | None = None
    # Its last attempt ended early, and no other has begun.
    waits: bool = False

    @property
    def warnings(self) -> dict[str, str]:
        """Warnings on the forecast, by their kind: above the budget, or outside of the quoted range."""
        projection, quoted = self.forecast, self.quoted
        if projection is None or self.simulated:
            return {}
        low, high = (None, None) if quoted.usd is None else (quoted.usd.low, quoted.usd.high)
        limit = None if quoted.budget_usd is None else (quoted.budget_usd, quoted.budget_name)
        return beyond(projection.mid, low=low, high=high, limit=limit)


def meter(
    points: Sequence[Point],
    steps: int | None,
    quoted: Terms,
    *,
    hours: float,
    interruptions: int,
    saved: Sequence[datetime],
    now: datetime,
    simulated: bool = False,
    types_usd: Decimal = Decimal(0),
    types_usd_per_hour: Decimal = Decimal(0),
) -> Meter:
    """The meter at a moment.

    Args:
        points: the last lines of the running attempt, in order.
        steps: the total number of steps, if the trainer reports it.
        quoted: the quote.
        hours: wall hours of all attempts, the running one included.
        interruptions: interruptions so far.
        saved: times at which each checkpoint of the running attempt was complete in the store, in order.
        now: the current time.
        simulated: the nodes are emulated and cost nothing, so the meter gives no warnings.
        types_usd: what the attempts cost more than at the quoted rate, by their instance types.
        types_usd_per_hour: the same for each further hour.
    """
    rate = _rate(points)
    span = remaining_hours(points, steps)
    remaining = None if span is None else Range(low=span.low, mid=span.mid, high=span.high)
    cost = quoted.cost
    until = None
    # A trainer may save itself, at its own intervals.
    gaps = [(later - earlier).total_seconds() for earlier, later in pairwise(saved)]
    interval_s = median(gaps) if gaps else quoted.interval_s
    if interval_s is not None and saved:
        until = interval_s - (now - saved[-1]).total_seconds()
    mfu = None
    if rate is not None and quoted.mfu is not None and quoted.tokens_per_s is not None:
        mfu = rate * quoted.mfu.mid / quoted.tokens_per_s.mid
    tokens = points[-1].tokens if points else None

    def more(left_h: float) -> Decimal:
        return types_usd + types_usd_per_hour * Decimal(repr(left_h + quoted.rates.tail_h))

    return Meter(
        step=points[-1].step if points else None,
        steps=steps,
        tokens=None if tokens is None else int(tokens),
        tokens_per_s=rate,
        mfu=mfu,
        left_h=remaining,
        hours=hours,
        usd=None if cost is None else (cost.usd_so_far(hours) + types_usd).quantize(CENT),
        forecast=None if cost is None or remaining is None else _forecast(cost, hours, remaining, more),
        interruptions=interruptions,
        next_checkpoint_s=until,
        quoted=quoted,
        simulated=simulated,
    )


def _rate(points: Sequence[Point]) -> float | None:
    """Tokens a second from the first to the last of some lines."""
    counted = [point for point in points if point.tokens is not None]
    if len(counted) < 2 or counted[-1].seconds <= counted[0].seconds:  # noqa: PLR2004 - two make a stretch
        return None
    return ((counted[-1].tokens or 0) - (counted[0].tokens or 0)) / (counted[-1].seconds - counted[0].seconds)


def _forecast(cost: RunCost, hours: float, remaining: Range, more: Callable[[float], Decimal]) -> UsdRange:
    """Dollars at the end, from the hours so far and the remaining hours; `more` is what the types cost more."""
    low, mid, high = (
        (cost.paid_usd(hours + left_h) + more(left_h)).quantize(CENT)
        for left_h in (remaining.low, remaining.mid, remaining.high)
    )
    return UsdRange(low=low, mid=mid, high=high)
