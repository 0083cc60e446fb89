# ruff: noqa: INP001 - one file that is shipped as it is; the folder is the function's code
"""The guard's counts so far: its own metrics, in which each check counts once.

A check is recorded under its scheduled time. Lambda may deliver one event twice, and CloudWatch then stores both
values. A period therefore counts as the average of its values times the possible number of checks, never as their sum.
"""

import math
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

NAMESPACE = "Slipway"
EVERY = timedelta(minutes=5)
"""Time between two checks: the schedule in infra/parts/guardrails.py."""
JITTER = timedelta(seconds=30)
"""Maximum deviation of EventBridge's scheduled times from the five minutes."""
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
MAX_DAYS_OF_HOURS = 50
"""A response of GetMetricStatistics has at most 1,440 values: 60 days of hourly values."""


class Period(NamedTuple):
    """The checks of an hour or a day: the end of the period, their number, and the average of their values."""

    end: datetime
    looks: int
    average: float

    @property
    def total(self) -> float:
        """The sum of the checks' values."""
        return self.looks * self.average


def scheduled_at(event: Mapping[str, Any], now: datetime) -> datetime:
    """When a check was due: the `time` of EventBridge's event, which a second delivery repeats; else `now`.

    >>> from datetime import UTC
    >>> scheduled_at({"time": "2026-11-20T12:02:00Z"}, datetime(2026, 11, 20, 12, 3, tzinfo=UTC)).minute
    2
    """
    try:
        moment = datetime.fromisoformat(event["time"])
    except (KeyError, TypeError, ValueError):
        return now
    return moment if moment.tzinfo is not None else now


def counted(cloudwatch: Any, cluster: str, metric: str, began: datetime, check_time: datetime) -> list[Period]:
    """A cluster's metric by the hour (by the day since an old start), from a moment up to a check, which is excluded.

    Raises:
        ClientError: CloudWatch does not respond.
    """
    length = HOUR if check_time - began < MAX_DAYS_OF_HOURS * DAY else DAY
    answer = cloudwatch.get_metric_statistics(
        Namespace=NAMESPACE,
        MetricName=metric,
        Dimensions=[{"Name": "Cluster", "Value": cluster}],
        # A deployment may have ended just now, by another clock.
        StartTime=min(began, check_time - EVERY),
        EndTime=check_time,
        Period=int(length.total_seconds()),
        Statistics=["Average", "SampleCount"],
    )
    return [
        Period(
            datapoint["Timestamp"] + length,
            min(
                round(datapoint["SampleCount"]),
                most_looks(max(datapoint["Timestamp"], began), datapoint["Timestamp"] + length, check_time),
            ),
            datapoint["Average"],
        )
        for datapoint in answer["Datapoints"]
    ]


def most_looks(begin: datetime, end: datetime, check_time: datetime) -> int:
    """The maximum number of checks in a period, before the current check.

    >>> noon = datetime(2026, 11, 20, 12)
    >>> most_looks(noon, noon + HOUR, noon + timedelta(minutes=22)), most_looks(noon, noon + HOUR, noon + DAY)
    (4, 12)
    """
    if end <= check_time:
        return max(0, math.ceil((end - begin - JITTER) / EVERY))
    return max(0, math.floor((check_time - begin + JITTER) / EVERY))
