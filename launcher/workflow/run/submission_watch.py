"""Follows a job on a cluster: it copies the job's files as they grow and polls the job's state."""

import os
import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from launcher.agent.exits import INTERRUPTED
from launcher.model.errors import DeploymentFailedError, SlipwayError
from launcher.model.job import JobFacts, JobState, Submitted
from launcher.model.stages import Notify, Stage, stage
from launcher.model.units import duration_text, number_of
from launcher.records.run_folder import EVENTS, METRICS, RunFolder
from launcher.records.submission import Submission
from launcher.submit.jobs import Chunk, JobSource, UnreachableError
from launcher.submit.kubernetes.words import CHECKED
from launcher.workflow.cluster.guard_stop import last_seen, waiting_text
from launcher.workflow.history.attempts import ENDINGS, read_events, record_loss

REQUEUE_S = 15.0
"""A job that Slurm is about to requeue shows as failed for a moment. An interruption or a lost node therefore counts
as a failure only after this time."""
PATIENCE_S = 3600.0
"""Seconds without an answer of the head node until Slipway stops following; the job continues."""
STOP_AGAIN_S = 60.0
"""The pause between questions whether the guard stopped a waiting job's nodes; the guard checks every five minutes."""
REMOVED_AGAIN_S = 15.0
"""The pause between checks whether a cluster that does not answer was removed."""
RELEASE_AGAIN_S = 15.0
"""The pause between releases: each sets the job's start one second ahead, so a release per poll would block it."""
_NOT_CAPACITY = (
    *("JobHeld", "Dependency", "BeginTime", "PartitionInactive", "Licenses", "Reservation"),
    *("image: ", "its image is ", "container ", "it ended ", "it was interrupted", "it is suspended", "quota: "),
    CHECKED,
)
"""Reasons of waiting that no other place would solve (man squeue, job reason codes; for pods, the words of
launcher/submit/kubernetes/words.py)."""


class GrowingCopy:
    """The local copy at a path, open during the block; `size` is the number of copied bytes of the original."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._anew: Path | None = None
        self._stream: BinaryIO | None = None
        self.size = 0
        if path.is_file():
            self._stream = _open_log(path)
            self.size = self._stream.seek(0, os.SEEK_END)

    def __enter__(self) -> Self:
        """Return the copy."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it; a connection that was opened again replaces the old one if there was no error."""
        if self._stream is not None:
            self._stream.close()
        if self._anew is not None and problem is None:
            self._anew.replace(self._path)
        elif self._anew is not None:
            self._anew.unlink(missing_ok=True)

    def take(self, chunk: Chunk) -> bool:
        """Write a piece of the original that was read from `size` on; return whether more data exists."""
        if chunk.size < self.size:
            # The original file was started again, and so is the copy
            if self._stream is not None:
                self._stream.close()
            if self._anew is None:
                self._anew = self._path.with_name(f".{self._path.name}.{secrets.token_hex(4)}")
            self._anew.unlink(missing_ok=True)
            self._stream, self.size = _open_log(self._anew), 0
            return True
        if self._stream is None:
            self._stream = _open_log(self._path)
        self._stream.seek(self.size)
        self._stream.write(chunk.data)
        self._stream.flush()
        self.size += len(chunk.data)
        return bool(chunk.data) and chunk.size > self.size


def _open_log(path: Path) -> BinaryIO:
    """A file open for writes at any position, created if missing."""
    return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666), "r+b")


class JobCancelledError(DeploymentFailedError):
    """The launch cancelled its job, which waited for nodes."""


class NoCapacityError(JobCancelledError):
    """No instances became available within the plan's limit, and the job was cancelled before it ran."""


class ClusterRemovedError(DeploymentFailedError):
    """The cluster was removed while its job was followed, and the job with it."""


@dataclass(slots=True, kw_only=True)
class Mirror:
    """Copies of a job's files from its cluster; several commands may update the same copies."""

    source: JobSource
    job: Submitted
    folder: Path

    def sync(self) -> None:
        """Update the copies."""
        self.folder.mkdir(parents=True, exist_ok=True)
        names: tuple[str, ...] = (EVENTS, METRICS, self.source.log_name(self.job))
        with ExitStack() as opened:
            copies = {name: opened.enter_context(GrowingCopy(self.folder / name)) for name in names}
            behind = names
            while behind:
                chunks = self.source.read(self.job, {name: copies[name].size for name in behind})
                behind = tuple(name for name, chunk in chunks.items() if chunk is not None and copies[name].take(chunk))


@dataclass(slots=True, kw_only=True)
class RemoteWatch:
    """Whether a job has left its cluster's queue for good; each poll also copies its files to this computer."""

    mirror: Mirror
    poll_s: float
    notify: Notify
    # How long the job may wait for nodes before its first start; None: without a limit.
    waits_s: float | None = None
    # Decides after `waits_s` whether to cancel the job.
    give_up: Callable[[], bool] = lambda: False
    # Describes a removal of the cluster; empty: it is not being removed.
    removed: Callable[[], str] = lambda: ""
    # Records the loss of an attempt whose node is gone, by the job's newest facts.
    record_lost: Callable[[JobFacts], None] = lambda _: None
    # The guard's reason for stopping nodes, empty: it stopped none; and whether the job waits for new nodes.
    guard_stop: Callable[[], tuple[str, bool]] = lambda: ("", False)
    clock: Callable[[], float] = time.monotonic
    facts: JobFacts | None = None
    over: bool = False
    begun: float = field(default=0.0)
    due: float = 0.0
    failed_at: float | None = None
    silent_since: float | None = None
    removed_at: float | None = None
    stop_at: float | None = None
    stop_reason: str = ""
    released_at: float | None = None
    waiting: Stage | None = None
    # Reasons of waiting that were shown since the job last left the queue: EC2 names another zone at each try.
    shown_reasons: set[str] = field(default_factory=set)
    taken_back: str = ""

    def __post_init__(self) -> None:
        """Start the waiting time."""
        self.begun = self.clock()

    def ended(self) -> bool:
        """Whether the job has ended permanently.

        Raises:
            NoCapacityError: the job never ran, and was cancelled.
            JobCancelledError: its nodes do not boot, and it was cancelled.
            ClusterRemovedError: the cluster does not answer because it was removed.
            SchedulerError: the head node did not answer for too long.
        """
        now = self.clock()
        if self.over or now < self.due:
            return self.over
        try:
            facts = self.source.facts(self.job)
            # After the state: what a job has written when it ended is all of it.
            self.mirror.sync()
        except UnreachableError as problem:
            self._silent(now, problem)
        except SlipwayError as problem:
            self._refuse_if_removed(problem)
            raise
        else:
            self.silent_since = self.removed_at = None
            self._take_in(facts, now)
        self.due = self.clock() + self.poll_s
        return self.over

    @property
    def source(self) -> JobSource:
        """The source that is polled."""
        return self.mirror.source

    @property
    def job(self) -> Submitted:
        """The job."""
        return self.mirror.job

    def _take_in(self, facts: JobFacts | None, now: float) -> None:
        self.facts = facts
        if facts is None or facts.state is not JobState.PENDING:
            self.close()
            self.shown_reasons.clear()
        self._refuse_if_taken_back()
        if facts is None:
            # Slurm forgets a job minutes after its end; the agent's own record stays.
            self.over = True
            return
        self.record_lost(facts)
        if facts.state is JobState.FAILED:
            self._take_in_failure(facts, now)
            return
        self.failed_at = None
        self.over = facts.state.final
        self._explain_stop(facts)
        if facts.state is not JobState.PENDING:
            return
        self._check_guard_stop(now)
        if facts.reason not in self.shown_reasons:
            self.shown_reasons.add(facts.reason)
            reason = "Slurm's delay after a requeue" if _is_requeued(facts) else facts.reason
            self._waits(f"job {self.job.job} waits{f' ({reason})' if reason else ''}")
        if not self._has_run():
            self._wait_for_capacity(facts, now)
        if _is_requeued(facts):
            self._release(now)

    def _take_in_failure(self, facts: JobFacts, now: float) -> None:
        self.failed_at = self.failed_at if self.failed_at is not None else now
        code = facts.attempt.exit_code if facts.attempt is not None else None
        self.over = code not in (None, INTERRUPTED) or now - self.failed_at >= REQUEUE_S
        if not self.over:
            return
        self._explain_stop(facts)
        if facts.reason:
            self._notify_lines(f"job {self.job.job} failed: {facts.reason}")
        if facts.keeps_nodes and self.source.cancel(self.job):
            self.notify(f"job {self.job.job} was cancelled: its other pods waited for the failed pod")

    def _explain_stop(self, facts: JobFacts) -> None:
        """Report why the guard has stopped the nodes of a job that has ended with them."""
        # A job of pods fails with its nodes.
        if facts.state not in (JobState.CANCELLED, JobState.FAILED):
            return
        reason, jobs_wait = self.guard_stop()
        if reason and (not jobs_wait or facts.state is JobState.FAILED):
            self._notify_lines(f"the guard stopped the nodes of job {self.job.job}: {reason}")

    def _waits(self, title: str) -> None:
        self.close()
        self.waiting = stage(self.notify, title)
        limit = self.waits_s if self.waits_s is not None and not self._has_run() else None
        self.waiting.now(f"for capacity, at most {duration_text(limit)}" if limit is not None else "")

    def close(self) -> None:
        """End the progress display: the job no longer waits, or is no longer followed."""
        if self.waiting is not None:
            self.waiting.end()
            self.waiting = None

    def _release(self, now: float) -> None:
        """Release a requeued job early, without Slurm's delay of two minutes."""
        if self.released_at is None or now - self.released_at >= RELEASE_AGAIN_S:
            self.released_at = now
            self.source.release(self.job)

    def _check_guard_stop(self, now: float) -> None:
        """Report why the guard has stopped the nodes of a waiting job; cancel the job if they do not boot."""
        if self.stop_at is not None and now - self.stop_at < STOP_AGAIN_S:
            return
        self.stop_at = now
        reason, jobs_wait = self.guard_stop()
        if reason and jobs_wait:
            if reason != self.stop_reason:
                self._notify_lines(f"the guard stopped the nodes: {reason}")
                self.notify(waiting_text(self.job.job, "NAME"))
            self.stop_reason = reason
        elif reason and self.source.cancel(self.job, only_pending=True):
            raise JobCancelledError(
                f"the guard stopped the nodes, and job {self.job.job} was cancelled: {reason}",
                hint="mend what the node's lines name, then slipway launch FILE, which starts nodes again",
            )

    def _notify_lines(self, text: str) -> None:
        """Report a text whose further lines a node wrote: each is a line of output."""
        for line in text.splitlines():
            self.notify(line)

    def _has_run(self) -> bool:
        """Whether the batch script has ever started; missing instances also return a job to the queue."""
        return (self.mirror.folder / self.source.log_name(self.job)).is_file()

    def _wait_for_capacity(self, facts: JobFacts, now: float) -> None:
        """Cancel a job that has waited too long; a job that starts at that moment stays."""
        other = facts.reason.startswith(_NOT_CAPACITY) and not _is_requeued(facts)
        if self.waits_s is None or now - self.begun < self.waits_s or other:
            return
        if not self.taken_back and not self.give_up():
            self.waits_s = None
            if self.waiting is not None:
                self.waiting.now("for capacity")
            return
        # Pods take their time to go, and have no reason any more while they do.
        self.taken_back = self.taken_back or facts.reason or "no reason given"
        self.source.cancel(self.job, only_pending=True)
        self.facts = self.source.facts(self.job)
        self._refuse_if_taken_back()

    def _refuse_if_taken_back(self) -> None:
        """Raise if the cancelled job has gone without an attempt: its pods may take several polls to go."""
        if not self.taken_back or self.waits_s is None:
            return
        if self.facts is not None and self.facts.state is not JobState.CANCELLED:
            return
        if not any(event.get("event") == "attempt-started" for event in read_events(self.mirror.folder / EVENTS)):
            limit = number_of(self.waits_s / 60, "minute")
            why = f"no capacity within {limit} ({self.taken_back})"
            if self.stop_reason:
                why = f"the guard stopped the nodes ({self.stop_reason}), and none started within {limit}"
            raise NoCapacityError(
                f"{why}; the job was cancelled",
                hint="purchase.wait_for_capacity_minutes waits longer; slipway plan FILE shows the other candidates",
            )

    def _silent(self, now: float, problem: UnreachableError) -> None:
        """Record a poll without an answer."""
        if self.removed_at is None or now - self.removed_at >= REMOVED_AGAIN_S:
            self.removed_at = now
            self._refuse_if_removed(problem)
        if self.silent_since is None:
            self.silent_since = now
            self.notify(f"{problem.message}; the job continues; checking again")
        elif now - self.silent_since > PATIENCE_S:
            raise problem

    def _refuse_if_removed(self, problem: SlipwayError) -> None:
        if removal := self.removed():
            self.facts = _with_lost_node(self.facts)
            raise ClusterRemovedError(
                f"{removal}: job {self.job.job} has ended with it",
                hint="slipway report NAME shows the run; slipway launch FILE goes on from its newest stored checkpoint",
            ) from problem


def _is_requeued(facts: JobFacts) -> bool:
    """Whether a job waits for Slurm's delay before its next attempt."""
    return bool(facts.restarts) and facts.reason == "BeginTime"


def _with_lost_node(facts: JobFacts | None) -> JobFacts | None:
    """The last facts of a job whose cluster was removed: its attempt ended with the nodes."""
    if facts is None or facts.attempt is None:
        return facts
    attempt = replace(facts.attempt, ended_at=datetime.now(UTC), node_lost=True)
    return replace(facts, state=JobState.FAILED, attempt=attempt)


def record_lost(
    folder: RunFolder, submission: Submission, environment: Mapping[str, str], facts: JobFacts | None
) -> None:
    """Record the loss of a job's open attempt, if the job waits for nodes, or has ended and nothing says when.

    Nothing is recorded if the store does not answer: the next call tries again.

    Args:
        folder: the run's.
        submission: the job's.
        environment: that of the AWS calls of the cluster's account or sandbox.
        facts: the job as its scheduler reports it.
    """
    if facts is None or facts.state is JobState.RUNNING:
        return
    ended_at = None if facts.attempt is None else facts.attempt.ended_at
    if facts.state.final and ended_at is not None:
        return
    with suppress(SlipwayError):
        record_loss(folder, lambda number: ended_at or last_seen(submission, environment, number))


def ending(folder: Path) -> str | None:
    """How the last attempt ended, by the agent's events: one of `ENDINGS`; None while it has not."""
    last = None
    for event in read_events(folder / EVENTS):
        if event.get("event") == "attempt-started":
            last = None
        elif event.get("event") in ENDINGS:
            last = str(event["event"])
    return last
