"""The story of `launch`: a quoted plan's cluster deployed or found, its job shipped, submitted and followed."""

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from launcher.aws import stacks
from launcher.aws.objects import Objects
from launcher.aws.session import Session
from launcher.cdk.runner import SubprocessRunner
from launcher.model.errors import AwsError, DeploymentFailedError, ImpossibleError, SlipwayError
from launcher.model.instance_type import InstanceType
from launcher.model.money import Price
from launcher.model.plan import Plan
from launcher.model.quote import Quote
from launcher.model.report import Report, RunStatus
from launcher.planning.pin import zone
from launcher.pricing.priced import Priced
from launcher.records import run_folder
from launcher.records.documents import report_document
from launcher.records.run_folder import RunFolder
from launcher.rendering.cluster import queue_name
from launcher.rendering.names import ClusterNames, checkpoint_uri, deployed_names, stack_name, symbolic_names
from launcher.submit.jobs import JobState, SchedulerError
from launcher.submit.slurm import Slurm
from launcher.workflow.deploy.hyperpod import controller, is_hyperpod, refuse_job
from launcher.workflow.deploy.readback.reading import ClusterState
from launcher.workflow.deploy.render import render_quote
from launcher.workflow.deploy.standing import cluster_for
from launcher.workflow.deploy.steps import Setting, Tell, record
from launcher.workflow.run.attempts import attempts, read_events
from launcher.workflow.run.event_words import tell_event
from launcher.workflow.run.follow import Follower, Listeners, Progress
from launcher.workflow.run.shipping import ship_work
from launcher.workflow.run.submission import USERS, connect, fresh_key, start_fleet, submit
from launcher.workflow.run.submission_record import HeadNode, Submission
from launcher.workflow.run.submission_watch import Mirror, NoCapacityError, RemoteWatch, log_name

JOB_FOLDER = "job"
"""In the run folder: copies of what the job writes on the cluster."""
LOCAL = "local"
"""The `target.ssh_host` that stands for this machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchSetting:
    """What a launch happens in.

    `give_up` is asked, when the job has waited for machines as long as the plan says, whether to take it back; `look_s`
    replaces the time between two looks at it. `account` is prepared for the CDK first; None: it is examined instead.
    `cluster` is that of a deployment (launcher/workflow/deploy/steps.py).
    """

    root: Path
    environment: Mapping[str, str]
    tell: Tell
    progress: Callable[[Progress], None]
    give_up: Callable[[], bool] = lambda: False
    look_s: float | None = None
    account: str | None = None
    cluster: Callable[[str], ClusterState] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A cluster that is there: the way to its head node, what its files refer to, and its stacks where they are ours.

    `parallelcluster` is ParallelCluster's name for it, None for a Slurm that slipway did not deploy.
    """

    head_node: HeadNode
    names: ClusterNames
    parallelcluster: str | None
    stacks: tuple[tuple[str, str], ...] = ()
    verified: tuple[str, ...] = ()


def launch_quote(priced: Priced, rank: int, quoted: Quote, setting: LaunchSetting) -> tuple[RunFolder, Report]:
    """Launch a quoted plan and follow its job to the end.

    Raises:
        NoCapacityError: no machines came, and the job was taken back.
        SlipwayError: a step failed; the run folder holds what was done until then.
        KeyboardInterrupt: the user stopped following; the job goes on.
    """
    plan, tell = quoted.plan, setting.tell
    if plan.request.workload.train is None:
        raise ImpossibleError(f"{plan.name} has no job to launch", hint="slipway deploy FILE makes the cluster alone")
    refuse_job(plan, setting.environment)
    folder = run_folder.create(plan.name, datetime.now(UTC), setting.root)
    story = _Story(folder=folder, quoted=quoted)
    try:
        record(folder, quoted, rank, priced.catalog, Path(priced.path).resolve().parent)
        tell(f"run folder {folder.path.relative_to(setting.root)}")
        site = _site(priced, quoted, folder, setting)
        story.site = site
        # A launcher that dies from here on leaves a run that `status` can complete.
        folder.write_json("report.json", report_document(replace(story.report(), status=RunStatus.RUNNING)))
        submission = _submitted(priced, quoted, folder, site, setting)
        story.status = RunStatus.RUNNING
        story.status = follow(folder, submission, setting, waits_s=plan.request.purchase.wait_for_capacity_minutes * 60)
    except NoCapacityError:
        story.status = RunStatus.CANCELLED
        raise
    except (KeyboardInterrupt, SlipwayError):
        if story.status is RunStatus.RUNNING:
            tell(f"the job goes on: slipway status {plan.name}, slipway cancel {plan.name}")
        raise
    finally:
        report = story.report()
        folder.write_json("report.json", report_document(report))
    if report.status is not RunStatus.SUCCEEDED:
        hint = f"slipway logs {plan.name} shows what it printed"
        raise DeploymentFailedError(f"the job {report.status.words}", hint=hint)
    return folder, report


def follow(folder: RunFolder, submission: Submission, setting: LaunchSetting, *, waits_s: float | None) -> RunStatus:
    """Follow a job that was submitted until it has left its queue.

    Raises:
        NoCapacityError: it never ran, and was taken back.
        SchedulerError: its head node has been silent for too long.
    """
    store = Objects.at(_session(setting, submission.head_node), submission.store_uri)
    with closing(connect(submission.head_node, setting.environment, key=submission.key, store=store)) as shell:
        slurm, job, place = Slurm(shell=shell), submission.submitted, folder.path / JOB_FOLDER
        watch = RemoteWatch(
            mirror=Mirror(slurm=slurm, job=job, folder=place),
            look_s=setting.look_s if setting.look_s is not None else shell.look_s,
            tell=setting.tell,
            waits_s=waits_s,
            give_up=setting.give_up,
        )
        listeners = Listeners(
            event=lambda event: tell_event(event, setting.tell),
            progress=setting.progress,
            first_checkpoint=lambda: None,
        )
        follower = Follower(job=place, folder=folder, log=place / log_name(job), listeners=listeners)
        status = follower.follow(watch, tick=lambda: None)
        cancelled = watch.facts is not None and watch.facts.state is JobState.CANCELLED
        return RunStatus.CANCELLED if cancelled else status


def _session(setting: LaunchSetting, head_node: HeadNode) -> Session:
    """Clients for the region of a cluster's store."""
    return Session(environment=setting.environment, region=str(head_node.region))


def _site(priced: Priced, quoted: Quote, folder: RunFolder, setting: LaunchSetting) -> Site:
    """The cluster of a plan: behind the head node it names, the one it names, or its own, deployed where need be."""
    plan = quoted.plan
    if plan.request.target.ssh_host is not None:
        return site_over_ssh(plan, Session(environment=setting.environment, region=plan.place.region))
    how = Setting(
        runner=SubprocessRunner(),
        environment=setting.environment,
        account=setting.account,
        zone=zone(plan.place, priced.catalog),
        instances=priced.catalog.instance_types,
        cluster=setting.cluster,
        tell=setting.tell,
        max_usd=priced.context.rules.max_usd,
    )
    if setting.account is None and plan.request.target.cluster is None:
        from launcher.workflow.doctor.diagnosis import refuse_unless_ready, subject_of

        where, now = plan.place.region, datetime.now(UTC)
        subject = subject_of(plan, where, catalog=priced.catalog, environment=setting.environment, now=now)
        refuse_unless_ready(subject, setting.tell)
    done = cluster_for(folder, quoted, render_quote(quoted, how.instances), how)
    outputs = next(each for each in done.outputs.values() if "ClusterName" in each)
    return Site(
        head_node=_head_node(plan, outputs, setting),
        names=deployed_names(outputs),
        parallelcluster=None if is_hyperpod(plan) else done.cluster_name,
        stacks=tuple((each.name, each.status) for each in done.verification.stacks),
        verified=done.verification.verified,
    )


def _head_node(plan: Plan, outputs: Mapping[str, str], setting: LaunchSetting) -> HeadNode:
    """The head node of a cluster that slipway deployed, or the controller of HyperPod's."""
    if is_hyperpod(plan):
        return controller(outputs, Session(environment=setting.environment, region=plan.place.region))
    user = USERS[plan.request.target.os]
    return HeadNode(via="ssm", instance=outputs["HeadNodeInstanceId"], region=outputs["Region"], user=user)


def site_over_ssh(plan: Plan, session: Session) -> Site:
    """A Slurm that exists behind a head node, in AWS or elsewhere; nothing is deployed.

    Where the plan also names a cluster that slipway deployed, the job uses its store.

    Raises:
        ImpossibleError: the plan does not say where its jobs write.
    """
    target, outputs = plan.request.target, _outputs(plan, session)
    if outputs is None and plan.request.checkpoint.uri is None:
        raise ImpossibleError(
            "checkpoint.uri: auto is the bucket of a cluster that slipway deployed, and this one is not",
            hint="name a place that its nodes may write to: checkpoint: {uri: s3://bucket/prefix}",
        )
    via = "local" if target.ssh_host == LOCAL else "ssh"
    return Site(
        head_node=HeadNode(via=via, host=target.ssh_host, region=plan.place.region),
        names=deployed_names(outputs) if outputs is not None else symbolic_names(plan),
        parallelcluster=outputs.get("ClusterName") if outputs is not None else None,
    )


def _outputs(plan: Plan, session: Session) -> Mapping[str, str] | None:
    """The outputs of a named cluster's training stack; None where there is none, or no account that can be asked."""
    if plan.request.target.cluster is None:
        return None
    try:
        found = stacks.find(session, stack_name(plan, "training"))
    except AwsError:
        return None
    return None if found is None else found.outputs


def _submitted(priced: Priced, quoted: Quote, folder: RunFolder, site: Site, setting: LaunchSetting) -> Submission:
    """Ship and submit; said only when Slurm has given the job an id.

    Raises:
        SchedulerError: it was not taken, or that is not known.
    """
    plan, tell, key = quoted.plan, setting.tell, fresh_key(quoted.plan.name, folder)
    bundle = render_quote(quoted, priced.catalog.instance_types, names=site.names, run=key)
    folder.write_bundle(bundle)
    session = Session(environment=setting.environment, region=plan.place.region)
    store = Objects.at(session, site.names.store_uri)
    with closing(connect(site.head_node, setting.environment, key=key, store=store)) as shell:
        slurm = Slurm(shell=shell)
        # Cheap questions first: a cluster without such nodes needs nothing shipped.
        partition = _partition(slurm, priced.catalog.instance_types[plan.place.instance_type])
        work = Path(priced.path).resolve().parent / plan.request.run.workdir
        shipment = ship_work(work, store, setting.environment, datetime.now(UTC))
        tell(shipment.words())
        if site.parallelcluster is not None:
            start_fleet(session, site.parallelcluster, tell)
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
    tell(f"submitted: job {done.job} on {site.head_node.words()}, partition {partition}")
    return done


def _partition(slurm: Slurm, facts: InstanceType) -> str:
    return slurm.partition(queue_name(facts.name), facts.name)


@dataclass(slots=True, kw_only=True)
class _Story:
    """What is known of a run while it goes, for its report."""

    folder: RunFolder
    quoted: Quote
    site: Site | None = None
    status: RunStatus = RunStatus.FAILED

    def report(self) -> Report:
        """The report as things stand."""
        price = self.quoted.price
        return Report(
            name=self.quoted.plan.name,
            status=self.status,
            scheduler="slurm",
            simulated=False,
            attempts=attempts(read_events(self.folder.events)),
            quoted_usd=self.quoted.usd.mid if self.quoted.usd else None,
            quoted_hours=self.quoted.hours.mid,
            prices_as_of=price.as_of.isoformat() if isinstance(price, Price) else None,
            usd_per_hour=self.quoted.usd_per_hour,
            stacks=self.site.stacks if self.site else (),
            verified_resources=self.site.verified if self.site else (),
            not_emulated=(),
        )
