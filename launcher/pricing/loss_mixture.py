"""The exact distribution of the time a job loses to interruptions that send it back to the last stored checkpoint.

With S the length of a segment, L the lag until its checkpoint is stored, r the rate and T the length of the last
segment, a try fails after k S + u hours, k segments of it stored, with u in [0, S + L) when k = 0 and in [L, S + L)
when not, cut off by the end of the job. Exponential times forget, so the transforms H(m) of the loss from m whole
segments on, each over the chance that nothing fails from there, obey

    (1 - A) H(m) = 1 + C H(0) + B (H(1) + ... + H(m - 1)),        H(0) = 1 / (1 - D),

where A, B, C and D are those of one failure with u in [0, S + L), [L, S + L), [L, T) and [0, T), each with its pause.
Two neighbours differ by a factor, and with E that of u in [0, L) what is left is

    exp(-r (N S + T)) ((1 - E) / (1 - A))^N / (1 - D),        (1 - E) / (1 - A) = 1 + B / (1 - A).

Read as chances: each of the N whole segments is hit with 1 - exp(-r S). A hit costs L and an exponential time cut off
at S, and is followed by a geometric number of failures that each cost a time cut off at S + L. In the end come a
geometric number of failures that cost a time cut off at T. Given these numbers the loss is a sum of cut-off
exponentials, known in closed form: inclusion and exclusion over Erlang distributions. The one atom, that nothing fails,
stays an atom. The derivation is this project's own, held against `benchmarks/spot_simulation.py`. Times in hours.
"""

import math
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import NamedTuple

from launcher.pricing.segments import LESS_THAN_ONE, Segments, cut_off, lost

NEGLIGIBLE = 1e-8
"""Numbers of failures with a joint probability below it are left out, together less than one in a hundred thousand:
that can only lengthen a quantile."""
PRECISION = 1e-5
"""To which a quantile is found, as a share of itself."""
NARROW = 16.0
"""Where the lag is longer than so many segments, the time run in a segment is too small a part of a sum for the
alternating series, which would lose its digits: two points of the same mean and variance take its place, with an error
of the fourth power of the inverse. Where nothing else is in the sum the series stays."""


class _Group(NamedTuple):
    """All losses made of the same numbers of hits and of further failures.

    They begin at `offset` and end at `offset + span`; `mass` is their probability. `terms` are (hours after the offset,
    weight) of shifted Erlang distributions of `shape`, in that order.
    """

    offset: float
    span: float
    mass: float
    shape: int
    terms: list[tuple[float, float]]


class _Mixture(NamedTuple):
    """The distribution up to `most` hours: `none` is the chance that nothing fails, `rate` is the exponentials' own."""

    parts: Segments
    pause: float
    most: float
    none: float
    rate: float

    def groups(self) -> Iterator[_Group]:
        """Every group that begins below `most`."""
        parts, load = self.parts, self.parts.rate * self.parts.length
        passing = math.exp(-parts.rate * (parts.length + parts.lag))
        ending = _geometric(1, math.exp(-parts.rate * parts.last))
        hit = math.exp(-parts.whole * load)
        for hits in range(parts.whole + 1):
            again = _geometric(hits, passing)
            for more in range(len(again) + len(ending) - 1):
                offset = (hits + more) * self.pause + hits * parts.lag
                if offset >= self.most:
                    break
                least, most = max(0, more - len(ending) + 1), min(more, len(again) - 1)
                chances = [(first, hit * again[first] * ending[more - first]) for first in range(least, most + 1)]
                chances = [each for each in chances if each[1] > NEGLIGIBLE]
                if chances and hits + more:
                    yield self._group(hits, more, chances, offset)
            hit *= (parts.whole - hits) / (hits + 1) * math.expm1(load)
            if hit < NEGLIGIBLE and hits >= parts.whole * load:
                return

    def _group(self, hits: int, more: int, chances: list[tuple[int, float]], offset: float) -> _Group:
        """The terms of `hits` hits and `more` further failures, so many of them of whole segments with a chance each.

        Terms that begin at the same hours are added up, whatever numbers of failures they come from.
        """
        (_, length, last, _, lag), rate, room = self.parts, self.rate, self.most - offset
        window = length + lag
        merged: dict[tuple[int, int], float] = {}
        for first, chance in chances:
            for one, left in enumerate(_series(rate, window, first, room)):
                for two, right in enumerate(_series(rate, last, more - first, room - one * window)):
                    merged[one, two] = merged.get((one, two), 0.0) + chance * left * right
        shifted = [(one * window + two * last, weight) for (one, two), weight in merged.items()]
        narrow = bool(hits and more) and lag > NARROW * length
        own = _points(rate, length, hits) if narrow else _steps(rate, length, hits, room)
        return _Group(
            offset=offset,
            span=hits * length + more * max(window, last),
            mass=math.fsum(chance for _, chance in chances),
            shape=more if narrow else hits + more,
            terms=sorted((a + b, v * w) for a, v in shifted for b, w in own if a + b < room),
        )


@lru_cache(maxsize=4096)
def loss_quantile(parts: Segments, pause: float, probability: float) -> float:
    """The least number of lost hours that is not exceeded with at least this probability.

    Args:
        parts: the job; with a handful of failures expected, or the sum over their numbers is long.
        pause: hours that each failure costs beside the time that it takes back.
        probability: below 1.

    >>> once = Segments(whole=0, length=1.0, last=1.0, rate=0.2, lag=0.0)
    >>> loss_quantile(once, 0.25, 0.8), round(loss_quantile(once, 0.25, 0.9), 3)
    (0.0, 0.765)
    """
    none = math.exp(-parts.rate * (parts.whole * parts.length + parts.last))
    if none >= probability:
        return 0.0
    rate = max(parts.rate, LESS_THAN_ONE / (parts.length if parts.whole else parts.last))
    moments = lost(parts, pause)
    # F. P. Cantelli: at least this probability lies below so many standard deviations; half as many nearly always do.
    cantelli = math.sqrt(moments.variance * probability / (1.0 - probability))
    for most in (moments.mean + cantelli / 2, moments.mean + cantelli):
        groups = list(_Mixture(parts, pause, most, none, rate).groups())
        if _at_most(most, groups, rate, none) >= probability:
            break
    return _root(lambda hours: _at_most(hours, groups, rate, none) - probability, most)


@lru_cache(maxsize=4096)
def lost_within(parts: Segments, pause: float, hours: float) -> float:
    """The probability that at most `hours` are lost."""
    none = math.exp(-parts.rate * (parts.whole * parts.length + parts.last))
    rate = max(parts.rate, LESS_THAN_ONE / (parts.length if parts.whole else parts.last))
    return _at_most(hours, list(_Mixture(parts, pause, hours, none, rate).groups()), rate, none)


def _at_most(hours: float, groups: list[_Group], rate: float, none: float) -> float:
    """The probability that at most `hours` are lost."""
    return none + math.fsum(_below(group, rate, hours) for group in groups)


def _below(group: _Group, rate: float, hours: float) -> float:
    """The probability that the loss is one of this group and at most `hours`."""
    left = hours - group.offset
    if left <= 0.0:
        return 0.0
    if left >= group.span:
        return group.mass
    total = []
    for shift, weight in group.terms:
        if shift >= left:
            break
        total.append(weight * _erlang(group.shape, rate * (left - shift)))
    return min(group.mass, max(0.0, math.fsum(total)))


def _geometric(tries: int, passing: float) -> list[float]:
    """P(0), P(1), ... failures before `tries` tries have passed, down to negligible ones."""
    terms = [passing**tries]
    while tries and (terms[-1] > NEGLIGIBLE or len(terms) * passing < tries * (1.0 - passing)):
        terms.append(terms[-1] * (tries + len(terms) - 1) / len(terms) * (1.0 - passing))
    return terms


def _series(rate: float, length: float, count: int, room: float) -> Iterator[float]:
    """Weights of the Erlang distributions that begin after 0, 1, ... times `length` and within `room`.

    Together they are the sum of `count` exponentials cut off at `length`: the transform of one is that of a whole one
    times (1 - exp(-rate length) exp(-s length)) / P(it is below `length`).
    """
    weight = (-math.expm1(-rate * length)) ** -count if count else 1.0
    for index in range(count + 1):
        if index * length >= room:
            return
        yield weight
        weight *= -(count - index) / (index + 1) * math.exp(-rate * length)


def _steps(rate: float, length: float, count: int, room: float) -> list[tuple[float, float]]:
    """The same with the hours after which each begins."""
    return [(index * length, weight) for index, weight in enumerate(_series(rate, length, count, room))]


def _points(rate: float, length: float, count: int) -> list[tuple[float, float]]:
    """Two points of the mean and the variance of a sum of `count` exponentials cut off at `length`."""
    one = cut_off(rate, length)
    spread = math.sqrt(count * one.variance)
    return [(count * one.mean - spread, 0.5), (count * one.mean + spread, 0.5)]


def _erlang(shape: int, value: float) -> float:
    """The distribution function of an Erlang variable of unit rate, without cancellation for small values."""
    if value < 0.5 * shape:
        term = math.exp(-value) * value**shape / math.factorial(shape)
        total, index = term, shape
        while term > total * 1e-16:
            index += 1
            term *= value / index
            total += term
        return total
    term = total = math.exp(-value)
    for index in range(1, shape):
        term *= value / index
        total += term
    return 1.0 - total


def _root(excess: Callable[[float], float], most: float) -> float:
    """The least hours, to PRECISION, at which `excess` is not below 0: it rises from under 0 at 0 to over it at `most`.

    False position in its Illinois form, every third step a bisection.
    """
    low, high = 0.0, most
    under, over = excess(low), max(excess(high), PRECISION)
    step = same = 0
    while high - low > PRECISION * high:
        step += 1
        middle = (low + high) / 2 if step % 3 == 0 else high - over * (high - low) / (over - under)
        value = excess(middle)
        if value < 0:
            low, under, over, same = middle, value, over * (0.5 if same < 0 else 1.0), -1
        else:
            high, over, under, same = middle, value, under * (0.5 if same > 0 else 1.0), 1
    return high
