"""Time to completion of a job that can be interrupted: expectation and quantiles, in closed form.

The model. Interruptions of the whole job arrive as a Poisson process of rate `hazard` while it runs. Work is done in
segments of `interval` hours, each closed by a checkpoint that stalls the job for `stall` hours. A notice of `notice`
hours precedes each interruption. When a checkpoint can be made and stored within the notice, the job keeps everything
up to the signal and loses the notice itself (lossless). When it cannot, the job goes back to its last stored
checkpoint: the running segment is done again, and the `write` hours by which storage lags behind the snapshot with it.
Either way the job then waits `restart` hours for new machines, start-up and the restore.

Sources: J. W. Young, "A first order approximation to the optimum checkpoint interval", CACM 17(9), 1974; J. T. Daly,
"A higher order estimate of the optimum checkpoint interval for restart dumps", FGCS 22(3), 2006 (the exponential
segment time is his, with the restart outside the failure process). The distribution is this module's own.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist

EXACT_TERMS = 4
"""Sums of truncated exponentials up to this many are exact; above, their alternating series loses digits."""
TAIL = 1e-9
"""Probability left out of the sum over numbers of interruptions."""


@dataclass(frozen=True, kw_only=True)
class Interruptible:
    """One job on interruptible machines. All times in hours, `hazard` per hour of running."""

    work: float
    interval: float
    stall: float
    write: float
    hazard: float
    notice: float
    restart: float

    @property
    def lossless(self) -> bool:
        """Whether a checkpoint is stored before the machines go."""
        return self.write <= self.notice

    @property
    def segment(self) -> float:
        """One interval with its checkpoint's stall, hours."""
        return self.interval + self.stall

    @property
    def segments(self) -> float:
        """Segments in the whole job; a fraction counts as the part it is."""
        return self.work / self.interval

    @property
    def running(self) -> float:
        """Hours the job runs when nothing happens, stalls included."""
        return self.work + self.segments * self.stall

    @property
    def pause(self) -> float:
        """Hours lost with each interruption beside the repeated part of a segment."""
        lost = min(self.notice, self.write) if self.lossless else self.write
        return self.restart + lost

    @cached_property
    def expected_interruptions(self) -> float:
        """Interruptions expected until the job is done.

        Lossless: the rate times the running time. Otherwise each segment is tried until it passes, a geometric number
        of times with failure probability 1 - exp(-hazard * segment).
        """
        if self.lossless:
            return self.hazard * self.running
        return self.segments * math.expm1(min(self.hazard * self.segment, 700.0))

    @cached_property
    def expected_hours(self) -> float:
        """Hours until the job is done, expected.

        Lossless: running time plus a pause for each interruption. Otherwise Daly's segment time
        (exp(hazard * segment) - 1) / hazard for every segment, plus the pauses.
        """
        if self.hazard == 0:
            return self.running
        if self.lossless:
            return self.running + self.expected_interruptions * self.pause
        return self.expected_interruptions / self.hazard + self.expected_interruptions * self.pause

    def quantile_hours(self, probability: float) -> float:
        """The least number of hours within which the job is done with at least this probability.

        The distribution has an atom at `running` (no interruption) and, when lossless, at every number of pauses.
        """
        if self.hazard == 0:
            return self.running
        if self.lossless:
            return self.running + _poisson_quantile(self.hazard * self.running, probability) * self.pause
        return self._lossy_quantile(probability)

    def _lossy_quantile(self, probability: float) -> float:
        """The quantile when interrupted segments are repeated, by bisection on the distribution function."""
        failures = _negative_binomial(self.segments, math.exp(-self.hazard * self.segment))
        if failures[0] >= probability:
            return self.running
        if not math.isfinite(self.expected_hours):
            return math.inf
        low, high = self.running, self.running + len(failures) * (self.pause + self.segment)
        for _ in range(80):
            middle = (low + high) / 2
            if self._distribution(middle, failures) < probability:
                low = middle
            else:
                high = middle
        return high

    def _distribution(self, hours: float, failures: list[float]) -> float:
        """The probability that the job is done within `hours`, given the probabilities of 0, 1, 2 ... failures."""
        total = 0.0
        for count, probability in enumerate(failures):
            left = hours - self.running - count * self.pause
            if left < 0:
                break
            total += probability * _truncated_sum(left, count, self.hazard, self.segment)
        return total


def _poisson_quantile(mean: float, probability: float) -> int:
    """The least k with P(K <= k) >= probability for a Poisson number K.

    >>> _poisson_quantile(0.05, 0.9), _poisson_quantile(1.0, 0.9), _poisson_quantile(10.0, 0.9)
    (0, 2, 14)
    """
    if mean > 500:  # noqa: PLR2004 - exp(-mean) nears the smallest float; the normal form is within 0.1 % here
        return math.ceil(mean + NormalDist().inv_cdf(probability) * math.sqrt(mean) - 0.5)
    count, term = 0, math.exp(-mean)
    total = term
    while total < probability:
        count += 1
        term *= mean / count
        total += term
    return count


def _negative_binomial(successes: float, passing: float) -> list[float]:
    """P(0 failures), P(1), ... before `successes` successes of probability `passing`, up to a tail of TAIL.

    A fraction of a segment is carried by the gamma-function form of the binomial coefficient.
    """
    failing = 1.0 - passing
    log_term = successes * math.log(passing) if passing > 0 else -math.inf
    mean = successes * failing / passing if passing > 0 else math.inf
    if not math.isfinite(mean) or mean > 1e5:  # noqa: PLR2004 - past any job worth pricing
        return [0.0]
    terms: list[float] = []
    total, count = 0.0, 0
    limit = mean + 12 * math.sqrt(mean / passing) + 50
    while total < 1.0 - TAIL and count < limit:
        term = math.exp(log_term)
        terms.append(term)
        total += term
        log_term += math.log((successes + count) / (count + 1)) + (math.log(failing) if failing > 0 else -math.inf)
        count += 1
        if failing == 0:
            break
    return terms


def _truncated_sum(value: float, count: int, rate: float, length: float) -> float:
    """P(S <= value) for the sum S of `count` exponential times of `rate`, each cut off at `length`.

    Exact up to EXACT_TERMS (inclusion and exclusion over Erlang distributions); a normal form with the sum's mean and
    variance above.
    """
    if count == 0:
        return 1.0
    if value >= count * length:
        return 1.0
    if value <= 0:
        return 0.0
    if rate * length < 1e-4:  # noqa: PLR2004 - the exponential is flat over the segment: uniform to five digits
        rate = 1e-4 / length
    if count <= EXACT_TERMS:
        reach = -math.expm1(-rate * length)
        total = sum(
            (-1) ** index
            * math.comb(count, index)
            * math.exp(-rate * length * index)
            * _erlang(count, rate * (value - index * length))
            for index in range(count + 1)
            if value > index * length
        )
        return min(1.0, max(0.0, total / reach**count))
    mean, variance = _truncated_moments(rate, length)
    spread = math.sqrt(count * variance)
    return 0.5 * math.erfc((count * mean - value) / (spread * math.sqrt(2)))


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


def _truncated_moments(rate: float, length: float) -> tuple[float, float]:
    """Mean and variance of an exponential time of `rate` given that it is below `length`."""
    load = rate * length
    odds = load / math.expm1(load)
    mean = (1.0 - odds) / rate
    second = (2.0 * mean - length * odds) / rate
    return mean, max(0.0, second - mean * mean)
