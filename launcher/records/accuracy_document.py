"""slipway.accuracy/1: quoted against measured, of one's own runs."""

from collections.abc import Sequence
from typing import Any

from launcher.model.accuracy import Accuracy, RunAccuracy, accuracy
from launcher.records.documents import money, span, usd_span


def accuracy_document(runs: Sequence[RunAccuracy], unread: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Runs as JSON; those of the sandbox are listed and stand in no share."""
    real = [each for each in runs if not each.simulated]
    return {
        "schema": "slipway.accuracy/1",
        "tokens_per_s": _shares(accuracy((each.rate_ratio, each.rate_covered) for each in real)),
        "hours": _shares(accuracy((each.hours_ratio, each.hours_covered) for each in real)),
        "usd": _shares(accuracy((each.usd_ratio, each.usd_covered) for each in real)),
        "runs": [_run(each) for each in runs],
        "unread": [{"run": run, "reason": reason} for run, reason in unread],
    }


def _shares(found: Accuracy) -> dict[str, Any]:
    return {"n": found.n, "within_25": found.within_25, "covered": found.covered}


def _run(each: RunAccuracy) -> dict[str, Any]:
    quoted = each.quoted_tokens_per_s
    return {
        "name": each.name,
        "run": each.run,
        "instance_type": each.instance_type,
        "nodes": each.nodes,
        "simulated": each.simulated,
        "tokens_per_s": {
            "quoted": span(quoted) if quoted is not None else None,
            "measured": each.tokens_per_s,
            "ratio": each.rate_ratio,
            "covered": each.rate_covered,
        },
        "hours": {
            "quoted": span(each.quoted_hours),
            "measured": each.hours,
            "ratio": each.hours_ratio,
            "covered": each.hours_covered,
        },
        "usd": {
            "quoted": usd_span(each.quoted_usd),
            "measured": money(each.usd),
            "ratio": each.usd_ratio,
            "covered": each.usd_covered,
        },
    }
