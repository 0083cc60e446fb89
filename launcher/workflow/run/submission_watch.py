"""Following a job on a cluster from here: its files are copied as they grow, its state is asked for now and then."""

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from launcher.agent.exits import INTERRUPTED
from launcher.model.durations import spoken
from launcher.model.errors import DeploymentFailedError
from launcher.model.job import JobFacts, JobState, Submitted
from launcher.model.stages import Stage, Tell, stage
from launcher.submit.jobs import JobSource, UnreachableError
from launcher.workflow.run.attempts import ENDINGS, read_events
from launcher.workflow.run.growing_copy import GrowingCopy

REQUEUE_S = 15.0
"""A job that Slurm is about to put back into its queue shows as failed for a moment: that it was interrupted, or lost
its node, counts as a failure once it lasts."""
PATIENCE_S = 3600.0
"""How long a head node may stay silent before the job is no longer followed; the job itself goes on."""
RELEASE_AGAIN_S = 15.0
"""A requeued job starts "a second from now" by order: given at every look, that second would never come."""
JOB_FOLDER = "job"
"""In the run folder: copies of what the job writes on the cluster."""
EVENTS, METRICS = "events.jsonl", "metrics.jsonl"
_NOT_CAPACITY = (
    *("JobHeld", "Dependency", "BeginTime", "PartitionInactive", "Licenses", "Reservation"),
    *("image: ", "its image is ", "container ", "it ended ", "it is suspended", "quota: "),
)
"""What a job waits for that another place would not give it either (man squeue, job reason codes; of pods, the words of
launcher/submit/kubernetes/words.py)."""


class NoCapacityError(DeploymentFailedError):
    """No machines came in the time that the plan gives, and the job was taken back before it ran."""


@dataclass(slots=True, kw_only=True)
class Mirror:
    """Copies of the files that a job writes on its cluster; several commands may keep the same copies."""

    source: JobSource
    job: Submitted
    folder: Path

    def sync(self) -> None:
        """Bring the copies up to date.

        Raises:
            SchedulerError: the folder cannot be read.
        """
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
    """Whether a job has left its cluster's queue for good; each look also brings its files here.

    `waits_s` is how long the job may wait for machines before it has ever run; when that is over, `give_up` is asked
    whether to take it back. None: it waits as long as it takes.
    """

    mirror: Mirror
    look_s: float
    tell: Tell
    waits_s: float | None = None
    give_up: Callable[[], bool] = lambda: False
    clock: Callable[[], float] = time.monotonic
    facts: JobFacts | None = None
    over: bool = False
    begun: float = field(default=0.0)
    due: float = 0.0
    failed_at: float | None = None
    silent_since: float | None = None
    released_at: float | None = None
    waiting: Stage | None = None

    def __post_init__(self) -> None:
        """Waiting is counted from here."""
        self.begun = self.clock()

    def ended(self) -> bool:
        """Whether nothing more happens to the job.

        Raises:
            NoCapacityError: it never ran, and was taken back.
            SchedulerError: the head node has been silent for too long.
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
        else:
            self.silent_since = None
            self._take_in(facts, now)
        self.due = self.clock() + self.look_s
        return self.over

    @property
    def source(self) -> JobSource:
        """Where it is asked."""
        return self.mirror.source

    @property
    def job(self) -> Submitted:
        """The job."""
        return self.mirror.job

    def _take_in(self, facts: JobFacts | None, now: float) -> None:
        """Judge one look."""
        before, self.facts = self.facts, facts
        if facts is None or facts.state is not JobState.PENDING:
            self.close()
        if facts is None:
            # Slurm forgets a job minutes after its end; the agent's own record stays.
            self.over = True
            return
        if facts.state is JobState.FAILED:
            self.failed_at = self.failed_at if self.failed_at is not None else now
            code = facts.attempt.exit_code if facts.attempt is not None else None
            self.over = code not in (None, INTERRUPTED) or now - self.failed_at >= REQUEUE_S
            if self.over and facts.reason:
                self.tell(f"job {self.job.job} failed: {facts.reason}")
            return
        self.failed_at = None
        self.over = facts.state.final
        if facts.state is not JobState.PENDING:
            return
        if before is None or (before.state, before.reason) != (facts.state, facts.reason):
            self._waits(f"job {self.job.job} waits{f' ({facts.reason})' if facts.reason else ''}")
        if not self._has_run():
            self._wait_for_capacity(facts, now)
        if facts.restarts and facts.reason == "BeginTime":
            self._release(now)

    def _waits(self, words: str) -> None:
        """Tell what it waits for, and show for how long it does."""
        self.close()
        self.waiting = stage(self.tell, words)
        limit = self.waits_s if self.waits_s is not None and not self._has_run() else None
        self.waiting.now(f"for machines, {spoken(limit)} at most" if limit is not None else "")

    def close(self) -> None:
        """Nothing is shown any more: the job waits no longer, or is not followed."""
        if self.waiting is not None:
            self.waiting.end()
            self.waiting = None

    def _release(self, now: float) -> None:
        """Spare a requeued job Slurm's two minutes."""
        if self.released_at is None or now - self.released_at >= RELEASE_AGAIN_S:
            self.released_at = now
            self.source.release(self.job)

    def _has_run(self) -> bool:
        """Whether the batch script has ever begun; machines that do not come put a job back into the queue as well."""
        return (self.mirror.folder / self.source.log_name(self.job)).is_file()

    def _wait_for_capacity(self, facts: JobFacts, now: float) -> None:
        """Take back a job that has waited long enough; one that begins at that moment stays.

        Raises:
            NoCapacityError: it was taken back.
        """
        other = facts.reason.startswith(_NOT_CAPACITY) and not facts.restarts
        if self.waits_s is None or now - self.begun < self.waits_s or other:
            return
        minutes = self.waits_s / 60
        if not self.give_up():
            self.waits_s = None
            return
        self.source.cancel(self.job, only_pending=True)
        self.facts = self.source.facts(self.job)
        if self.facts is None or self.facts.state is JobState.CANCELLED:
            why = f"no machines came within {minutes:g} minutes ({facts.reason or 'no reason given'})"
            raise NoCapacityError(
                f"{why}; the job was taken back",
                hint="purchase.wait_for_capacity_minutes waits longer; slipway plan FILE shows the other candidates",
            )

    def _silent(self, now: float, problem: UnreachableError) -> None:
        """Take note of a look that gave nothing.

        Raises:
            UnreachableError: that has gone on for too long.
        """
        if self.silent_since is None:
            self.silent_since = now
            self.tell(f"{problem.message}; the job goes on, and this looks again")
        elif now - self.silent_since > PATIENCE_S:
            raise problem


def ending(folder: Path) -> str | None:
    """How the agent says that the last attempt ended: one of `ENDINGS`; None: it has not."""
    last = None
    for event in read_events(folder / EVENTS):
        if event.get("event") == "attempt-started":
            last = None
        elif event.get("event") in ENDINGS:
            last = str(event["event"])
    return last
