"""A successful run that proves less than it should: it stored no checkpoint, or was not interrupted as requested."""

from collections.abc import Sequence

from launcher.agent.attempt_state import IF_CHECKPOINTS
from launcher.model.enums import PurchaseOption
from launcher.model.errors import DeploymentFailedError
from launcher.model.finding import Finding, error
from launcher.model.report import Report
from launcher.workflow.history.run_story import LaunchLog
from launcher.workflow.run.launch_options import LaunchOptions


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
            findings += _checkpoint_findings(report.name, lost, report.stored.problems)
            if options.sandbox and log.quoted.plan.place.option is PurchaseOption.SPOT:
                unproven = "it stored no checkpoint, on which the quote of spot rests"
    if log.not_played:
        unproven = "its interruption proved nothing"
    if unproven:
        raise DeploymentFailedError(f"the job succeeded, but {unproven}", findings=findings)
    for finding in findings:
        options.notify(f"warning: {finding.message}{finding.hint and f' ({finding.hint})'}")


def _checkpoint_findings(name: str, lost: str, problems: Sequence[str]) -> list[Finding]:
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
        fix = "save into the folder $SLIPWAY_CHECKPOINT_DIR, or set checkpoint.mode to none"
        findings[0] = error(findings[0].code, findings[0].path, findings[0].message, fix)
    return findings
