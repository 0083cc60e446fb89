"""Metric values from CloudWatch."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from launcher.aws.session import Session, translate_errors


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One metric and one of its statistics."""

    namespace: str
    name: str
    dimensions: Mapping[str, str]
    statistic: str = "Maximum"


def latest(session: Session, metric: Metric, now: datetime, *, within: timedelta, period: timedelta) -> float | None:
    """The newest value of a metric; None if no recent value exists."""
    points = samples(session, metric, now - within, now, period=period)
    return points[-1][1] if points else None


def samples(
    session: Session, metric: Metric, begin: datetime, end: datetime, *, period: timedelta
) -> list[tuple[datetime, float]]:
    """The values of a metric from `begin` to `end`, at most 1,440 periods later, oldest first, with their times."""
    with translate_errors(f"read {metric.name}"):
        answer = session.client("cloudwatch").get_metric_statistics(
            Namespace=metric.namespace,
            MetricName=metric.name,
            Dimensions=[{"Name": name, "Value": value} for name, value in metric.dimensions.items()],
            StartTime=begin,
            EndTime=end,
            Period=int(period.total_seconds()),
            Statistics=[metric.statistic],
        )
    return sorted((datapoint["Timestamp"], float(datapoint[metric.statistic])) for datapoint in answer["Datapoints"])
