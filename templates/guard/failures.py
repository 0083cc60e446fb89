# ruff: noqa: INP001 - one file that is shipped as it is; the folder is the function's code
"""The failures of a check, as text for users: the call, AWS's error, and the missing permission."""

import re
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from botocore.exceptions import BotoCoreError, ClientError
from looks import EVERY, NAMESPACE

TOLD = "FailedCalls"
"""The metric that records sent notifications: one value per notification, by cluster and call."""
AGAIN = timedelta(days=1)
RIGHT = re.compile(r"not authorized to perform:? ([a-z0-9-]+:[A-Za-z0-9]+)")
"""The pattern with which AWS's services name the action in a refusal."""
LONGEST = 600
MAX_CHARACTERS = 200
"""Maximum characters of a call as a dimension; CloudWatch accepts 1,024."""


class GuardError(Exception):
    """An incomplete check: Lambda counts it as an error of the function."""


class RefusedError(Exception):
    """A service accepted a call and refused a part of it."""


class Failure(NamedTuple):
    """One failure of a check: users are notified of each `call` once a day; `words` is the text for them."""

    call: str
    words: str


def failure_of(step: str, problem: Exception) -> Failure:
    """A failure as text.

    Args:
        step: the failed step, such as "stop its nodes".
        problem: the error.

    >>> failure_of("count its nodes", ValueError("no number"))
    Failure(call='count its nodes: ValueError', words='could not count its nodes: no number')
    """
    text = f"could not {step}: {problem}"[:LONGEST]
    if not isinstance(problem, ClientError):
        return Failure(f"{step}: {type(problem).__name__}"[:MAX_CHARACTERS], text)
    code = problem.response.get("Error", {}).get("Code", "")
    right = RIGHT.search(str(problem))
    missing = f"\nMissing right of the guard's role: {right[1]}" if right is not None else ""
    return Failure(f"{problem.operation_name}: {code}"[:MAX_CHARACTERS], text + missing)


def first_within(cloudwatch: Any, cluster: str, call: str, now: datetime, again: timedelta = AGAIN) -> bool:
    """Whether to notify now: no notification about that call was sent within `again`.

    If CloudWatch cannot record notifications, once an hour.
    """
    dimensions = [{"Name": "Cluster", "Value": cluster}, {"Name": "Call", "Value": plain(call)}]
    try:
        answer = cloudwatch.get_metric_statistics(
            Namespace=NAMESPACE,
            MetricName=TOLD,
            Dimensions=dimensions,
            StartTime=now - again,
            EndTime=now,
            Period=int(again.total_seconds()),
            Statistics=["SampleCount"],
        )
        if answer["Datapoints"]:
            return False
        mark = {"MetricName": TOLD, "Dimensions": dimensions, "Timestamp": now, "Value": 1}
        cloudwatch.put_metric_data(Namespace=NAMESPACE, MetricData=[mark])
    except (BotoCoreError, ClientError) as problem:
        print(f"cannot record which notifications were sent: {problem}")  # noqa: T201 - the function's log
        return timedelta(minutes=now.minute, seconds=now.second) < EVERY
    return True


def plain(call: str) -> str:
    """A call as a valid CloudWatch dimension: printable ASCII, not blank.

    >>> plain("UpdateItem: 5 µs")
    'UpdateItem: 5 ?s'
    """
    return "".join(character if " " <= character <= "~" else "?" for character in call).strip(" :") or "?"
