"""Service quotas of an account, and how much of them is used."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from launcher.aws.calls import asked, items
from launcher.aws.session import Session

METRIC_WINDOW = timedelta(hours=1)
"""How far back the use of a quota is read: the service reports it every five minutes or so."""
METRIC_PERIOD_S = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """One quota as the account has it: applied, or AWS's default where none was ever applied.

    `metric` is where CloudWatch keeps its use, empty where nobody counts it.
    """

    service: str
    name: str
    code: str
    value: float
    adjustable: bool
    metric: Mapping[str, Any] = field(default_factory=dict)


def quotas(session: Session, service: str) -> tuple[Quota, ...]:
    """All quotas of a service in the session's region; what was applied stands before AWS's default.

    Args:
        session: of the region.
        service: its code in Service Quotas, such as "ec2".

    Raises:
        AwsError: the call failed, or its answer is not whole.
    """
    client = session.client("service-quotas")
    what = f"list the quotas of {service} in {session.region}"
    applied = items(client.list_service_quotas, what, "Quotas", ServiceCode=service)
    defaults = items(client.list_aws_default_service_quotas, what, "Quotas", ServiceCode=service)
    found = {each["QuotaCode"]: each for each in (*defaults, *applied)}
    return tuple(_quota(each, service) for each in found.values() if "Value" in each)


def used(session: Session, quota: Quota, now: datetime) -> float | None:
    """How much of a quota is used, as CloudWatch was last told; None where it is not told.

    Raises:
        AwsError: the call failed.
    """
    if not quota.metric:
        return None
    statistic = str(quota.metric.get("MetricStatisticRecommendation", "Maximum"))
    with asked(f"read the use of {quota.name}"):
        answer = session.client("cloudwatch").get_metric_statistics(
            Namespace=quota.metric["MetricNamespace"],
            MetricName=quota.metric["MetricName"],
            Dimensions=[{"Name": name, "Value": value} for name, value in quota.metric["MetricDimensions"].items()],
            StartTime=now - METRIC_WINDOW,
            EndTime=now,
            Period=METRIC_PERIOD_S,
            Statistics=[statistic],
        )
    points = sorted(answer["Datapoints"], key=lambda each: each["Timestamp"])
    return float(points[-1][statistic]) if points else None


def _quota(raw: Mapping[str, Any], service: str) -> Quota:
    return Quota(
        service=service,
        name=str(raw.get("QuotaName", "")),
        code=str(raw["QuotaCode"]),
        value=float(raw["Value"]),
        adjustable=bool(raw.get("Adjustable", False)),
        metric=raw.get("UsageMetric") or {},
    )
