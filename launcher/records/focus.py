"""Runs of the ledger as rows of FOCUS 1.0, the FinOps Open Cost and Usage Specification.

Columns and allowed values: FinOps-Open-Cost-and-Usage-Spec/FOCUS_Spec 1.0; the tests check them with focus-validator
1.0.0. That release of the validator requires five columns under their FOCUS 0.5 names (`OLD_NAMES`): they are at the
end, with the same values. A run that spans several months has one row in each, because a row belongs to one billing
period. A sandbox run has cost zero, and its row shows this.
"""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from decimal import Decimal

from launcher.model.enums import PurchaseOption
from launcher.model.ledger import LedgerEntry, reservations
from launcher.model.tags import PLAN_TAG
from launcher.model.visible_text import csv_cell

COLUMNS = (
    *("AvailabilityZone", "BilledCost", "BillingAccountId", "BillingAccountName", "BillingCurrency"),
    *("BillingPeriodEnd", "BillingPeriodStart", "ChargeCategory", "ChargeClass", "ChargeDescription"),
    *("ChargeFrequency", "ChargePeriodEnd", "ChargePeriodStart", "CommitmentDiscountCategory"),
    *("CommitmentDiscountId", "CommitmentDiscountName", "CommitmentDiscountStatus", "CommitmentDiscountType"),
    *("ConsumedQuantity", "ConsumedUnit", "ContractedCost", "ContractedUnitPrice", "EffectiveCost"),
    *("InvoiceIssuerName", "ListCost", "ListUnitPrice", "PricingCategory", "PricingQuantity", "PricingUnit"),
    *("ProviderName", "PublisherName", "RegionId", "RegionName", "ResourceId", "ResourceName", "ResourceType"),
    *("ServiceCategory", "ServiceName", "SkuId", "SkuPriceId", "SubAccountId", "SubAccountName", "Tags"),
)
"""FOCUS 1.0, section 2, in alphabetical order."""
OLD_NAMES = {
    "ChargeType": "ChargeCategory",
    "InvoiceIssuer": "InvoiceIssuerName",
    "Provider": "ProviderName",
    "Publisher": "PublisherName",
    "ResourceID": "ResourceId",
}
"""Column names of focus-validator 1.0.0, with their names in FOCUS 1.0."""
SLIPWAY_COLUMNS = ("x_Run", "x_Status", "x_CostBasis", "x_Tokens", "x_Simulated")
"""Slipway's own columns; `x_CostBasis` is billed, quoted-rate or simulated."""
AWS, ISSUER = "AWS", "Amazon Web Services, Inc."
UNKNOWN_ACCOUNT = "unknown"
UNUSED = "unused"
QUANTUM = Decimal("0.0000000001")
_CATEGORIES: Mapping[str, str] = {
    PurchaseOption.ON_DEMAND: "Standard",
    PurchaseOption.SPOT: "Dynamic",
    PurchaseOption.SAVINGS_PLAN: "Committed",
    PurchaseOption.RESERVED: "Committed",
}
"""PricingCategory of a purchase option; all others (blocks, training plans) are Other."""
_BELOW_LIST = {category_name for category_name, category in _CATEGORIES.items() if category != "Standard"}
"""Options sold below AWS's published list; a block has its own list price."""


def focus_csv(entries: Iterable[LedgerEntry]) -> str:
    """A CSV file: a header, a line for each month of each run that used nodes, and the unused parts of fees.

    Runs with unknown dollars are left out: FOCUS has no row without a cost.
    """
    text = io.StringIO()
    writer = csv.DictWriter(text, [*COLUMNS, *OLD_NAMES, *SLIPWAY_COLUMNS], lineterminator="\n")
    writer.writeheader()
    listed = list(entries)
    for entry in (*listed, *_unused_capacity(listed)):
        for row in _rows(entry):
            cells = {name: csv_cell(text) for name, text in row.items()}
            writer.writerow(cells | {old: cells[new] for old, new in OLD_NAMES.items()})
    return text.getvalue()


def _unused_capacity(entries: Iterable[LedgerEntry]) -> Iterator[LedgerEntry]:
    """Prepaid capacity that no run used, from its first run to its last; a run's bill may include the fee itself."""
    for use in reservations(entries):
        first = use.entries[0]
        ends = [run.ended_at for run in use.entries if run.ended_at is not None]
        if not use.unused_usd or not first.usd_per_hour or any(run.billed_usd is not None for run in use.entries):
            continue
        yield first._replace(
            run=use.name,
            started_at=min(run.started_at for run in use.entries),
            ended_at=max(ends, default=None),
            status=UNUSED,
            hours=float(use.unused_usd / first.usd_per_hour),
            usd_used=use.unused_usd,
            tokens=None,
            tags={},
        )


def has_rows(entry: LedgerEntry) -> bool:
    """Whether a run has rows: it has begun and ended, and its dollars are known."""
    return entry.ended_at is not None and entry.usd is not None and bool(entry.hours)


def _rows(entry: LedgerEntry) -> Iterator[dict[str, str]]:
    if entry.ended_at is None or not has_rows(entry):
        return
    spans = list(_months(entry.started_at, max(entry.ended_at, entry.started_at + timedelta(seconds=1))))
    whole = sum((end - begin).total_seconds() for begin, end in spans)
    for begin, end in spans:
        share = Decimal(repr((end - begin).total_seconds())) / Decimal(repr(whole))
        yield _row(entry, begin, end, share)


def _months(begin: datetime, end: datetime) -> Iterator[tuple[datetime, datetime]]:
    while begin < end:
        following = min(_next_month(begin), end)
        yield begin, following
        begin = following


def _first(moment: datetime) -> datetime:
    return moment.replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def _next_month(moment: datetime) -> datetime:
    return _first(_first(moment) + timedelta(days=32))


def _row(entry: LedgerEntry, begin: datetime, end: datetime, share: Decimal) -> dict[str, str]:
    """One month of a run; `share` is the fraction of its time in this month."""
    hours = (Decimal(repr(entry.hours or 0.0)) * entry.nodes * share).quantize(QUANTUM)
    usd = ((entry.usd or Decimal(0)) * share).quantize(QUANTUM)
    price = usd / hours if hours else Decimal(0)
    listed = (usd + _discount(entry) * share).quantize(QUANTUM)
    basis = "simulated" if entry.simulated else "quoted-rate" if entry.billed_usd is None else "billed"
    sku = f"{entry.instance_type or entry.target}/{entry.purchase_option}"
    unused = f", hours of {entry.run} that no run used" if entry.status == UNUSED else ""
    managed = entry.target.startswith(("hyperpod", "sagemaker"))
    return dict.fromkeys(COLUMNS, "") | {
        "BilledCost": _text(usd),
        "BillingAccountId": UNKNOWN_ACCOUNT,
        "BillingCurrency": "USD",
        "BillingPeriodStart": _iso(_first(begin)),
        "BillingPeriodEnd": _iso(_next_month(begin)),
        "ChargeCategory": "Usage",
        "ChargeDescription": f"{entry.name}: {entry.nodes} x {sku} in {entry.region}{unused}",
        "ChargeFrequency": "Usage-Based",
        "ChargePeriodStart": _iso(begin),
        "ChargePeriodEnd": _iso(end),
        "ConsumedQuantity": _text(hours),
        "ConsumedUnit": "Hours",
        "ContractedCost": _text(usd),
        "ContractedUnitPrice": _text(price),
        "EffectiveCost": _text(usd),
        "InvoiceIssuerName": ISSUER,
        "ListCost": _text(listed),
        "ListUnitPrice": _text(listed / hours if hours else Decimal(0)),
        "PricingCategory": _CATEGORIES.get(entry.purchase_option, "Other"),
        "PricingQuantity": _text(hours),
        "PricingUnit": "Hours",
        "ProviderName": AWS,
        "PublisherName": ISSUER,
        "RegionId": entry.region,
        "RegionName": entry.region,
        "ResourceId": f"{entry.name}/{entry.run}/{entry.origin}",
        "ResourceName": entry.name,
        "ResourceType": entry.target,
        "ServiceCategory": "AI and Machine Learning" if managed else "Compute",
        "ServiceName": "Amazon SageMaker" if managed else "Amazon Elastic Compute Cloud",
        "SkuId": sku,
        "SkuPriceId": f"{sku}/{entry.region}",
        "SubAccountId": UNKNOWN_ACCOUNT,
        "Tags": json.dumps({**entry.tags, PLAN_TAG: entry.name}, sort_keys=True),
        "x_Run": entry.run,
        "x_Status": entry.status,
        "x_CostBasis": basis,
        "x_Tokens": "" if entry.tokens is None else str(entry.tokens),
        "x_Simulated": str(entry.simulated).lower(),
    }


def _discount(entry: LedgerEntry) -> Decimal:
    """The discount of a run's nodes against AWS's list, which is on demand for spot and commitments too."""
    rate, listed = entry.usd_per_hour, entry.shared.list_usd_per_hour
    if entry.simulated or entry.purchase_option not in _BELOW_LIST or rate is None or listed is None:
        return Decimal(0)
    return (listed - rate) * Decimal(repr((entry.hours or 0.0) + entry.shared.start_h + entry.shared.tail_h))


def _text(amount: Decimal) -> str:
    """A number with a decimal point, because readers infer a column's type from its format."""
    return f"{amount.quantize(QUANTUM):f}"


def _iso(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"
