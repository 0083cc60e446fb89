"""One joint distribution of hours and dollars: its 10th, 50th and 90th percentile, without random numbers.

A job's wall hours are its hours at the middle speed times a speed factor, plus what failures and interruptions lose.
The speed factor is lognormal on either side of its median. The losses of a given length are zero with the chance that
nothing happens, and else a shifted gamma variable with their exact mean and variance. The price of an instance-hour is
independent of the hours; the distribution of their product is a sum over points of the hours.

`benchmarks/joint_simulation.py` plays the same model event by event with separate code.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate
from operator import itemgetter
from typing import NamedTuple, TypeAlias

from launcher.pricing.normal import ROOT_OF_TWO, Z_OF_THE_ENDS, normal_below, normal_quantile, root

LOW, MIDDLE, HIGH = 0.1, 0.5, 0.9
LOSSES = 6
"""Points of the losses, if there are any."""
COARSE, STARTS = 24, 9
"""Points that are left of two distributions before they are added up: of the wider one, usually the running hours, and
of the other one, usually the hours before the first step."""
ANCHORS = tuple((index + 0.5) / 9 for index in range(9))
"""Percentiles between which the points of `Lossy` lie on straight lines, in logarithms."""
FINE = 10
"""The same for a job whose hours are certain but for its losses."""
RATES, ONE_RATE = 11, 45
"""Points of the rate of failures, and of that of interruptions, for such a job; more if only one of them is random."""
MINOR, MINOR_START = 0.25, 0.5
"""Losses, and start-up hours, whose standard deviation is at most this share of that of the hours by speed alone are
taken by their mean and variance."""
SHIFTS = 12
"""Points of the hours for the median of their product with a price."""
RARE = 0.01
"""A loss larger than the speed's standard deviation counts by its mean and variance only if it is as rare as this."""
GAUSS = ((-math.sqrt(3.0), 1 / 6), (0.0, 2 / 3), (math.sqrt(3.0), 1 / 6))
"""Points of a normal variable and their weights: exact up to its fifth moment (Gauss and Hermite)."""
_ENDS = {LOW: -Z_OF_THE_ENDS, HIGH: Z_OF_THE_ENDS}
EDGE, STEP = 4.0, 0.03
"""The farthest ceiling that counts, and the precision of widths, in logarithms."""
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
    """What a job loses while it runs for `hours`: the chance of no loss, and mean and variance of the hours lost.

    `least` is the smallest loss. All but `least` grow with the running hours: the chance's logarithm, the mean and the
    variance in proportion.
    """

    none: float = 1.0
    mean: float = 0.0
    variance: float = 0.0
    least: float = 0.0

    def times(self, share: float) -> "Losses":
        """The losses of a job of another length."""
        if not self.mean:
            return self
        return Losses(self.none**share, self.mean * share, self.variance * share, self.least)


NO_LOSSES = Losses()


def together(one: Losses, two: Losses) -> Losses:
    """Independent losses, added up."""
    if not one.mean or not two.mean:
        return one if one.mean else two
    least = min(one.least, two.least)
    return Losses(one.none * two.none, one.mean + two.mean, one.variance + two.variance, least)


def at_rates(losses: Losses, rate: Spread) -> Losses:
    """Losses whose rate is known up to a factor: mean and variance are exact, the chance of none by three points."""
    if rate == (0.0, 0.0) or not losses.mean:
        return losses
    first = rate.mean
    second = Spread(2.0 * rate.down, 2.0 * rate.up).mean
    variance = losses.variance * first + losses.mean**2 * max(0.0, second - first * first)
    none = sum(weight * losses.none ** rate.at(z) for z, weight in GAUSS)
    return Losses(none, losses.mean * first, variance, losses.least)


class Points:
    """A distribution as points, the lowest first, with the mean of the exact distribution."""

    __slots__ = ("_reached", "_values", "mean")

    def __init__(self, points: Iterable[tuple[float, float]], mean: float) -> None:
        """`points` are pairs of a value and its probability, which add up to 1."""
        ordered = sorted(points, key=itemgetter(0))
        self._values = [value for value, _ in ordered]
        # A point stands for the part of the distribution around it: half of its probability lies below it.
        totals = accumulate(weight for _, weight in ordered)
        self._reached = [total - weight / 2 for total, (_, weight) in zip(totals, ordered, strict=True)]
        self.mean = mean

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
        index = bisect_left(values, limit)
        if index == 0:
            return 1.0 if limit < values[0] else 1.0 - reached[0]
        if index == len(values):
            return 0.0
        span = values[index] - values[index - 1]
        share = (limit - values[index - 1]) / span if span > 0 else 1.0
        return 1.0 - (reached[index - 1] + share * (reached[index] - reached[index - 1]))

    def coarse(self, count: int) -> list[float]:
        """So many values of equal probability."""
        return [self.at((index + 0.5) / count) for index in range(count)]

    def pieces(self, count: int) -> list[tuple[float, float]]:
        """Values with their probabilities: the lowest one if it is likely as such, and so many parts of the others."""
        certain = self._reached[bisect_right(self._values, self._values[0]) - 1]
        rest = 1.0 - certain
        values = (self.at(certain + rest * (index + 0.5) / count) for index in range(count))
        return [(self._values[0], certain), *((value, rest / count) for value in values)]


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


class Lossy:
    """Running hours whose speed is lognormal, and losses of the same order.

    The mean of the losses grows with the speed's factor; what differs from the mean is taken as at the factor of the
    percentile asked for, and as independent of the factor around it.
    """

    __slots__ = ("_known", "_losses", "_running", "_speed", "mean")

    def __init__(self, running: float, speed: Spread, losses: Losses, mean: float) -> None:
        """Hours and losses at the middle speed, and the mean of the exact distribution."""
        self._running, self._speed, self._losses, self.mean = running, speed, losses, mean
        self._known: dict[float, float] = {}

    def at(self, probability: float) -> float:
        """The value not exceeded with this probability."""
        if probability not in self._known:
            z = normal_quantile(probability)
            parts = self._parts(self._speed.at(z))
            middle = (self._running + self._losses.mean) * self._speed.at(z)
            least = max(self._running * self._speed.at(z - 1.0), 0.0)
            most = (
                middle
                + max(excess for excess, _ in parts)
                + (self._running + self._losses.mean) * self._speed.at(z + 1.0)
            )
            self._known[probability] = root(self._excess(parts, probability), least, most)
        return self._known[probability]

    def chance_above(self, limit: float) -> float:
        """The probability of a higher value."""
        if limit <= 0.0:
            return 1.0
        parts = self._parts(max(limit / (self._running + self._losses.mean), 1e-9))
        return 1.0 - self._excess(parts, 0.0)(limit)

    def coarse(self, count: int) -> list[float]:
        """So many values of equal probability."""
        anchors = [(normal_quantile(chance), math.log(self.at(chance))) for chance in ANCHORS]
        values, index = [], 0
        for z in normal_points(count):
            while index < len(anchors) - 2 and anchors[index + 1][0] < z:
                index += 1
            (z_0, log_0), (z_1, log_1) = anchors[index], anchors[index + 1]
            values.append(math.exp(log_0 + (log_1 - log_0) * (z - z_0) / (z_1 - z_0)))
        return values

    def _parts(self, factor: float) -> list[tuple[float, float]]:
        """Hours lost less their mean at a factor of the speed, with probabilities."""
        losses = self._losses.times(factor)
        weight = (1.0 - losses.none) / LOSSES
        return [(-losses.mean, losses.none), *((lost - losses.mean, weight) for lost in _lost_hours(losses, LOSSES))]

    def _excess(self, parts: list[tuple[float, float]], probability: float) -> Callable[[float], float]:
        """The probability of at most a value, less this one."""
        middle, down, up = self._running + self._losses.mean, self._speed.down, self._speed.up
        log_of, erfc, z_of_the_ends, root_of_two = math.log, math.erfc, Z_OF_THE_ENDS, ROOT_OF_TWO

        def excess(value: float) -> float:
            total = 0.0
            for lost, weight in parts:
                rest = value - lost
                if rest > 0.0:
                    log = log_of(rest / middle)
                    width = up if log >= 0.0 else down
                    # normal_below, written out: most of the time of a row of spot is spent here
                    below = 0.5 * erfc(-(log * z_of_the_ends / width) / root_of_two) if width else log >= 0.0
                    total += weight * below
            return total - probability

        return excess


Outcomes: TypeAlias = Smooth | Lossy | Points
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

    @property
    def losses(self) -> Losses:
        """Failures and interruptions together, at the middle speed."""
        failures = at_rates(self.failures, self.failure_rate)
        return together(failures, at_rates(self.interruptions, self.interruption_rate))


@lru_cache(maxsize=8192)
def wall_hours(job: JobHours) -> Outcomes:
    """The distribution of a job's wall hours."""
    running, speed, losses = job.running, job.speed, job.losses
    mid, mean = running + losses.mean, (running + losses.mean) * speed.mean
    least = min(speed) / Z_OF_THE_ENDS * running
    some = 1.0 - losses.none
    if losses.variance <= (MINOR * least) ** 2 and (some <= RARE or losses.mean <= least * some):
        return _widen(mid, speed, losses.variance, mean)
    points: list[tuple[float, float]] = []
    if speed == (0.0, 0.0):
        for weight, part in _losses_by_rate(job):
            points += _atom(running, weight * part.none)
            # No loss is smaller than the least one: nothing lies between it and none.
            points.append((running + part.least, 0.0))
            points += [(running + lost, weight * (1.0 - part.none) / FINE) for lost in _lost_hours(part, FINE)]
        return Points(points, mean)
    return Lossy(running, speed, losses, mean)


def _losses_by_rate(job: JobHours) -> Iterator[tuple[float, Losses]]:
    """The losses at equally likely rates of failures and of interruptions, with their probability."""
    rates = (
        job.failure_rate if job.failures.mean else Spread(),
        job.interruption_rate if job.interruptions.mean else Spread(),
    )
    count = RATES if all(max(rate) for rate in rates) else ONE_RATE
    of_failures, of_interruptions = (_rates(rate, count) for rate in rates)
    weight = 1.0 / (len(of_failures) * len(of_interruptions))
    for one in of_failures:
        for two in of_interruptions:
            yield weight, together(job.failures.times(one), job.interruptions.times(two))


def _rates(rate: Spread, count: int) -> list[float]:
    return [1.0] if rate == (0.0, 0.0) else [rate.at(z) for z in normal_points(count)]


def _atom(value: float, weight: float) -> list[tuple[float, float]]:
    """Points of a value that is likely as such: a percentile within its probability does not slide."""
    return [(value, 0.0), (value, weight), (value, 0.0)]


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


def _lost_hours(losses: Losses, count: int) -> list[float]:
    """Equally likely hours lost, given that some are: a shifted gamma variable with their mean and variance.

    Its percentiles are E. B. Wilson's and M. M. Hilferty's (PNAS 17(12), 1931).
    """
    some = 1.0 - losses.none
    if some <= 0.0:
        return [losses.mean] * count
    mean = losses.mean / some
    variance = max(0.0, (losses.variance + losses.mean**2) / some - mean * mean)
    over = mean - losses.least
    if over <= 0.0 or variance <= 0.0:
        return [mean] * count
    ninth = variance / (9.0 * over * over)
    root = math.sqrt(ninth)
    cubes = [max(0.0, 1.0 - ninth + z * root) ** 3 for z in normal_points(count)]
    # The points miss the tails, and with them a part of the mean.
    scale = count / sum(cubes) if ninth < 1.0 else 1.0
    return [losses.least + over * cube * scale for cube in cubes]


def add_start(hours: Outcomes, start_h: float, spread: Spread) -> Outcomes:
    """Hours with independent hours of a lognormal start-up before them."""
    mean_h = start_h * spread.mean
    mean, width = hours.mean + mean_h, max(spread) / Z_OF_THE_ENDS
    variance = mean_h * mean_h * math.expm1(width * width)
    if isinstance(hours, Lossy):
        # With a start-up added, the losses' own shape no longer matters.
        hours = Smooth(hours.at(MIDDLE), spread_of(*(hours.at(chance) for chance in (LOW, MIDDLE, HIGH))), hours.mean)
    if isinstance(hours, Smooth):
        # The spread around the low end, of which the start-up is the largest part.
        least = min(hours.spread) / Z_OF_THE_ENDS * hours.at(LOW)
        if variance <= (MINOR_START * least) ** 2:
            # The hours' own spread, in hours, is the same over the longer whole.
            mid = hours.mid + mean_h
            ends = (hours.at(LOW) + mean_h, hours.at(HIGH) + mean_h)
            return _widen(mid, spread_of(ends[0], mid, ends[1]), variance, mean)
    # The wider of the two decides the tails, and has more of the points.
    wider = start_h * (spread.at(Z_OF_THE_ENDS) - spread.at(-Z_OF_THE_ENDS)) > hours.at(HIGH) - hours.at(LOW)
    of_hours, of_starts = (STARTS, COARSE) if wider else (COARSE, STARTS)
    starts = [start_h * spread.at(z) for z in normal_points(of_starts)] if width else [start_h]
    # A job without any loss is so likely that its chance may not be rounded to one of a few equal parts.
    if isinstance(hours, Points):
        values = hours.pieces(of_hours)
    else:
        values = [(value, 1.0 / of_hours) for value in hours.coarse(of_hours)]
    return Points([(value + start, weight / len(starts)) for value, weight in values for start in starts], mean)


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

    def chance_at_most(self, usd: float) -> float:
        """The probability of at most this price."""
        return self.expected_at_most([(1.0, 0.0)])(usd)

    def expected_at_most(self, bills: Sequence[tuple[float, float]]) -> Callable[[float], float]:
        """How many of the bills, pairs of hours and other dollars, are expected to be of at most so many dollars."""
        mid, scale, floor, ceiling = self
        log, erfc, root_of_two = math.log, math.erfc, ROOT_OF_TWO

        def count_at_most(total: float) -> float:
            count = 0.0
            for hours, other in bills:
                usd = (total - other) / hours
                if usd >= ceiling:
                    count += 1.0
                elif usd < floor:
                    continue
                elif not scale:
                    count += 1.0 if usd >= mid else 0.0
                elif usd > 0.0:
                    # normal_below, written out: most of the time of a row of spot is spent here
                    count += 0.5 * erfc(-(log(usd / mid) / scale) / root_of_two)
            return count

        return count_at_most


def total_at(price: RandomPrice, bills: Sequence[tuple[float, float]], probability: float) -> float:
    """A percentile of price x hours + other costs.

    Args:
        price: the price of an instance-hour, independent of the bills.
        bills: equally likely pairs of instance-hours and the other costs of that outcome, in dollars.
        probability: of a total at or under the percentile.
    """
    lowest, highest = price.at(0.001), price.at(0.999)
    least = min([lowest * hours + other for hours, other in bills])
    most = max([highest * hours + other for hours, other in bills])
    target, count_at_most = probability * len(bills), price.expected_at_most(bills)

    def excess(usd: float) -> float:
        return count_at_most(usd) / target - 1.0

    return root(excess, least, most, precision=1e-5)


def median_shift(hours: Spread, price: RandomPrice) -> float:
    """The logarithm of the median of price x hours over the product of the two medians, to about 0.002."""
    if not price.scale or hours == (0.0, 0.0) or price.mid <= 0.0:
        return 0.0
    ceiling = math.log(price.ceiling / price.mid) if price.ceiling < math.inf else EDGE
    floor = math.log(price.floor / price.mid) if price.floor > 0.0 else -EDGE
    steps = (round(value / STEP) for value in (*hours, price.scale))
    return _median_shift(*steps, max(-40, round(floor * 10)), min(40, round(ceiling * 10)))


@lru_cache(maxsize=4096)
def _median_shift(down: int, up: int, scale: int, floor: int, ceiling: int) -> float:
    """The median of the sum of the two logarithms; widths in STEP, edges in tenths."""
    spread, width = Spread(down * STEP, up * STEP), max(scale, 1) * STEP
    points = [math.log(spread.at(z)) for z in normal_points(SHIFTS)]
    low, high, floor_, ceiling_, erfc = -0.4, 0.4, floor / 10, ceiling / 10, math.erfc
    for _ in range(9):
        middle = (low + high) / 2
        reached = 0.0
        for point in points:
            rest = middle - point
            if rest >= ceiling_:
                reached += 1.0
            elif rest >= floor_:
                # normal_below, written out
                reached += 0.5 * erfc(-(rest / width) / ROOT_OF_TWO)
        if reached < SHIFTS / 2:
            low = middle
        else:
            high = middle
    return max(LOWEST_SHIFT, (low + high) / 2)
