"""The dollars of a training candidate: percentiles of one joint distribution, its mean, and what makes it wide."""

import math
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal

from launcher.model.enums import PREPAID
from launcher.model.money import Price, UsdRange
from launcher.model.range_causes import Cause
from launcher.pricing.bill_lines import CENT_FRACTION, JobSize
from launcher.pricing.compute import Charge, billed_at, boot_hours
from launcher.pricing.joint import (
    COARSE,
    HIGH,
    LOW,
    NO_LOSSES,
    RandomPrice,
    Spread,
    total_at,
)
from launcher.pricing.training_candidate import TrainingCandidate


def total_usd(candidate: TrainingCandidate) -> UsdRange | None:
    """The percentiles and the mean of the total; None without a price. The median is the sum of the lines."""
    charged, price, mid = candidate.charge, candidate.offer.price, candidate.usd
    if charged is None or mid is None or not isinstance(price, Price):
        return None
    low, high, mean = _percentiles(candidate, charged, price_of(candidate, price))
    return UsdRange(low=min(mid, _usd(low)), mid=mid, high=max(mid, _usd(high)), mean=_usd(mean))


def outcomes(candidate: TrainingCandidate) -> tuple[float, ...]:
    """Equally likely totals in dollars, the lowest first, from the joint distribution; empty without a price."""
    charged, price = candidate.charge, candidate.offer.price
    if charged is None or candidate.usd is None or not isinstance(price, Price):
        return ()
    chances = [(index + 0.5) / COARSE for index in range(COARSE)]
    return tuple(_totals(candidate, charged, price_of(candidate, price), chances))


def price_of(candidate: TrainingCandidate, price: Price) -> RandomPrice:
    """The distribution of the price of an instance-hour while the job runs."""
    if candidate.hazard is None or candidate.charge is None:
        return RandomPrice(float(price.usd))
    return candidate.random_price(price, candidate.charge.hours)


def _percentiles(candidate: TrainingCandidate, charged: Charge, price: RandomPrice) -> tuple[float, float, float]:
    """The 10th and 90th percentile of the total, and its mean, in dollars."""
    low, high = _totals(candidate, charged, price, (LOW, HIGH))
    wall = charged.wall
    if candidate.place.option in PREPAID:
        mean, more = _prepaid(candidate, charged, price.mid, wall.mean), candidate.overrun
        return low, high, mean if more is None else mean + float(more.usd) - float(more.usd_at(wall.mean))
    billed_h, other = _bill(candidate, charged, charged.busy.mean, wall.mean)
    return low, high, price.mean * candidate.place.nodes * billed_h + other


def _totals(candidate: TrainingCandidate, charged: Charge, price: RandomPrice, chances: Sequence[float]) -> list[float]:
    """The totals not exceeded with these probabilities, in dollars."""
    wall, nodes = charged.wall, candidate.place.nodes
    if candidate.place.option in PREPAID:
        return [_prepaid(candidate, charged, price.mid, wall.at(chance)) for chance in chances]
    busy = charged.busy
    if not price.scale:
        bills = [_bill(candidate, charged, busy.at(chance), wall.at(chance)) for chance in chances]
        return [price.mid * nodes * hours + other for hours, other in bills]
    # The other lines grow with the hours almost evenly.
    ends = [(busy.at(chance), wall.at(chance)) for chance in (LOW, HIGH)]
    first, last = (_bill(candidate, charged, *end)[1] for end in ends)
    span = ends[1][0] - ends[0][0]
    slope = (last - first) / span if span > 0.0 else 0.0
    every = [
        (
            nodes * billed_at(candidate.place, candidate.context.request, hours, charged),
            first + slope * (hours - ends[0][0]),
        )
        for hours in busy.coarse(COARSE)
    ]
    return [total_at(price, every, chance) for chance in chances]


def _bill(candidate: TrainingCandidate, charged: Charge, busy_h: float, wall_h: float) -> tuple[float, float]:
    """Billed hours of an instance and the other costs of a job that takes so long."""
    billed_h = billed_at(candidate.place, candidate.context.request, busy_h, charged)
    start_and_tail_h = max(0.0, min(billed_h, busy_h + charged.tail_h) - wall_h)
    return billed_h, _other_usd(candidate, wall_h, start_and_tail_h)


def _prepaid(candidate: TrainingCandidate, charged: Charge, usd: float, wall_h: float) -> float:
    more = candidate.overrun
    fee = usd * charged.instance_hours
    extra = 0.0 if more is None else float(more.usd_at(wall_h))
    return fee + extra + _other_usd(candidate, wall_h, boot_hours(candidate.place, candidate.work))


def _other_usd(candidate: TrainingCandidate, hours: float, start_and_tail_h: float) -> float:
    """The priced non-compute lines when the job takes `hours`, with `start_and_tail_h` before and after it."""
    losses = candidate.losses_per_h * hours
    size = JobSize(
        hours=hours, checkpoint_interval_s=candidate.interval_s, start_and_tail_h=start_and_tail_h, losses=losses
    )
    return float(candidate.other_costs.total_usd(size))


def range_shares(candidate: TrainingCandidate) -> Mapping[Cause, float]:
    """The share of each factor in the width of the dollars, the largest first; empty for a certain total.

    A factor's width is that of the logarithm of the total between its own 10th and 90th percentile, with the others at
    their middle. Independent factors add by the squares of their widths.
    """
    charged, price = candidate.charge, candidate.offer.price
    if charged is None or not isinstance(price, Price):
        return {}
    random = price_of(candidate, price)
    widths = _widths(candidate, charged, random)
    squares = {cause: width**2 for cause, width in widths.items()}
    whole = sum(squares.values())
    if whole <= 0.0:
        return {}
    shares = sorted(((square / whole, cause) for cause, square in squares.items() if square), reverse=True)
    return {cause: rounded for share, cause in shares if (rounded := round(share, 3))}


def _widths(candidate: TrainingCandidate, charged: Charge, random: RandomPrice) -> dict[Cause, float]:
    job, certain = charged.job, RandomPrice(random.mid)
    if candidate.place.option in PREPAID:
        return {Cause.OVERRUN: _width(candidate, charged, certain)}
    middle = job._replace(
        running=job.running + job.failures.mean + job.interruptions.mean,
        speed=Spread(),
        failures=NO_LOSSES,
        interruptions=NO_LOSSES,
    )
    alone: dict[Cause, Callable[[], float]] = {
        Cause.PRICE: lambda: _width(candidate, charged._replace(job=middle, start=Spread()), random),
        Cause.SPEED: lambda: _width(
            candidate, charged._replace(job=middle._replace(speed=job.speed), start=Spread()), certain
        ),
        Cause.FAILURES: lambda: _lossy(candidate, charged, failures=True),
        Cause.INTERRUPTIONS: lambda: _lossy(candidate, charged, failures=False),
        Cause.START_UP: lambda: _width(candidate, charged._replace(job=middle), certain),
    }
    return {cause: width() for cause, width in alone.items()}


def _lossy(candidate: TrainingCandidate, charged: Charge, *, failures: bool) -> float:
    """The width by failures or by interruptions alone."""
    job = charged.job
    other = job.interruptions if failures else job.failures
    part = job._replace(running=job.running + other.mean, speed=Spread())
    part = part._replace(interruptions=NO_LOSSES) if failures else part._replace(failures=NO_LOSSES)
    return _width(candidate, charged._replace(job=part, start=Spread()), RandomPrice(price_mid(candidate)))


def price_mid(candidate: TrainingCandidate) -> float:
    """The middle price of an instance-hour, in dollars."""
    price = candidate.offer.price
    return float(price.usd) if isinstance(price, Price) else 0.0


def _width(candidate: TrainingCandidate, charged: Charge, price: RandomPrice) -> float:
    low, high, _ = _percentiles(candidate, charged, price)
    return math.log(high / low) if 0.0 < low < high else 0.0


def _usd(value: float) -> Decimal:
    return Decimal(repr(value)).quantize(CENT_FRACTION)
