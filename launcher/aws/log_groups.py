"""Log groups as CloudWatch Logs describes them."""

from dataclasses import dataclass

from launcher.aws.session import Session, translated


@dataclass(frozen=True, slots=True, kw_only=True)
class LogGroupState:
    """One log group: what it holds, and for how many days a line of it is kept (None: for ever)."""

    name: str
    stored_bytes: int
    retention_days: int | None


def log_groups(session: Session, prefix: str) -> tuple[LogGroupState, ...]:
    """The log groups whose names begin with a text.

    Raises:
        AwsError: the call failed.
    """
    with translated(f"describe the log groups {prefix}*"):
        pages = session.client("logs").get_paginator("describe_log_groups").paginate(logGroupNamePrefix=prefix)
        return tuple(
            LogGroupState(
                name=str(each["logGroupName"]),
                stored_bytes=int(each.get("storedBytes", 0)),
                retention_days=each.get("retentionInDays"),
            )
            for page in pages
            for each in page["logGroups"]
        )
