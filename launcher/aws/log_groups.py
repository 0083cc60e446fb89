"""Log groups as CloudWatch Logs describes them."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from launcher.aws.calls import items
from launcher.aws.session import Session, error_code, translate_errors
from launcher.model.errors import AwsError

LAST_LINES = 50
PROBLEM_WORDS = ("error", "exception", "fatal", "failed")
"""Words of a line that gives the reason for a failure."""
_MILLISECONDS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class LogGroupState:
    """One log group: its content, and the number of days for which a line is retained (None: without expiry)."""

    name: str
    stored_bytes: int
    retention_days: int | None
    created: datetime


def log_groups(session: Session, prefix: str) -> tuple[LogGroupState, ...]:
    """The log groups whose names begin with a prefix."""
    call, subject = session.client("logs").describe_log_groups, f"describe the log groups {prefix}*"
    return tuple(
        LogGroupState(
            name=str(group["logGroupName"]),
            stored_bytes=int(group.get("storedBytes", 0)),
            retention_days=group.get("retentionInDays"),
            created=datetime.fromtimestamp(group["creationTime"] / _MILLISECONDS, UTC),
        )
        for group in items(call, subject, "logGroups", logGroupNamePrefix=prefix)
    )


def control_plane_group(cluster: str) -> str:
    """The log group that an EKS control plane writes to (EKS user guide, control plane logs)."""
    return f"/aws/eks/{cluster}/cluster"


def delete(session: Session, name: str) -> None:
    """Delete a log group with its lines."""
    with translate_errors(f"delete log group {name}"):
        session.client("logs").delete_log_group(logGroupName=name)


def newest_lines(session: Session, group: str, count: int, *, streams: str = "") -> tuple[str, ...]:
    """The last lines of the newest stream of a log group; empty if it has none, or may not be read.

    `streams` is how the streams' names begin.

    Raises:
        AwsError: a call failed for a reason other than a missing group or missing permission.
    """
    try:
        name = next((name for name in stream_names(session, group) if name.startswith(streams)), None)
        return () if name is None else tuple(line.strip() for line in last_lines(session, group, name, count))
    except AwsError as problem:
        if error_code(problem) in ("ResourceNotFoundException", "AccessDeniedException"):
            return ()
        raise


def stream_names(session: Session, group: str) -> Iterator[str]:
    """The names of the streams of a log group, the newest first.

    Raises:
        AwsError: a call failed.
    """
    listed = items(
        session.client("logs").describe_log_streams,
        f"read the log {group}",
        "logStreams",
        logGroupName=group,
        orderBy="LastEventTime",
        descending=True,
    )
    return (str(stream["logStreamName"]) for stream in listed)


def problem_line(session: Session, group: str) -> str | None:
    """The last line of a log group that reports a problem, else its last line; None if the group has no line.

    Raises:
        AwsError: a call failed for a reason other than a missing group or missing permission.
    """
    lines = newest_lines(session, group, LAST_LINES)
    problem_lines = [line for line in lines if any(word in line.lower() for word in PROBLEM_WORDS)]
    return next(iter([*reversed(problem_lines), *reversed(lines)]), None)


def last_lines(session: Session, group: str, stream: str, count: int) -> tuple[str, ...]:
    """The newest lines of a stream of a log group; empty if the stream does not exist."""
    try:
        with translate_errors(f"read the log {group}"):
            events = session.client("logs").get_log_events(logGroupName=group, logStreamName=stream, limit=count)
    except AwsError as problem:
        if error_code(problem) == "ResourceNotFoundException":
            return ()
        raise
    return tuple(str(event["message"]).rstrip() for event in events["events"])
