"""The standard normal distribution; the import of `statistics` takes longer than this."""

import math
from functools import lru_cache

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
    return 0.5 * math.erfc(-z / math.sqrt(2.0))
