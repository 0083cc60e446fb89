"""Alarms and dashboards as CloudWatch describes them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from launcher.agent import safe_json
from launcher.aws.calls import items
from launcher.aws.session import Session, translate_errors


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmState:
    """One alarm on a metric: its threshold, its treatment of missing data, and the ARNs that it notifies."""

    name: str
    metric: str
    dimensions: Mapping[str, str]
    threshold: float
    missing: str
    actions: frozenset[str]


def alarms(session: Session, names: Iterable[str]) -> tuple[AlarmState, ...]:
    """The alarms of the given names; missing alarms are left out."""
    call = session.client("cloudwatch").describe_alarms
    return tuple(
        AlarmState(
            name=str(alarm["AlarmName"]),
            metric=str(alarm["MetricName"]),
            dimensions={str(pair["Name"]): str(pair["Value"]) for pair in alarm.get("Dimensions", [])},
            threshold=float(alarm["Threshold"]),
            missing=str(alarm.get("TreatMissingData", "missing")),
            actions=frozenset(map(str, alarm.get("AlarmActions", []))),
        )
        for alarm in items(call, "describe the alarms", "MetricAlarms", AlarmNames=list(names))
    )


def dashboard(session: Session, name: str) -> dict[str, Any]:
    """The body of a dashboard."""
    with translate_errors(f"read dashboard {name}"):
        return dict(safe_json.loads(session.client("cloudwatch").get_dashboard(DashboardName=name)["DashboardBody"]))
