"""The lines of a quote as AWS bills them: components with one usage type form one line, as in the bill."""

from collections.abc import Iterable
from decimal import Decimal

from launcher.catalog.billed import BilledAs, billed_as
from launcher.model.bill import QuotedLine
from launcher.model.enums import PREPAID
from launcher.records.stored_quote import StoredLine, StoredQuote

MONTH_H = Decimal(730)


def quoted_lines(quote: StoredQuote, hours: Decimal | None = None) -> tuple[QuotedLine, ...]:
    """The lines of a quote by service and usage type, in the order of the quote.

    `hours`: the hours of the period for a monthly quote; None for a quote of an entire job.
    """
    scale = Decimal(1) if quote.serving is None or hours is None else hours / MONTH_H
    whole = quote.purchase_option in {option.value for option in PREPAID}
    groups: dict[tuple[tuple[str, ...], str], list[tuple[StoredLine, BilledAs]]] = {}
    instances: BilledAs | None = None
    computed: tuple[tuple[str, ...], str] | None = None
    for component in quote.components:
        known = billed_as(component.name)
        if component.group == "compute":
            # Lines without an own name belong to the same instances: start-up, idle tail, deployments.
            known = instances = known or instances
        if known is None:
            known = BilledAs((), f"? {component.name}", Decimal(1), confirmed=False)
        key = (known.services, known.usage_type)
        computed = computed or (key if component.group == "compute" else None)
        groups.setdefault(key, []).append((component, known))
    return tuple(_line(parts, scale, takes_fees=whole and key == computed) for key, parts in groups.items())


def _line(members: Iterable[tuple[StoredLine, BilledAs]], scale: Decimal, *, takes_fees: bool) -> QuotedLine:
    listed = list(members)
    first, known = listed[0]
    sums = [component.usd for component, _ in listed]
    quantity = sum((Decimal(repr(component.quantity)) * part.units for component, part in listed), Decimal(0))
    return QuotedLine(
        names=tuple(component.name for component, _ in listed),
        services=known.services,
        usage_type=known.usage_type if known.services else "",
        unit=unit_of(first.unit, known.units),
        quantity=quantity * scale if known.usage_type and known.services else None,
        usd=None if None in sums else sum((sum_ for sum_ in sums if sum_ is not None), Decimal(0)) * scale,
        confirmed=known.confirmed,
        takes_fees=takes_fees,
        also=known.also,
    )


def unit_of(unit: str, units: Decimal) -> str:
    """The name of AWS's unit if the quote's unit is a multiple of that unit.

    >>> unit_of("1000 requests", Decimal(1000)), unit_of("GB-month", Decimal(1))
    ('requests', 'GB-month')
    """
    return unit if units == 1 else unit.partition(" ")[2] or unit
