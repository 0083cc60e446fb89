"""The dollars of a training candidate: percentiles of one joint distribution, its mean, and what makes it wide."""

import math
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal

from launcher.model.enums import COMMITTED, PREPAID
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
    at_ends,
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
    wall, nodes = charged.wall, candidate.place.nodes
    if candidate.place.option in PREPAID:
        low, high = _totals(candidate, charged, price, (LOW, HIGH))
        mean, more = _prepaid(candidate, charged, price.mid, wall.mean), candidate.overrun
        return low, high, mean if more is None else mean + float(more.usd) - float(more.usd_at(wall.mean))
    times = _times(candidate, charged)
    low_usd, high_usd, mean_usd = [
        _other_usd(candidate, wall_h, start_and_tail_h) for _, wall_h, _, start_and_tail_h in times
    ]
    mean = price.mean * nodes * times[2][2] + mean_usd
    if price.scale:
        low, high = _at_random_price(candidate, charged, price, (low_usd, high_usd), (LOW, HIGH))
        return low, high, mean
    return price.mid * nodes * times[0][2] + low_usd, price.mid * nodes * times[1][2] + high_usd, mean


def _totals(candidate: TrainingCandidate, charged: Charge, price: RandomPrice, chances: Sequence[float]) -> list[float]:
    """The totals not exceeded with these probabilities, in dollars."""
    wall, nodes = charged.wall, candidate.place.nodes
    if candidate.place.option in PREPAID:
        return [_prepaid(candidate, charged, price.mid, wall.at(chance)) for chance in chances]
    if price.scale:
        low_usd, high_usd = [_other_usd(candidate, time[1], time[3]) for time in _times(candidate, charged)[:2]]
        return _at_random_price(candidate, charged, price, (low_usd, high_usd), chances)
    busy = charged.busy
    times = [_time(candidate, charged, busy.at(chance), wall.at(chance)) for chance in chances]
    return [
        price.mid * nodes * billed_h + _other_usd(candidate, wall_h, start_and_tail_h)
        for _, wall_h, billed_h, start_and_tail_h in times
    ]


def _at_random_price(
    candidate: TrainingCandidate,
    charged: Charge,
    price: RandomPrice,
    others_usd: tuple[float, float],
    chances: Sequence[float],
) -> list[float]:
    """The totals not exceeded with these probabilities; `others_usd`: the other lines at the percentiles of the hours.

    They grow with the hours almost evenly.
    """
    nodes, (low, high, _) = candidate.place.nodes, _times(candidate, charged)
    first, last = others_usd
    span = high[0] - low[0]
    slope = (last - first) / span if span > 0.0 else 0.0
    every = [
        (nodes * billed_h, first + slope * (busy_h - low[0])) for busy_h, billed_h in _even_times(candidate, charged)
    ]
    return [total_at(price, every, chance) for chance in chances]


def _times(candidate: TrainingCandidate, charged: Charge) -> tuple[tuple[float, ...], ...]:
    """The times of the job at the 10th and 90th percentile and at the mean, computed once for equal places."""
    known, key = candidate.context.times, (_time_key(candidate, charged), False)
    if key not in known:
        busy, wall = charged.busy, charged.wall
        ends = ((busy.at(LOW), wall.at(LOW)), (busy.at(HIGH), wall.at(HIGH)), (busy.mean, wall.mean))
        known[key] = tuple(_time(candidate, charged, busy_h, wall_h) for busy_h, wall_h in ends)
    return known[key]


def _even_times(candidate: TrainingCandidate, charged: Charge) -> tuple[tuple[float, ...], ...]:
    """Hours from the nodes' boot to the job's end at the ends of cells, and those that an instance is billed for."""
    known, key = candidate.context.times, (_time_key(candidate, charged), True)
    if key not in known:
        place, request = candidate.place, candidate.context.request
        known[key] = tuple(
            (hours, billed_at(place, request, hours, charged)) for hours in at_ends(charged.busy, COARSE)
        )
    return known[key]


def _time_key(candidate: TrainingCandidate, charged: Charge) -> tuple[object, ...]:
    """What the times depend on: a commitment on its years and on the hours that it was bought for."""
    place = candidate.place
    bought = (place.term_years, charged.used_h) if place.option in COMMITTED else None
    return place.target, charged.job, charged.start_h, charged.start, charged.tail_h, charged.tail, bought


def _time(candidate: TrainingCandidate, charged: Charge, busy_h: float, wall_h: float) -> tuple[float, ...]:
    """Busy, wall and billed hours of an instance, and those before and after the job, if the job takes so long."""
    billed_h = billed_at(candidate.place, candidate.context.request, busy_h, charged)
    return busy_h, wall_h, billed_h, max(0.0, min(billed_h, busy_h + charged.tail_h) - wall_h)


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
