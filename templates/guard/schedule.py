# ruff: noqa: INP001 - one file that is shipped as it is; the folder is the function's code
"""The guard's schedule and times, and the CloudWatch namespaces of the guard and of its nodes."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

NAMESPACE = "Slipway"
"""The guard's own metrics, for people: dashboards, alarms, `slipway cost`. The guard decides by none of them."""
EVERY = timedelta(minutes=5)
"""Time between two checks: the schedule in infra/parts/guardrails.py."""
HOUR = timedelta(hours=1)


def nodes_namespace(cluster: str) -> str:
    """The namespace in which a cluster's nodes may write: each cluster has its own (launcher/model/monitoring.py)."""
    return f"{NAMESPACE}/Nodes/{cluster}"


def scheduled_at(event: Mapping[str, Any], now: datetime) -> datetime:
    """When a check was due: the `time` of EventBridge's event, which a second delivery repeats; else `now`.

    >>> scheduled_at({"time": "2026-11-20T12:02:00Z"}, datetime(2026, 11, 20, 12, 3, tzinfo=UTC)).minute
    2
    """
    try:
        moment = datetime.fromisoformat(event["time"])
    except (KeyError, TypeError, ValueError):
        return now
    return moment if moment.tzinfo is not None else now


def moment_of(text: str | None) -> datetime | None:
    """A timestamp in ParallelCluster's format; None for any other text.

    >>> moment_of("2026-11-20 12:02:00+00:00").hour, moment_of("before"), moment_of(None)
    (12, None, None)
    """
    try:
        moment = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
