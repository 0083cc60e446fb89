"""Costs by tag and day from Cost Explorer.

GetCostAndUsage groups by two keys at most, so Slipway calls it twice: for usage by service and usage type, and for the
rest (fees, discounts, credits, taxes) by record type. Each request costs money: from memory $0.01,
unconfirmed.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal, InvalidOperation
from typing import Any

from launcher.aws.calls import items
from launcher.aws.session import CUT_SHORT, Session
from launcher.catalog.billed import service_code
from launcher.model.bill import BilledRow, ChargeKind
from launcher.model.errors import AwsError

ACTIVE = "Active"
HOME = "us-east-1"
"""The region of the endpoint for every region of the commercial partition (AWS General Reference)."""
USED = ("Usage", "DiscountedUsage", "SavingsPlanCoveredUsage")
"""Record types whose quantity is usage; other record types repeat the quantity."""
METRICS = ("UnblendedCost", "AmortizedCost", "UsageQuantity")
NO_USAGE_TYPE = "NoUsageType"
"""From memory."""
_KINDS: Mapping[str, ChargeKind] = {
    "credit": ChargeKind.CREDIT,
    "tax": ChargeKind.TAX,
    "refund": ChargeKind.REFUND,
    "discount": ChargeKind.DISCOUNT,
    "negation": ChargeKind.DISCOUNT,
}
"""Kinds by a word in the record type's name; a record type without any of these words is a fee."""


def tag_states(session: Session, keys: Sequence[str]) -> Mapping[str, str]:
    """The state of cost allocation tags, "Active" or "Inactive", for tags that billing knows.

    The session is for us-east-1, where Cost Explorer has its endpoint.
    """
    tags = items(
        session.client("ce").list_cost_allocation_tags,
        "list the cost allocation tags",
        "CostAllocationTags",
        TagKeys=list(keys),
        Type="UserDefined",
    )
    return {str(tag["TagKey"]): str(tag["Status"]) for tag in tags}


def billed_rows(session: Session, tag: tuple[str, str], begin: date, end: date) -> list[BilledRow]:
    """The rows of a tag from `begin` to the day before `end`.

    The session is for us-east-1; `end` is the day after the last.
    """
    tagged = {"Tags": {"Key": tag[0], "Values": [tag[1]], "MatchOptions": ["EQUALS"]}}
    used = {"Dimensions": {"Key": "RECORD_TYPE", "Values": list(USED)}}
    results = _query(session, {"And": [tagged, used]}, ("SERVICE", "USAGE_TYPE"), begin, end)
    rest = _query(session, {"And": [tagged, {"Not": used}]}, ("RECORD_TYPE", "USAGE_TYPE"), begin, end)
    return [*_rows(results, _usage), *_rows(rest, _other)]


def _query(
    session: Session, chosen: Mapping[str, Any], by: Sequence[str], begin: date, end: date
) -> list[Mapping[str, Any]]:
    return items(
        session.client("ce").get_cost_and_usage,
        "ask Cost Explorer what was billed",
        "ResultsByTime",
        TimePeriod={"Start": begin.isoformat(), "End": end.isoformat()},
        Granularity="DAILY",
        Metrics=list(METRICS),
        Filter=chosen,
        GroupBy=[{"Type": "DIMENSION", "Key": key} for key in by],
    )


def _rows(
    days: Sequence[Mapping[str, Any]], named: Callable[[str, str], tuple[str, str, ChargeKind]]
) -> Iterator[BilledRow]:
    for day in days:
        begin, end = (
            datetime.combine(date.fromisoformat(day["TimePeriod"][edge][:10]), time(), UTC) for edge in ("Start", "End")
        )
        for group in day.get("Groups", ()):
            first, second = group["Keys"]
            service, usage_type, kind = named(first, second)
            metrics = group["Metrics"]
            yield BilledRow(
                service=service,
                usage_type=usage_type,
                kind=kind,
                quantity=_amount(metrics, "UsageQuantity", None),
                unit=_unit(metrics),
                usd=_amount(metrics, "UnblendedCost", "USD"),
                spread_usd=_amount(metrics, "AmortizedCost", "USD"),
                begin=begin,
                end=end,
                what=first if kind is not ChargeKind.USAGE else "",
                closed=None if "Estimated" not in day else not day["Estimated"],
            )


def _usage(service: str, usage_type: str) -> tuple[str, str, ChargeKind]:
    return service_code(service), _usage_name(usage_type), ChargeKind.USAGE


def _other(record_type: str, usage_type: str) -> tuple[str, str, ChargeKind]:
    lowered = record_type.lower()
    return "", _usage_name(usage_type), next((kind for word, kind in _KINDS.items() if word in lowered), ChargeKind.FEE)


def _usage_name(usage_type: str) -> str:
    return "" if usage_type == NO_USAGE_TYPE else usage_type


def _unit(metrics: Mapping[str, Any]) -> str:
    unit = str(metrics.get("UsageQuantity", {}).get("Unit", ""))
    return "" if unit == "N/A" else unit


def _amount(metrics: Mapping[str, Any], name: str, unit: str | None) -> Decimal:
    subject = "ask Cost Explorer what was billed"
    try:
        metric, amount = metrics[name], Decimal(metrics[name]["Amount"])
    except (InvalidOperation, KeyError, TypeError) as problem:
        raise AwsError(f"{subject}: {CUT_SHORT}: {name} is {metrics.get(name)}", hint="run it again") from problem
    if unit is not None and metric.get("Unit") != unit:
        raise AwsError(f"{subject}: {name} is in {metric.get('Unit') or 'no unit'}, expected {unit}")
    return amount
