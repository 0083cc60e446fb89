"""The bill of a run as JSON: the key `billed` of slipway.report/1, and the file that the ledger reads."""

from typing import Any

from launcher.model.bill import BilledRun, ComparedLine, Unquoted
from launcher.records.documents import money

BILLED = "billed.json"
"""What AWS billed for a run, in its folder, once somebody has asked."""


def billed_document(found: BilledRun) -> dict[str, Any]:
    """A bill beside its quote."""
    return {
        "schema": "slipway.billed/1",
        "as_of": found.as_of.isoformat(),
        "source": found.source,
        "tag": {"key": found.tag[0], "value": found.tag[1]},
        "period": {"begin": found.period.begin.isoformat(), "end": found.period.end.isoformat()},
        "upfront": found.upfront.value,
        "billed_usd": money(found.usd),
        "quoted_usd": money(found.quoted_usd),
        "unquoted_usd": money(found.unquoted_usd),
        "credits_usd": money(found.credits_usd),
        "tax_usd": money(found.tax_usd),
        "arrived_until": found.arrived_until.isoformat() if found.arrived_until else None,
        "missing": found.missing,
        "final": found.final,
        "lines": [_line(each) for each in found.lines],
        "unquoted": [_unquoted(each) for each in found.unquoted],
        "notes": list(found.notes),
    }


def _line(each: ComparedLine) -> dict[str, Any]:
    line = each.line
    return {
        "names": list(line.names),
        "services": list(line.services),
        "usage_type": line.usage_type or None,
        "confirmed": line.confirmed,
        "unit": line.unit,
        "quoted": {"quantity": _number(line.quantity), "usd": money(line.usd)},
        "billed": {"quantity": _number(each.quantity), "usd": money(each.usd)},
        "difference_usd": money(each.difference_usd),
        "of_quantity_usd": money(each.of_quantity_usd),
        "of_rate_usd": money(each.of_rate_usd),
    }


def _unquoted(each: Unquoted) -> dict[str, Any]:
    return {
        "service": each.service or None,
        "usage_type": each.usage_type or None,
        "what": each.what,
        "quantity": _number(each.quantity),
        "unit": each.unit,
        "usd": money(each.usd),
    }


def _number(value: Any) -> float | None:
    return None if value is None else float(value)
