"""Probabilities: that a job exceeds a limit, that one costs less than another, and of its number of failures."""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import lru_cache
from typing import TypeAlias

from launcher.model.money import Range
from launcher.pricing.normal import Z_OF_THE_ENDS

BothOutcomes: TypeAlias = tuple[tuple[float, ...], tuple[float, ...]]
"""Equally likely totals of a run on GPU and on Trainium, in dollars."""
TARGET_CHANCE = 0.9
"""The chance to finish that `run.retries: auto` aims at: a policy of this project, stated in its contract."""
MAX_EXACT = 500.0
"""Expected failures above which the normal distribution replaces the Poisson distribution."""
Z_OF_ENOUGH = 1.2816
"""The 90 % quantile of the standard normal distribution."""


def chance_above(span: Range, limit: float) -> float:
    """The chance that a quantity with a range exceeds a limit: a lognormal, each side with its own width.

    >>> span = Range(low=5.0, mid=10.0, high=20.0)
    >>> [round(chance_above(span, limit), 3) for limit in (0.0, 5.0, 10.0, 20.0, 40.0)]
    [1.0, 0.9, 0.5, 0.1, 0.005]
    """
    if limit <= 0 or span.mid <= 0:
        return 1.0 if limit < span.mid else 0.0
    end = span.high if limit >= span.mid else span.low
    width = abs(math.log(end / span.mid)) if end > 0 else math.inf
    if width == 0:
        return 1.0 if limit < span.mid else 0.0
    return 0.5 * math.erfc(math.log(limit / span.mid) / width * Z_OF_THE_ENDS / math.sqrt(2))


def chance_below(one: Sequence[float], other: Sequence[float]) -> float:
    """The chance that one quantity is below another, independent of it; each is given by equally likely values.

    >>> chance_below([1.0, 2.0, 4.0], [3.0, 5.0]), chance_below([3.0, 5.0], [3.0, 5.0])
    (0.8333333333333334, 0.5)
    """
    values = sorted(other)
    above = sum(2 * len(values) - bisect_left(values, value) - bisect_right(values, value) for value in one)
    return above / (2 * len(values) * len(one))


def chance_of_at_most(failures: float, count: int) -> float:
    """The chance of at most `count` failures if `failures` are expected, independent of each other (Poisson).

    >>> round(chance_of_at_most(6.9, 0), 4), round(chance_of_at_most(6.9, 10), 2)
    (0.001, 0.91)
    """
    term = total = math.exp(-failures)
    for number in range(1, count + 1):
        term *= failures / number
        total += term
    return min(1.0, total)


@lru_cache(maxsize=1024)
def needed_retries(failures: float) -> int:
    """The fewest retries that let a job finish with the chance TARGET_CHANCE if `failures` are expected.

    >>> [needed_retries(failures) for failures in (0.0, 0.1, 0.2, 1.0, 6.9)]
    [0, 0, 1, 2, 10]
    """
    if failures > MAX_EXACT:
        return math.ceil(failures + Z_OF_ENOUGH * math.sqrt(failures))
    count = 0
    while chance_of_at_most(failures, count) < TARGET_CHANCE:
        count += 1
    return count
