"""Ranking and folding: thousands of outlines down to the rows a person reads, best first, the unpriced last."""

from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal

from launcher.model.enums import PurchaseOption
from launcher.model.quote import Quote
from launcher.pricing.compute import BOOT_H, interruptible
from launcher.pricing.gate import IMPOSSIBLE
from launcher.pricing.quoting import Desk, Outline

SEARCH_STEPS = 60
HIGHEST_RATE = 60.0
"""Interruptions an hour at which the search for the break-even ends: one a minute."""


def fold(outlines: Iterable[Outline]) -> list[Outline]:
    """The best outline of every type and purchase option: the cheapest that is priced, or else the shortest."""
    best: dict[tuple[str, str, str], Outline] = {}
    for each in outlines:
        key = (each.place.target, each.place.instance_type, each.place.option)
        if key not in best or _order(each) < _order(best[key]):
            best[key] = each
    return list(best.values())


def _order(drawn: Outline) -> tuple[bool, Decimal, float, int, str]:
    """Priced before unpriced, then cheap, then fast; ties by size and region so that the order is stable."""
    hours = drawn.cost.hours.mid if drawn.cost else drawn.work.hours.mid
    return (drawn.usd is None, drawn.usd or Decimal(0), hours, drawn.place.nodes, drawn.place.region)


def rank(quotes: Iterable[Quote], desk: Desk) -> tuple[Quote, ...]:
    """Quotes in the order they are shown, each spot quote with its break-even against the others."""
    ordered = sorted(quotes, key=_rank_order)
    rivals = [
        each.usd.mid
        for each in ordered
        if each.usd is not None
        and each.plan.place.option is not PurchaseOption.SPOT
        and each.gate.exit_code != IMPOSSIBLE
    ]
    cheapest = min(rivals, default=None)
    return tuple(_with_break_even(each, cheapest, desk) for each in ordered)


def _rank_order(quoted: Quote) -> tuple[bool, bool, Decimal, float, str, str]:
    """Possible before impossible, priced before unpriced, then by the middle total."""
    place = quoted.plan.place
    usd = quoted.usd.mid if quoted.usd else Decimal(0)
    impossible = quoted.gate.exit_code == IMPOSSIBLE
    return (quoted.usd is None, impossible, usd, quoted.hours.mid, place.instance_type, quoted.digest)


def _with_break_even(quoted: Quote, rival: Decimal | None, desk: Desk) -> Quote:
    """A spot quote with the interruption rate at which it costs what the cheapest other way does."""
    if quoted.spot is None or quoted.usd is None or quoted.usd_per_hour is None or rival is None:
        return quoted
    rest = sum((each.usd for each in quoted.components if each.usd and each.group != "compute"), Decimal(0))
    budget_h = float((rival - rest) / quoted.usd_per_hour) - BOOT_H
    rate = _break_even(quoted, desk, budget_h)
    return replace(quoted, spot=replace(quoted.spot, break_even_interruptions_per_hour=rate))


def _break_even(quoted: Quote, desk: Desk, budget_h: float) -> float:
    """The rate at which the expected hours reach `budget_h`; 0 when they are past it without any interruption."""

    def hours(rate: float) -> float:
        return interruptible(quoted.work.hours.mid, quoted.work, desk.request, rate).expected_hours

    low, high = 0.0, HIGHEST_RATE
    if hours(low) >= budget_h:
        return 0.0
    if hours(high) < budget_h:
        return HIGHEST_RATE
    for _ in range(SEARCH_STEPS):
        middle = (low + high) / 2
        if hours(middle) < budget_h:
            low = middle
        else:
            high = middle
    return high
