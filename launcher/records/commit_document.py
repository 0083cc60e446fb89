"""slipway.commit/1: the demand of several plans, and what each commitment would save of it."""

from typing import Any

from launcher.model.commitment_choice import CommitmentChoice, CommitmentOption
from launcher.records.documents import money


def commit_document(found: CommitmentChoice) -> dict[str, Any]:
    """A choice as the contract's JSON."""
    return {
        "schema": "slipway.commit/1",
        "as_of": found.as_of.isoformat(),
        "demand": {
            "floor_usd_per_hour": money(found.floor_usd_per_hour),
            "mean_usd_per_hour": money(found.mean_usd_per_hour),
        },
        "options": [_option(each) for each in found.options],
        "choice": None if found.choice is None else _option(found.choice),
        "left_out": [{"plan": plan, "reason": reason} for plan, reason in found.left_out],
    }


def _option(option: CommitmentOption) -> dict[str, Any]:
    return {
        "instrument": option.instrument,
        "covers": option.covers,
        "term_years": option.term_years,
        "payment": option.payment.value,
        "level": option.level,
        "usd_per_hour": money(option.usd_per_hour),
        "commitment_usd": money(option.commitment_usd),
        "saving_usd": money(option.saving_usd),
        "utilisation": option.utilisation,
        "break_even": option.break_even,
        "risks": list(option.risks),
        "command": option.command,
        "marginal": [{"usd_per_hour": money(level), "value": money(value)} for level, value in option.marginal],
    }
