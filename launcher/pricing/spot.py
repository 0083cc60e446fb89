"""Time to completion of an interruptible job: expectation and quantiles, in closed form.

The model. Interruptions of the whole job arrive as a Poisson process of rate `hazard` while it runs. Work is done in
segments of `interval` hours, each closed by a checkpoint that stalls the job for `stall` hours and is stored `write`
hours after its start. A notice of `notice` hours precedes each interruption. If a checkpoint can be made and
stored within the notice, the job keeps everything up to the signal and loses the time of that checkpoint (lossless).
If not, the job returns to its last stored checkpoint: it repeats the running segment, and also the one before if the
checkpoint of that one was not stored yet. In both cases the job then waits `restart` hours for new instances,
start-up and the restore; it is not interrupted meanwhile.

Sources: J. W. Young, "A first order approximation to the optimum checkpoint interval", CACM 17(9), 1974; J. T. Daly,
"A higher order estimate of the optimum checkpoint interval for restart dumps", FGCS 22(3), 2006 (the exponential
segment time is his, with the restart outside the failure process). The distribution is this project's own.
"""

import math
from collections.abc import Callable, Iterator
from functools import cached_property, lru_cache
from typing import NamedTuple

from launcher.model.record import record
from launcher.pricing.joint import NO_LOSSES, Losses
from launcher.pricing.normal import normal_quantile
from launcher.pricing.segments import LESS_THAN_ONE, MAX_EXPONENT, Segments, cut_off, expected_retries, lost

# The exact distribution of the time a job loses to interruptions that send it back to the last stored checkpoint.
#
# With S the length of a segment, L the lag until its checkpoint is stored, r the rate and T the length of the last
# segment, a try fails after k S + u hours, k segments of it stored, with u in [0, S + L) when k = 0 and in [L, S + L)
# when not, cut off by the end of the job. Exponential times forget, so the transforms H(m) of the loss from m whole
# segments on, each over the chance that nothing fails from there, obey
#
#     (1 - A) H(m) = 1 + C H(0) + B (H(1) + ... + H(m - 1)),        H(0) = 1 / (1 - D),
#
# where A, B, C and D are those of one failure with u in [0, S + L), [L, S + L), [L, T) and [0, T), each with its
# pause. Two neighbours differ by a factor, and with E that of u in [0, L) what is left is
#
#     exp(-r (N S + T)) ((1 - E) / (1 - A))^N / (1 - D),        (1 - E) / (1 - A) = 1 + B / (1 - A).
#
# Read as chances: each of the N whole segments is hit with 1 - exp(-r S). A hit costs L and an exponential time cut
# off at S, and is followed by a geometric number of failures that each cost a time cut off at S + L. In the end come
# a geometric number of failures that cost a time cut off at T. Given these numbers the loss is a sum of cut-off
# exponentials, known in closed form: inclusion and exclusion over Erlang distributions. The one atom, that nothing
# fails, stays an atom. The derivation is this project's own, held against `benchmarks/spot_simulation.py`. Times in
# hours.


NEGLIGIBLE = 1e-8
"""Slipway omits numbers of failures with a lower joint probability, together less than one in a hundred thousand:
the omission can only lengthen a quantile."""
PRECISION = 1e-5
"""Relative precision of a quantile."""
NARROW = 16.0
"""If the lag is longer than so many segments, the time run in a segment is too small a part of a sum for the
alternating series, which would lose its digits: two points of the same mean and variance replace the series, with an
error of the fourth power of the inverse. If the sum has no other terms the series stays."""
EXACT_BELOW = 5.0
"""Expected interruptions from which the loss is approximated by a gamma distribution."""
MANY = 400.0
"""Expected interruptions from which a Poisson number is approximated by a normal distribution."""
ENDLESS = 1e100
"""Expected interruptions of a job that never ends, whose quantiles are infinite."""
MIN_RATE = 1e-12
"""Interruptions an hour, one in a hundred million years, below which the rate counts as 0."""


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
    """The distribution up to `most` hours: `none` is the chance of no failure, `rate` the rate of the exponentials."""

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
        hit = math.exp(-parts.full * load)
        for hits in range(parts.full + 1):
            again = _geometric(hits, passing)
            for more in range(len(again) + len(ending) - 1):
                offset = (hits + more) * self.pause + hits * parts.lag
                if offset >= self.most:
                    break
                least, most = max(0, more - len(ending) + 1), min(more, len(again) - 1)
                chances = [(first, hit * again[first] * ending[more - first]) for first in range(least, most + 1)]
                chances = [chance for chance in chances if chance[1] > NEGLIGIBLE]
                if chances and hits + more:
                    yield self._group(hits, more, chances, offset)
            hit *= (parts.full - hits) / (hits + 1) * math.expm1(load)
            if hit < NEGLIGIBLE and hits >= parts.full * load:
                return

    def _group(self, hits: int, more: int, chances: list[tuple[int, float]], offset: float) -> _Group:
        """The terms of `hits` hits and `more` further failures; `chances` splits the latter between the segment kinds.

        Terms with the same offset in hours are added up, regardless of their failure counts.
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
        hit_terms = _points(rate, length, hits) if narrow else _steps(rate, length, hits, room)
        return _Group(
            offset=offset,
            span=hits * length + more * max(window, last),
            mass=math.fsum(chance for _, chance in chances),
            shape=more if narrow else hits + more,
            terms=sorted((a + b, v * w) for a, v in shifted for b, w in hit_terms if a + b < room),
        )


@lru_cache(maxsize=4096)
def loss_quantile(parts: Segments, pause: float, probability: float) -> float:
    """The lowest number of lost hours that is not exceeded with at least this probability.

    Args:
        parts: the job; a handful of failures should be expected, otherwise the sum over their numbers is long.
        pause: hours that each failure costs in addition to the lost work.
        probability: below 1.

    >>> once = Segments(full=0, length=1.0, last=1.0, rate=0.2, lag=0.0)
    >>> loss_quantile(once, 0.25, 0.8), round(loss_quantile(once, 0.25, 0.9), 3)
    (0.0, 0.765)
    """
    none = math.exp(-parts.rate * (parts.full * parts.length + parts.last))
    if none >= probability:
        return 0.0
    rate = max(parts.rate, LESS_THAN_ONE / (parts.length if parts.full else parts.last))
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
    none = math.exp(-parts.rate * (parts.full * parts.length + parts.last))
    rate = max(parts.rate, LESS_THAN_ONE / (parts.length if parts.full else parts.last))
    return _at_most(hours, list(_Mixture(parts, pause, hours, none, rate).groups()), rate, none)


def _at_most(hours: float, groups: list[_Group], rate: float, none: float) -> float:
    return none + math.fsum(_below(group, rate, hours) for group in groups)


def _below(group: _Group, rate: float, hours: float) -> float:
    """The probability that the loss belongs to this group and is at most `hours`."""
    remaining = hours - group.offset
    if remaining <= 0.0:
        return 0.0
    if remaining >= group.span:
        return group.mass
    total = []
    for shift, weight in group.terms:
        if shift >= remaining:
            break
        total.append(weight * _erlang(group.shape, rate * (remaining - shift)))
    return min(group.mass, max(0.0, math.fsum(total)))


def _geometric(tries: int, passing: float) -> list[float]:
    """P(0), P(1), ... failures before `tries` tries have passed, down to negligible ones."""
    terms = [passing**tries]
    while tries and (terms[-1] > NEGLIGIBLE or len(terms) * passing < tries * (1.0 - passing)):
        terms.append(terms[-1] * (tries + len(terms) - 1) / len(terms) * (1.0 - passing))
    return terms


def _series(rate: float, length: float, count: int, room: float) -> Iterator[float]:
    """Weights of the Erlang distributions that begin after 0, 1, ... times `length` and within `room`.

    Together they are the sum of `count` exponentials cut off at `length`: the transform of one is that of a full one
    times (1 - exp(-rate length) exp(-s length)) / P(it is below `length`).
    """
    weight = (-math.expm1(-rate * length)) ** -count if count else 1.0
    for index in range(count + 1):
        if index * length >= room:
            return
        yield weight
        weight *= -(count - index) / (index + 1) * math.exp(-rate * length)


def _steps(rate: float, length: float, count: int, room: float) -> list[tuple[float, float]]:
    """The weights of `_series`, each with the hours at which its distribution begins."""
    return [(index * length, weight) for index, weight in enumerate(_series(rate, length, count, room))]


def _points(rate: float, length: float, count: int) -> list[tuple[float, float]]:
    """Two points with the mean and the variance of a sum of `count` exponentials cut off at `length`."""
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
    """The lowest hours, to PRECISION, where `excess` is not below 0; `excess` rises from below 0 to above at `most`.

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


# Quantiles of the number of interruptions and of the time that they cost.
#
# Below EXACT_BELOW expected interruptions the time lost is taken from its exact distribution, see `loss_mixture`;
# from there on the whole is close to a gamma distribution, which takes its place. Times in hours.


def poisson_quantile(mean: float, probability: float) -> int:
    """The smallest k with P(K <= k) >= probability for a Poisson number K.

    >>> poisson_quantile(0.05, 0.9), poisson_quantile(1.0, 0.9), poisson_quantile(10.0, 0.9)
    (0, 2, 14)
    """
    if mean > MANY:
        return math.ceil(mean + normal_quantile(probability) * math.sqrt(mean) - 0.5)
    count, term = 0, math.exp(-mean)
    total = term
    while total < probability:
        count += 1
        term *= mean / count
        total += term
    return count


def lost_quantile(parts: Segments, restart: float, probability: float) -> float:
    """The lowest number of lost hours not exceeded with at least this probability; infinite for an endless job."""
    mean = expected_retries(parts)
    if not mean < ENDLESS:
        return math.inf
    if mean < EXACT_BELOW:
        return loss_quantile(parts, restart, probability)
    return _gamma_quantile(parts, restart, probability)


def is_lost_within(parts: Segments, restart: float, hours: float, probability: float) -> bool:
    """Whether the quantile is known, without a search, to be at most so many hours; False means unknown."""
    few = expected_retries(parts) < EXACT_BELOW
    return few and hours > 0 and lost_within(parts, restart, hours * (1 - 2 * PRECISION)) >= probability


def _gamma_quantile(parts: Segments, restart: float, probability: float) -> float:
    """The quantile of the loss, approximated by a gamma variable with its mean and variance.

    Many segments make the loss normal, one often repeated segment makes it exponential; a gamma variable covers both.
    Its quantile is E. B. Wilson's and M. M. Hilferty's (PNAS 17(12), 1931), within 1 % at the 90th percentile.
    """
    mean, variance = lost(parts, restart)
    ninth = variance / (9.0 * mean * mean)
    return mean * max(0.0, 1.0 - ninth + normal_quantile(probability) * math.sqrt(ninth)) ** 3


@record(slots=False)
class Interruptible:
    """One job on interruptible instances. All times in hours, `hazard` per hour of running.

    `saves` False: nothing is stored before the end, so the whole job is one segment and no notice helps.
    """

    work: float
    interval: float
    stall: float
    write: float
    hazard: float
    notice: float
    restart: float
    saves: bool = True

    @cached_property
    def lossless(self) -> bool:
        """Whether a checkpoint is stored within the notice, and costs less time than repeating the work."""
        if not self.saves or self.write > self.notice:
            return False
        return self.hazard < MIN_RATE or self._saving_hours <= self._repeating_hours

    @property
    def segment(self) -> float:
        """One interval with its checkpoint's stall, hours."""
        return self.interval + self.stall if self.saves else self.work

    @property
    def segments(self) -> float:
        """Segments in the whole job; the last may be partial."""
        return self.work / self.interval if self.saves else 1.0

    @property
    def running(self) -> float:
        """Running hours without any interruption, stalls included."""
        return self.work + self.segments * self.stall if self.saves else self.work

    @cached_property
    def lag(self) -> float:
        """Hours from the end of a checkpoint's stall until it is stored."""
        return max(0.0, self.write - self.stall) if self.saves else 0.0

    @cached_property
    def _parts(self) -> Segments:
        """The segments that end in a checkpoint, and the last, which ends the job.

        A last segment shorter than the lag ends before the previous checkpoint is stored: the two are merged.
        """
        whole = max(0, math.ceil(self.segments - 1e-9) - 1)
        last = self.running - whole * self.segment
        if whole and last < self.lag:
            joined = min(whole, math.ceil((self.lag - last) / self.segment))
            whole, last = whole - joined, last + joined * self.segment
        return Segments(full=whole, length=self.segment, last=max(0.0, last), rate=self.hazard, lag=self.lag)

    @cached_property
    def expected_interruptions(self) -> float:
        """Expected interruptions until the job is done.

        Lossless: the rate times the running time. Otherwise each segment repeats until it passes and is stored: with
        S its length and L the lag, exp(rate L) (exp(rate S) - 1) times; the last needs no storing.
        """
        return self.hazard * self.running if self.lossless else expected_retries(self._parts)

    @property
    def _saving_hours(self) -> float:
        """Expected hours when every notice is used to save: the running time, and a pause for each interruption."""
        return self.running + self.hazard * self.running * (self.restart + self.write)

    @property
    def _repeating_hours(self) -> float:
        """Expected hours when work is repeated: the time that the interruptions come from, and a restart for each."""
        return expected_retries(self._parts) * (1.0 / self.hazard + self.restart)

    @cached_property
    def expected_hours(self) -> float:
        """Expected hours until the job is done."""
        if self.hazard < MIN_RATE:
            return self.running
        return self._saving_hours if self.lossless else self._repeating_hours

    @property
    def losses(self) -> Losses:
        """The hours that interruptions cost, as mean and variance, with the chance of none."""
        if self.hazard < MIN_RATE:
            return NO_LOSSES
        none = math.exp(-min(self.hazard * self.running, MAX_EXPONENT))
        if self.lossless:
            events, pause = self.hazard * self.running, self.restart + self.write
            return Losses(none, events * pause, events * pause**2, pause)
        return Losses(none, *lost(self._parts, self.restart), self.restart)

    def quantile_hours(self, probability: float, *, least: float = 0.0) -> float:
        """The lowest number of hours in which the job is done with at least this probability; `least` if higher.

        The distribution has an atom at `running` (no interruption) and, when lossless, at every number of pauses.
        """
        if self.hazard < MIN_RATE:
            return max(least, self.running)
        if self.lossless:
            count = poisson_quantile(self.hazard * self.running, probability)
            return max(least, self.running + count * (self.restart + self.write))
        if is_lost_within(self._parts, self.restart, least - self.running, probability):
            return least
        return max(least, self.running + lost_quantile(self._parts, self.restart, probability))
