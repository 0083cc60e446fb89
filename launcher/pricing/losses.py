"""Quantiles of the number of interruptions and of the time that they cost.

Below EXACT_BELOW expected interruptions the time lost is taken from its exact distribution, see `loss_mixture`; from
there on the whole is close to a gamma distribution, which takes its place. Times in hours.
"""

import math

from launcher.pricing.loss_mixture import PRECISION, loss_quantile, lost_within
from launcher.pricing.segments import Segments, expected_retries, lost

EXACT_BELOW = 5.0
"""Expected interruptions from which the distribution is taken as a gamma distribution."""
MANY = 400.0
"""Expected interruptions from which a Poisson number is taken as normal."""
ENDLESS = 1e100
"""Expected interruptions of a job that never ends, whose quantiles are infinite."""


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
    if not mean < ENDLESS:
        return math.inf
    if mean < EXACT_BELOW:
        return loss_quantile(parts, restart, probability)
    return _gamma_quantile(parts, restart, probability)


def is_lost_within(parts: Segments, restart: float, hours: float, probability: float) -> bool:
    """Whether the quantile is known, without looking for it, to be no more than so many hours; False says nothing."""
    few = expected_retries(parts) < EXACT_BELOW
    return few and hours > 0 and lost_within(parts, restart, hours * (1 - 2 * PRECISION)) >= probability


def _gamma_quantile(parts: Segments, restart: float, probability: float) -> float:
    """The quantile of the loss as a gamma variable of its mean and variance.

    Many segments make it normal, one that is tried again and again exponential, and a gamma variable is both. Its
    quantile is E. B. Wilson's and M. M. Hilferty's (PNAS 17(12), 1931), within 1 % at the 90th percentile.
    """
    mean, variance = lost(parts, restart)
    ninth = variance / (9.0 * mean * mean)
    return mean * max(0.0, 1.0 - ninth + normal_quantile(probability) * math.sqrt(ninth)) ** 3
