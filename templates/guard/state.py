# ruff: noqa: INP001 - one file that is shipped as it is; the folder is the function's code
"""The guard's own state: the cluster's cost, the node-hours of its deployment, and the notifications that were sent.

It is one parameter of Systems Manager (infra/parts/guard_function.py). No role of a node can write it, so that no job
can change what the guard has counted: metrics are no such place, because IAM allows them by namespace and not by
cluster, and ParallelCluster's nodes may write to every namespace.

A check counts once, under its scheduled time: Lambda may deliver one event twice.

The parameter belongs to the guard's stack. When CloudFormation changes any property of it, such as a tag, it writes the
template's empty value again; the guard then goes on from the parameter's last version, of which Systems Manager keeps
100.
"""

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

from failures import RefusedError

EMPTY = "{}"
"""The value in the stack's template (infra/parts/guard_function.py)."""
MOST_CHECKS = 24
"""The checks that are remembered, two hours of them: an older one that arrives late is not counted."""
MOST_SENT = 100
"""The notifications that are remembered; the whole value has at most 4,096 characters (Systems Manager's limit)."""
NAME_CHARACTERS = 12
TRIES = 5
MINUTE = timedelta(minutes=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass
class State:
    """The state of one guard."""

    # Counts from the stack's creation, `node_hours` from `since`, its last deployment.
    spent_usd: float = 0.0
    node_hours: float = 0.0
    # What spot nodes have cost above the quoted rate since that deployment.
    above_usd: float = 0.0
    since: datetime | None = None
    # The last check that found a node.
    ran_until: datetime | None = None
    # The last failed boot for which nodes were stopped.
    boots_until: datetime | None = None
    # The nodes whose failed boots EC2 has confirmed: it forgets terminated instances within an hour.
    failed: list[str] = field(default_factory=list)
    # The first of the last checks whose heartbeats no job in the cluster's queue confirms (hyperpod.py).
    unbacked_since: datetime | None = None
    # The job of the nodes, what it has cost, its node-hours, and its nodes at the last check; where the guard counts
    # one job (ec2.py).
    job: str | None = None
    job_usd: float = 0.0
    job_node_hours: float = 0.0
    job_nodes: list[str] = field(default_factory=list)
    # Why the guard ended an endpoint, and when: an endpoint has no store (endpoint.py).
    stop_reason: str = ""
    stopped_at: datetime | None = None
    # The last counted checks, in minutes since 1970.
    checks: list[int] = field(default_factory=list)
    # The last notifications by their name's digest, in minutes since 1970.
    sent: dict[str, int] = field(default_factory=dict)

    @classmethod
    def read(cls, ssm: Any, name: str) -> "State":
        """The state as it was stored.

        Raises:
            ClientError: Systems Manager refuses.
            RefusedError: the parameter has another content; it is not replaced, because the sum would begin at zero.
        """
        parameter = ssm.get_parameter(Name=name)["Parameter"]
        text = parameter["Value"]
        if text == EMPTY and parameter["Version"] > 1:
            text = last_written(ssm, name)
        try:
            document = json.loads(text)
            return cls(
                spent_usd=float(document.get("spent_usd", 0.0)),
                node_hours=float(document.get("node_hours", 0.0)),
                above_usd=float(document.get("above_usd", 0.0)),
                since=moment_of(document.get("since")),
                ran_until=moment_of(document.get("ran_until")),
                boots_until=moment_of(document.get("boots_until")),
                failed=[str(node) for node in document.get("failed", ())],
                unbacked_since=moment_of(document.get("unbacked_since")),
                job=document.get("job"),
                job_usd=float(document.get("job_usd", 0.0)),
                job_node_hours=float(document.get("job_node_hours", 0.0)),
                job_nodes=[str(node) for node in document.get("job_nodes", ())],
                stop_reason=str(document.get("stop_reason", "")),
                stopped_at=moment_of(document.get("stopped_at")),
                # "looks": a guard that an earlier version deployed.
                checks=[int(check) for check in document.get("checks", document.get("looks", ()))],
                sent={str(digest): int(minute) for digest, minute in document.get("sent", {}).items()},
            )
        except (ValueError, TypeError, AttributeError, OverflowError, RecursionError) as problem:
            raise RefusedError(f"the parameter {name} does not contain the guard's state: {text[:80]!r}") from problem

    def write(self, ssm: Any, name: str) -> int:
        """Store the state; return the version of the parameter.

        Raises:
            ClientError: Systems Manager refuses.
        """
        document = {
            "schema": "slipway.guard-state/1",
            "spent_usd": self.spent_usd,
            "node_hours": self.node_hours,
            "above_usd": self.above_usd,
            "since": None if self.since is None else self.since.isoformat(),
            "ran_until": None if self.ran_until is None else self.ran_until.isoformat(),
            "boots_until": None if self.boots_until is None else self.boots_until.isoformat(),
            "failed": self.failed,
            "unbacked_since": None if self.unbacked_since is None else self.unbacked_since.isoformat(),
            "job": self.job,
            "job_usd": self.job_usd,
            "job_node_hours": self.job_node_hours,
            "job_nodes": self.job_nodes,
            **({"stop_reason": self.stop_reason} if self.stopped_at is not None else {}),
            **({"stopped_at": self.stopped_at.isoformat()} if self.stopped_at is not None else {}),
            "checks": self.checks,
            "sent": self.sent,
        }
        text = json.dumps(document, separators=(",", ":"))
        return int(ssm.put_parameter(Name=name, Value=text, Overwrite=True)["Version"])

    def count(
        self,
        check: datetime,
        *,
        usd: float,
        nodes: int | None,
        hours: float,
        began: datetime | None,
        above_usd: float = 0.0,
        job_usd: float = 0.0,
    ) -> None:
        """Add one check, unless it was counted before.

        Args:
            check: the scheduled time of the check.
            usd: the cost since the check before it.
            nodes: the running nodes; None if they could not be counted.
            hours: the time since the check before it.
            began: the last deployment; None if it could not be read.
            above_usd: the part of the nodes' cost above the quoted rate.
            job_usd: the cost of the job since the check before it, where the guard counts one.
        """
        if began is not None and began != self.since:
            self.since, self.node_hours, self.above_usd = began, 0.0, 0.0
        minute = minutes(check)
        if minute in self.checks or (len(self.checks) == MOST_CHECKS and minute < self.checks[0]):
            return
        self.checks = sorted([*self.checks, minute])[-MOST_CHECKS:]
        self.spent_usd += usd
        self.above_usd += above_usd
        self.job_usd += job_usd
        if nodes:
            self.node_hours += nodes * hours
            self.job_node_hours += nodes * hours
            self.ran_until = check if self.ran_until is None else max(self.ran_until, check)

    def start_job(self, job: str) -> None:
        """Count a job from zero if it is not the one that was counted before."""
        if job != self.job:
            self.job, self.job_usd, self.job_node_hours, self.job_nodes = job, 0.0, 0.0, []

    def first(self, name: str, now: datetime, again: timedelta) -> bool:
        """Whether no notification of that name was sent within `again`; it is then marked as sent."""
        if self.was_sent(name, now, again):
            return False
        self.mark(name, now)
        return True

    def was_sent(self, name: str, now: datetime, within: timedelta) -> bool:
        """Whether a notification of that name was sent within a time."""
        before = self.sent.get(digest_of(name))
        return before is not None and minutes(now) - before < within / MINUTE

    def mark(self, name: str, now: datetime) -> None:
        """Mark a notification as sent."""
        marks = {**self.sent, digest_of(name): minutes(now)}
        self.sent = dict(sorted(marks.items(), key=lambda mark: mark[1])[-MOST_SENT:])


def mark_between_checks(ssm: Any, parameter: str, name: str, now: datetime) -> None:
    """Mark a notification as sent, outside of scheduled checks; what a check writes meanwhile is kept.

    Raises:
        ClientError: Systems Manager refuses.
        RefusedError: the parameter has another content, or checks write it all the time.
    """
    version, source = int(ssm.get_parameter(Name=parameter)["Parameter"]["Version"]), parameter
    for _ in range(TRIES):
        state = State.read(ssm, source)
        state.mark(name, now)
        written = state.write(ssm, parameter)
        if written == version + 1:
            return
        # A check has written a version in between, which this call has replaced.
        version, source = written, f"{parameter}:{written - 1}"
    raise RefusedError(f"the parameter {parameter} changed {TRIES} times")


def digest_of(name: str) -> str:
    """The short form of a notification's name in the state."""
    return sha256(name.encode()).hexdigest()[:NAME_CHARACTERS]


def last_written(ssm: Any, name: str) -> str:
    """The last value of a parameter that the guard has written; the empty one if there is none.

    Raises:
        ClientError: Systems Manager refuses.
    """
    pages = ssm.get_paginator("get_parameter_history").paginate(Name=name)
    versions = [version for page in pages for version in page["Parameters"] if version["Value"] != EMPTY]
    newest = max(versions, key=lambda version: version["Version"], default={"Value": EMPTY})
    return str(newest["Value"])


def minutes(moment: datetime) -> int:
    """A moment in minutes since 1970, rounded: EventBridge's scheduled times differ by seconds."""
    return round((moment - EPOCH) / MINUTE)


def moment_of(text: str | None) -> datetime | None:
    """A moment in ISO format; None for None.

    Raises:
        ValueError: the text is no moment with a time zone.
    """
    if text is None:
        return None
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        message = f"{text} has no time zone"
        raise ValueError(message)
    return moment
