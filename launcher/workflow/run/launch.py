"""The `launch` command: it deploys or finds the cluster of a quoted plan, ships its job, submits it and follows it.

The steps are the same in AWS and in the sandbox. The sandbox has its own shell on the head node, can disrupt the job
(disruption.py), and ends with the launch and the job.
"""

from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from launcher.catalog.regular_file import folder_of
from launcher.model.errors import DeclinedError, ImpossibleError, InterruptedAtQuestionError
from launcher.model.quote import Quote
from launcher.model.report import Report, RunStatus
from launcher.pricing.priced import Priced
from launcher.records import run_folder
from launcher.records.command_record import recorded_command
from launcher.records.run_folder import RunFolder, undone_if_declined
from launcher.targets.registry import target_of
from launcher.workflow.deploy.deployment import account_for, deploys, ends_with_it, report_ended_sandbox
from launcher.workflow.deploy.steps import record
from launcher.workflow.doctor.left_running import report_running_costs
from launcher.workflow.history.run_story import LaunchLog
from launcher.workflow.run.dry_launch import refuse_job
from launcher.workflow.run.job import Job
from launcher.workflow.run.launch_options import LaunchOptions
from launcher.workflow.run.launch_result import check_result, keep_results, show_continuing
from launcher.workflow.run.meter import quoted_figures
from launcher.workflow.run.relaunch import with_earlier_runs_warning
from launcher.workflow.run.submission import fresh_key
from launcher.workflow.run.submission_watch import ClusterRemovedError, JobCancelledError


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
    refuse_job(plan, options)
    scheduler = target_of(plan.place.target).scheduler
    folder = run_folder.create(plan.name, datetime.now(UTC), options.root)
    log = LaunchLog(folder=folder, quoted=quoted, simulated=options.sandbox, scheduler=scheduler)
    # A killed launch leaves a run folder with everything that is known.
    log.status = RunStatus.RUNNING
    log.write()
    log.status = RunStatus.FAILED
    with undone_if_declined(folder):
        report = _launch(log, priced, rank, options)
    check_result(log, report, options)
    return folder, report


def _launch(log: LaunchLog, priced: Priced, rank: int, options: LaunchOptions) -> Report:
    ends = ends_with_it(options, log.quoted.plan.place.region)
    declined = False
    try:
        with (
            report_ended_sandbox(options.notify, ends=ends),
            recorded_command(log.folder, "launch", sandbox=options.sandbox, done="done"),
            ExitStack() as stack,
        ):
            _run_steps(log, priced, rank, options, stack)
    except (DeclinedError, InterruptedAtQuestionError):
        declined = True
        raise
    except (JobCancelledError, ClusterRemovedError) as ended:
        log.status = RunStatus.CANCELLED if isinstance(ended, JobCancelledError) else RunStatus.FAILED
        raise
    except (KeyboardInterrupt, Exception) as ended:
        if ends or log.status is not RunStatus.RUNNING:
            log.status = RunStatus.INTERRUPTED if isinstance(ended, KeyboardInterrupt) else RunStatus.FAILED
        else:
            show_continuing(log.quoted, options.notify)
        raise
    finally:
        report = log.write()
        if not declined:
            keep_results(log, priced.catalog, options)
    return report


def _run_steps(log: LaunchLog, priced: Priced, rank: int, options: LaunchOptions, stack: ExitStack) -> None:
    """Run every step of a launch; `log` records the progress."""
    quoted, folder = log.quoted, log.folder
    key = fresh_key(quoted.plan.name, folder)
    # In a sandbox no money is spent, and no notification is sent.
    figures = None if options.sandbox else quoted_figures
    base = folder_of(Path(priced.path))
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
        submission = job.submit(job.find_cluster())
    job.follow(submission)
    job.publish(log.status)
