"""The rate of a training run from the ends of its steps."""

import statistics
from collections.abc import Sequence
from itertools import pairwise

from launcher.model.money import Range

LOW, HIGH = 0.05, 0.95


def rates(ends: Sequence[Sequence[float]], warm_up: int, tokens: int) -> tuple[Range, Range]:
    """Tokens per second and seconds per step: the middle over all repeats, low and high over single steps.

    Args:
        ends: of the steps of each repeat, in seconds.
        warm_up: steps of a repeat that do not count.
        tokens: of one step, over all chips.
    """
    steps = [after - before for repeat in ends for before, after in pairwise(repeat[warm_up:])]
    single = sorted(steps)
    fast, slow = (single[round(share * (len(single) - 1))] for share in (LOW, HIGH))
    middle = statistics.fmean(steps)
    seconds = Range(low=min(fast, middle), mid=middle, high=max(slow, middle))
    return Range(low=tokens / seconds.high, mid=tokens / seconds.mid, high=tokens / seconds.low), seconds
