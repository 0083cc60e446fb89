# ruff: noqa: INP001 - one file that is shipped as it is; the folder is the function's code
"""Workers of a HyperPod cluster that fail to start, as SageMaker reports them.

SageMaker lists such a worker with the status Failure. With continuous provisioning it terminates the worker and starts
another one, without end, and only the cluster's events name it (developer guide, "SageMaker HyperPod cluster events
reference", read on 2026-11-29). Nodes can write neither. The last lines of a worker's scripts are in CloudWatch.
"""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from boots import CHARACTERS, IN_A_ROW, LINES, SETTLED, WINDOW
from job_messages import plain

FAILURE = "Failure"
NAMED = 5
"""Failed workers that a notification names for one reason, and reasons."""
LISTED, READ = 100, 2 * IN_A_ROW
"""Events that a check lists, newest first, and workers whose reasons it reads."""
FAILED = re.compile(
    r"Instance (?:lifecycle script execution for .* has failed|(?:\S+ )?creation\b.* failed\b|\S+ failed to start\b)",
    re.IGNORECASE,
)
READY = re.compile(r"Instance (?:\S+ )?creation\b.* completed successfully", re.IGNORECASE)
QUOTED = re.compile(r"failed to provision with the following error: .(?P<why>[^.]+\.)")
"""SageMaker's message on a failed instance (developer guide, "Logging SageMaker HyperPod at instance level")."""
NO_CAPACITY = "capacity"
"""A word in SageMaker's reason for an instance that it could not get, which is not billed."""
MISSING = "ResourceNotFoundException"
"""CloudWatch's error code for a missing log."""


class FailedStart(NamedTuple):
    """A worker that failed to start, and SageMaker's reason."""

    node: str
    at: datetime
    reason: str


def failed_starts(nodes: list[Mapping[str, Any]]) -> list[FailedStart]:
    """The workers that SageMaker lists as failed."""
    return [
        FailedStart(
            node["InstanceId"], node["LaunchTime"], node["InstanceStatus"].get("Message") or "SageMaker gives no reason"
        )
        for node in nodes
        if node["InstanceStatus"]["Status"] == FAILURE and node.get("InstanceId")
    ]


def replaced_starts(sagemaker: Any, cluster: str, group: str, now: datetime, since: datetime) -> list[FailedStart]:
    """The workers that failed to start after `since` and after the newest one that started, newest first.

    Empty if one started shortly ago: it shows that others can.

    Raises:
        ClientError: SageMaker does not respond.
    """
    failed: dict[str, tuple[datetime, str]] = {}
    answer = sagemaker.list_cluster_events(
        ClusterName=cluster,
        InstanceGroupName=group,
        ResourceType="Instance",
        EventTimeAfter=max(since, now - WINDOW),
        SortBy="EventTime",
        SortOrder="Descending",
        MaxResults=LISTED,
    )
    for event in answer.get("Events", []):
        words = event.get("Description", "")
        if READY.match(words):
            if now - event["EventTime"] < SETTLED:
                return []
            break
        if FAILED.match(words) and event.get("InstanceId"):
            failed.setdefault(event["InstanceId"], (event["EventTime"], event["EventId"]))
    starts = []
    for node, (at, event_id) in list(failed.items())[:READ]:
        details = sagemaker.describe_cluster_event(ClusterName=cluster, EventId=event_id)["EventDetails"]
        instance = details.get("EventDetails", {}).get("EventMetadata", {}).get("Instance", {})
        reason = instance.get("FailureMessage") or details.get("Description", "")
        if NO_CAPACITY not in reason.lower():
            starts.append(FailedStart(node, at, reason))
    return starts


def reasons(failed: list[FailedStart]) -> list[str]:
    """One line for each reason, with the workers that SageMaker gives it for.

    >>> quoted = 'Instance i-1 failed to provision with the following error: "Scripts did not run. To view logs, ..."'
    >>> reasons([FailedStart("i-1", datetime.min, quoted), FailedStart("i-2", datetime.min, "Scripts did not run.")])
    ['i-1, i-2: Scripts did not run.']
    """
    nodes: dict[str, list[str]] = {}
    for start in sorted(failed):
        quoted = QUOTED.search(start.reason)
        nodes.setdefault(plain(quoted["why"] if quoted else start.reason), []).append(start.node)
    lines = []
    for why, names in nodes.items():
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        lines.append(f"{', '.join(names[:NAMED])}{more}: {why}")
    return lines


def last_lines(logs: Any, group: str, stream: str) -> list[str]:
    """The last lines of a stream of a log group; empty if it has none.

    Raises:
        ClientError: CloudWatch does not respond.
    """
    try:
        answer = logs.get_log_events(logGroupName=group, logStreamName=stream, limit=LINES)
    except logs.exceptions.ClientError as refusal:
        if refusal.response["Error"]["Code"] != MISSING:
            raise
        return []
    return [plain(event["message"])[:CHARACTERS] for event in answer["events"] if event["message"].strip()]
