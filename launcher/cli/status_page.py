"""The page of `slipway status`."""

from launcher.cli.lines import wrapped
from launcher.cli.report_page import attempt_rows
from launcher.records.submission import Submission
from launcher.workflow.run.status import NOT_SUBMITTED, Standing


def page(found: Standing, width: int) -> list[str]:
    """How a run stands."""
    lines = ["", f"  {found.name}: {found.status.replace('-', ' ')}{_job(found)}", ""]
    if found.submission is not None:
        lines += [piece for line in _where(found.submission) for piece in wrapped(line, width)]
    elif found.report is not None and found.report.endpoint is not None and not found.report.simulated:
        deployed = found.report.endpoint
        text = f"endpoint {deployed.name} in {deployed.region} came into service"
        lines += wrapped(f"  {text}; slipway endpoint test {found.name} asks how it is now", width)
    elif found.status == NOT_SUBMITTED and found.stacks:
        names = ", ".join(found.stacks)
        stand = f"deployed by this run, and billed while they stand: {names}"
        ways = f"slipway cost says what they cost an hour, slipway down {found.name} removes them"
        lines += [piece for line in (f"  {stand}", f"  {ways}") for piece in wrapped(line, width)]
    elif found.status != NOT_SUBMITTED:
        lines.append("  a run that is over; slipway report shows what it came to")
    progress = _progress(found)
    if progress:
        lines += [f"  {progress}"]
    if found.attempts:
        lines += ["", *attempt_rows(found.attempts, width)]
    return lines


def _job(found: Standing) -> str:
    """The job as Slurm has it."""
    submission, facts = found.submission, found.facts
    if submission is None or submission.job is None:
        return ""
    if facts is None:
        return f", job {submission.job} (Slurm has forgotten it)"
    words = [f", job {submission.job} {facts.word}"]
    if facts.reason:
        words.append(f" ({facts.reason})")
    if facts.nodes:
        words.append(f" on {', '.join(facts.nodes)}")
    if facts.restarts:
        words.append(f", put back into the queue {facts.restarts} time{'s' if facts.restarts > 1 else ''}")
    return "".join(words)


def _where(submission: Submission) -> list[str]:
    """Where it went."""
    work = submission.work
    git = work.get("git")
    revision = "not in git" if git is None else f"git {str(git['revision'])[:12]}{', changed' if git['dirty'] else ''}"
    return [
        f"  cluster {submission.cluster}, {submission.head_node.words()}, {submission.folder}",
        f"  run.workdir {work['files']:,} files, {revision}",
        f"  checkpoints {submission.checkpoint_uri}",
    ]


def _progress(found: Standing) -> str:
    """How far it has come."""
    parts = []
    if found.step is not None:
        parts.append(f"step {found.step}" + (f" of {found.steps}" if found.steps else ""))
    if found.loss is not None:
        parts.append(f"loss {found.loss:.3f}")
    if found.saved_step is not None:
        parts.append(f"saved at step {found.saved_step}")
    return ", ".join(parts)
