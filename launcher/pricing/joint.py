"""One joint distribution of hours and dollars: its 10th, 50th and 90th percentile, without random numbers.

A job's wall hours are its hours at the middle speed times a speed factor, plus what failures and interruptions lose.
The speed factor is lognormal on either side of its median. A job loses hours by a number of events, Poisson's or, where
events repeat work, a negative binomial one; it grows with the job's length. The price of an instance-hour is
independent of the hours.

Losses that are small beside the speed's spread count by their mean and variance, in a closed form. Else the
distribution is a sum of blocks: for each part of the speed, each number of events. `benchmarks/joint_simulation.py`
plays the same model event by event with separate code.
"""

import math
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import chain
from operator import itemgetter
from typing import NamedTuple, TypeAlias

from launcher.pricing.normal import (
    FARTHEST,
    ROOT_OF_TWO,
    ROOT_OF_TWO_PI,
    Z_OF_THE_ENDS,
    normal_below,
    normal_quantile,
    root,
)
from launcher.pricing.segments import MAX_EXPONENT

LOW, MIDDLE, HIGH = 0.1, 0.5, 0.9
COARSE = 24
"""Equally likely points of a distribution, and cells of the hours that are multiplied with a price."""
CELLS, FEW_CELLS, REACH = 28, 12, 3.5
"""Cells of a normal variable, those of the narrower one of two, and standard deviations to the middle of the last."""
WIDE = 1.0
"""The spread that doubles the number of cells, in logarithms from the median to the 90th percentile."""
MINOR, MINOR_START, MINOR_SKEW = 0.25, 0.5, 0.004
"""Losses, and start-up hours, whose standard deviation is at most this share of that of the hours by speed alone count
by their mean and variance; losses only if their third moment is as small beside the hours' median and variance."""
FINEST, FINE, START_FINE = 0.01, 0.1, 0.04
"""Blocks of a smaller probability are merged: of losses alone, of losses at one speed, of hours before a start-up."""
RARE, LEAST_CHANCE = 0.002, 1e-4
"""Losses of which fewer are expected count by their mean alone; the chance of more events that is left out."""
NUMBER_REACH, MOST_LOAD = 5.0, 300.0
"""Standard deviations of the number of events that count, and the most events expected in one repeated part."""
THINNEST, SMALLEST = 1e-6, 1e-300
"""Half the width of a block, relative, below which it is a single value; the least dollars with a logarithm."""
_ENDS = {LOW: -Z_OF_THE_ENDS, HIGH: Z_OF_THE_ENDS}
STEP, EDGE = 0.03, 2.5
"""The precision of widths for a median of a product, and the farthest floor and ceiling of a price that count there, in
standard deviations."""
PRECISION = 1e-5
"""Of the chance of a total, relative."""
STEPS = 20
"""Steps in one such standard deviation."""
LOWEST_SHIFT = -0.15
"""A lower difference of the medians is not looked for: only a price at its ceiling with hours from a fourth to four
times the middle would have one."""


class Spread(NamedTuple):
    """A factor with the median 1: the logarithms of its distance down to the 10th and up to the 90th percentile."""

    down: float = 0.0
    up: float = 0.0

    def at(self, z: float) -> float:
        """The factor at so many standard deviations of a normal variable."""
        return math.exp((self.down if z < 0.0 else self.up) / Z_OF_THE_ENDS * z)

    @property
    def mean(self) -> float:
        """The expectation."""
        down, up = self.down / Z_OF_THE_ENDS, self.up / Z_OF_THE_ENDS
        return math.exp(up * up / 2) * normal_below(up) + math.exp(down * down / 2) * normal_below(-down)


def spread_of(low: float, mid: float, high: float) -> Spread:
    """The spread of a quantity with these percentiles; none around 0."""
    if not 0.0 < low <= mid <= high:
        return Spread()
    return Spread(math.log(mid / low), math.log(high / mid))


class Losses(NamedTuple):
    """Events that cost a job hours while it runs."""

    # Expected, without those in repeated work.
    events: float = 0.0
    # Hours that one event costs: on average, the variance, at the least.
    one: float = 0.0
    variance_of_one: float = 0.0
    least: float = 0.0
    # The parts of the job between its checkpoints; a shorter job than one part loses less at an event.
    parts: float = math.inf
    # Parts are repeated until one passes without an event, so further events come meanwhile.
    repeated: bool = False

    def times(self, share: float) -> "Losses":
        """The losses of a job of another length."""
        _, one, variance, least, parts, repeated = self
        shorter = min(1.0, parts * share) / min(1.0, parts) if self.events else 1.0
        if shorter != 1.0:
            one, variance = least + (one - least) * shorter, variance * shorter**2
        return Losses(self.events * share, one, variance, least, parts * share, repeated)

    @property
    def load(self) -> float:
        """Events expected while one part runs once; 0 if none is repeated."""
        return min(self.events / max(1.0, self.parts), MAX_EXPONENT) if self.repeated else 0.0

    @property
    def expected_events(self) -> float:
        """Events expected, those in repeated work included."""
        load = self.load
        return self.events * math.expm1(load) / load if load else self.events

    @property
    def mean(self) -> float:
        """The hours lost."""
        return self.expected_events * self.one

    @property
    def variance(self) -> float:
        """The variance of the hours lost."""
        return self.expected_events * (self.variance_of_one + self.one**2 * math.exp(self.load))

    def moments(self, rate: Spread) -> tuple[float, float]:
        """Mean and variance of the hours lost at a rate of events that is known up to a factor."""
        mean, variance = self.mean, self.variance
        if rate == (0.0, 0.0) or not mean:
            return mean, variance
        first, second = rate.mean, Spread(2.0 * rate.down, 2.0 * rate.up).mean
        return mean * first, variance * first + mean**2 * max(0.0, second - first * first)


NO_LOSSES = Losses()

Block: TypeAlias = tuple[float, float, float]
"""A part of a distribution: its probability, its mean, and half of the width over which it spreads evenly."""
NOTHING: list[Block] = [(1.0, 0.0, 0.0)]


@lru_cache(maxsize=32)
def cells(count: int) -> tuple[tuple[float, float, float], ...]:
    """Cells of a normal variable: probability and both ends; the outer ones hold the tails."""
    width = 2.0 * REACH / (count - 1)
    ends = [(index - count / 2) * width for index in range(count + 1)]
    below = [0.0, *(normal_below(end) for end in ends[1:-1]), 1.0]
    return tuple((below[index + 1] - below[index], ends[index], ends[index + 1]) for index in range(count))


def finer(count: int, spread: Spread) -> int:
    """So many cells for a usual spread, and more for a wide one."""
    return count * (1 + int(max(spread) / WIDE))


def spread_blocks(mid: float, spread: Spread, count: int) -> list[Block]:
    """A lognormal distribution around its median."""
    if spread == (0.0, 0.0):
        return [(1.0, mid, 0.0)]
    parts = cells(finer(count, spread))
    ends = ((weight, mid * spread.at(low), mid * spread.at(high)) for weight, low, high in parts)
    return [(weight, (low + high) / 2.0, (high - low) / 2.0) for weight, low, high in ends]


def added(one: list[Block], two: list[Block]) -> list[Block]:
    """The sum of two independent variables."""
    hypot = math.hypot
    return [
        (weight * other_weight, mean + other_mean, hypot(half, other_half))
        for weight, mean, half in one
        for other_weight, other_mean, other_half in two
    ]


def merged(blocks: list[Block], least: float) -> list[Block]:
    """Neighbours with a probability below `least` as one block with their mean and variance."""
    blocks.sort(key=itemgetter(1))
    result: list[Block] = []
    total = first = second = 0.0
    last = len(blocks) - 1
    for index, block in enumerate(blocks):
        weight, mean, half = block
        if not total and (weight >= least or index == last):
            result.append(block)
            continue
        total += weight
        first += weight * mean
        second += weight * (mean * mean + half * half / 3.0)
        if total >= least or index == last:
            middle = first / total
            square = 3.0 * (second / total - middle * middle)
            result.append((total, middle, math.sqrt(square) if square > 0.0 else 0.0))
            total = first = second = 0.0
    return result


def lost_blocks(losses: Losses, rate: Spread, count: int, least: float) -> list[Block]:
    """The hours lost: a sum over the number of events.

    Args:
        losses: of a job of one length.
        rate: the spread of their rate, in `count` cells.
        count: of these cells, and half of the numbers of events that are added up one by one.
        least: a block of a smaller probability is merged with the next.
    """
    if not losses.events:
        return NOTHING
    one, square = losses.one, 3.0 * losses.variance_of_one
    if rate == (0.0, 0.0):
        numbers = _numbers(losses.events, losses.load, 2 * count)
    else:
        chances: dict[tuple[float, float], float] = {}
        for weight, factor, _ in spread_blocks(1.0, rate, count):
            for chance, number, about in _numbers(losses.events * factor, losses.load * factor, 2 * count):
                chances[number, about] = chances.get((number, about), 0.0) + weight * chance
        numbers = [(chance, *number) for number, chance in chances.items()]
    sqrt = math.sqrt
    blocks = [
        (chance, number * one, sqrt((about * one) ** 2 + number * square if about else number * square))
        for chance, number, about in numbers
    ]
    return merged(blocks, least)


def _numbers(events: float, load: float, most: int) -> list[Block]:
    """Likely numbers of events: Poisson's, or negative binomial under a load; more than `most` of them in steps."""
    load = min(load, MOST_LOAD)
    parts = events / load if load else 0.0
    mean = parts * math.expm1(load) if load else events
    reach = NUMBER_REACH * math.sqrt(mean * math.exp(load))
    first, last = max(0, int(mean - reach)), int(mean + reach) + 2
    if last < most and not first:
        chance, rest, missed, found = math.exp(-events), 1.0, -math.expm1(-load), []
        for number in range(last + 1):
            found.append((chance, float(number), 0.0))
            rest -= chance
            if rest < LEAST_CHANCE:
                break
            chance *= (missed * (number + parts) if load else events) / (number + 1)
        return found
    step = 1 + (last - first) // most
    lgamma, each = math.lgamma, math.log(-math.expm1(-load)) if load else math.log(events)
    start = -lgamma(parts) - events if load else -events
    numbers = [number + (step - 1) / 2 for number in range(first, last + 1, step)]
    chances = [
        math.exp(start + number * each - lgamma(number + 1) + (lgamma(number + parts) if load else 0.0))
        for number in numbers
    ]
    total, about = sum(chances), step / 2 if step > 1 else 0.0
    return [(chance / total, number, about) for chance, number in zip(chances, numbers, strict=True)]


class Points:
    """A distribution made of blocks: the chance of at most a value lies on straight lines between points."""

    __slots__ = ("_blocks", "_reached", "_values", "mean")

    def __init__(self, blocks: list[Block], mean: float) -> None:
        """`blocks` have probabilities that add up to 1."""
        # Arrays: lists of floats take several times the memory.
        self._blocks, self.mean = array("d", chain.from_iterable(blocks)), mean
        changes: list[tuple[float, float, float]] = []
        for weight, middle, half in blocks:
            if half > middle * THINNEST:
                density = weight / (2.0 * half)
                changes += ((middle - half, density, 0.0), (middle + half, -density, 0.0))
            else:
                changes.append((middle, 0.0, weight))
        changes.sort()
        values, reached = array("d"), array("d")
        self._values, self._reached = values, reached
        last, density, total = changes[0][0], 0.0, 0.0
        for value, more, jump in changes:
            total += density * (value - last)
            values.append(value)
            reached.append(total)
            if jump:
                # The line up to a value that is likely as such ends at its lower chance.
                total += jump
                values.append(value)
                reached.append(total)
            density += more
            last = value

    @property
    def blocks(self) -> list[Block]:
        """The blocks."""
        numbers = iter(self._blocks)
        return list(zip(numbers, numbers, numbers, strict=True))

    def at(self, probability: float) -> float:
        """The value not exceeded with this probability."""
        values, reached = self._values, self._reached
        index = bisect_left(reached, probability)
        if index == 0:
            return values[0]
        if index == len(values):
            return values[-1]
        before, after = reached[index - 1], reached[index]
        share = (probability - before) / (after - before) if after > before else 1.0
        return values[index - 1] + share * (values[index] - values[index - 1])

    def chance_above(self, limit: float) -> float:
        """The probability of a higher value."""
        values, reached = self._values, self._reached
        index = bisect_right(values, limit)
        if index == 0:
            return 1.0
        if index == len(values):
            return 0.0
        share = (limit - values[index - 1]) / (values[index] - values[index - 1])
        return 1.0 - (reached[index - 1] + share * (reached[index] - reached[index - 1]))

    def coarse(self, count: int) -> list[float]:
        """So many values of equal probability."""
        return [self.at((index + 0.5) / count) for index in range(count)]


@lru_cache(maxsize=256)
def normal_points(count: int) -> tuple[float, ...]:
    """The medians of equally likely parts of a normal distribution."""
    return tuple(normal_quantile((index + 0.5) / count) for index in range(count))


class Smooth:
    """A distribution without atoms: lognormal on either side of its median, with the mean of the exact distribution."""

    __slots__ = ("mean", "mid", "spread")

    def __init__(self, mid: float, spread: Spread, mean: float) -> None:
        """The median, the spread around it, and the mean."""
        self.mid, self.spread, self.mean = mid, spread, mean

    def at(self, probability: float) -> float:
        """The value not exceeded with this probability."""
        if probability == MIDDLE:
            return self.mid
        z = _ENDS.get(probability)
        return self.mid * self.spread.at(normal_quantile(probability) if z is None else z)

    def chance_above(self, limit: float) -> float:
        """The probability of a higher value."""
        if limit <= 0.0:
            return 1.0
        width = self.spread.up if limit >= self.mid else self.spread.down
        if not width:
            return 1.0 if limit < self.mid else 0.0
        return normal_below(math.log(self.mid / limit) * Z_OF_THE_ENDS / width)

    def coarse(self, count: int) -> list[float]:
        """So many values of equal probability."""
        return [self.mid * self.spread.at(z) for z in normal_points(count)]


Outcomes: TypeAlias = Smooth | Points
"""A distribution of hours."""


class JobHours(NamedTuple):
    """What a job's hours depend on: running hours at the middle speed, the speed's spread, the losses at that speed.

    The rates of failures and interruptions are known up to factors.
    """

    running: float
    speed: Spread = Spread()
    failures: Losses = NO_LOSSES
    interruptions: Losses = NO_LOSSES
    failure_rate: Spread = Spread()
    interruption_rate: Spread = Spread()


@lru_cache(maxsize=2048)
def wall_hours(job: JobHours) -> Outcomes:
    """The distribution of a job's wall hours."""
    running, speed = job.running, job.speed
    kinds = (job.failures, job.failure_rate), (job.interruptions, job.interruption_rate)
    mid, variance, third, likely = running, 0.0, 0.0, []
    for losses, rate in kinds:
        if losses.events:
            lost_h, square = losses.moments(rate)
            mid += lost_h
            if lost_h > RARE * losses.one:
                variance += square
                third += square * losses.one
                likely.append((losses, rate))
    mean, by_speed = mid * speed.mean, (min(speed) / Z_OF_THE_ENDS * mid) ** 2
    if variance <= MINOR**2 * by_speed and third <= MINOR_SKEW * mid * by_speed:
        return _widen(mid, speed, variance, mean)
    count, least = (CELLS, FINEST) if speed == (0.0, 0.0) else (FEW_CELLS, FINE)
    blocks: list[Block] = []
    for weight, factor, half in spread_blocks(1.0, speed, CELLS):
        lost = NOTHING
        for losses, rate in likely:
            kind = lost_blocks(losses.times(factor), rate, count, least)
            lost = kind if lost is NOTHING else merged(added(lost, kind), least)
        blocks += added([(weight, running * factor, running * half)], lost)
    return Points(blocks, mean)


def _widen(mid: float, spread: Spread, variance: float, mean: float) -> Smooth:
    """A lognormal distribution plus a minor part of which only the variance matters; `mid` has the minor part's mean.

    An independent part moves the median of a lognormal variable by half of its variance over the median (the quantile's
    expansion to the second order), and widens it by the root of the sum of the squares.
    """
    if not variance or mid <= 0.0:
        return Smooth(mid, spread, mean)
    relative = variance / (mid * mid)
    more = relative * Z_OF_THE_ENDS**2
    wider = Spread(math.sqrt(spread.down**2 + more), math.sqrt(spread.up**2 + more))
    return Smooth(mid * (1.0 + relative / 2.0), wider, mean)


def add_start(hours: Outcomes, start_h: float, spread: Spread) -> Outcomes:
    """Hours with independent hours of a lognormal start-up before them."""
    mean_h = start_h * spread.mean
    mean, width = hours.mean + mean_h, max(spread) / Z_OF_THE_ENDS
    variance = mean_h * mean_h * math.expm1(width * width)
    smooth = hours
    if isinstance(hours, Points) and hours.blocks[0][2]:
        # With a start-up added, the losses' own shape no longer matters.
        smooth = Smooth(hours.at(MIDDLE), spread_of(*(hours.at(chance) for chance in (LOW, MIDDLE, HIGH))), hours.mean)
    if isinstance(smooth, Smooth):
        # The spread around the low end, of which the start-up is the largest part.
        least = min(smooth.spread) / Z_OF_THE_ENDS * smooth.at(LOW)
        if variance <= (MINOR_START * least) ** 2:
            # The hours' own spread, in hours, is the same over the longer whole.
            mid = smooth.mid + mean_h
            ends = (smooth.at(LOW) + mean_h, smooth.at(HIGH) + mean_h)
            return _widen(mid, spread_of(ends[0], mid, ends[1]), variance, mean)
    # The wider of the two decides the tails, and has more parts.
    wider = start_h * (spread.at(Z_OF_THE_ENDS) - spread.at(-Z_OF_THE_ENDS)) > hours.at(HIGH) - hours.at(LOW)
    of_hours, of_start = (FEW_CELLS, CELLS) if wider else (CELLS, FEW_CELLS)
    if isinstance(hours, Smooth):
        blocks = spread_blocks(hours.mid, hours.spread, of_hours)
    else:
        blocks = merged(hours.blocks, START_FINE)
    return Points(added(blocks, spread_blocks(start_h, spread, of_start)), mean)


class RandomPrice(NamedTuple):
    """A lognormal price between a floor and a ceiling: dollars, and the scale of its logarithm."""

    mid: float
    scale: float = 0.0
    floor: float = 0.0
    ceiling: float = math.inf

    def at(self, probability: float) -> float:
        """The price not exceeded with this probability."""
        if not self.scale:
            return self.mid
        return self.within(self.mid * math.exp(self.scale * normal_quantile(probability)))

    def within(self, usd: float) -> float:
        """The nearest possible price."""
        return min(max(usd, self.floor), self.ceiling)

    @property
    def mean(self) -> float:
        """The expectation, by points."""
        if not self.scale:
            return self.mid
        points = normal_points(COARSE)
        return sum(self.within(self.mid * math.exp(self.scale * z)) for z in points) / len(points)


def total_at(price: RandomPrice, bills: Sequence[tuple[float, float]], probability: float) -> float:
    """A percentile of price x hours + other costs; in each cell the hours spread evenly in logarithms.

    Args:
        price: the price of an instance-hour, independent of the bills.
        bills: pairs of instance-hours and the other costs of that outcome, in dollars, at the ends of all `cells`.
        probability: of a total at or under the percentile.
    """
    lowest, highest = price.at(0.001), price.at(0.999)
    least = min([lowest * hours + other for hours, other in bills])
    most = max([highest * hours + other for hours, other in bills])
    return root(_excess(price, bills, probability), least, most, precision=PRECISION)


def _excess(price: RandomPrice, bills: Sequence[tuple[float, float]], probability: float) -> Callable[[float], float]:
    """How far the chance of at most a total exceeds a probability, as a share of it, by the total.

    The chance of at most a price, summed over its logarithm in `scale` up to z, is a line above the ceiling.
    """
    weights = [1.0, *(weight for weight, _, _ in cells(len(bills) - 1))]
    scale, log, erfc, exp = price.scale, math.log, math.erfc, math.exp
    root_of_two, root_of_two_pi = ROOT_OF_TWO, ROOT_OF_TWO_PI
    ends = (price.floor, -math.inf), (price.ceiling, math.inf)
    least, most = (log(end / price.mid) / scale if 0.0 < end < math.inf else far for end, far in ends)
    first, last = (
        z * 0.5 * erfc(-z / root_of_two) + exp(-z * z / 2.0) / root_of_two_pi
        for z in (max(least, -FARTHEST), min(most, FARTHEST))
    )
    between = last - first
    parts = [
        (weight, other, log(max(hours * price.mid, SMALLEST)))
        for weight, (hours, other) in zip(weights, bills, strict=True)
    ]

    def excess(usd: float) -> float:
        # One loop without calls of Python: it runs for each of the totals that the search for a percentile tries.
        reached, before, sum_before = 0.0, math.inf, 0.0
        for weight, other, middle in parts:
            rest = usd - other
            z = (log(rest) - middle) / scale if rest > 0.0 else -FARTHEST
            if z > before - THINNEST:  # noqa: PLR1730 - min takes several times as long
                z = before - THINNEST
            if z <= least:
                # So is that of all that follow: they add nothing.
                reached += weight * sum_before / (before - z)
                break
            if z >= most:
                summed = between + z - most
            else:
                summed = z * 0.5 * erfc(-z / root_of_two) + exp(-z * z / 2.0) / root_of_two_pi - first
            reached += weight * (sum_before - summed) / (before - z)
            before, sum_before = z, summed
        return reached / probability - 1.0

    return excess


def at_ends(hours: Outcomes, count: int) -> list[float]:
    """The hours at the ends of cells, so many if their spread is a usual one."""
    parts = cells(finer(count, spread_of(*(hours.at(chance) for chance in (LOW, MIDDLE, HIGH)))))
    return [hours.at(normal_below(end)) for end in (parts[0][1], *(high for _, _, high in parts))]


@lru_cache(maxsize=8192)
def around_median(hours: Outcomes) -> tuple[float, ...]:
    """The hours at the ends of cells over their median; those of lognormal ones are equal for widths in equal steps."""
    if isinstance(hours, Smooth):
        down, up = hours.spread
        steps = round(down / STEP)
        return _around_one(steps, max(-2 * steps, round(2 * (up - down) / STEP)))
    middle = hours.at(MIDDLE)
    return tuple(value / middle for value in at_ends(hours, FEW_CELLS))


@lru_cache(maxsize=1024)
def _around_one(down: int, more_up: int) -> tuple[float, ...]:
    return tuple(at_ends(Smooth(1.0, Spread(down * STEP, (down + more_up / 2) * STEP), 1.0), FEW_CELLS))


def median_shift(hours: Outcomes, price: RandomPrice) -> float:
    """The logarithm of the median of price x hours over the product of the two medians, to about 0.002."""
    if not price.scale or price.mid <= 0.0:
        return 0.0
    around = around_median(hours)
    if around[0] == around[-1]:
        return 0.0
    floor, ceiling = (
        round(STEPS * min(EDGE, max(-EDGE, math.log(end / price.mid) / price.scale))) if 0.0 < end < math.inf else far
        for end, far in ((price.floor, -EDGE * STEPS), (price.ceiling, EDGE * STEPS))
    )
    return _median_shift(around, max(1, round(price.scale / STEP)), floor, ceiling)


@lru_cache(maxsize=4096)
def _median_shift(around: tuple[float, ...], scale: int, floor: float, ceiling: float) -> float:
    """At a scale in STEP, and a floor and ceiling in parts of it."""
    width = scale * STEP
    price = RandomPrice(1.0, width, *(math.exp(end / STEPS * width) for end in (floor, ceiling)))
    excess, high = _excess(price, [(value, 0.0) for value in around], MIDDLE), -LOWEST_SHIFT
    while excess(math.exp(high)) < 0.0:
        high *= 2.0
    return root(lambda shift: excess(math.exp(shift)), LOWEST_SHIFT, high, precision=PRECISION)
