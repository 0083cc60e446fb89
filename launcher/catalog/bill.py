"""Unit prices of the other lines of a bill, with their quantity tiers."""

import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal

from launcher.catalog.selection import newest, price_of
from launcher.catalog.store import Store, TierRow
from launcher.catalog.tables import BILL_ITEMS, FREE, read_cells
from launcher.model.enums import Basis
from launcher.model.money import Price, Tier, Unpriced
from launcher.model.record import record

REGION = re.compile(r"[a-z]{2}(-[a-z]+)+-\d")
"""A region's code, which the Key Management Service puts before its usage types."""
_READ = frozenset((Basis.LISTED.value, Basis.DERIVED.value))
_MEMORY = frozenset((Basis.MEMORY.value,))
EVERYWHERE = "*"
"""The region of an item with the same price in all regions."""


@record
class UsageType:
    """The entry of a bill item in AWS's Price List."""

    item: str
    # The service whose usage type it is.
    service: str
    # The usage type without the prefix of a region; "" for any.
    name: str
    # The list's own unit if it differs from the item's, empty if it is not compared.
    unit: str
    # One of the list's units times this is one of the item's.
    units: Decimal
    # A quantity below is free and not in the list.
    starts_at: Decimal
    # The product attributes that distinguish it from others of the usage type, including the family.
    attributes: tuple[tuple[str, str], ...] = ()
    # A product that is the same in all regions names none.
    everywhere: bool = False
    # The part that no public reading of the list confirms, empty if all is confirmed.
    doubt: str = ""
    # Several products with different prices are expected, and the highest price counts.
    dearest: bool = False

    def matches(self, attributes: Mapping[str, str]) -> bool:
        """Whether a product with these attributes matches."""
        if self.name and not self.names(attributes.get("usagetype", "")):
            return False
        return all(attributes.get(name) == value for name, value in self.attributes)

    def is_listed_in(self, region: str) -> bool:
        """Whether the list should have the item in a region or in EVERYWHERE; a region sends nothing to itself."""
        return self.everywhere is (region == EVERYWHERE) and ("toRegionCode", region) not in self.attributes

    def names(self, usage_type: str) -> bool:
        """Whether a usage type of the list, with or without a region's prefix, matches.

        >>> hours = UsageType(item="", service="", name="NatGateway-Hours", unit="", units=1, starts_at=0)
        >>> [hours.names(each) for each in ("USE2-NatGateway-Hours", "NatGateway-Hours", "NatGateway-Hours-Free")]
        [True, True, False]
        >>> keys = UsageType(item="", service="", name="KMS-Keys", unit="", units=1, starts_at=0)
        >>> [keys.names(each) for each in ("us-east-1-KMS-Keys", "Unmanaged-KMS-Keys")]
        [True, False]
        """
        if usage_type == self.name:
            return True
        prefix = usage_type.removesuffix(f"-{self.name}")
        if prefix == usage_type:
            return False
        return (prefix.isalnum() and prefix.isupper()) or REGION.fullmatch(prefix) is not None


def usage_types() -> tuple[UsageType, ...]:
    """The bill items that the Price List's files are known to contain."""
    return tuple(
        UsageType(
            item=cells["item"],
            service=cells["service"],
            name=cells["usage_type"],
            unit=cells["unit"],
            units=Decimal(cells["units"]),
            starts_at=Decimal(cells["starts_at"] or 0),
            attributes=tuple(_pair(pair) for pair in cells["attributes"].split(";") if pair),
            everywhere=cells["everywhere"] == "yes",
            doubt=cells["doubt"],
            dearest=cells["several"] == "dearest",
        )
        for cells in read_cells("bill_usage_types.csv")
    )


def _pair(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name, value


def usage_types_of(service: str, region: str) -> tuple[UsageType, ...]:
    """The usage types of a service in a region; those that are the same everywhere have EVERYWHERE as their region."""
    return tuple(
        usage_type for usage_type in usage_types() if usage_type.service == service and usage_type.is_listed_in(region)
    )


def item_questions(regions: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """The service and region pairs to query for all bill items of some regions, each pair once."""
    every = usage_types()
    everywhere = dict.fromkeys((usage_type.service, EVERYWHERE) for usage_type in every if usage_type.everywhere)
    services = dict.fromkeys(usage_type.service for usage_type in every if not usage_type.everywhere)
    return (*((service, region) for region in regions for service in services), *everywhere)


def item_units() -> dict[str, str]:
    """The catalog's unit of each bill item."""
    return {cells["item"]: cells["unit"] for cells in read_cells(BILL_ITEMS.path)}


def newer_rows(regional: Sequence[TierRow], everywhere: Sequence[TierRow], until: str) -> Sequence[TierRow]:
    """A region's rows of an item, or those of all regions if they are newer; tiers of both never mix."""
    days = [
        max((row.as_of for row in rows if row.as_of <= until and row.basis in _READ), default="")
        for rows in (regional, everywhere)
    ]
    return everywhere if not regional or days[1] > days[0] else regional


def price_item(item: str, rows: Sequence[TierRow], store: Store, until: str) -> Price | Unpriced:
    """The price of one item in one region from the rows of its tiers.

    Each tier is priced by its newest listed or derived row, or by a row from memory if it has no other. Quantities
    below the first tier are free. The last known tier is open-ended; tier prices fall, so any error is upwards.
    """
    chosen = current_tiers(rows, until)
    if not chosen:
        return Unpriced(reason=_reason(item, rows, until))
    first = chosen[0]
    usd = Decimal(0) if first.usd == FREE else Decimal(first.usd)
    oldest = min(row.as_of for row in chosen)
    return price_of(first, str(usd), store, note=_remarks(chosen), as_of=oldest, tiers=_tiers(chosen))


def current_tiers(rows: Sequence[TierRow], until: str) -> list[TierRow]:
    """The row that prices each tier on `until`, lowest tier first, up to the first open-ended tier."""
    chosen: list[TierRow] = []
    for start in sorted({Decimal(row.tier_from) for row in rows}):
        same = [row for row in rows if Decimal(row.tier_from) == start]
        row = newest(same, _number, until) or newest(same, _number, until, _MEMORY)
        if row is not None:
            chosen.append(row)
        if row is not None and not row.tier_to:
            break
    return chosen


def _number(row: TierRow) -> str:
    return "0" if row.usd == FREE else row.usd


def _tiers(rows: Sequence[TierRow]) -> tuple[Tier, ...]:
    """Tiers from zero without an end; empty if one price applies to every quantity."""
    starts = [Decimal(row.tier_from) for row in rows]
    if len(rows) == 1 and not starts[0]:
        return ()
    ends: list[Decimal | None] = [*starts[1:], None]
    tiers = [
        Tier(start=start, end=end, usd=Decimal(_number(row)))
        for start, end, row in zip(starts, ends, rows, strict=True)
    ]
    if starts[0]:
        tiers.insert(0, Tier(start=Decimal(0), end=starts[0], usd=Decimal(0)))
    return tuple(tiers)


def _remarks(rows: Sequence[TierRow]) -> str:
    remarks = []
    if rows[0].usd == FREE:
        remarks.append("free of charge")
    if len(rows) > 1 and any(row.basis != rows[0].basis for row in rows[1:]):
        weaker = next(row for row in rows[1:] if row.basis != rows[0].basis)
        remarks.append(f"{weaker.basis} above {weaker.tier_from} {weaker.unit}")
    if rows[-1].tier_to:
        remarks.append(f"no price is known above {rows[-1].tier_to} {rows[-1].unit}: the last one is used")
    return "; ".join(remarks)


def _reason(item: str, rows: Sequence[TierRow], until: str) -> str:
    if not rows:
        return f"no price of {item} is known in this region"
    early = [row for row in rows if row.as_of <= until]
    if not early:
        return f"no price of {item} is known on or before {until}: the first is of {min(row.as_of for row in rows)}"
    return early[0].note or f"no price of {item} is known"
