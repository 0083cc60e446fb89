"""The end of a launch: what it shows and keeps of its run, and the errors of a job that failed or proved too little."""

from collections.abc import Sequence
from datetime import UTC, datetime

from launcher.agent.attempt_state import IF_CHECKPOINTS
from launcher.catalog.load import Catalog
from launcher.model.enums import PREPAID, CheckpointMode, PurchaseOption
from launcher.model.errors import DeploymentFailedError
from launcher.model.finding import Finding, error
from launcher.model.quote import Quote
from launcher.model.report import EndedBy, Report, RunStatus
from launcher.model.stages import Notify
from launcher.records.run_folder import RunFolder
from launcher.workflow.deploy.deployment import deploys
from launcher.workflow.history.attempts import record_unstarted
from launcher.workflow.history.idle_tail import learn_tails
from launcher.workflow.history.ledger_shared import share
from launcher.workflow.history.measurement import keep_measurement
from launcher.workflow.history.run_story import LaunchLog
from launcher.workflow.run.growing_lines import last_output
from launcher.workflow.run.launch_options import LaunchOptions

_PLACES = {
    CheckpointMode.DCP: "write the shards of torch.distributed.checkpoint to $SLIPWAY_CHECKPOINT_URI",
    CheckpointMode.OWN: "save below checkpoint.uri",
}
"""Where a trainer that writes its own checkpoints saves them; any other saves into the agent's folder."""


def show_continuing(quoted: Quote, notify: Notify) -> None:
    """Say that the job goes on without this command, at what rate, and the commands that follow or end it."""
    rate = f", at ${quoted.usd_per_hour:.2f} an hour" if quoted.usd_per_hour is not None else ""
    notify(f"the job continues{rate}")
    for command in ("attach", "cancel", *(("down",) if deploys(quoted.plan) else ())):
        notify(f"next: slipway {command} {quoted.plan.name}")


def keep_results(log: LaunchLog, catalog: Catalog, options: LaunchOptions) -> None:
    """Keep what later quotes learn from a run: its rate, the idle tails of its cluster, and its entry in the ledger."""
    name, folder = log.quoted.plan.name, log.folder
    keep_measurement(name, folder, options.root, catalog, options.notify)
    # The nodes of a sandbox stop with it, so their idle time says nothing about a cluster in AWS.
    if not options.sandbox:
        learn_tails(name, options.root, options.environment, datetime.now(UTC), options.notify)
    share(name, folder, options.environment, datetime.now(UTC), options.notify)


def check_result(log: LaunchLog, report: Report, options: LaunchOptions) -> None:
    """Refuse a job that did not succeed, and warn about one that stored no checkpoint.

    Raises:
        DeploymentFailedError: the job was stopped, failed or was cancelled, or a successful one proved too little.
    """
    folder, name = log.folder, log.quoted.plan.name
    if report.stopped is not None:
        raise DeploymentFailedError(f"the job was {report.stopped.text}")
    if report.status is RunStatus.SUCCEEDED:
        refuse_unproven_run(log, report, options)
        return
    if report.status is RunStatus.FAILED:
        _show_last_output(folder, options.notify)
    timed_out = report.attempts and report.attempts[-1].ended_by is EndedBy.TIME_LIMIT
    # The guard's time to live and the end of bought capacity are limits too, which another key or offer extends.
    if timed_out and not report.guard_reason and log.quoted.plan.place.option not in PREPAID:
        stored = report.stored is not None and report.stored.count
        begins = "resumes from its newest checkpoint" if stored else "begins at step 0: it stored no checkpoint"
        hint = f"raise run.time_limit_h and launch again: the job {begins}"
        raise DeploymentFailedError("the job was stopped at its time limit", hint=hint)
    hint = f"slipway logs {name} shows its output"
    if not folder.attempt_logs:
        if log.facts is not None and log.facts.reason:
            record_unstarted(folder, log.facts.reason)
        hint = f"no attempt has started: the lines above name the reason, and slipway status {name} shows them"
    problems = () if report.stored is None else report.stored.problems
    reasons = [
        reason for kind, _, reason in (problem.partition(": ") for problem in problems) if kind == EndedBy.FAILURE
    ]
    raise DeploymentFailedError(": ".join([f"the job {report.status.text}", *reasons]), hint=hint)


def _show_last_output(folder: RunFolder, notify: Notify) -> None:
    """Show the end of a failed job's log, which most often names the error."""
    for number, _ in folder.attempt_logs[-1:]:
        lines = last_output(folder)
        notify(f"last output of attempt {number}:" if lines else f"attempt {number} printed nothing")
        for line in lines:
            notify(f"  {line}")


def refuse_unproven_run(log: LaunchLog, report: Report, options: LaunchOptions) -> None:
    """Warn about a successful job that stored no checkpoint.

    Raises:
        DeploymentFailedError: in the sandbox, the job is on spot, whose quote rests on checkpoints, and stored none, or
            the requested interruption was not simulated.
    """
    findings: list[Finding] = []
    unproven = ""
    if log.not_played:
        fix = "give the job more steps, or --interrupt-after fewer seconds"
        findings.append(error("not-interrupted", "", f"the interruption was not simulated: {log.not_played}", fix))
    if report.stored is not None and not report.stored.count:
        resumed = max((attempt.resumed_from_step for attempt in report.attempts), default=0)
        last = max((attempt.last_step for attempt in report.attempts if attempt.last_step is not None), default=None)
        if resumed and not report.stored.problems and (last or 0) <= resumed:
            unknown = "" if last is not None else "; it reported no step, and work after that step would be lost"
            options.notify(f"the job resumed from step {resumed:,} and stored no newer checkpoint{unknown}")
            fresh = "launch with --fresh: the job begins at step 0, and stores its checkpoints apart"
            findings = [error(finding.code, finding.path, finding.message, fresh) for finding in findings]
        else:
            lost = f"its work since step {resumed:,}" if resumed else "all its work"
            mode = log.quoted.plan.request.checkpoint.mode
            findings += _checkpoint_findings(report.name, lost, report.stored.problems, mode)
            if options.sandbox and log.quoted.plan.place.option is PurchaseOption.SPOT:
                unproven = "it stored no checkpoint, on which the quote of spot rests"
    if log.not_played:
        unproven = "its interruption proved nothing"
    if unproven:
        raise DeploymentFailedError(f"the job succeeded, but {unproven}", findings=findings)
    for finding in findings:
        options.notify(f"warning: {finding.message}{finding.hint and f' ({finding.hint})'}")


def _checkpoint_findings(name: str, lost: str, problems: Sequence[str], mode: CheckpointMode) -> list[Finding]:
    """That the job stored no checkpoint, and what its agent reported of the files that it found."""
    findings = [
        error("no-checkpoint", "checkpoint", f"the job stored no checkpoint: an interruption would lose {lost}")
    ]
    for problem in problems:
        code, _, reason = problem.partition(": ")
        message, _, fix = reason.partition(IF_CHECKPOINTS)
        shown = f"slipway logs {name} shows the job's output; checkpoint.layout, pattern and mode say what is stored"
        findings.append(error(code, "checkpoint", message, f"if these files are checkpoints, {fix}" if fix else shown))
    if not problems:
        place = _PLACES.get(mode, "save into the folder $SLIPWAY_CHECKPOINT_DIR")
        other = f"checkpoint.mode to {'agent or none' if mode in _PLACES else 'none'}"
        findings[0] = error(findings[0].code, findings[0].path, findings[0].message, f"{place}, or set {other}")
    return findings
