# ruff: noqa: INP001 - one file that is shipped as it is; the folder is the function's code
"""What the guard has counted so far: its own metrics, in which each look counts once.

A look is recorded under its scheduled time. Lambda may deliver one event twice, and CloudWatch keeps both values; so a
period counts as the average of its values, times the looks that fit into it, and never as their sum.
"""

import math
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

NAMESPACE = "Slipway"
EVERY = timedelta(minutes=5)
"""Time between two looks: the schedule of infra/parts/guardrails.py."""
JITTER = timedelta(seconds=30)
"""By which EventBridge's scheduled times may be off the five minutes."""
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
MOST_DAYS_OF_HOURS = 50
"""An answer of GetMetricStatistics holds 1,440 values: 60 days of hours."""


class Period(NamedTuple):
    """The looks of an hour or a day: its end, how many there were, and the average of what they counted."""

    end: datetime
    looks: int
    average: float

    @property
    def total(self) -> float:
        """What the looks counted, added up."""
        return self.looks * self.average


def scheduled_at(event: Mapping[str, Any], now: datetime) -> datetime:
    """When a look was due: the `time` of EventBridge's event, which a second delivery repeats; else the moment.

    >>> from datetime import UTC
    >>> scheduled_at({"time": "2026-11-20T12:02:00Z"}, datetime(2026, 11, 20, 12, 3, tzinfo=UTC)).minute
    2
    """
    try:
        moment = datetime.fromisoformat(event["time"])
    except (KeyError, TypeError, ValueError):
        return now
    return moment if moment.tzinfo is not None else now


def counted(cloudwatch: Any, cluster: str, metric: str, began: datetime, look: datetime) -> list[Period]:
    """A metric of a cluster by the hour (by the day of an old one), from a moment up to a look, which is not in it.

    Raises:
        ClientError: CloudWatch does not answer.
    """
    length = HOUR if look - began < MOST_DAYS_OF_HOURS * DAY else DAY
    answer = cloudwatch.get_metric_statistics(
        Namespace=NAMESPACE,
        MetricName=metric,
        Dimensions=[{"Name": "Cluster", "Value": cluster}],
        # A deployment may have ended just now, by another clock.
        StartTime=min(began, look - EVERY),
        EndTime=look,
        Period=int(length.total_seconds()),
        Statistics=["Average", "SampleCount"],
    )
    return [
        Period(
            datapoint["Timestamp"] + length,
            min(
                round(datapoint["SampleCount"]),
                most_looks(max(datapoint["Timestamp"], began), datapoint["Timestamp"] + length, look),
            ),
            datapoint["Average"],
        )
        for datapoint in answer["Datapoints"]
    ]


def most_looks(begin: datetime, end: datetime, look: datetime) -> int:
    """How many looks there can have been in a period, before the one that is made now.

    >>> noon = datetime(2026, 11, 20, 12)
    >>> most_looks(noon, noon + HOUR, noon + timedelta(minutes=22)), most_looks(noon, noon + HOUR, noon + DAY)
    (4, 12)
    """
    if end <= look:
        return max(0, math.ceil((end - begin - JITTER) / EVERY))
    return max(0, math.floor((look - begin + JITTER) / EVERY))
