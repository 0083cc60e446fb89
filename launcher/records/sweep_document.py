"""slipway.sweep/1: one plan at several points, each with its best candidate."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from launcher.model.instance_type import InstanceType
from launcher.model.quote import Quote
from launcher.records.documents import Json, candidate


class SweptPoint(NamedTuple):
    """One point: its values, the best candidate's quote, None with the reason where there is none."""

    values: Mapping[str, Any]
    best: Quote | None
    reason: str


def sweep_document(
    *, name: str, now: datetime, keys: Sequence[str], points: Sequence[SweptPoint], types: Mapping[str, InstanceType]
) -> Json:
    """The sweep as JSON; the candidate of a point that is impossible is null, with the reason."""
    return {
        "schema": "slipway.sweep/1",
        "name": name,
        "as_of": now.isoformat(),
        "keys": list(keys),
        "points": [
            {
                "values": dict(each.values),
                "candidate": None if each.best is None else candidate(each.best, 1, types),
                "reason": each.reason or None,
            }
            for each in points
        ],
    }
