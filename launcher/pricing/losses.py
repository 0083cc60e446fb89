"""The distribution of the time a job loses to interruptions that send it back to the start of a segment.

Each segment is tried until it passes. A try that fails loses an exponential time cut off at the segment's length, and
a pause. The number of failures is negative binomial over the whole segments and geometric over the last, shorter one;
given the numbers, the lost time is a sum of cut-off exponentials, whose distribution is known: inclusion and exclusion
over Erlang distributions, exact as long as the alternating series keeps its digits. Where many failures are expected
the whole is close to a gamma distribution, which takes its place. Times in hours.
"""

import math
from typing import NamedTuple

MOST_EXPONENT = 700.0
"""exp() of more is past the largest float."""
EXACT_TERMS = 16
"""Sums of cut-off exponentials up to this many are exact; above, their alternating series loses six digits."""
EXACT_BELOW = 4.0
"""Expected interruptions up to which the distribution is exact; above, it is taken as a gamma distribution."""
TAIL = 1e-6
"""Probability left out of the sum over numbers of interruptions."""
MANY = 400.0
"""Expected interruptions from which a Poisson number is taken as normal."""
LESS_THAN_ONE = 1e-4
"""Loads (rate times length) below it are flat over a segment to five digits."""
PRECISION = 1e-5
"""To which a quantile is found, as a share of itself."""


class Segments(NamedTuple):
    """`whole` segments of `length` hours, each stored `lag` hours later, then one of `last` hours that ends the job.

    `rate` is in interruptions per hour.
    """

    whole: int
    length: float
    last: float
    rate: float
    lag: float


def retries(rate: float, length: float) -> float:
    """Failures expected before a segment of `length` hours passes.

    >>> retries(0.5, 0.0), round(retries(0.5, 1.0), 4)
    (0.0, 0.6487)
    """
    return math.expm1(min(rate * length, MOST_EXPONENT))


def stored_retries(parts: Segments) -> float:
    """Failures expected before one of the whole segments is stored."""
    return retries(parts.rate, parts.length) * math.exp(min(parts.rate * parts.lag, MOST_EXPONENT))


def expected_retries(parts: Segments) -> float:
    """Failures expected before all segments pass.

    From the renewal equation N(n) = 1 - q^n + sum of p(k) N(n - k), with q = exp(-rate S) the chance that a segment
    passes and exp(-rate (k S + L)) the chance that at least k segments are stored before the next failure.
    """
    whole = parts.whole * stored_retries(parts) if parts.whole else 0.0
    return whole + retries(parts.rate, parts.last)


def _lost_to_lag(parts: Segments) -> float:
    """Hours lost with each failure beside the try itself, on average.

    The running time that so many failures come from, less the job's own and less the tries that failed.
    """
    if not parts.whole or not parts.lag:
        return 0.0
    first, last = parts.whole * stored_retries(parts), retries(parts.rate, parts.last)
    ran = (first + last) / parts.rate - parts.whole * parts.length - parts.last
    tried = first * cut_off_moments(parts.rate, parts.length)[0] + last * cut_off_moments(parts.rate, parts.last)[0]
    return max(0.0, ran - tried) / (first + last)


def normal_quantile(probability: float) -> float:
    """The quantile of a standard normal variable, by bisection: `statistics` takes longer to import than this to run.

    >>> round(normal_quantile(0.9), 6)
    1.281552
    """
    low, high = -10.0, 10.0
    for _ in range(60):
        middle = (low + high) / 2
        if 0.5 * math.erfc(-middle / math.sqrt(2)) < probability:
            low = middle
        else:
            high = middle
    return high


def poisson_quantile(mean: float, probability: float) -> int:
    """The least k with P(K <= k) >= probability for a Poisson number K.

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
    """The least number of lost hours that is not exceeded with at least this probability; infinite past any use."""
    mean = expected_retries(parts)
    if not math.isfinite(mean) or mean >= math.exp(MOST_EXPONENT / 2):
        return math.inf
    pause = restart + _lost_to_lag(parts)
    if mean >= EXACT_BELOW:
        return _gamma_quantile(parts, pause, probability)
    counts = _counts(parts)
    if counts[0][2] >= probability:
        return 0.0
    low, high = 0.0, max(whole + last for whole, last, _ in counts) * (pause + max(parts.length, parts.last))
    for _ in range(60):
        if high - low <= PRECISION * high:
            break
        middle = (low + high) / 2
        if _distribution(middle, parts, pause, counts) < probability:
            low = middle
        else:
            high = middle
    return high


def _counts(parts: Segments) -> list[tuple[int, int, float]]:
    """Probabilities of numbers of failures in whole segments and in the last, fewest first, up to a tail of TAIL."""
    whole = _negative_binomial(parts.whole, stored_retries(parts))
    last = _negative_binomial(1, retries(parts.rate, parts.last))
    pairs = [(i, j, p * q) for i, p in enumerate(whole) for j, q in enumerate(last) if p * q > TAIL / 100]
    return sorted(pairs, key=lambda pair: pair[0] + pair[1])


def _negative_binomial(successes: int, failures: float) -> list[float]:
    """P(0 failures), P(1), ... before `successes` tries pass, when `failures` are expected before each."""
    if successes == 0 or failures == 0:
        return [1.0]
    mean = successes * failures
    limit = mean + 12 * math.sqrt(mean * (1 + failures)) + 50
    log_failing = math.log(failures) - math.log1p(failures)
    log_term = -successes * math.log1p(failures)
    terms: list[float] = []
    total, count = 0.0, 0
    while total < 1.0 - TAIL and count < limit:
        term = math.exp(log_term)
        terms.append(term)
        total += term
        log_term += math.log((successes + count) / (count + 1)) + log_failing
        count += 1
    return terms


def _distribution(lost: float, parts: Segments, pause: float, counts: list[tuple[int, int, float]]) -> float:
    """The probability that at most `lost` hours are lost."""
    total = 0.0
    for whole, last, probability in counts:
        left = lost - (whole + last) * pause
        if left < 0 and pause > 0:
            break
        total += probability * _sum_below(left, parts, whole, last)
    return total


def _sum_below(value: float, parts: Segments, whole: int, last: int) -> float:
    """P(S <= value) for the sum of `whole` exponentials cut off at `length` and `last` ones cut off at `last`."""
    count = whole + last
    if count == 0 or value >= whole * parts.length + last * parts.last:
        return 1.0
    if value <= 0:
        return 0.0
    if count <= EXACT_TERMS:
        return _exactly_below(value, parts, whole, last)
    mean, variance = _moments(parts, whole, last)
    return 0.5 * math.erfc((mean - value) / math.sqrt(2 * variance))


def _exactly_below(value: float, parts: Segments, whole: int, last: int) -> float:
    """The same by inclusion and exclusion over Erlang distributions.

    The transform of a cut-off exponential is that of an exponential times (1 - exp(-rate L) exp(-s L)) / P(T < L);
    multiplied out, the sum is a sum of shifted Erlang distributions.
    """
    length, short = parts.length, parts.last
    rate = max(parts.rate, LESS_THAN_ONE / (length if whole else short))
    terms = []
    for one in range(whole + 1):
        for two in range(last + 1):
            shift = one * length + two * short
            if shift >= value:
                break
            sign = -1 if (one + two) % 2 else 1
            ways = math.comb(whole, one) * math.comb(last, two)
            terms.append(sign * ways * math.exp(-rate * shift) * _erlang(whole + last, rate * (value - shift)))
    scale = (-math.expm1(-rate * length)) ** whole * (-math.expm1(-rate * short)) ** last
    return min(1.0, max(0.0, math.fsum(terms) / scale))


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


def _moments(parts: Segments, whole: int, last: int) -> tuple[float, float]:
    """Mean and variance of the sum of so many cut-off exponentials of both lengths."""
    mean = variance = 0.0
    for count, length in ((whole, parts.length), (last, parts.last)):
        if count:
            one, spread = cut_off_moments(parts.rate, length)
            mean, variance = mean + count * one, variance + count * spread
    return mean, max(variance, 1e-300)


def cut_off_moments(rate: float, length: float) -> tuple[float, float]:
    """Mean and variance of an exponential time of `rate` given that it is below `length`.

    >>> [round(each, 4) for each in cut_off_moments(1e-9, 1.0)]
    [0.5, 0.0833]
    """
    load = rate * length
    if load < LESS_THAN_ONE:
        return length / 2, length * length / 12
    if load > MOST_EXPONENT:
        return 1.0 / rate, 1.0 / rate**2
    odds = load / math.expm1(load)
    mean = (1.0 - odds) / rate
    second = (2.0 * mean - length * odds) / rate
    return mean, max(0.0, second - mean * mean)


def _gamma_quantile(parts: Segments, pause: float, probability: float) -> float:
    """The quantile of the loss as a gamma variable of its mean and variance over numbers of failures and times.

    Many segments make it normal, one that is tried again and again exponential, and a gamma variable is both. Its
    quantile is E. B. Wilson's and M. M. Hilferty's (PNAS 17(12), 1931), within 1 % at the 90th percentile.
    """
    mean = variance = 0.0
    each_of = ((parts.whole, parts.length, stored_retries(parts)), (1, parts.last, retries(parts.rate, parts.last)))
    for tries, length, failures in each_of:
        if tries and length > 0:
            one, spread = cut_off_moments(parts.rate, length)
            mean += tries * failures * (pause + one)
            variance += tries * (failures * spread + failures * (1 + failures) * (pause + one) ** 2)
    ninth = variance / (9.0 * mean * mean)
    return mean * max(0.0, 1.0 - ninth + normal_quantile(probability) * math.sqrt(ninth)) ** 3
