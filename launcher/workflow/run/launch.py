"""The `launch` command: it deploys or finds the cluster of a quoted plan, ships its job, submits it and follows it.

The steps are the same in AWS and in the sandbox. The sandbox has its own shell on the head node, can disrupt the job
(disruption.py), and ends with the launch and the job.
"""

from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
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
)
from launcher.model.job import JobState
from launcher.model.meter import Meter
from launcher.model.plan import Plan
from launcher.model.quote import Quote
from launcher.model.report import Report, RunStatus
from launcher.model.stages import Notify
from launcher.model.target import SLURM
from launcher.model.units import spoken
from launcher.pricing.priced import Priced
from launcher.records import run_folder
from launcher.records.command_record import recorded_command
from launcher.records.run_folder import JOB_FOLDER, RunFolder, undone_if_declined
from launcher.records.submission import HeadNode, Submission, recorded
from launcher.rendering.cluster import queue_name
from launcher.rendering.names import checkpoint_uri
from launcher.submit.shell import Shell
from launcher.targets.clusters import cluster_at, cluster_of
from launcher.targets.registry import target_of
from launcher.workflow.cluster.beginning import Beginning
from launcher.workflow.cluster.deployed import JobRequest, Reached
from launcher.workflow.cluster.failed_boots import failed_boots
from launcher.workflow.cluster.reach import refuse_unless_answered, removal_of
from launcher.workflow.deploy.account import Account
from launcher.workflow.deploy.deployment import account_for, deploy_quote, deploys, ends_with_it, report_ended_sandbox
from launcher.workflow.deploy.steps import DeployOptions, record
from launcher.workflow.doctor.left_running import report_running_costs
from launcher.workflow.history.attempts import ENDINGS
from launcher.workflow.history.idle_tail import learn_tails
from launcher.workflow.history.ledger_shared import share
from launcher.workflow.history.measurement import keep_measurement
from launcher.workflow.history.run_story import LaunchLog
from launcher.workflow.history.stored import TROUBLES
from launcher.workflow.run.cluster_handle import ClusterHandle, cluster_handle, scheduler_of
from launcher.workflow.run.disruption import disruption_for, guard_called
from launcher.workflow.run.earlier_step import begin_at, begin_text, refuse_from_step
from launcher.workflow.run.follow import Follower, Listeners, Progress, StopCondition
from launcher.workflow.run.meter import MeterReader, quoted_figures
from launcher.workflow.run.relaunch import prefix_suffix, put_below, refuse_fresh, reminding
from launcher.workflow.run.submission import fresh_key
from launcher.workflow.run.submission_watch import ClusterRemovedError, Mirror, NoCapacityError, RemoteWatch

_TROUBLES = (
    "checkpoint-changed",
    "checkpoint-dropped",
    "checkpoint-kept",
    "checkpoint-removed",
    "checkpoint-replaced",
    "chips-idle",
    "claim-trouble",
    "drain-failed",
    "files-left",
    "metrics-skipped",
    "not-tried-again",
    "other-layout-kept",
    "output-missing",
    "outputs-not-stored",
    "peers-trouble",
    "processes-ended",
    "requeue-failed",
    "restore-again",
    "restore-retry",
    "restore-skipped",
    "read-back-failed",
    "read-back-skipped",
    "renames-not-reported",
    "retention-failed",
    "scratch-trouble",
    "signal-not-handled",
    "store-trouble",
    "uploader-failed",
    "watching-failed",
    *TROUBLES,
)
"""Events that report trouble of a running job."""


def event_text(event: dict[str, object]) -> str | None:
    """An event of the agent in words for the user; None for events that only programs need."""
    kind, begin = str(event["event"]), f"attempt {event.get('attempt')}"
    if kind == "upload-retry":
        # A failed upload. Repeated failures are reported less and less often: the 1st, 2nd, 4th, 8th time
        failures = int(str(event["failures"]))
        if failures & (failures - 1):
            return None
        again = f"trying again in {event['retry_in_s']} s, training continues"
        return f"attempt {event.get('attempt')}: step {event['step']} is not in S3 yet: {event.get('error')}; {again}"
    if kind == "notice" and event.get("source") == "budget":
        return f"{begin}: the guard reports that the budget is used up ({event.get('detail')}): it saves and ends"
    if kind in ENDINGS:
        return f"{begin} {kind}, exit {event.get('exit_code')}"
    if kind in _TROUBLES:
        return f"{begin}: {kind}: {event.get('reason') or event.get('error')}"
    describe = _EVENT_TEXTS.get(kind)
    return None if describe is None else f"{begin}{describe(event)}"


def _restored(event: dict[str, object]) -> str:
    if event.get("source") == "own":
        return f" starts with step {event['step']} as the newest checkpoint: {event.get('reason')}"
    origin = "found on its node" if event.get("source") == "node" else "restored from S3"
    return f" resumes from step {event['step']}, {origin} ({event['bytes']:,} bytes)"


_EVENT_TEXTS: dict[str, Callable[[dict[str, object]], str]] = {
    "attempt-started": lambda event: f" started on {event.get('node')}",
    "restored": _restored,
    "checkpoint-written": lambda event: f": its trainer has written {event['files']} files {event['reason']}",
    "step-started": lambda event: f": step {event['step']} begins",
    "step-ended": lambda event: f": step {event['step']} ended with {event['code']} after {event['seconds']} s",
    "data-fetched": lambda event: (
        f": {event['data']} fetched to {event['path']}: {event['files']} files, {event['bytes']:,} bytes"
    ),
    "outputs-stored": lambda event: f": outputs stored: {event['files']} files, {event['bytes']:,} bytes",
    "checkpoint-layout": lambda event: f": its checkpoints are of layout {event['layout']}",
    "read-back": lambda event: f": step {event['step']} was read back from S3 in {event['seconds']} s",
    "notice": lambda event: f": notice of an interruption ({event.get('source')})",
    "rebalance-recommended": lambda _: ": EC2 recommends leaving this instance: the risk of interruption is higher",
    "hung": lambda event: f": no step for {event['minutes']} minutes, the agent ends it",
}


def notify_of_event(event: dict[str, object], notify: Notify) -> None:
    """Report an event to the user, if it has words."""
    message = event_text(event)
    if message is not None:
        notify(message)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchOptions(DeployOptions):
    """Where and how to launch.

    `give_up` decides whether to cancel a job that has waited for nodes as long as the plan allows. `poll_s` replaces
    the time between two polls. `interrupt_after_s` is when the sandbox simulates the loss of a node, counted from the
    first complete checkpoint; None: never. `stop_when` decides at every poll, from the run folder, whether the job has
    served its purpose: then Slipway cancels it, and the launch ends as cancelled. `meter` receives the job's meter
    every half minute. `fresh` starts without earlier checkpoints. `second` is called before a job is submitted while
    another job of its plan runs, and raises if the user declines. `from_step`: the job resumes from this step, and what
    was saved later is taken out of the running. `exact`: no other candidate takes the place of one without instances.
    """

    progress: Callable[[Progress], None]
    scheduler: str = "auto"
    give_up: Callable[[], bool] = lambda: False
    poll_s: float | None = None
    interrupt_after_s: float | None = None
    stop_when: Callable[[RunFolder], bool] | None = None
    meter: Callable[[Meter], None] = lambda _: None
    fresh: bool = False
    from_step: int | None = None
    exact: bool = False
    second: Callable[[str], None] = lambda _: None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Launch:
    """One launch in progress, with the data of all steps: `bundle` is the files, `key` its submission's key."""

    priced: Priced
    quoted: Quote
    bundle: Bundle
    key: str
    folder: RunFolder
    options: LaunchOptions
    account: Account

    def shell(self, head_node: HeadNode, key: str, store: Objects) -> Shell:
        return self.account.shell(head_node, self.options.environment, key=key, store=store)

    @property
    def aws(self) -> Mapping[str, str]:
        return self.account.environment

    def reached(self, submission: Submission) -> Reached:
        store = self.store(submission.store_uri, submission.head_node.region)
        way = partial(self.shell, submission.head_node, submission.key, store)
        return cluster_at(submission.target).reach(submission, self.aws, way)

    def store(self, uri: str, region: str | None) -> Objects:
        return Objects.at(Session(environment=self.aws, region=str(region)), uri)


def launch_quote(priced: Priced, rank: int, quoted: Quote, options: LaunchOptions) -> tuple[RunFolder, Report]:
    """Launch a quoted plan and follow its job to the end.

    Raises:
        NoCapacityError: no instances became available, and the job was cancelled.
        SlipwayError: a step failed; the run folder has everything until then.
        KeyboardInterrupt: the user stopped following; the job continues, except in the launch's own sandbox.
    """
    plan = quoted.plan
    if plan.request.workload.train is None:
        raise ImpossibleError(f"{plan.name} has no job to launch", hint="slipway deploy FILE creates the cluster only")
    if options.fresh:
        refuse_fresh(plan)
    if options.from_step is not None:
        refuse_from_step(plan)
    if not options.sandbox:
        cluster_of(plan).refuse_job(plan, options.environment)
    scheduler = scheduler_of(plan)
    folder = run_folder.create(plan.name, datetime.now(UTC), options.root)
    log = LaunchLog(folder=folder, quoted=quoted, simulated=options.sandbox, scheduler=scheduler)
    # A killed launch leaves a run folder with everything that is known.
    log.status = RunStatus.RUNNING
    log.write()
    log.status = RunStatus.FAILED
    with undone_if_declined(folder):
        report = _launch(log, priced, rank, options)
    if report.stopped is not None:
        raise DeploymentFailedError(f"the job was {report.stopped.text}")
    if report.status is not RunStatus.SUCCEEDED:
        hint = f"slipway logs {plan.name} shows its output"
        raise DeploymentFailedError(f"the job {report.status.text}", hint=hint)
    _refuse_an_unproven_run(log, report, options)
    return folder, report


def _refuse_an_unproven_run(log: LaunchLog, report: Report, options: LaunchOptions) -> None:
    """Warn about a successful job without a stored checkpoint or simulated interruption; in the sandbox, raise."""
    unproven = [f"the interruption was not simulated: {log.not_played}"] if log.not_played else []
    if report.stored is not None and not report.stored.count:
        resumed = max((attempt.resumed_from_step for attempt in report.attempts), default=0)
        last = max((attempt.last_step for attempt in report.attempts if attempt.last_step is not None), default=None)
        if resumed and not report.stored.troubles and (last or 0) <= resumed:
            unknown = "" if last is not None else "; it reported no step, and work after that step would be lost"
            options.notify(f"the job resumed from step {resumed:,} and stored no newer checkpoint{unknown}")
        else:
            lost = f"its work since step {resumed:,}" if resumed else "all its work"
            unproven.append(f"the job stored no checkpoint: an interruption would lose {lost}")
            unproven += report.stored.troubles
    if not unproven:
        return
    if options.sandbox:
        name = report.name
        hint = f"slipway logs {name} shows its files; set checkpoint.layout, pattern or mode"
        raise DeploymentFailedError(f"the job succeeded, the rehearsal failed: {'; '.join(unproven)}", hint=hint)
    for reason in unproven:
        options.notify(f"warning: {reason}")


def show_launch(priced: Priced, rank: int, quoted: Quote, options: LaunchOptions) -> None:
    """A dry run: list the run folder's files, the changes in the account, and the place of the job.

    Raises:
        ImpossibleError: a launch would be refused.
    """
    plan = quoted.plan
    if options.fresh:
        refuse_fresh(plan)
    if options.from_step is not None:
        refuse_from_step(plan)
    if not options.sandbox:
        cluster_of(plan).refuse_job(plan, options.environment)
    if deploys(plan):
        deploy_quote(priced, rank, quoted, options)
    where = plan.request.target.ssh_host or f"cluster {plan.cluster_name}"
    slurm = target_of(plan.place.target).scheduler == SLURM
    queue = f", partition {queue_name(plan.place.instance_type)}" if slurm else ""
    options.notify(f"would submit the job to {where}{queue}; nothing was done")


def _launch(log: LaunchLog, priced: Priced, rank: int, options: LaunchOptions) -> Report:
    quoted, plan, folder = log.quoted, log.quoted.plan, log.folder
    ends = ends_with_it(options, plan.place.region)
    declined = False
    try:
        with (
            report_ended_sandbox(options.notify, ends=ends),
            recorded_command(folder, "launch", sandbox=options.sandbox, done="done"),
            ExitStack() as stack,
        ):
            _go(log, priced, rank, options, stack)
    except (DeclinedError, InterruptedAtQuestionError):
        declined = True
        raise
    except NoCapacityError:
        log.status = RunStatus.CANCELLED
        raise
    except ClusterRemovedError:
        log.status = RunStatus.FAILED
        raise
    except (KeyboardInterrupt, Exception) as ended:
        if ends or log.status is not RunStatus.RUNNING:
            log.status = RunStatus.INTERRUPTED if isinstance(ended, KeyboardInterrupt) else RunStatus.FAILED
        else:
            rate = f", at ${quoted.usd_per_hour:.2f} an hour" if quoted.usd_per_hour is not None else ""
            options.notify(f"the job continues{rate}")
            for way in ("attach", "cancel", *(("down",) if deploys(plan) else ())):
                options.notify(f"next: slipway {way} {plan.name}")
        raise
    finally:
        report = log.write()
        if not declined:
            keep_measurement(plan.name, folder, options.root, priced.catalog, options.notify)
            if not options.sandbox:
                learn_tails(plan.name, options.root, options.environment, datetime.now(UTC), options.notify)
            share(plan.name, folder, options.environment, datetime.now(UTC), options.notify)
    return report


def _go(log: LaunchLog, priced: Priced, rank: int, options: LaunchOptions, stack: ExitStack) -> None:
    """Run every step of a launch; `log` records the progress."""
    quoted, folder = log.quoted, log.folder
    key = fresh_key(quoted.plan.name, folder)
    # In a sandbox no money is spent, and no notification is sent.
    figures = None if options.sandbox else quoted_figures
    base = Path(priced.path).resolve().parent
    bundle = record(folder, quoted, rank, priced.catalog, base, run=key, figures=figures)
    options.notify(f"run folder {folder.path.relative_to(options.root)}")
    account = reminding(
        account_for(priced, quoted, options, stack),
        quoted.plan,
        datetime.now(UTC),
        folder,
        fresh=options.fresh,
        second=options.second,
        from_step=options.from_step,
    )
    launch = _Launch(
        priced=priced, quoted=quoted, bundle=bundle, key=key, folder=folder, options=options, account=account
    )
    stack.callback(account.keep_logs, folder)
    with ExitStack() as unsubmitted:
        if account.stays and deploys(quoted.plan):
            keep, aws = partial(setattr, log, "stacks"), account.environment
            cost_notice = report_running_costs(
                quoted.plan, aws, priced.catalog, options.notify, keep, sandbox=account.simulated
            )
            unsubmitted.enter_context(cost_notice)
        handle = cluster_handle(quoted, bundle, folder, _probing(account, quoted.plan, options))
        _take_note(log, handle, account, quoted.plan)
        submission = _ready(launch, log, handle)
    log.status = RunStatus.RUNNING
    _follow(launch, log, submission)


def _probing(account: Account, plan: Plan, options: LaunchOptions) -> Account:
    """The account, with a check that this computer reaches the Kubernetes API before a new cluster's nodes start."""
    if not (target_of(plan.place.target).pods and deploys(plan)):
        return account
    context = account.context
    reach = partial(
        refuse_unless_answered,
        plan,
        environment=context.environment,
        notify=options.notify,
        deployed=cluster_of(plan),
    )
    return replace(account, context=replace(context, reach=reach))


def _ready(launch: _Launch, log: LaunchLog, handle: ClusterHandle) -> Submission:
    if launch.account.stays:
        # A launcher that dies from here on leaves a run that `status` can complete.
        log.status = RunStatus.RUNNING
        log.write()
        log.status = RunStatus.FAILED
    return cluster_of(launch.quoted.plan).submit(_request(launch, handle))


def _request(launch: _Launch, handle: ClusterHandle) -> JobRequest:
    plan = launch.quoted.plan
    store = launch.store(handle.names.store_uri, plan.place.region)
    first = launch.store(checkpoint_uri(plan, handle.names), plan.place.region)
    below = prefix_suffix(plan, first, launch.key if launch.options.fresh else None, launch.options.notify)
    if launch.options.from_step is not None:
        at = launch.store(f"{checkpoint_uri(plan, handle.names)}{below}", plan.place.region)
        begun = begin_at(at, launch.options.from_step, datetime.now(UTC), launch.options.notify)
        launch.options.notify(begin_text(*begun, what="this job"))
    return JobRequest(
        quoted=launch.quoted,
        bundle=put_below(launch.bundle, below),
        below=below,
        instances=launch.priced.catalog.instance_types,
        head_node=handle.head_node,
        shell=partial(launch.shell, handle.head_node, launch.key, store),
        names=handle.names,
        outputs=handle.deployed.training if handle.deployed is not None else None,
        cluster=handle.cluster,
        key=launch.key,
        folder=launch.folder,
        workdir=Path(launch.priced.path).resolve().parent / plan.request.run.workdir,
        store=store,
        environment=launch.aws,
        here=launch.options.environment,
        notify=launch.options.notify,
        unreached=handle.unreached,
        operator=handle.operator,
        account=handle.account,
        by_slipway=handle.by_slipway,
    )


def _take_note(log: LaunchLog, handle: ClusterHandle, account: Account, plan: Plan) -> None:
    checked = handle.deployed.verification if handle.deployed is not None else None
    if checked is not None:
        log.stacks = tuple((stack.name, stack.status) for stack in checked.stacks)
        log.verified = checked.verified
    log.not_emulated = account.not_emulated(checked)
    if handle.deployed is not None and not target_of(plan.place.target).per_job:
        log.scheduler = account.scheduler(handle.deployed.cluster_name) or log.scheduler


def waits_s(plan: Plan) -> float:
    """How long a job may wait for nodes, seconds: the plan's limit plus the time in which the service retries."""
    guard, minutes = target_of(plan.place.target).guard, plan.request.purchase.wait_for_capacity_minutes
    trial_h = max(guard.trial_hours) if guard is not None and deploys(plan) else 0.0
    return minutes * 60 + trial_h * 3600


def _follow(launch: _Launch, log: LaunchLog, submission: Submission) -> None:
    options, folder, head_node = launch.options, launch.folder, submission.head_node
    with ExitStack() as stack:
        way = stack.enter_context(closing(launch.reached(submission)))
        job, place = submission.submitted, folder.path / JOB_FOLDER
        plan, beginning = launch.quoted.plan, _beginning(launch, submission)
        wait_s = beginning.left_s
        watch = RemoteWatch(
            mirror=Mirror(source=way.source, job=job, folder=place),
            poll_s=options.poll_s if options.poll_s is not None else way.poll_s,
            notify=options.notify,
            waits_s=waits_s(plan) + wait_s,
            give_up=options.give_up,
            removed=partial(removal_of, submission, options.environment),
            failed_boots=partial(failed_boots, submission, options.environment),
        )
        stack.callback(watch.close)
        disruption = disruption_for(
            launch.quoted.plan,
            launch.account.losses,
            head_node.host,
            watch,
            folder=folder,
            after_s=options.interrupt_after_s,
            notify=options.notify,
        )
        listeners = Listeners(
            event=lambda event: notify_of_event(event, options.notify),
            progress=options.progress,
            first_checkpoint=disruption.first_checkpoint,
            command_started=disruption.command_started,
        )
        follower = Follower(job=place, folder=folder, log=place / way.source.log_name(job), listeners=listeners)
        stop = StopCondition(is_met=options.stop_when, watch=watch, folder=folder, notify=options.notify)

        meters = MeterReader(folder=folder, on_reading=options.meter, environment=launch.aws)

        def tick() -> None:
            beginning.check()
            disruption.check(follower)
            stop.check(follower)
            meters.check()

        with guard_called(launch.quoted.plan, launch.account.losses, options.environment, options.notify):
            status = follower.follow(watch, tick=tick)
        log.not_played = disruption.finish()
        log.status = RunStatus.CANCELLED if _cancelled(watch, stop, folder) else status
        log.billable_time = None if watch.facts is None else watch.facts.billable


def _beginning(launch: _Launch, submission: Submission) -> Beginning:
    plan, notify = launch.quoted.plan, launch.options.notify
    session = Session(environment=launch.aws, region=plan.place.region)
    # The sandbox emulates the window of a training plan for training jobs alone.
    waits = not launch.account.simulated or target_of(plan.place.target).per_job
    cluster = str(submission.head_node.host)
    beginning = Beginning(
        plan=plan, deployed=cluster_of(plan), session=session, cluster=cluster, notify=notify, waits=waits
    )
    if wait_s := beginning.left_s:
        notify(f"the nodes come in {spoken(wait_s)}, when the reservation starts: following until then")
    beginning.done = not wait_s
    return beginning


def _cancelled(watch: RemoteWatch, stop: StopCondition, folder: RunFolder) -> bool:
    """Whether the job was cancelled: by the scheduler's report, or, without one, by Slipway's record."""
    if watch.facts is not None:
        return watch.facts.state is JobState.CANCELLED
    known = recorded(folder)
    return stop.over or (known is not None and known.cancelled)
