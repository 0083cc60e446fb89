"""The standard normal distribution (the import of `statistics` takes longer than this), and the root of a function."""

import math
from collections.abc import Callable
from functools import lru_cache

ROOT_STEPS, PRECISION = 40, 1e-10
ROOT_OF_TWO, ROOT_OF_TWO_PI = math.sqrt(2.0), math.sqrt(2.0 * math.pi)
FARTHEST = 10.0
Z_OF_THE_ENDS = 1.2815515655446004
"""Standard deviations from the median of a normal distribution to its 10th and 90th percentile."""


@lru_cache(maxsize=1024)
def normal_quantile(probability: float) -> float:
    """The quantile of a standard normal variable, from -FARTHEST to FARTHEST.

    The start is formula 26.2.23 of M. Abramowitz and I. A. Stegun, exact to 0.0005; each step by E. Halley's method
    triples the exact digits.

    >>> round(normal_quantile(0.9), 6), round(normal_quantile(0.1), 6)
    (1.281552, -1.281552)
    """
    if probability > 0.5:  # noqa: PLR2004 - a half
        return -normal_quantile(1.0 - probability)
    if probability <= normal_below(-FARTHEST):
        return -FARTHEST
    t = math.sqrt(-2.0 * math.log(probability))
    z = (2.515517 + t * (0.802853 + t * 0.010328)) / (1.0 + t * (1.432788 + t * (0.189269 + t * 0.001308))) - t
    for _ in range(2):
        step = (normal_below(z) - probability) * ROOT_OF_TWO_PI * math.exp(z * z / 2.0)
        z -= step / (1.0 + z * step / 2.0)
    return z


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
