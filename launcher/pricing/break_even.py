"""The interruption rate at which spot stops being cheaper than the next way to buy."""

from decimal import Decimal

from launcher.model.money import Price
from launcher.pricing.bill_lines import JobSize
from launcher.pricing.compute import FOREVER_H, around_hours
from launcher.pricing.interruptible import on_spot
from launcher.pricing.training_candidate import TrainingCandidate

SEARCH_STEPS = 50
FIRST_RATE = 1.0
MOST_RATE = 1e9


def break_even(candidate: TrainingCandidate, rival_usd: Decimal | None) -> float | None:
    """Interruptions of the job per hour at which its total reaches the rival's; 0 when it is dearer without any.

    None when there is no rival, or the candidate is not a priced one on spot.
    """
    if rival_usd is None or candidate.usd is None or candidate.hazard is None:
        return None
    target = float(rival_usd)
    if not _is_below(candidate, 0.0, target):
        return 0.0
    low, high = 0.0, FIRST_RATE
    while high < MOST_RATE and _is_below(candidate, high, target):
        low, high = high, high * 4
    for _ in range(SEARCH_STEPS):
        if high - low <= high * 1e-9:
            break
        middle = (low + high) / 2
        if _is_below(candidate, middle, target):
            low = middle
        else:
            high = middle
    return high


def _is_below(candidate: TrainingCandidate, rate: float, target: float) -> bool:
    """Whether the whole bill in the middle case is less at an interruption rate, the interval being the best for it.

    The lines beside the compute are added up to the digit only where plain numbers cannot tell.
    """
    request, price = candidate.context.request, candidate.offer.price
    assert isinstance(price, Price)  # noqa: S101 - the caller has looked
    told = on_spot(candidate.work.hours.mid, candidate.work, request, rate)
    hours = min(told.job.expected_hours, FOREVER_H)
    tail = candidate.charge.tail if candidate.charge is not None else None
    around = around_hours(candidate.place, candidate.work, request, hours, learned=tail)
    losses = (rate + candidate.work.node_failures_per_h) * hours
    size = JobSize(hours=hours, checkpoint_interval_s=told.interval_s, around_h=around, losses=losses)
    compute, other = float(price.usd) * candidate.place.nodes * size.nodes_h, candidate.rest.other_usd(size)
    if other is not None and compute + other[1] < target:
        return True
    if other is not None and compute + other[0] >= target:
        return False
    return compute + float(candidate.rest.total_usd(size)) < target
