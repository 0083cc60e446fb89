"""How a run stands: asked of the cluster it went to, or read from what it left."""

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from launcher.agent.metrics import figures_in
from launcher.aws.objects import Objects
from launcher.aws.session import Session
from launcher.model.report import Attempt, Report, RunStatus
from launcher.records.documents import parse_report, report_document
from launcher.records.run_folder import RunFolder, write_whole
from launcher.records.submission import Submission, recorded
from launcher.submit.jobs import JobFacts, JobState
from launcher.submit.shell import Shell
from launcher.submit.slurm import Slurm
from launcher.workflow.run.attempts import attempts, read_events
from launcher.workflow.run.follow import FIRST_LINE
from launcher.workflow.run.submission import connect, look_again
from launcher.workflow.run.submission_watch import EVENTS, JOB_FOLDER, METRICS, Mirror, ending, log_name

PENDING, UNKNOWN, NOT_SUBMITTED = "pending", "unknown", "not-submitted"
_OF_STATE = {
    JobState.PENDING: PENDING,
    JobState.RUNNING: "running",
    JobState.COMPLETED: "succeeded",
    JobState.FAILED: "failed",
    JobState.CANCELLED: "cancelled",
}
_OF_ENDING = {"completed": "succeeded", "failed": "failed", "cancelled": "cancelled"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How a run stands. `status` is pending, running, succeeded, failed, cancelled, unknown or not-submitted.

    `submission` and `facts` are None for a run of the sandbox, and for one that Slurm never took; `facts` also where
    Slurm has forgotten the job. `step` of `steps` is what the trainer reported last. `stacks` were deployed by a run
    that submitted nothing, and stand unless somebody has removed them.
    """

    name: str
    run: str
    status: str
    submission: Submission | None
    facts: JobFacts | None
    report: Report | None
    attempts: tuple[Attempt, ...]
    step: int | None = None
    steps: int | None = None
    loss: float | None = None
    saved_step: int | None = None
    stacks: tuple[str, ...] = ()


def reached(submission: Submission, environment: Mapping[str, str]) -> Shell:
    """The way to the head node of a submission."""
    session = Session(environment=environment, region=str(submission.head_node.region))
    store = Objects.at(session, submission.store_uri)
    return connect(submission.head_node, environment, key=submission.key, store=store)


def standing(name: str, folder: RunFolder, environment: Mapping[str, str]) -> Standing:
    """Ask for a run; what it has written is brought into its folder on the way.

    Raises:
        SchedulerError: the cluster cannot be asked.
    """
    submission = recorded(folder)
    if submission is None:
        return _left(name, folder)
    with closing(reached(submission, environment)) as shell:
        slurm = Slurm(shell=shell)
        found = look_again(folder, slurm)
        if found is None:
            return replace(_left(name, folder), status=NOT_SUBMITTED, submission=submission)
        facts = slurm.facts(found.submitted)
        Mirror(slurm=slurm, job=found.submitted, folder=folder.path / JOB_FOLDER).sync()
    split_log(folder, found)
    return _judged(name, folder, found, facts)


def _left(name: str, folder: RunFolder) -> Standing:
    """A run as its folder alone tells of it."""
    has = (folder.path / "report.json").is_file()
    report = parse_report(folder.read_json("report.json")) if has else None
    return Standing(
        name=name,
        run=folder.path.name,
        status=report.status.value if report is not None else NOT_SUBMITTED,
        submission=None,
        facts=None,
        report=report,
        attempts=report.attempts if report is not None else (),
        step=report.attempts[-1].last_step if report is not None and report.attempts else None,
        stacks=_deployed(folder) if report is None or not report.simulated else (),
    )


def _deployed(folder: RunFolder) -> tuple[str, ...]:
    """The stacks whose outputs a deployment left in a run folder."""
    return tuple(sorted(folder.read_json("outputs.json"))) if (folder.path / "outputs.json").is_file() else ()


def _judged(name: str, folder: RunFolder, submission: Submission, facts: JobFacts | None) -> Standing:
    """A run by what Slurm says and by what the agent and the trainer wrote; its report is brought up to date."""
    place = folder.path / JOB_FOLDER
    status = _OF_STATE[facts.state] if facts is not None else _OF_ENDING.get(ending(place) or "", UNKNOWN)
    events, metric = read_events(place / EVENTS), _last_metric(place)
    saved = [int(each["step"]) for each in events if each.get("event") == "checkpoint-uploaded"]
    step = metric.get("step")
    known = _left(name, folder)
    made = _with_steps(attempts(events), events, step)
    found = replace(
        known,
        status=status,
        submission=submission,
        facts=facts,
        attempts=made,
        step=step,
        steps=metric.get("steps"),
        loss=metric.get("loss"),
        saved_step=max(saved, default=None),
    )
    if known.report is not None:
        of_report = RunStatus(status) if status in set(RunStatus) else RunStatus.RUNNING
        report = replace(known.report, status=of_report, attempts=made)
        folder.write_json("report.json", report_document(report))
        found = replace(found, report=report)
    return found


def _last_metric(place: Path) -> dict[str, Any]:
    """What the trainer reported last of each; the agent's own lines, one a checkpoint, have no step."""
    found: dict[str, Any] = {}
    path = place / METRICS
    for line in path.read_bytes().splitlines() if path.is_file() else ():
        figures, _ = figures_in(line)
        found |= {name: figures[name] for name in ("step", "steps", "loss") if name in figures}
    return found


def _with_steps(made: tuple[Attempt, ...], events: list[dict[str, Any]], step: int | None) -> tuple[Attempt, ...]:
    """Attempts with their last steps: that of the last checkpoint each has saved; for the newest, what it reported."""
    saved: dict[int, int] = {}
    for event in events:
        if event.get("event") == "checkpoint-uploaded":
            number = int(event["attempt"])
            saved[number] = max(int(event["step"]), saved.get(number, 0))
    numbers = [int(event["attempt"]) for event in events if event.get("event") == "attempt-started"]
    found = [replace(each, last_step=saved.get(number)) for each, number in zip(made, numbers, strict=True)]
    if found and step is not None:
        found[-1] = replace(found[-1], last_step=max(step, found[-1].last_step or 0))
    return tuple(found)


def split_log(folder: RunFolder, submission: Submission) -> None:
    """Write what a job has printed into one log an attempt, from the copy of its output."""
    path = folder.path / JOB_FOLDER / log_name(submission.submitted)
    if not path.is_file():
        return
    pieces: list[list[str]] = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True):
        if line.startswith(FIRST_LINE) or not pieces:
            pieces.append([])
        pieces[-1].append(line)
    for number, lines in enumerate(pieces, start=1):
        write_whole(folder.logs / f"attempt-{number}.log", "".join(lines))


def status_document(found: Standing) -> dict[str, Any]:
    """slipway.status/1."""
    submission, facts = found.submission, found.facts
    report = None if found.report is None else report_document(replace(found.report, attempts=found.attempts))
    return {
        "schema": "slipway.status/1",
        "name": found.name,
        "run": found.run,
        "status": found.status,
        "scheduler": "slurm" if submission is not None else report["scheduler"] if report else None,
        "simulated": bool(report and report["simulated"]),
        "cluster": submission.cluster if submission is not None else None,
        "head_node": submission.head_node.words() if submission is not None else None,
        "job": submission.job if submission is not None else None,
        "submitted_at": submission.asked_at.isoformat() if submission is not None and submission.job else None,
        "state": facts.word if facts is not None else None,
        "reason": facts.reason or None if facts is not None else None,
        "restarts": facts.restarts if facts is not None else None,
        "nodes": list(facts.nodes) if facts is not None else [],
        "step": found.step,
        "steps": found.steps,
        "loss": found.loss,
        "saved_step": found.saved_step,
        "checkpoint_uri": submission.checkpoint_uri if submission is not None else None,
        "work": submission.work if submission is not None else None,
        "stacks": list(found.stacks),
        "attempts": report["attempts"] if report is not None else [],
        "quoted": report["quoted"] if report is not None else None,
        "actual": report["actual"] if report is not None else None,
    }
