"""SageMaker training jobs as a source of jobs: their state, their files and logs, and how to stop them."""

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from launcher.aws import training_jobs
from launcher.aws.objects import Objects
from launcher.aws.session import Session
from launcher.aws.training_jobs import NodeLogs
from launcher.model.errors import ImpossibleError
from launcher.model.job import BillableTime, JobFacts, JobState, SchedulerAttempt, Submitted
from launcher.model.training_job import LOG_GROUP
from launcher.records.submission import SANDBOX, Submission
from launcher.rendering.names import FRESH_FOLDER, journal_uri
from launcher.submit.jobs import Chunk, JobNodes
from launcher.submit.kubernetes import journal
from launcher.submit.kubernetes.journal import Pieces
from launcher.submit.shell import Shell
from launcher.workflow.cluster.api_jobs import nothing_open, reachable, stop_job
from launcher.workflow.cluster.deployed import JobConnection

LOG = "log.txt"
POLL_S, POLL_HERE_S = 15.0, 1.0
SETTLE_S = 15.0
"""Seconds until CloudWatch has a node's output: this project's assumption."""
_CHUNK = 4_000_000
_WAITING = {
    "Starting": "SageMaker is looking for instances",
    "LaunchingMLInstances": "SageMaker is looking for instances",
    "PreparingTrainingStack": "SageMaker prepares instances",
    "Pending": "waiting for capacity",
}
_INTERRUPTED = ("Interrupted", "Restarting")
_RUNNING = {
    "Downloading": "downloading data and image",
    "DownloadingTrainingImage": "downloading the image",
    "Training": "training",
    "Uploading": "uploading outputs",
    "Updating": "being updated",
    "Stopping": "stopping",
}
_LIMITS = {
    "MaxRuntimeExceeded": "the job reached its time limit (run.time_limit_h): launch it again to resume",
    "MaxWaitTimeExceeded": (
        "the wait for managed spot is over: launch it again to resume, or set purchase.option: on-demand"
    ),
}
"""SageMaker's secondary states in plain words (botocore 1.44.5); a state that is missing here counts as running."""
_EXIT_CODE = re.compile(r"exit code:? (\d+)", re.IGNORECASE)


def reach_training_job(
    submission: Submission, environment: Mapping[str, str], _shell: Callable[[], Shell]
) -> JobConnection:
    """The API that runs a job, and the place in the store where its nodes save their files."""
    session = Session(environment=environment, region=str(submission.head_node.region))
    first = submission.checkpoint_uri.partition(f"/{FRESH_FOLDER}/")[0]
    emulated = submission.head_node.via == SANDBOX
    source = TrainingJobs(
        session=session,
        job_files=Objects.at(session, journal_uri(first, submission.key)),
        settle_s=0.0 if emulated else SETTLE_S,
    )
    return JobConnection(source=source, poll_s=POLL_HERE_S if emulated else POLL_S, close=nothing_open)


@dataclass(slots=True, kw_only=True)
class TrainingJobs:
    """Training jobs of one account and region; `job_files` reads what a job's nodes stored."""

    session: Session
    job_files: Pieces
    settle_s: float
    sleep: Callable[[float], None] = field(default=time.sleep)
    clock: Callable[[], float] = field(default=time.monotonic)
    logs: dict[str, NodeLogs] = field(default_factory=dict)

    def facts(self, job: Submitted) -> JobFacts | None:
        """The state of a job; None if it was deleted.

        Raises:
            UnreachableError: SageMaker does not answer.
        """
        description = self._describe(job)
        return None if description is None else facts_of(description)

    def find(self, key: str, folder: str) -> Submitted | None:
        """The job that an earlier submission created, by its name; None if the submission has none."""
        job = Submitted(job=folder, key=key, folder=folder)
        description = self._describe(job)
        ours = description is not None and training_jobs.run_of(self.session, description["TrainingJobArn"]) == key
        return job if ours else None

    def read(self, job: Submitted, offsets: Mapping[str, int]) -> Mapping[str, Chunk | None]:
        """The content of a job's files from an offset on: the log from CloudWatch, other files from the nodes."""
        with reachable():
            return {name: self._read(job, name, offset) for name, offset in offsets.items()}

    def _read(self, job: Submitted, name: str, offset: int) -> Chunk | None:
        if name != LOG:
            return journal.read(self.job_files, name, offset, _CHUNK)
        logs = self.logs.setdefault(job.job, NodeLogs(session=self.session, job=job.job, settle_s=self.settle_s))
        description = training_jobs.describe(self.session, job.job)
        if description is None:
            return None
        over = facts_of(description).state.final
        text = logs.read(description["CreationTime"], whole=over)
        return Chunk(data=text[offset : offset + _CHUNK], size=len(text)) if text else None

    def log_name(self, job: Submitted) -> str:
        """The log with the output of all nodes, merged by time."""
        del job
        return LOG

    def release(self, job: Submitted) -> None:
        """Do nothing: SageMaker restarts an interrupted job itself."""

    def nodes(self, job: Submitted) -> JobNodes:
        """Refuse: the nodes of a training job have no login.

        Raises:
            ImpossibleError: always.
        """
        message = f"training job {job.job}: its nodes accept no shell, command or tunnel"
        # SageMaker developer guide, train-remote-debugging (read 2026-11-29): the job's role needs ssmmessages for it.
        debug = (
            "AWS's remote debugging of training jobs (EnableRemoteDebug) needs rights that Slipway's role does not have"
        )
        hint = f"slipway logs NAME -f shows their output (log group {LOG_GROUP}); {debug}"
        raise ImpossibleError(message, hint=hint)

    def cancel(self, job: Submitted, *, only_pending: bool = False) -> bool:
        """Stop a job; with `only_pending` only while it waits for capacity, and return after it has stopped.

        Raises:
            UnreachableError: SageMaker does not answer.
        """

        def stop() -> bool:
            if not only_pending:
                journal.mark_cancelled(self.job_files)
            return training_jobs.stop(self.session, job.job)

        return stop_job(
            lambda: self.facts(job),
            stop,
            only_pending=only_pending,
            sleep=self.sleep,
            clock=self.clock,
        )

    def _describe(self, job: Submitted) -> Mapping[str, Any] | None:
        with reachable():
            return training_jobs.describe(self.session, job.job)


def facts_of(description: Mapping[str, Any]) -> JobFacts:
    """A training job as SageMaker describes it, in the terms that all schedulers share."""
    status, secondary = str(description["TrainingJobStatus"]), str(description["SecondaryStatus"])
    transitions = description.get("SecondaryStatusTransitions", ())
    last_message = next((str(transition.get("StatusMessage") or "") for transition in reversed(transitions)), "")
    restarts = sum(transition["Status"] == "Interrupted" for transition in transitions)
    reason = ""
    nodes: tuple[str, ...] = ()
    if status == "Completed":
        state, word = JobState.COMPLETED, "completed"
    elif status == "Failed":
        state, word, reason = JobState.FAILED, "failed", str(description.get("FailureReason") or last_message)
    elif status == "Stopped":
        reason = _LIMITS.get(secondary, "")
        state, word = (JobState.FAILED if reason else JobState.CANCELLED), "stopped"
    elif secondary in _WAITING:
        state, word, reason = JobState.PENDING, "waiting", _WAITING[secondary]
    elif secondary in _INTERRUPTED:
        state, word = JobState.PENDING, "interrupted"
        reason = "it was interrupted; SageMaker is looking for other instances"
    else:
        state, word = JobState.RUNNING, _RUNNING.get(secondary, secondary)
        count = int(description.get("ResourceConfig", {}).get("InstanceCount", 1))
        nodes = tuple(f"algo-{number}" for number in range(1, count + 1))
    billable = _billable(description) if state.final else None
    return JobFacts(
        state=state,
        word=word if billable is None else f"{word}; {billable.text}",
        reason=reason,
        restarts=restarts,
        nodes=nodes,
        attempt=_attempt(description, state, restarts, nodes),
        billable=billable,
    )


def _billable(description: Mapping[str, Any]) -> BillableTime | None:
    """The trained and the billed seconds; for managed spot SageMaker bills fewer seconds, at the on-demand rate."""
    trained, billed = description.get("TrainingTimeInSeconds"), description.get("BillableTimeInSeconds")
    return None if trained is None or billed is None else BillableTime(trained_s=int(trained), billed_s=int(billed))


def _attempt(
    description: Mapping[str, Any], state: JobState, restarts: int, nodes: tuple[str, ...]
) -> SchedulerAttempt | None:
    """The last known attempt; None for a job that has had no instances."""
    begun = description.get("TrainingStartTime")
    if begun is None:
        return None
    reason = str(description.get("FailureReason", ""))
    # What SageMaker starts again by RetryStrategy (API reference): its instances failed, and not the job's program.
    lost = state is JobState.FAILED and reason.startswith("InternalServerError")
    code = _EXIT_CODE.search(reason)
    codes = {JobState.COMPLETED: 0, JobState.FAILED: None if lost else int(code[1]) if code else 1}
    return SchedulerAttempt(
        number=restarts + 1,
        started_at=begun,
        ended_at=description.get("TrainingEndTime") if state.final else None,
        exit_code=codes.get(state),
        signal=0,
        nodes=nodes,
        node_lost=lost,
    )
