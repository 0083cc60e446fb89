"""The standard normal distribution (the import of `statistics` takes longer than this), and the root of a function."""

import math
from collections.abc import Callable
from functools import lru_cache

ROOT_STEPS, PRECISION = 40, 1e-10
ROOT_OF_TWO = math.sqrt(2.0)
Z_OF_THE_ENDS = 1.2815515655446004
"""Standard deviations from the median of a normal distribution to its 10th and 90th percentile."""


@lru_cache(maxsize=1024)
def normal_quantile(probability: float) -> float:
    """The quantile of a standard normal variable, by bisection.

    >>> round(normal_quantile(0.9), 6)
    1.281552
    """
    low, high = -10.0, 10.0
    for _ in range(60):
        middle = (low + high) / 2
        if normal_below(middle) < probability:
            low = middle
        else:
            high = middle
    return high


def normal_below(z: float) -> float:
    """The probability of at most z.

    >>> normal_below(0.0)
    0.5
    """
    return 0.5 * math.erfc(-z / ROOT_OF_TWO)


def root(excess: Callable[[float], float], low: float, high: float, *, precision: float = PRECISION) -> float:
    """Where a rising function is 0 between two values, by false position in its Illinois form.

    >>> round(root(lambda value: value**3 - 8.0, 0.0, 10.0), 6)
    2.0
    """
    under, over, side = excess(low), excess(high), 0
    if under >= 0.0:
        return low
    if over <= 0.0:
        return high
    for _ in range(ROOT_STEPS):
        if high - low <= precision * abs(high):
            break
        middle = high - over * (high - low) / (over - under)
        value = excess(middle)
        if abs(value) < precision:
            return middle
        if value < 0.0:
            low, under, over, side = middle, value, over * (0.5 if side < 0 else 1.0), -1
        else:
            high, over, under, side = middle, value, under * (0.5 if side > 0 else 1.0), 1
    return (low + high) / 2
