r"""The checkpoint interval: Daly's optimum, and the cost of checkpointing at any interval.

Sources:
    Young 1974: J. W. Young, "A first order approximation to the optimum checkpoint interval", Communications of the ACM
    17(9), 530-531: sqrt(2 C M), the first term of Daly's.
    Daly 2006: J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps", Future
    Generation Computer Systems 22(3), 303-312, doi:10.1016/j.future.2004.11.016. Its figures 3 to 5 (M = 24 h, 6 h and
    15 min, C = 5 min) give 117, 57 and 9.1 minutes: the tests check the formula against them.

The model assumes interruptions that arrive as a Poisson process. Times are seconds. The interval is the time of useful
work between the end of one checkpoint and the start of the next, as in Daly. Standard library only: pricing and the
node use the same formulas.
"""

import math


def daly_interval_s(*, checkpoint_s: float, mtbf_s: float) -> float:
    """Daly's higher-order interval (Daly 2006).

    sqrt(2 C M) [1 + 1/3 sqrt(C / 2M) + 1/9 (C / 2M)] - C while C < 2M, and M from there on. It is shorter than Young's
    for cheap checkpoints: the work between two checkpoints, without the checkpoint itself.

    Args:
        checkpoint_s: C, seconds that the work waits for one checkpoint, > 0.
        mtbf_s: M, mean seconds between interruptions of the whole job, > 0 (infinity: never).

    Raises:
        ValueError: an argument is out of its range.

    >>> round(daly_interval_s(checkpoint_s=30, mtbf_s=24 * 3600))
    2257
    >>> daly_interval_s(checkpoint_s=500, mtbf_s=200)
    200
    """
    _require_positive(checkpoint_s=checkpoint_s, mtbf_s=mtbf_s)
    if math.isinf(mtbf_s):
        return math.inf
    ratio = checkpoint_s / (2.0 * mtbf_s)
    if ratio >= 1.0:
        return mtbf_s
    return math.sqrt(2.0 * checkpoint_s * mtbf_s) * (1.0 + math.sqrt(ratio) / 3.0 + ratio / 9.0) - checkpoint_s


def overhead_fraction(*, checkpoint_s: float, interval_s: float, mtbf_s: float, restart_s: float = 0.0) -> float:
    """Expected extra wall time per second of useful work: checkpoints, lost work and restarts.

    Daly's complete model (2006): the expected time for T seconds of work is M exp(R/M) (exp((tau + C)/M) - 1) T / tau;
    the fraction is this time over T, minus 1. A 100 h run at 0.04 needs 104 h. Without interruptions C / tau remains.

    Args:
        checkpoint_s: C, seconds that the work waits for one checkpoint, >= 0.
        interval_s: tau, seconds of work between checkpoints, > 0.
        mtbf_s: M, mean seconds between interruptions of the whole job, > 0 (infinity: never).
        restart_s: R, seconds from an interruption until the work continues from its checkpoint, >= 0.

    Returns:
        The fraction, >= 0; infinity if the job would practically never end.

    Raises:
        ValueError: an argument is out of its range.

    >>> overhead_fraction(checkpoint_s=30, interval_s=1500, mtbf_s=math.inf)
    0.02
    >>> round(overhead_fraction(checkpoint_s=30, interval_s=2257, mtbf_s=24 * 3600, restart_s=300), 4)
    0.0304
    """
    _require_positive(interval_s=interval_s, mtbf_s=mtbf_s)
    _require_not_negative(checkpoint_s=checkpoint_s, restart_s=restart_s)
    if math.isinf(mtbf_s):
        return checkpoint_s / interval_s
    try:
        wall = mtbf_s * math.exp(restart_s / mtbf_s) * math.expm1((interval_s + checkpoint_s) / mtbf_s)
    except OverflowError:
        return math.inf
    return max(0.0, wall / interval_s - 1.0)


def _require_positive(**values: float) -> None:
    for name, value in values.items():
        if not value > 0:
            raise ValueError(f"{name} is {value}; it must be above 0")


def _require_not_negative(**values: float) -> None:
    for name, value in values.items():
        if not value >= 0:
            raise ValueError(f"{name} is {value}; it must not be negative")
