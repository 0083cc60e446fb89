"""The bill of a run as JSON: the key `billed` of slipway.report/1, and the file that the ledger reads."""

from decimal import Decimal

from launcher.model.bill import BilledRun, ComparedLine, Unquoted
from launcher.records.codec import Json, picked, plain

BILLED = "billed.json"
"""What AWS billed for a run, in its folder, once somebody has asked."""


def billed_document(found: BilledRun) -> Json:
    """A bill beside its quote."""
    return {
        "schema": "slipway.billed/1",
        **picked(found, "as_of source"),
        "tag": {"key": found.tag[0], "value": found.tag[1]},
        **picked(found, "period upfront billed_usd=usd quoted_usd unquoted_usd credits_usd tax_usd arrived_until"),
        **picked(found, "missing final"),
        "lines": [_line(line) for line in found.lines],
        "unquoted": [_unquoted(each) for each in found.unquoted],
        "notes": list(found.notes),
    }


def _line(each: ComparedLine) -> Json:
    line = each.line
    return {
        **picked(line, "names services"),
        "usage_type": line.usage_type or None,
        "also_usage_types": list(line.also),
        **picked(line, "confirmed unit"),
        "quoted": {"quantity": _number(line.quantity), "usd": plain(line.usd)},
        "billed": {"quantity": _number(each.quantity), "usd": plain(each.usd)},
        **picked(each, "difference_usd of_quantity_usd of_rate_usd"),
    }


def _unquoted(each: Unquoted) -> Json:
    empty = {"service": each.service or None, "usage_type": each.usage_type or None}
    return {**plain(each), **empty, "quantity": float(each.quantity)}


def _number(value: Decimal | None) -> float | None:
    return None if value is None else float(value)
