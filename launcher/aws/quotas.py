"""Service quotas of an account, and their usage."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from launcher.aws.calls import items
from launcher.aws.metrics import Metric, latest
from launcher.aws.session import Session

METRIC_WINDOW = timedelta(hours=1)
"""The period for which a quota's usage is read: the service reports it about every five minutes."""
METRIC_PERIOD = timedelta(minutes=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """One quota of the account: its applied value, or AWS's default if none was ever applied.

    `metric` is the CloudWatch metric of its usage, None if AWS does not measure it.
    """

    service: str
    name: str
    code: str
    value: float
    adjustable: bool
    metric: Metric | None = None


def quotas(session: Session, service: str) -> tuple[Quota, ...]:
    """All quotas of a service in the session's region; an applied value takes precedence over AWS's default."""
    client = session.client("service-quotas")
    subject = f"list the quotas of {service} in {session.region}"
    applied = items(client.list_service_quotas, subject, "Quotas", ServiceCode=service)
    defaults = items(client.list_aws_default_service_quotas, subject, "Quotas", ServiceCode=service)
    by_code = {quota["QuotaCode"]: quota for quota in (*defaults, *applied)}
    return tuple(_quota(quota, service) for quota in by_code.values() if "Value" in quota)


def usage(session: Session, quota: Quota, now: datetime) -> float | None:
    """The usage of a quota as last reported to CloudWatch; None if AWS does not report it."""
    if quota.metric is None:
        return None
    return latest(session, quota.metric, now, within=METRIC_WINDOW, period=METRIC_PERIOD)


def _quota(raw: Mapping[str, Any], service: str) -> Quota:
    return Quota(
        service=service,
        name=str(raw.get("QuotaName", "")),
        code=str(raw["QuotaCode"]),
        value=float(raw["Value"]),
        adjustable=bool(raw.get("Adjustable", False)),
        metric=_metric(raw.get("UsageMetric") or {}),
    )


def _metric(raw: Mapping[str, Any]) -> Metric | None:
    if "MetricName" not in raw:
        return None
    return Metric(
        namespace=str(raw["MetricNamespace"]),
        name=str(raw["MetricName"]),
        dimensions=raw.get("MetricDimensions", {}),
        statistic=str(raw.get("MetricStatisticRecommendation", "Maximum")),
    )
