"""A successful run that proves less than it should: it stored no checkpoint, or was not interrupted as requested."""

from launcher.model.errors import DeploymentFailedError
from launcher.model.report import Report
from launcher.workflow.history.run_story import LaunchLog
from launcher.workflow.run.launch_options import LaunchOptions


def refuse_unproven_run(log: LaunchLog, report: Report, options: LaunchOptions) -> None:
    """Warn about a successful job without a stored checkpoint or simulated interruption; in the sandbox, raise."""
    unproven = [f"the interruption was not simulated: {log.not_played}"] if log.not_played else []
    hint = f"slipway logs {report.name} shows its files; set checkpoint.layout, pattern or mode"
    if report.stored is not None and not report.stored.count:
        resumed = max((attempt.resumed_from_step for attempt in report.attempts), default=0)
        last = max((attempt.last_step for attempt in report.attempts if attempt.last_step is not None), default=None)
        if resumed and not report.stored.troubles and (last or 0) <= resumed:
            unknown = "" if last is not None else "; it reported no step, and work after that step would be lost"
            options.notify(f"the job resumed from step {resumed:,} and stored no newer checkpoint{unknown}")
            hint = "launch it with --fresh: it begins at step 0, and stores its checkpoints apart"
        else:
            lost = f"its work since step {resumed:,}" if resumed else "all its work"
            unproven.append(f"the job stored no checkpoint: an interruption would lose {lost}")
            unproven += report.stored.troubles
    if not unproven:
        return
    if options.sandbox:
        raise DeploymentFailedError(
            f"the job succeeded, but its interruption proved nothing: {'; '.join(unproven)}", hint=hint
        )
    for reason in unproven:
        options.notify(f"warning: {reason}")
