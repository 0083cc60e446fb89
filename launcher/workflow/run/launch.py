"""The story of `launch`: a quoted plan's cluster deployed or found, its job shipped, submitted and followed.

In AWS and in the sandbox alike. What the sandbox has of its own: the shell on its head node, the losses it plays
(disruption.py), and that it ends with the launch, and the job with it.
"""

import json
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from launcher.aws.objects import Objects
from launcher.aws.session import Session
from launcher.model.bundle import Bundle
from launcher.model.errors import (
    DeclinedError,
    DeploymentFailedError,
    ImpossibleError,
    InterruptedAtQuestionError,
    SlipwayError,
)
from launcher.model.job import JobState
from launcher.model.meter import Meter
from launcher.model.quote import Quote
from launcher.model.report import Report, RunStatus
from launcher.model.target import target_of
from launcher.pricing.priced import Priced
from launcher.records import run_folder
from launcher.records.command_record import recorded_command
from launcher.records.run_folder import RunFolder, undone_if_declined, write_whole
from launcher.records.submission import HeadNode, Submission, recorded
from launcher.rendering.blanks import with_names
from launcher.rendering.cluster import queue_name
from launcher.rendering.kubernetes_job import operator_of
from launcher.rendering.names import checkpoint_uri
from launcher.submit.jobs import SchedulerError
from launcher.submit.shell import Shell
from launcher.submit.slurm import Slurm
from launcher.workflow.cost.left import telling_what_is_left
from launcher.workflow.deploy.deployment import (
    DeployOptions,
    DeployTarget,
    deploy_quote,
    deploys,
    ends_with_it,
    target_for,
)
from launcher.workflow.deploy.steps import record
from launcher.workflow.deploy.targets import cluster_of
from launcher.workflow.ledger.shared import share
from launcher.workflow.measure.keep import keep_measurement
from launcher.workflow.measure.tail import learn_tails
from launcher.workflow.run.cluster_handle import ClusterHandle, cluster_handle, scheduler_of
from launcher.workflow.run.disruption import disruption_for
from launcher.workflow.run.event_words import tell_event
from launcher.workflow.run.follow import Follower, Listeners, Progress
from launcher.workflow.run.guard_clock import guard_called
from launcher.workflow.run.meter import MeterReader, quoted_figures
from launcher.workflow.run.pods import PodSubmission, submit_pods
from launcher.workflow.run.reach import Reached, reached_api, through
from launcher.workflow.run.sated import Sated
from launcher.workflow.run.shipping import ship_work
from launcher.workflow.run.story import Story
from launcher.workflow.run.submission import connect, fresh_key, start_fleet, submit
from launcher.workflow.run.submission_watch import JOB_FOLDER, Mirror, NoCapacityError, RemoteWatch


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchOptions(DeployOptions):
    """Where and how a launch goes.

    `give_up` is asked, when the job has waited for machines as long as the plan says, whether to take it back; `look_s`
    replaces the time between two looks at it. `interrupt_after_s` is when the sandbox plays the loss of a node, counted
    from the first whole checkpoint; None: never. `enough` is asked at every look whether the job, by its run folder,
    has done what it was for: then it is cancelled, and the launch ends as one that was cancelled. `meter` gets the
    job's meter every half minute.
    """

    progress: Callable[[Progress], None]
    scheduler: str = "auto"
    give_up: Callable[[], bool] = lambda: False
    look_s: float | None = None
    interrupt_after_s: float | None = None
    enough: Callable[[RunFolder], bool] | None = None
    meter: Callable[[Meter], None] = lambda _: None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Launch:
    """One launch on its way, with what its steps have in common: `bundle` is the files, `key` its submission's."""

    priced: Priced
    quoted: Quote
    bundle: Bundle
    key: str
    folder: RunFolder
    options: LaunchOptions
    target: DeployTarget

    def shell(self, head_node: HeadNode, key: str, store: Objects) -> Shell:
        """The way to the head node."""
        if self.target.box is not None:
            return self.target.box.head_node(str(head_node.host), self.options.environment)
        return connect(head_node, self.options.environment, key=key, store=store)

    @property
    def aws(self) -> Mapping[str, str]:
        """The environment that the cluster's AWS is in."""
        return self.target.context.environment

    def reached(self, submission: Submission) -> Reached:
        """The way to what runs the job."""
        if submission.head_node.kind is not None:
            return reached_api(submission, self.aws)
        store = self.store(submission.store_uri, submission.head_node.region)
        return through(self.shell(submission.head_node, submission.key, store))

    def store(self, uri: str, region: str | None) -> Objects:
        """The store of the cluster."""
        return Objects.at(Session(environment=self.aws, region=str(region)), uri)


def launch_quote(priced: Priced, rank: int, quoted: Quote, options: LaunchOptions) -> tuple[RunFolder, Report]:
    """Launch a quoted plan and follow its job to the end.

    Raises:
        NoCapacityError: no machines came, and the job was taken back.
        SlipwayError: a step failed; the run folder holds what was done until then.
        KeyboardInterrupt: the user stopped following; the job goes on, but for one in a sandbox of the launch's own.
    """
    plan = quoted.plan
    if plan.request.workload.train is None:
        raise ImpossibleError(f"{plan.name} has no job to launch", hint="slipway deploy FILE makes the cluster alone")
    if not options.sandbox:
        cluster_of(plan).refuse_job(plan, options.environment)
    scheduler = scheduler_of(plan)
    folder = run_folder.create(plan.name, datetime.now(UTC), options.root)
    story = Story(folder=folder, quoted=quoted, simulated=options.sandbox, scheduler=scheduler)
    # One that is killed leaves a run that tells what is known of it.
    story.status = RunStatus.RUNNING
    story.write()
    story.status = RunStatus.FAILED
    with undone_if_declined(folder):
        report = _launch(story, priced, rank, options)
    if report.stopped is not None:
        raise DeploymentFailedError(f"the job was {report.stopped.words}")
    if report.status is not RunStatus.SUCCEEDED:
        hint = f"slipway logs {plan.name} shows what it printed"
        raise DeploymentFailedError(f"the job {report.status.words}", hint=hint)
    return folder, report


def show_launch(priced: Priced, rank: int, quoted: Quote, options: LaunchOptions) -> None:
    """A dry run: the run folder's files, what a launch would change in the account, and where the job would go.

    Raises:
        ImpossibleError: the launch would be refused.
    """
    plan = quoted.plan
    if not options.sandbox:
        cluster_of(plan).refuse_job(plan, options.environment)
    if deploys(plan):
        deploy_quote(priced, rank, quoted, options)
    where = plan.request.target.ssh_host or f"cluster {plan.cluster_name}"
    queue = "" if target_of(plan.place.target).pods else f", partition {queue_name(plan.place.instance_type)}"
    options.tell(f"would submit the job to {where}{queue}; nothing was done")


def _launch(story: Story, priced: Priced, rank: int, options: LaunchOptions) -> Report:
    """The story in its folder, and its report however it ends."""
    quoted, plan, folder = story.quoted, story.quoted.plan, story.folder
    ends = ends_with_it(options, plan.place.region)
    declined = False
    try:
        with recorded_command(folder, "launch", sandbox=options.sandbox, done="done"), ExitStack() as stack:
            _go(story, priced, rank, options, stack)
    except (DeclinedError, InterruptedAtQuestionError):
        declined = True
        raise
    except NoCapacityError:
        story.status = RunStatus.CANCELLED
        raise
    except (KeyboardInterrupt, SlipwayError) as ended:
        if ends:
            story.status = RunStatus.CANCELLED if isinstance(ended, KeyboardInterrupt) else RunStatus.FAILED
        elif story.status is RunStatus.RUNNING:
            rate = f", at ${quoted.usd_per_hour:.2f} an hour" if quoted.usd_per_hour is not None else ""
            options.tell(f"the job goes on{rate}")
            options.tell(f"next: slipway status {plan.name}")
            options.tell(f"next: slipway cancel {plan.name}")
        raise
    finally:
        report = story.write()
        if not declined:
            keep_measurement(plan.name, folder, options.root, priced.catalog, options.tell)
            if not options.sandbox:
                learn_tails(plan.name, options.root, options.environment, datetime.now(UTC), options.tell)
            share(plan.name, folder, options.environment, datetime.now(UTC), options.tell)
    return report


def _go(story: Story, priced: Priced, rank: int, options: LaunchOptions, stack: ExitStack) -> None:
    """Every step of a launch; the story takes note of how far it came."""
    quoted, folder = story.quoted, story.folder
    key = fresh_key(quoted.plan.name, folder)
    # In a sandbox nothing is spent, and nobody is told of it.
    figures = None if options.sandbox else quoted_figures
    base = Path(priced.path).resolve().parent
    bundle = record(folder, quoted, rank, priced.catalog, base, run=key, figures=figures)
    options.tell(f"run folder {folder.path.relative_to(options.root)}")
    target = target_for(priced, quoted, options, stack)
    launch = _Launch(
        priced=priced, quoted=quoted, bundle=bundle, key=key, folder=folder, options=options, target=target
    )
    with ExitStack() as unsubmitted:
        if (target.box is None or target.box.stays is not None) and deploys(quoted.plan):
            keep, aws = partial(setattr, story, "stacks"), target.context.environment
            told = telling_what_is_left(
                quoted.plan, aws, priced.catalog, options.tell, keep, sandbox=target.box is not None
            )
            unsubmitted.enter_context(told)
        handle = cluster_handle(quoted, bundle, folder, target)
        _take_note(story, handle, target)
        submission = _ready(launch, story, handle, stack)
    story.status = RunStatus.RUNNING
    story.status = _follow(launch, submission)


def _ready(launch: _Launch, story: Story, handle: ClusterHandle, stack: ExitStack) -> Submission:
    """The job in the queue of a cluster that is there."""
    target, folder = launch.target, launch.folder
    if target.box is not None:
        stack.callback(_keep_requests, target, folder)
    if target.box is None or target.box.stays is not None:
        # A launcher that dies from here on leaves a run that `status` can complete.
        story.status = RunStatus.RUNNING
        story.write()
        story.status = RunStatus.FAILED
    submitted = _in_pods if target_of(launch.quoted.plan.place.target).pods else _submitted
    return submitted(launch, handle)


def _in_pods(launch: _Launch, handle: ClusterHandle) -> Submission:
    """Ship the job and have the cluster's API take it.

    Raises:
        DeploymentFailedError: it was not taken, or that is not known.
        ImpossibleError: the API cannot be reached.
    """
    plan, folder = launch.quoted.plan, launch.folder
    return submit_pods(
        PodSubmission(
            quoted=launch.quoted,
            bundle=launch.bundle,
            instances=launch.priced.catalog.instance_types,
            names=handle.names,
            head_node=handle.head_node,
            key=launch.key,
            folder=folder,
            workdir=Path(launch.priced.path).resolve().parent / plan.request.run.workdir,
            store=launch.store(handle.names.store_uri, plan.place.region),
            environment=launch.aws,
            here=launch.options.environment,
            unreached=handle.unreached,
            operator=handle.operator or operator_of(plan),
            account=handle.account,
            own=handle.own,
            tell=launch.options.tell,
        )
    )


def _take_note(story: Story, handle: ClusterHandle, target: DeployTarget) -> None:
    """Keep what is there for the report."""
    checked = handle.deployed.verification if handle.deployed is not None else None
    if checked is not None:
        story.stacks = tuple((each.name, each.status) for each in checked.stacks)
        story.verified = checked.verified
    if target.box is not None:
        from launcher.workflow.deploy.in_sandbox import left_out

        story.not_emulated = left_out(target.box, checked, target.stand_ins)
        if handle.deployed is not None:
            story.scheduler = target.box.scheduler_name(handle.deployed.cluster_name)


def _keep_requests(target: DeployTarget, folder: RunFolder) -> None:
    """Keep the log of a sandbox's S3: it shows the uploads and the restore."""
    if target.box is not None:
        lines = [json.dumps(asdict(each), default=str) for each in target.box.s3_requests()]
        write_whole(folder.logs / "s3-requests.jsonl", "".join(f"{line}\n" for line in lines))


def _submitted(launch: _Launch, handle: ClusterHandle) -> Submission:
    """Ship and submit; said only when Slurm has given the job an id.

    Raises:
        SchedulerError: it was not taken, or that is not known.
    """
    plan, folder, options = launch.quoted.plan, launch.folder, launch.options
    key, bundle = launch.key, with_names(launch.bundle, handle.names)
    folder.write_bundle(bundle)
    store = launch.store(handle.names.store_uri, plan.place.region)
    session = Session(environment=launch.target.context.environment, region=plan.place.region)
    if handle.deployed is not None:
        cluster_of(plan).start(handle.deployed.training, session, options.tell)
    with closing(launch.shell(handle.head_node, key, store)) as shell:
        slurm = Slurm(shell=shell)
        # Cheap questions first: a cluster without such nodes needs nothing shipped.
        partition = slurm.partition(queue_name(plan.place.instance_type), plan.place.instance_type)
        workdir = Path(launch.priced.path).resolve().parent / plan.request.run.workdir
        shipment = ship_work(workdir, store, options.environment, datetime.now(UTC), options.tell)
        options.tell(shipment.words())
        if handle.parallelcluster is not None:
            start_fleet(session, handle.parallelcluster, options.tell)
        wanted = Submission(
            key=key,
            head_node=handle.head_node,
            cluster=plan.cluster_name,
            folder="",
            store_uri=handle.names.store_uri,
            checkpoint_uri=checkpoint_uri(plan, handle.names),
            work=shipment.document(),
            asked_at=datetime.now(UTC),
        )
        try:
            done = submit(slurm, bundle, shipment, wanted, folder=folder, partition=partition)
        except SchedulerError as problem:
            raise DeploymentFailedError(problem.message, hint=problem.hint) from problem
    options.tell(f"submitted: job {done.job} on {handle.head_node.words()}, partition {partition}")
    return done


def _follow(launch: _Launch, submission: Submission) -> RunStatus:
    """Follow a job that was submitted until it has left its queue.

    Raises:
        NoCapacityError: it never ran, and was taken back.
        SchedulerError: its head node has been silent for too long.
    """
    options, folder, head_node = launch.options, launch.folder, submission.head_node
    with ExitStack() as stack:
        way = stack.enter_context(closing(launch.reached(submission)))
        job, place = submission.submitted, folder.path / JOB_FOLDER
        watch = RemoteWatch(
            mirror=Mirror(source=way.source, job=job, folder=place),
            look_s=options.look_s if options.look_s is not None else way.look_s,
            tell=options.tell,
            waits_s=launch.quoted.plan.request.purchase.wait_for_capacity_minutes * 60,
            give_up=options.give_up,
        )
        stack.callback(watch.close)
        disruption = disruption_for(
            launch.quoted.plan,
            launch.target.box,
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
        follower = Follower(job=place, folder=folder, log=place / way.source.log_name(job), listeners=listeners)
        sated = Sated(enough=options.enough, watch=watch, folder=folder, tell=options.tell)

        meters = MeterReader(folder=folder, tell=options.meter, environment=launch.aws)

        def tick() -> None:
            disruption.check(follower)
            sated.check(follower)
            meters.check()

        with guard_called(launch.quoted.plan, launch.target.box, options.environment, options.tell):
            status = follower.follow(watch, tick=tick)
        disruption.finish()
        return RunStatus.CANCELLED if _cancelled(watch, sated, folder) else status


def _cancelled(watch: RemoteWatch, sated: Sated, folder: RunFolder) -> bool:
    """Whether the job was ended for good: by its scheduler's word, or by ours where that forgets it."""
    if watch.facts is not None:
        return watch.facts.state is JobState.CANCELLED
    known = recorded(folder)
    return sated.over or (known is not None and known.cancelled)
