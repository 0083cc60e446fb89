"""The usage types of a bill's items: which lines of AWS's bill and price list are of which item."""

import re
from collections.abc import Iterable, Mapping
from decimal import Decimal

from launcher.catalog.bill import EVERYWHERE
from launcher.catalog.tables import BILL_ITEMS, read_cells
from launcher.model.record import record

REGION = re.compile(r"[a-z]{2}(-[a-z]+)+-\d")
"""A region's code, which the Key Management Service puts before its usage types."""


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
