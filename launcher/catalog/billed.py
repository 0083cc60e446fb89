"""The service and the usage type of each line of a quote, from data/billed_lines.csv."""

import re
from collections.abc import Mapping
from decimal import Decimal
from functools import cache
from typing import NamedTuple

from launcher.catalog.tables import read_cells
from launcher.catalog.usage_types import UsageType, usage_types
from launcher.model.enums import Basis


class BilledAs(NamedTuple):
    """How a line of a quote appears on a bill.

    `usage_type` is without a region's prefix, empty if only the services are known. One of the quote's units
    is `units` of AWS's. `confirmed` is True if this was read in a public source, not remembered; `also` are further
    usage types of the same unit under which AWS bills a part of the line.
    """

    services: tuple[str, ...]
    usage_type: str
    units: Decimal
    confirmed: bool
    also: tuple[str, ...] = ()


def billed_as(name: str) -> BilledAs | None:
    """The bill entry of a named line; None if unknown.

    >>> billed_as("2 x p5.48xlarge spot").usage_type, billed_as("S3 uploads").units, billed_as("idle tail")
    ('SpotUsage:p5.48xlarge', Decimal('1000'), None)
    """
    for form, cells, item in _rows():
        match = form.fullmatch(name)
        if match is None:
            continue
        also = tuple(filter(None, cells["also"].split("|")))
        if item is not None:
            return BilledAs((item.service,), item.name, item.units, confirmed=True, also=also)
        usage_type = cells["usage_type"].format(**match.groupdict())
        sure = cells["basis"] != Basis.MEMORY.value
        return BilledAs(tuple(cells["service"].split("|")), usage_type, Decimal(1), confirmed=sure, also=also)
    return None


def service_code(name: str) -> str:
    """The code of a service by its name on a bill: the code itself, or a display name.

    >>> service_code("EC2 - Other"), service_code("AmazonEC2"), service_code("Amazon Polly")
    ('AmazonEC2', 'AmazonEC2', 'Amazon Polly')
    """
    return _services().get(name, name)


def is_usage_type(known: str, usage_type: str) -> bool:
    """Whether a usage type of a bill, with or without a region's prefix, is a known one.

    >>> is_usage_type("BoxUsage:p5.48xlarge", "USE2-BoxUsage:p5.48xlarge")
    True
    """
    nothing = Decimal(0)
    named = UsageType(item="", service="", name=known, unit="", units=nothing, starts_at=nothing)
    return named.names(usage_type)


@cache
def _rows() -> tuple[tuple[re.Pattern[str], Mapping[str, str], UsageType | None], ...]:
    items = {usage_type.item: usage_type for usage_type in usage_types()}
    return tuple(
        (re.compile(cells["line"]), cells, items[cells["item"]] if cells["item"] else None)
        for cells in read_cells("billed_lines.csv")
    )


@cache
def _services() -> Mapping[str, str]:
    return {cells["name"]: cells["code"] for cells in read_cells("billing_services.csv")}
