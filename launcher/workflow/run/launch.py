"""The story of `launch`: a quoted plan's cluster deployed or found, its job shipped, submitted and followed.

In AWS and in the sandbox alike. What the sandbox has of its own: the shell on its head node, the losses it plays
(disruption.py), and that it ends with the launch, and the job with it.
"""

import json
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from launcher.aws.objects import Objects
from launcher.aws.session import Session
from launcher.model.errors import DeploymentFailedError, ImpossibleError, SlipwayError
from launcher.model.quote import Quote
from launcher.model.report import Report, RunStatus
from launcher.pricing.priced import Priced
from launcher.records import run_folder
from launcher.records.run_folder import RunFolder, write_whole
from launcher.records.submission import HeadNode, Submission
from launcher.rendering.cluster import queue_name
from launcher.rendering.names import checkpoint_uri
from launcher.submit.jobs import JobState, SchedulerError
from launcher.submit.shell import Shell
from launcher.submit.slurm import Slurm
from launcher.workflow.cost.left import telling_what_stands
from launcher.workflow.deploy.deployment import DeployOptions, Ground, deploys, ground_for
from launcher.workflow.deploy.render import render_quote
from launcher.workflow.deploy.steps import record
from launcher.workflow.deploy.targets import cluster_of
from launcher.workflow.run.disruption import disruption_for
from launcher.workflow.run.event_words import tell_event
from launcher.workflow.run.follow import Follower, Listeners, Progress
from launcher.workflow.run.shipping import ship_work
from launcher.workflow.run.site import Site, site_for
from launcher.workflow.run.story import Story
from launcher.workflow.run.submission import connect, fresh_key, start_fleet, submit
from launcher.workflow.run.submission_watch import JOB_FOLDER, Mirror, NoCapacityError, RemoteWatch, log_name


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchOptions(DeployOptions):
    """Where and how a launch goes.

    `give_up` is asked, when the job has waited for machines as long as the plan says, whether to take it back; `look_s`
    replaces the time between two looks at it. `interrupt_after_s` is when the sandbox plays the loss of a node, counted
    from the first whole checkpoint; None: never.
    """

    progress: Callable[[Progress], None]
    scheduler: str = "auto"
    give_up: Callable[[], bool] = lambda: False
    look_s: float | None = None
    interrupt_after_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Launch:
    """One launch on its way, with what its steps have in common."""

    priced: Priced
    quoted: Quote
    folder: RunFolder
    options: LaunchOptions
    ground: Ground

    def shell(self, head_node: HeadNode, key: str, store: Objects) -> Shell:
        """The way to the head node."""
        if self.ground.box is not None:
            return self.ground.box.head_node(str(head_node.host), self.options.environment)
        return connect(head_node, self.options.environment, key=key, store=store)

    def store(self, uri: str, region: str | None) -> Objects:
        """The store of the cluster."""
        return Objects.at(Session(environment=self.ground.setting.environment, region=str(region)), uri)


def launch_quote(priced: Priced, rank: int, quoted: Quote, options: LaunchOptions) -> tuple[RunFolder, Report]:
    """Launch a quoted plan and follow its job to the end.

    Raises:
        NoCapacityError: no machines came, and the job was taken back.
        SlipwayError: a step failed; the run folder holds what was done until then.
        KeyboardInterrupt: the user stopped following; the job goes on, but for one in a sandbox, which ends with it.
    """
    plan = quoted.plan
    if plan.request.workload.train is None:
        raise ImpossibleError(f"{plan.name} has no job to launch", hint="slipway deploy FILE makes the cluster alone")
    if not options.sandbox:
        cluster_of(plan).refuse_job(plan, options.environment)
    folder = run_folder.create(plan.name, datetime.now(UTC), options.root)
    story = Story(folder=folder, quoted=quoted, simulated=options.sandbox, scheduler="slurm")
    try:
        with ExitStack() as stack:
            _go(story, priced, rank, options, stack)
    except NoCapacityError:
        story.status = RunStatus.CANCELLED
        raise
    except (KeyboardInterrupt, SlipwayError) as ended:
        if options.sandbox:
            story.status = RunStatus.CANCELLED if isinstance(ended, KeyboardInterrupt) else RunStatus.FAILED
        elif story.status is RunStatus.RUNNING:
            rate = f", at ${quoted.usd_per_hour:.2f} an hour" if quoted.usd_per_hour is not None else ""
            options.tell(f"the job goes on{rate}: slipway status {plan.name}, slipway cancel {plan.name}")
        raise
    finally:
        report = story.write()
    if report.status is not RunStatus.SUCCEEDED:
        hint = f"slipway logs {plan.name} shows what it printed"
        raise DeploymentFailedError(f"the job {report.status.words}", hint=hint)
    return folder, report


def _go(story: Story, priced: Priced, rank: int, options: LaunchOptions, stack: ExitStack) -> None:
    """Every step of a launch; the story takes note of how far it came."""
    quoted, folder = story.quoted, story.folder
    bundle = record(folder, quoted, rank, priced.catalog, Path(priced.path).resolve().parent)
    options.tell(f"run folder {folder.path.relative_to(options.root)}")
    ground = ground_for(priced, quoted, options, stack)
    launch = _Launch(priced=priced, quoted=quoted, folder=folder, options=options, ground=ground)
    with ExitStack() as unsubmitted:
        if ground.box is None and deploys(quoted.plan):
            keep = partial(setattr, story, "stacks")
            told = telling_what_stands(quoted.plan, options.environment, priced.catalog, options.tell, keep)
            unsubmitted.enter_context(told)
        site = site_for(quoted, bundle, folder, ground)
        _take_note(story, site, ground)
        submission = _ready(launch, story, site, stack)
    story.status = RunStatus.RUNNING
    story.status = _follow(launch, submission)


def _ready(launch: _Launch, story: Story, site: Site, stack: ExitStack) -> Submission:
    """The job in the queue of a cluster that is there."""
    ground, folder = launch.ground, launch.folder
    if ground.box is None:
        # A launcher that dies from here on leaves a run that `status` can complete.
        story.status = RunStatus.RUNNING
        story.write()
        story.status = RunStatus.FAILED
    else:
        stack.callback(_keep_requests, ground, folder)
    return _submitted(launch, site)


def _take_note(story: Story, site: Site, ground: Ground) -> None:
    """Keep what is there for the report."""
    if site.deployed is not None:
        checked = site.deployed.verification
        story.stacks = tuple((each.name, each.status) for each in checked.stacks)
        story.verified = checked.verified
        if ground.box is not None:
            from launcher.workflow.deploy.in_sandbox import left_out

            story.scheduler = ground.box.scheduler_name(site.deployed.cluster_name)
            story.not_emulated = left_out(ground.box, checked, ground.stand_ins)


def _keep_requests(ground: Ground, folder: RunFolder) -> None:
    """Keep the log of a sandbox's S3: it shows the uploads and the restore."""
    if ground.box is not None:
        lines = [json.dumps(asdict(each), default=str) for each in ground.box.s3_requests()]
        write_whole(folder.logs / "s3-requests.jsonl", "".join(f"{line}\n" for line in lines))


def _submitted(launch: _Launch, site: Site) -> Submission:
    """Ship and submit; said only when Slurm has given the job an id.

    Raises:
        SchedulerError: it was not taken, or that is not known.
    """
    plan, folder, options = launch.quoted.plan, launch.folder, launch.options
    key, types = fresh_key(plan.name, folder), launch.priced.catalog.instance_types
    bundle = render_quote(launch.quoted, types, names=site.names, run=key)
    folder.write_bundle(bundle)
    store = launch.store(site.names.store_uri, plan.place.region)
    with closing(launch.shell(site.head_node, key, store)) as shell:
        slurm = Slurm(shell=shell)
        # Cheap questions first: a cluster without such nodes needs nothing shipped.
        partition = slurm.partition(queue_name(plan.place.instance_type), plan.place.instance_type)
        workdir = Path(launch.priced.path).resolve().parent / plan.request.run.workdir
        shipment = ship_work(workdir, store, options.environment, datetime.now(UTC))
        options.tell(shipment.words())
        if site.parallelcluster is not None:
            session = Session(environment=launch.ground.setting.environment, region=plan.place.region)
            start_fleet(session, site.parallelcluster, options.tell)
        wanted = Submission(
            key=key,
            head_node=site.head_node,
            cluster=plan.cluster_name,
            folder="",
            store_uri=site.names.store_uri,
            checkpoint_uri=checkpoint_uri(plan, site.names),
            work=shipment.document(),
            asked_at=datetime.now(UTC),
        )
        try:
            done = submit(slurm, bundle, shipment, wanted, folder=folder, partition=partition)
        except SchedulerError as problem:
            raise DeploymentFailedError(problem.message, hint=problem.hint) from problem
    options.tell(f"submitted: job {done.job} on {site.head_node.words()}, partition {partition}")
    return done


def _follow(launch: _Launch, submission: Submission) -> RunStatus:
    """Follow a job that was submitted until it has left its queue.

    Raises:
        NoCapacityError: it never ran, and was taken back.
        SchedulerError: its head node has been silent for too long.
    """
    options, folder, head_node = launch.options, launch.folder, submission.head_node
    store = launch.store(submission.store_uri, head_node.region)
    with closing(launch.shell(head_node, submission.key, store)) as shell:
        job, place = submission.submitted, folder.path / JOB_FOLDER
        watch = RemoteWatch(
            mirror=Mirror(slurm=Slurm(shell=shell), job=job, folder=place),
            look_s=options.look_s if options.look_s is not None else shell.look_s,
            tell=options.tell,
            waits_s=launch.quoted.plan.request.purchase.wait_for_capacity_minutes * 60,
            give_up=options.give_up,
        )
        disruption = disruption_for(
            launch.quoted.plan,
            launch.ground.box,
            head_node.host,
            watch,
            folder=folder,
            after_s=options.interrupt_after_s,
            tell=options.tell,
        )
        listeners = Listeners(
            event=lambda event: tell_event(event, options.tell),
            progress=options.progress,
            first_checkpoint=disruption.first_checkpoint,
        )
        follower = Follower(job=place, folder=folder, log=place / log_name(job), listeners=listeners)
        status = follower.follow(watch, tick=lambda: disruption.check(follower))
        disruption.finish()
        cancelled = watch.facts is not None and watch.facts.state is JobState.CANCELLED
        return RunStatus.CANCELLED if cancelled else status
