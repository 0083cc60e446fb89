"""Rows of a bill from an AWS export: CUR 2.0, the older Cost and Usage Report, and FOCUS.

Columns: AWS Data Exports user guide, table COST_AND_USAGE_REPORT; the older report has the same ones, spelt
lineItem/UsageType; FOCUS 1.0 and 1.2, section 2, with the columns that AWS adds (x_ServiceCode, x_UsageType). Fees are
spread by FOCUS's EffectiveCost, and for CUR by the rule of AWS's query library for amortised cost.
"""

import csv
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation

from launcher.agent import safe_json
from launcher.catalog.billed import service_code
from launcher.model.administrator import by_administrator
from launcher.model.bill import BilledRow, ChargeKind, Period
from launcher.model.errors import UnreadableInputError

NULL = ("", "NULL", "null")
FOCUS_NEEDS = ("billed_cost", "effective_cost", "charge_category", "charge_period_start", "charge_period_end")
CUR_NEEDS = (
    *("line_item_line_item_type", "line_item_usage_start_date", "line_item_usage_end_date"),
    *("line_item_product_code", "line_item_usage_type", "line_item_usage_amount", "line_item_unblended_cost"),
)
CUR_KINDS: Mapping[str, ChargeKind] = {
    **dict.fromkeys(("Usage", "DiscountedUsage", "SavingsPlanCoveredUsage"), ChargeKind.USAGE),
    **dict.fromkeys(("SavingsPlanNegation", "EdpDiscount", "PrivateRateDiscount"), ChargeKind.DISCOUNT),
    **dict.fromkeys(("SppDiscount", "BundledDiscount"), ChargeKind.DISCOUNT),
    "Refund": ChargeKind.REFUND,
    "Credit": ChargeKind.CREDIT,
    "Tax": ChargeKind.TAX,
}
"""LineItemType of the Cost and Usage Report; all other types are fees."""
FOCUS_KINDS: Mapping[str, ChargeKind] = {
    "Usage": ChargeKind.USAGE,
    "Purchase": ChargeKind.FEE,
    "Adjustment": ChargeKind.REFUND,
    "Credit": ChargeKind.CREDIT,
    "Tax": ChargeKind.TAX,
}
"""ChargeCategory of FOCUS 1.0."""
IDS = ("line_item_resource_id", "resource_id", "capacity_reservation_id", "reservation_reservation_a_r_n")
"""Columns that may name the resource of a fee; which of them AWS fills for a Capacity Block is not confirmed."""
Cells = Mapping[str, str]
_AMORTISED: Mapping[str, Sequence[str]] = {
    "SavingsPlanCoveredUsage": ("savings_plan_savings_plan_effective_cost",),
    "DiscountedUsage": ("reservation_effective_cost",),
    "RIFee": ("reservation_unused_amortized_upfront_fee_for_billing_period", "reservation_unused_recurring_fee"),
}


@dataclass(slots=True, kw_only=True)
class RowReader:
    """Reads the rows of one tag from export files."""

    tag: tuple[str, str]
    period: Period
    # Ids whose fees count regardless of tags and payment dates: a reservation, a training plan.
    resources: Sequence[str] = ()
    # The number of rows read so far.
    read: int = 0
    # Whether one of the files has a column for the tag.
    knows_tag: bool = False
    _key: str = field(init=False)

    def __post_init__(self) -> None:
        """Set the tag's key to its spelling in exports."""
        self._key = _plain(self.tag[0])

    def rows(self, lines: Iterable[str], name: str) -> Iterator[BilledRow]:
        """The rows of a file that carry the tag, or are the fee of one of the resources.

        Raises:
            UnreadableInputError: the file is no export, or has an unreadable cell.
        """
        try:
            table = csv.reader(lines)
            header = [_snake(cell) for cell in next(table, [])]
            take, needs = (_focus, FOCUS_NEEDS) if "billed_cost" in header else (_cur, CUR_NEEDS)
            missing = [need for need in needs if need not in header]
            if missing:
                raise UnreadableInputError(
                    f"{name} is not an export of CUR 2.0 or FOCUS: it has no column {', '.join(missing)}",
                    hint=f"an export with all columns: {by_administrator('aws bcm-data-exports create-export')}",
                )
            yield from self._of(table, header, take, name)
        except (csv.Error, UnicodeDecodeError) as problem:
            raise UnreadableInputError(f"{name} is not a CSV file: {problem}") from problem

    def _of(
        self, table: Iterable[list[str]], header: list[str], take: Callable[[Cells], BilledRow], name: str
    ) -> Iterator[BilledRow]:
        maps = [index for index, column in enumerate(header) if column in ("tags", "resource_tags")]
        columns = [
            index for index, column in enumerate(header) if _plain(column.removeprefix("resource_tags_")) == self._key
        ]
        tag_columns = [index for index in columns if header[index].startswith("resource_tags_")]
        self.knows_tag = self.knows_tag or bool(maps or tag_columns)
        value = self.tag[1]
        for number, texts in enumerate(table, start=2):
            self.read += 1
            if (
                not any(value in texts[index] for index in (*maps, *tag_columns) if index < len(texts))
                and not self.resources
            ):
                continue
            if len(texts) != len(header):
                message = f"{name}, line {number}: {len(texts)} cells, expected {len(header)}: the file is cut short"
                raise UnreadableInputError(message)
            try:
                tagged = any(texts[index] == value for index in tag_columns) or any(
                    self._maps(texts[index]) for index in maps
                )
                cells = dict(zip(header, texts, strict=True))
                own_fee = self._is_own_fee(cells)
                if tagged or own_fee:
                    row = take(cells)
                    if own_fee or self.period.contains(row):
                        yield row
            except ValueError as problem:
                raise UnreadableInputError(f"{name}, line {number}: {problem}") from problem

    def _maps(self, text: str) -> bool:
        if text in NULL or self.tag[1] not in text:
            return False
        tags = safe_json.loads(text)
        if isinstance(tags, list):
            # Athena's and some exports' form of a map: pairs.
            tags = dict(tags)
        if not isinstance(tags, dict):
            raise ValueError(f"the tags are no JSON object: {text[:60]}")  # noqa: TRY004 - as of all other cells
        return any(_plain(key) == self._key and value == self.tag[1] for key, value in tags.items())

    def _is_own_fee(self, cells: Cells) -> bool:
        if not self.resources:
            return False
        text = " ".join(cells.get(id_, "") for id_ in IDS)
        if not any(resource in text for resource in self.resources):
            return False
        return cells.get("charge_category") == "Purchase" or cells.get("line_item_line_item_type", "").endswith("Fee")


def _focus(cells: Cells) -> BilledRow:
    _in_dollars(cells.get("billing_currency", "USD"))
    category = cells["charge_category"]
    if category not in FOCUS_KINDS:
        raise ValueError(f"ChargeCategory is {category!r}, expected {', '.join(FOCUS_KINDS)}")
    quantity = _text(cells, "pricing_quantity") or _text(cells, "consumed_quantity")
    return BilledRow(
        service=service_code(_text(cells, "x_service_code") or _text(cells, "service_name")),
        usage_type=_text(cells, "x_usage_type"),
        kind=FOCUS_KINDS[category],
        quantity=_number(quantity or "0", "PricingQuantity"),
        unit=_text(cells, "pricing_unit") or _text(cells, "consumed_unit"),
        usd=_number(cells["billed_cost"], "BilledCost"),
        spread_usd=_number(cells["effective_cost"], "EffectiveCost"),
        begin=_moment(cells["charge_period_start"], "ChargePeriodStart"),
        end=_moment(cells["charge_period_end"], "ChargePeriodEnd"),
        what=_text(cells, "charge_description"),
        closed=bool(_text(cells, "invoice_id")) if "invoice_id" in cells else None,
    )


def _cur(cells: Cells) -> BilledRow:
    _in_dollars(cells.get("line_item_currency_code", "USD"))
    kind = CUR_KINDS.get(cells["line_item_line_item_type"], ChargeKind.FEE)
    return BilledRow(
        service=service_code(_text(cells, "product_servicecode") or cells["line_item_product_code"]),
        usage_type=cells["line_item_usage_type"],
        kind=kind,
        quantity=_number(cells["line_item_usage_amount"] or "0", "line_item_usage_amount"),
        unit=_text(cells, "pricing_unit"),
        usd=_number(cells["line_item_unblended_cost"] or "0", "line_item_unblended_cost"),
        spread_usd=_amortised_usd(cells),
        begin=_moment(cells["line_item_usage_start_date"], "line_item_usage_start_date"),
        end=_moment(cells["line_item_usage_end_date"], "line_item_usage_end_date"),
        what=_text(cells, "line_item_line_item_description"),
        closed=bool(_text(cells, "bill_invoice_id")) if "bill_invoice_id" in cells else None,
    )


def _amortised_usd(cells: Cells) -> Decimal:
    """The amortised cost of a row of the Cost and Usage Report (AWS CUR query library, account spend)."""

    def usd(name: str) -> Decimal:
        return _number(_text(cells, name) or "0", name)

    kind = cells["line_item_line_item_type"]
    fee_of_reservation = kind == "Fee" and _text(cells, "reservation_reservation_a_r_n")
    if kind in ("SavingsPlanNegation", "SavingsPlanUpfrontFee") or fee_of_reservation:
        return Decimal(0)
    if kind == "SavingsPlanRecurringFee":
        return usd("savings_plan_total_commitment_to_date") - usd("savings_plan_used_commitment")
    return sum((usd(name) for name in _AMORTISED.get(kind, ("line_item_unblended_cost",))), Decimal(0))


def _text(cells: Cells, name: str) -> str:
    text = cells.get(name, "")
    return "" if text in NULL else text


def _in_dollars(currency: str) -> None:
    if currency not in ("USD", *NULL):
        raise ValueError(f"the currency is {currency}, expected USD")


def _number(text: str, name: str) -> Decimal:
    try:
        number = Decimal(text)
    except InvalidOperation as problem:
        raise ValueError(f"{name} is {text!r}, expected a number") from problem
    if not number.is_finite():
        raise ValueError(f"{name} is {text!r}, expected a number")
    return number


def _moment(text: str, name: str) -> datetime:
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError as problem:
        raise ValueError(f"{name} is {text!r}, expected a time such as 2026-11-22T10:00:00Z") from problem
    return parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed.astimezone(UTC)


def _snake(name: str) -> str:
    """A column's name in the spelling of CUR 2.0.

    >>> _snake("lineItem/UsageStartDate"), _snake("reservation/ReservationARN"), _snake("x_UsageType")
    ('line_item_usage_start_date', 'reservation_reservation_a_r_n', 'x_usage_type')
    >>> _snake("resourceTags/user:slipway:cluster"), _snake("BilledCost")
    ('resource_tags_user_slipway_cluster', 'billed_cost')
    """
    apart = re.sub(r"(?<=[^_/:])([A-Z])", r"_\1", name.lstrip("\ufeff"))
    return re.sub(r"[^a-z0-9]", "_", apart.lower())


def _plain(key: str) -> str:
    """A tag's key without the changes that exports make.

    >>> _plain("slipway:cluster"), _plain("user_slipway_cluster"), _plain("user:slipway:cluster")
    ('slipway_cluster', 'slipway_cluster', 'slipway_cluster')
    """
    return re.sub(r"[^a-z0-9]", "_", key.lower()).removeprefix("user_")
