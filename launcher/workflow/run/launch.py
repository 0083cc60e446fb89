"""The `launch` command: it deploys or finds the cluster of a quoted plan, ships its job, submits it and follows it.

The steps are the same in AWS and in the sandbox. The sandbox has its own shell on the head node, can disrupt the job
(disruption.py), and ends with the launch and the job.
"""

from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from launcher.model.errors import (
    DeclinedError,
    DeploymentFailedError,
    ImpossibleError,
    InterruptedAtQuestionError,
)
from launcher.model.plan import Plan
from launcher.model.quote import Quote
from launcher.model.report import Report, RunStatus
from launcher.model.target import SLURM
from launcher.pricing.priced import Priced
from launcher.records import run_folder
from launcher.records.command_record import recorded_command
from launcher.records.run_folder import RunFolder, undone_if_declined
from launcher.rendering.cluster import queue_name
from launcher.targets.clusters import cluster_of
from launcher.targets.registry import target_of
from launcher.workflow.deploy.deployment import account_for, deploy_quote, deploys, ends_with_it, report_ended_sandbox
from launcher.workflow.deploy.steps import record
from launcher.workflow.doctor.left_running import report_running_costs
from launcher.workflow.history.attempts import record_unstarted
from launcher.workflow.history.idle_tail import learn_tails
from launcher.workflow.history.ledger_shared import share
from launcher.workflow.history.measurement import keep_measurement
from launcher.workflow.history.run_story import LaunchLog
from launcher.workflow.run.earlier_step import refuse_from_step
from launcher.workflow.run.growing_lines import last_output
from launcher.workflow.run.job import Job
from launcher.workflow.run.launch_options import LaunchOptions
from launcher.workflow.run.meter import quoted_figures
from launcher.workflow.run.relaunch import refuse_fresh, with_earlier_runs_warning
from launcher.workflow.run.submission import fresh_key
from launcher.workflow.run.submission_watch import ClusterRemovedError, JobCancelledError
from launcher.workflow.run.unproven import refuse_unproven_run


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
    _refuse_job(plan, options)
    scheduler = target_of(plan.place.target).scheduler
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
        if report.status is RunStatus.FAILED:
            _show_last_output(folder, options)
        hint = f"slipway logs {plan.name} shows its output"
        if not folder.attempt_logs:
            if log.facts is not None and log.facts.reason:
                record_unstarted(folder, log.facts.reason)
            hint = f"no attempt has started: the lines above name the reason, and slipway status {plan.name} shows them"
        raise DeploymentFailedError(f"the job {report.status.text}", hint=hint)
    refuse_unproven_run(log, report, options)
    return folder, report


def _show_last_output(folder: RunFolder, options: LaunchOptions) -> None:
    """Show the end of a failed job's log, which most often names the error."""
    for number, _ in folder.attempt_logs[-1:]:
        lines = last_output(folder)
        options.notify(f"last output of attempt {number}:" if lines else f"attempt {number} printed nothing")
        for line in lines:
            options.notify(f"  {line}")


def _refuse_job(plan: Plan, options: LaunchOptions) -> None:
    """Refuse, before anything is deployed, a job that cannot begin as requested or be submitted from here."""
    if options.fresh:
        refuse_fresh(plan)
    if options.from_step is not None:
        refuse_from_step(plan)
    if not options.sandbox:
        cluster_of(plan).refuse_job(plan, options.environment)


def show_launch(priced: Priced, rank: int, quoted: Quote, options: LaunchOptions) -> None:
    """A dry run: list the run folder's files, the changes in the account, and the place of the job.

    Raises:
        ImpossibleError: a launch would be refused.
    """
    plan = quoted.plan
    _refuse_job(plan, options)
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
            _run_steps(log, priced, rank, options, stack)
    except (DeclinedError, InterruptedAtQuestionError):
        declined = True
        raise
    except JobCancelledError:
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
            for command in ("attach", "cancel", *(("down",) if deploys(plan) else ())):
                options.notify(f"next: slipway {command} {plan.name}")
        raise
    finally:
        report = log.write()
        if not declined:
            keep_measurement(plan.name, folder, options.root, priced.catalog, options.notify)
            if not options.sandbox:
                learn_tails(plan.name, options.root, options.environment, datetime.now(UTC), options.notify)
            share(plan.name, folder, options.environment, datetime.now(UTC), options.notify)
    return report


def _run_steps(log: LaunchLog, priced: Priced, rank: int, options: LaunchOptions, stack: ExitStack) -> None:
    """Run every step of a launch; `log` records the progress."""
    quoted, folder = log.quoted, log.folder
    key = fresh_key(quoted.plan.name, folder)
    # In a sandbox no money is spent, and no notification is sent.
    figures = None if options.sandbox else quoted_figures
    base = Path(priced.path).resolve().parent
    bundle = record(folder, quoted, rank, priced.catalog, base, run=key, figures=figures)
    options.notify(f"run folder {folder.path.relative_to(options.root)}")
    account = with_earlier_runs_warning(
        account_for(priced, quoted, options, stack),
        quoted.plan,
        datetime.now(UTC),
        folder,
        fresh=options.fresh,
        second=options.second,
        from_step=options.from_step,
    )
    job = Job(
        priced=priced, quoted=quoted, bundle=bundle, key=key, folder=folder, options=options, account=account, log=log
    )
    stack.callback(account.keep_logs, folder)
    with ExitStack() as unsubmitted:
        if account.stays and deploys(quoted.plan):
            keep, aws = partial(setattr, log, "stacks"), account.environment
            cost_notice = report_running_costs(
                quoted.plan, aws, priced.catalog, options.notify, keep, sandbox=account.is_simulated
            )
            unsubmitted.enter_context(cost_notice)
        cluster = job.find_cluster()
        submission = job.submit(cluster)
    job.follow(submission)
    job.publish(log.status)
