"""Alarms and dashboards as CloudWatch describes them."""

from collections.abc import Iterable, Mapping
from typing import Any

from launcher.agent import safe_json
from launcher.aws.calls import items
from launcher.aws.session import Session, translate_errors


def metric_alarms(session: Session, names: Iterable[str]) -> list[Mapping[str, Any]]:
    """The alarms of the given names, as CloudWatch describes them; missing alarms are left out."""
    call = session.client("cloudwatch").describe_alarms
    return list(items(call, "describe the alarms", "MetricAlarms", AlarmNames=list(names)))


def dimension(alarm: Mapping[str, Any], name: str) -> str | None:
    """The value of a dimension of an alarm."""
    return next((str(pair["Value"]) for pair in alarm.get("Dimensions", ()) if pair["Name"] == name), None)


def dashboard(session: Session, name: str) -> dict[str, Any]:
    """The body of a dashboard."""
    with translate_errors(f"read dashboard {name}"):
        return dict(safe_json.loads(session.client("cloudwatch").get_dashboard(DashboardName=name)["DashboardBody"]))
