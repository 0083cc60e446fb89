"""Segments of work that are repeated until they succeed: the number of failures, and the length of a failed try.

Times in hours, rates per hour.
"""

import math
from typing import NamedTuple

MAX_EXPONENT = 700.0
"""exp() of a larger value exceeds the largest float."""
LESS_THAN_ONE = 1e-4
"""Loads (rate times length) below it are flat over a segment to five digits."""


class Segments(NamedTuple):
    """`full` segments of `length` hours, each stored `lag` hours later, then one of `last` hours that ends the job.

    `rate` is in interruptions per hour. `last` is not shorter than `lag`, unless there are no whole segments.
    """

    full: int
    length: float
    last: float
    rate: float
    lag: float


class Moments(NamedTuple):
    """Mean and variance of a number of hours."""

    mean: float
    variance: float


def retries(rate: float, length: float) -> float:
    """Failures expected before a segment of `length` hours passes.

    >>> retries(0.5, 0.0), round(retries(0.5, 1.0), 4)
    (0.0, 0.6487)
    """
    return math.expm1(min(rate * length, MAX_EXPONENT))


def expected_retries(parts: Segments) -> float:
    """Failures expected before all segments pass.

    From the renewal equation N(n) = 1 - q^n + sum of p(k) N(n - k), with q = exp(-rate S) the chance that a segment
    passes and exp(-rate (k S + L)) the chance that at least k segments are stored before the next failure.
    """
    last = retries(parts.rate, parts.last)
    if not parts.full:
        return last
    stored = retries(parts.rate, parts.length) * math.exp(min(parts.rate * parts.lag, MAX_EXPONENT))
    return parts.full * stored + last


def cut_off(rate: float, length: float) -> Moments:
    """Mean and variance of an exponential time of `rate` given that it is below `length`.

    >>> [round(each, 4) for each in cut_off(1e-9, 1.0)]
    [0.5, 0.0833]
    """
    load = rate * length
    if load < LESS_THAN_ONE:
        return Moments(length / 2, length * length / 12)
    if load > MAX_EXPONENT:
        return Moments(1.0 / rate, 1.0 / rate**2)
    odds = load / math.expm1(load)
    mean = (1.0 - odds) / rate
    second = (2.0 * mean - length * odds) / rate
    return Moments(mean, max(0.0, second - mean * mean))


def lost_hours(parts: Segments, pause: float) -> Moments:
    """Mean and variance of the hours that all failures cost, a `pause` after each included.

    A full segment is hit with probability 1 - exp(-rate S). A hit costs the lag and the part that was run, and then
    all further failures until a run of S and L passes.
    """
    again, hit = cut_off(parts.rate, parts.length + parts.lag), cut_off(parts.rate, parts.length)
    more = retries(parts.rate, parts.length + parts.lag)
    one = pause + parts.lag + hit.mean + more * (pause + again.mean)
    spread = hit.variance + more * again.variance + more * (1 + more) * (pause + again.mean) ** 2
    chance = -math.expm1(-parts.rate * parts.length)
    ending, failed = cut_off(parts.rate, parts.last), retries(parts.rate, parts.last)
    return Moments(
        parts.full * chance * one + failed * (pause + ending.mean),
        parts.full * chance * (spread + (1 - chance) * one * one)
        + failed * ending.variance
        + failed * (1 + failed) * (pause + ending.mean) ** 2,
    )
