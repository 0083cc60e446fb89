"""The bill of a run as JSON: the key `billed` of slipway.report/1, and the file that the ledger reads."""

from decimal import Decimal

from launcher.model.bill import BilledRun, ComparedLine, Unquoted
from launcher.records.codec import Json, picked, plain

BILLED = "billed.json"
"""The file in a run's folder with AWS's bill of the run, once the user has requested it."""


def billed_document(billed: BilledRun) -> Json:
    """A bill compared with its quote."""
    return {
        "schema": "slipway.billed/1",
        **picked(billed, "as_of source"),
        "tag": {"key": billed.tag[0], "value": billed.tag[1]},
        **picked(billed, "period upfront billed_usd=usd quoted_usd unquoted_usd credits_usd tax_usd arrived_until"),
        **picked(billed, "missing final"),
        "lines": [_line(line) for line in billed.lines],
        "unquoted": [_unquoted(line) for line in billed.unquoted],
        "notes": list(billed.notes),
    }


def _line(compared: ComparedLine) -> Json:
    line = compared.line
    return {
        **picked(line, "names services"),
        "usage_type": line.usage_type or None,
        "also_usage_types": list(line.also),
        **picked(line, "confirmed unit"),
        "quoted": {"quantity": _number(line.quantity), "usd": plain(line.usd)},
        "billed": {"quantity": _number(compared.quantity), "usd": plain(compared.usd)},
        **picked(compared, "difference_usd of_quantity_usd of_rate_usd"),
    }


def _unquoted(unquoted: Unquoted) -> Json:
    empty = {"service": unquoted.service or None, "usage_type": unquoted.usage_type or None}
    return {**plain(unquoted), **empty, "quantity": float(unquoted.quantity)}


def _number(value: Decimal | None) -> float | None:
    return None if value is None else float(value)
