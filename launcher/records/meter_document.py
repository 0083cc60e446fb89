"""The meter of a running job as JSON, a part of slipway.status/1."""

from typing import Any

from launcher.model.meter import Meter
from launcher.records.documents import money, span, usd_span


def meter_document(found: Meter | None) -> dict[str, Any] | None:
    """One moment of a job beside its quote; None for a run without one."""
    if found is None:
        return None
    quoted = found.quoted
    return {
        "step": found.step,
        "steps": found.steps,
        "tokens": found.tokens,
        "tokens_per_s": found.tokens_per_s,
        "mfu": found.mfu,
        "hours_left": span(found.left_h) if found.left_h is not None else None,
        "hours": found.hours,
        "usd": money(found.usd),
        "forecast_usd": usd_span(found.forecast),
        "spot": None
        if found.spot is None
        else {"usd_per_hour": money(found.spot.usd_per_hour), "note": found.spot.note},
        "interruptions": found.interruptions,
        "next_checkpoint_s": found.next_checkpoint_s,
        "warnings": list(found.warnings.values()),
        "quoted": {
            "usd": usd_span(quoted.usd),
            "usd_per_hour": money(quoted.usd_per_hour),
            "hours": span(quoted.hours),
            "tokens_per_s": span(quoted.tokens_per_s) if quoted.tokens_per_s is not None else None,
            "interruptions": quoted.interruptions,
            "budget_usd": money(quoted.budget_usd),
        },
    }
