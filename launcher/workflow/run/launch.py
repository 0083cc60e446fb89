"""The story of a launch in the sandbox: priced, gated, rendered, deployed, submitted, followed, reported."""

import json
import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from launcher.model.errors import DeploymentFailedError, SlipwayError
from launcher.model.money import Price
from launcher.model.quote import Quote
from launcher.model.report import Report, RunStatus
from launcher.pricing.priced import Priced
from launcher.records import run_folder
from launcher.records.documents import report_document
from launcher.records.run_folder import RunFolder, write_whole
from launcher.rendering.batch import AGENT_FILE
from launcher.rendering.slurm_job import BATCH_FILE
from launcher.sandbox.sandbox import Sandbox
from launcher.sandbox.slurm.scheduler import JobState, Scheduler, SchedulerError
from launcher.workflow.deploy.hyperpod import is_hyperpod
from launcher.workflow.deploy.in_sandbox import furnished, left_out, sandbox_for, setting_in
from launcher.workflow.deploy.standing import cluster_for
from launcher.workflow.deploy.steps import Deployed, Tell, record
from launcher.workflow.run.attempts import attempts, read_events
from launcher.workflow.run.event_words import tell_event
from launcher.workflow.run.follow import Follower, Listeners, Progress
from launcher.workflow.run.job_folder import make_job_folder

NOTICE_S = 120.0
RELEASE_AGAIN_S = 15.0
NODE_LOST = "node-lost"
"""What ended an attempt whose machine failed, as the agents of the other nodes say it (launcher/agent/ending.py)."""
REQUEUE_S = 5.0
"""Slurm puts a job with a RequeueExit code back into the queue after its epilog, within a second or two here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchOptions:
    """How a launch in the sandbox goes.

    `interrupt_after_s` is when an interruption is played, counted from the first whole checkpoint; None: never. It is
    one of spot, or on HyperPod the failure of a node.
    `scheduler` is "slurm", "local", or "auto": Slurm where it is installed. `box` is a sandbox that runs already, with
    the clusters in it, and goes on afterwards; None: a new one, which ends with the launch.
    """

    root: Path
    interrupt_after_s: float | None
    tell: Tell
    progress: Callable[[Progress], None]
    scheduler: str = "auto"
    box: Sandbox | None = None


def launch_in_sandbox(priced: Priced, rank: int, quoted: Quote, options: LaunchOptions) -> tuple[RunFolder, Report]:
    """Run a quoted plan from end to end on this machine.

    Raises:
        SlipwayError: a step failed; the run folder holds what was done until then.
        KeyboardInterrupt: the user ended it; the sandbox is gone and the report says so.
    """
    tell = options.tell
    folder = run_folder.create(quoted.plan.name, datetime.now(UTC), options.root)
    story = _Story(folder=folder, quoted=quoted)
    try:
        bundle = record(folder, quoted, rank, priced.catalog, Path(priced.path).resolve().parent)
        tell(f"run folder {folder.path.relative_to(options.root)}")
        with sandbox_for(quoted.plan.place.region, options.scheduler, options.box, tell) as box:
            stand_ins = furnished(box, quoted.plan)
            deployed = cluster_for(folder, quoted, bundle, setting_in(box, priced, quoted.plan, tell))
            story.deployed = deployed
            story.not_emulated = left_out(box, deployed.verification, stand_ins)
            if quoted.plan.request.workload.train is not None:
                try:
                    _run_job(box, deployed, priced, quoted, options=options, story=story)
                finally:
                    _keep_requests(box, folder)
            else:
                story.status = RunStatus.SUCCEEDED
    except KeyboardInterrupt:
        story.status = RunStatus.CANCELLED
        raise
    finally:
        report = story.report()
        folder.write_json("report.json", report_document(report))
    return folder, report


@dataclass(slots=True, kw_only=True)
class _Story:
    """What is known of a run while it goes, for its report."""

    folder: RunFolder
    quoted: Quote
    deployed: Deployed | None = None
    scheduler: str = "none"
    status: RunStatus = RunStatus.FAILED
    not_emulated: tuple[str, ...] = ()

    def report(self) -> Report:
        """The report as things stand."""
        checked = self.deployed.verification if self.deployed else None
        price = self.quoted.price
        return Report(
            name=self.quoted.plan.name,
            status=self.status,
            scheduler=self.scheduler,
            simulated=True,
            attempts=attempts(read_events(self.folder.events)),
            quoted_usd=self.quoted.usd.mid if self.quoted.usd else None,
            quoted_hours=self.quoted.hours.mid,
            prices_as_of=price.as_of.isoformat() if isinstance(price, Price) else None,
            usd_per_hour=self.quoted.usd_per_hour,
            stacks=tuple((each.name, each.status) for each in checked.stacks) if checked else (),
            verified_resources=checked.verified if checked else (),
            not_emulated=self.not_emulated,
        )


def _keep_requests(box: Sandbox, folder: RunFolder) -> None:
    """Keep the log of the S3 server: it shows the uploads and the restore."""
    lines = [json.dumps(asdict(each), default=str) for each in box.s3_requests()]
    write_whole(folder.logs / "s3-requests.jsonl", "".join(f"{line}\n" for line in lines))


def _run_job(
    box: Sandbox, deployed: Deployed, priced: Priced, quoted: Quote, *, options: LaunchOptions, story: _Story
) -> None:
    """Submit the job to the cluster's scheduler and follow it to its end.

    Raises:
        DeploymentFailedError: the job did not succeed.
    """
    cluster, folder = deployed.cluster_name, story.folder
    scheduler = box.scheduler(cluster)
    story.scheduler = scheduler.name
    job_folder = folder.path / "job"
    work = Path(priced.path).resolve().parent / quoted.plan.request.run.workdir
    digest = make_job_folder(job_folder, deployed.bundle, work)
    folder.append_event("agent-built", file=AGENT_FILE, sha256=digest)
    environment = box.job_environment(os.environ)
    try:
        job = scheduler.submit(job_folder / BATCH_FILE, folder=job_folder, environment=environment)
        options.tell(f"submitted: job {job} on the {scheduler.name} scheduler of cluster {cluster}")
        kind = _NodeFailure if is_hyperpod(quoted.plan) else _Interruption
        disruption = kind(box=box, cluster=cluster, scheduler=scheduler, job=job, folder=folder, options=options)
        listeners = Listeners(
            event=lambda event: tell_event(event, options.tell),
            progress=options.progress,
            first_checkpoint=disruption.first_checkpoint,
        )
        log = job_folder / f"slurm-{job}.out"
        follower = Follower(job=job_folder, folder=folder, log=log, listeners=listeners)
        watch = _Watch(scheduler=scheduler, job=job)
        story.status = follower.follow(watch, tick=lambda: disruption.check(follower))
        disruption.finish()
    except SchedulerError as problem:
        raise DeploymentFailedError(f"the scheduler of {cluster}: {problem}") from problem
    if story.status is not RunStatus.SUCCEEDED:
        hint = f"slipway logs {quoted.plan.name} shows what it printed"
        raise DeploymentFailedError(f"the job {story.status.words}", hint=hint)


@dataclass(slots=True, kw_only=True)
class _Watch:
    """Whether the job has left its scheduler's queue.

    A job that Slurm is about to requeue shows as failed for a moment, so a failure counts once it has lasted.
    """

    scheduler: Scheduler
    job: str
    failed_at: float | None = None

    def ended(self) -> bool:
        state = self.scheduler.state(self.job)
        if state is not JobState.FAILED:
            self.failed_at = None
            return state.final
        self.failed_at = self.failed_at or time.monotonic()
        return time.monotonic() - self.failed_at >= REQUEUE_S


@dataclass(slots=True, kw_only=True)
class _Disruption(ABC):
    """The loss of the job's first node, played once, some seconds after the first whole checkpoint."""

    box: Sandbox
    cluster: str
    scheduler: Scheduler
    job: str
    folder: RunFolder
    options: LaunchOptions
    struck: bool = False
    released_at: float = -RELEASE_AGAIN_S

    @abstractmethod
    def first_checkpoint(self) -> None:
        """The clock starts."""

    @abstractmethod
    def check(self, follower: Follower) -> None:
        """Do what is due; called at every look."""

    @abstractmethod
    def finish(self) -> None:
        """Drop what is not due any more."""

    def victim(self) -> str | None:
        """The node that is lost, None where the job runs on none."""
        nodes = self.scheduler.nodes(self.job)
        if not nodes:
            self.options.tell("the interruption finds the job on no node, and is left out")
        return nodes[0] if nodes else None

    def release(self) -> None:
        """Let a requeued job start without Slurm's two minutes; said at every look, "a second from now" never comes."""
        due = self.struck and time.monotonic() >= self.released_at + RELEASE_AGAIN_S
        if due and self.scheduler.state(self.job) is JobState.PENDING:
            self.released_at = time.monotonic()
            self.scheduler.release(self.job)


@dataclass(slots=True, kw_only=True)
class _Interruption(_Disruption):
    """EC2 takes a spot instance back. It waits for the job to leave, in a thread of its own."""

    timer: threading.Timer | None = None
    failure: Exception | None = None

    def first_checkpoint(self) -> None:
        """The clock starts."""
        if self.options.interrupt_after_s is not None:
            self.timer = threading.Timer(self.options.interrupt_after_s, self._strike)
            self.timer.daemon = True
            self.timer.start()

    def _strike(self) -> None:
        """Give notice to the job's first node, take it away and bring another."""
        tell = self.options.tell
        try:
            node = self.victim()
            if node is None:
                return
            tell(f"EC2 takes {node} back: two minutes' notice")
            loss = self.box.lose_node(self.cluster, node, notice_s=NOTICE_S)
            left = "after the job had left it" if loss.drained else "with the job still on it"
            tell(f"{loss.node} is gone with its disk, {left}; another node takes its place")
            self.struck = True
        except (SlipwayError, RuntimeError, OSError) as problem:
            self.failure = problem

    def check(self, follower: Follower) -> None:
        """Pass on what went wrong in the background."""
        del follower
        self._raise()
        self.release()

    def finish(self) -> None:
        """Wait for an interruption that is under way, and drop one that is not due any more."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer.join()
        self._raise()

    def _raise(self) -> None:
        if self.failure is not None:
            raise DeploymentFailedError(f"the interruption could not be played: {self.failure}") from self.failure


@dataclass(slots=True, kw_only=True)
class _NodeFailure(_Disruption):
    """A machine of HyperPod fails, and its recovery brings another. Nobody is told before."""

    due_at: float | None = None

    def first_checkpoint(self) -> None:
        """The clock starts."""
        if self.options.interrupt_after_s is not None:
            self.due_at = time.monotonic() + self.options.interrupt_after_s

    def check(self, follower: Follower) -> None:
        """Play it when it is due."""
        if self.due_at is not None and time.monotonic() >= self.due_at:
            self.due_at = None
            self._strike(follower)
        self.release()

    def finish(self) -> None:
        """Nothing is under way between two looks."""

    def _strike(self, follower: Follower) -> None:
        """Take the job's first node away, write down the attempt that ended with it, and bring another node."""
        tell, node = self.options.tell, self.victim()
        if node is None:
            return
        tell(f"{node} fails, with the job on it")
        self.box.fail_node(self.cluster, node)
        # The agent is gone with its node and leaves no word of the end. The next attempt waits for the new node.
        follower.look()
        attempt, lost_at = follower.attempt, datetime.now(UTC).isoformat()
        steps = [each for each in (follower.step, follower.saved_step) if each is not None]
        self.folder.append_event("attempt-progress", attempt=attempt, step=max(steps))
        self.folder.append_event(
            "interrupted", time=lost_at, attempt=attempt, ended_by=NODE_LOST, exit_code=None, node=node
        )
        self.box.replace_node(self.cluster, node)
        tell(f"HyperPod's automatic recovery has brought another machine for {node}, with an empty disk")
        self.struck = True
