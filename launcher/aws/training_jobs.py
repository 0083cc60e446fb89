"""SageMaker training jobs: create once, describe, stop, and read the output of their nodes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from launcher.aws.api_shape import complaints
from launcher.aws.calls import items, unless_absent
from launcher.aws.session import Session, error_code, translate_errors
from launcher.model.errors import AwsError
from launcher.model.tags import CLUSTER_TAG, RUN_TAG
from launcher.model.training_job import LOG_GROUP

NAME_TAKEN, OVER_QUOTA = "ResourceInUse", "ResourceLimitExceeded"
_ABSENT = frozenset(("ResourceNotFound", "ValidationException"))
"""DescribeTrainingJob returns a ValidationException for a name that no job has; its model lists ResourceNotFound."""
_NOT_STOPPABLE = frozenset(("ResourceNotFound", "ValidationException"))
"""Errors of StopTrainingJob for a job that has ended."""
_NO_GROUP = "ResourceNotFoundException"
_MILLISECONDS = 1000


def request_complaints(request: Mapping[str, Any]) -> list[str]:
    """The violations of the API's model in a CreateTrainingJob request: botocore checks no enum, pattern or maximum."""
    return complaints("sagemaker", ("CreateTrainingJob",), request)


def create(session: Session, request: Mapping[str, Any]) -> None:
    """Create a training job.

    Raises:
        AwsError: SageMaker refuses the job; `error_code` gives the reason.
    """
    with translate_errors(f"create training job {request['TrainingJobName']}"):
        session.client("sagemaker").create_training_job(**request)


def describe(session: Session, name: str) -> Mapping[str, Any] | None:
    """A training job as SageMaker describes it; None if no job has that name."""
    call = session.client("sagemaker").describe_training_job
    return unless_absent(call, f"describe training job {name}", _ABSENT, TrainingJobName=name)


def run_of(session: Session, arn: str) -> str | None:
    """The submission of a training job, from its tag; None if the job is not Slipway's."""
    tags = items(session.client("sagemaker").list_tags, f"tags of {arn}", "Tags", ResourceArn=arn)
    return next((str(tag["Value"]) for tag in tags if tag["Key"] == RUN_TAG), None)


def running(session: Session, cluster: str) -> tuple[Mapping[str, Any], ...]:
    """The training jobs of a plan's cluster name that have not ended, by their tag."""
    client, jobs = session.client("sagemaker"), []
    for status in ("InProgress", "Stopping"):
        listed = items(client.list_training_jobs, "list training jobs", "TrainingJobSummaries", StatusEquals=status)
        for job in listed:
            arn = job["TrainingJobArn"]
            tags = items(client.list_tags, f"tags of {arn}", "Tags", ResourceArn=arn)
            if {"Key": CLUSTER_TAG, "Value": cluster} in tags:
                jobs.append(describe(session, job["TrainingJobName"]))
    return tuple(running_job for running_job in jobs if running_job is not None)


def stop(session: Session, name: str) -> bool:
    """Stop a training job: SIGTERM, and SIGKILL 120 seconds later. False if the job has already ended."""
    try:
        with translate_errors(f"stop training job {name}"):
            session.client("sagemaker").stop_training_job(TrainingJobName=name)
    except AwsError as problem:
        if error_code(problem) in _NOT_STOPPABLE:
            return False
        raise
    return True


@dataclass(slots=True, kw_only=True)
class NodeLogs:
    """The output of a training job's nodes from its start, merged by time.

    The lines of every node but the first begin with the node's name. CloudWatch receives events late: events younger
    than `settle_s` are left for the next poll.
    """

    session: Session
    job: str
    settle_s: float
    text: bytes = b""
    upto: int = field(default=0)

    def read(self, begun: datetime, *, whole: bool) -> bytes:
        """The output known so far; with `whole`, including the newest events."""
        settled = datetime.now(UTC) - timedelta(seconds=0 if whole else self.settle_s)
        start = self.upto or int(begun.timestamp() * _MILLISECONDS) - _MILLISECONDS
        end = int(settled.timestamp() * _MILLISECONDS) + (_MILLISECONDS if whole else 0)
        if end > start:
            self.text += b"".join(self._lines(start, end - 1))
            self.upto = end
        return self.text

    def _lines(self, start: int, end: int) -> list[bytes]:
        try:
            events = items(
                self.session.client("logs").filter_log_events,
                f"log of training job {self.job}",
                "events",
                logGroupName=LOG_GROUP,
                logStreamNamePrefix=f"{self.job}/",
                startTime=start,
                endTime=end,
            )
        except AwsError as problem:
            if error_code(problem) == _NO_GROUP:
                return []
            raise
        events.sort(key=lambda event: event["timestamp"])
        return [f"{_prefix(event['logStreamName'])}{event['message'].rstrip()}\n".encode() for event in events]


def _prefix(stream: str) -> str:
    """The prefix of a stream's lines, from the stream name `<job>/algo-<n>-<epoch>`.

    >>> _prefix("small-0a1b2c3d/algo-12-1700000000"), _prefix("small-0a1b2c3d/algo-1-1700000000")
    ('[algo-12] ', '')
    """
    host = stream.rpartition("/")[2].rpartition("-")[0]
    return "" if host == "algo-1" else f"[{host}] "
