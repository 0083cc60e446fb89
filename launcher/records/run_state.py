"""The state of a run as it was found, and slipway.status/1."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from launcher.model.job import JobFacts
from launcher.model.meter import Meter
from launcher.model.record import record
from launcher.model.report import Attempt, Report
from launcher.records.command_record import CommandRecord
from launcher.records.documents import report_document
from launcher.records.meter_document import meter_document
from launcher.records.submission import Submission


@record
class RunState:
    """The state of a run. `status` is pending, running, succeeded, failed, cancelled, unknown or not-submitted.

    `submission` and `facts` are None for a run of the sandbox, and for one that Slurm never took; `facts` also where
    Slurm has forgotten the job. `step` of `steps` is what the trainer reported last. `stacks` are those of a run that
    submitted nothing: what CloudFormation has of them by name and status in `stack_states`; where it could not be asked
    that is None, and they exist unless somebody has removed them. `meter` is that of a job that has begun and is not
    over. `command` is the one that made the run, None for one that has not noted itself.
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
    stack_states: Mapping[str, str] | None = None
    meter: Meter | None = None
    command: CommandRecord | None = None


def status_document(found: RunState) -> dict[str, Any]:
    """slipway.status/1."""
    submission, facts = found.submission, found.facts
    report = None if found.report is None else report_document(replace(found.report, attempts=found.attempts))
    scheduler = report["scheduler"] if report is not None else None
    if submission is not None:
        scheduler = submission.head_node.scheduler
    return {
        "schema": "slipway.status/1",
        "name": found.name,
        "run": found.run,
        "status": found.status,
        "scheduler": scheduler,
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
        "meter": meter_document(found.meter),
        "work": submission.work if submission is not None else None,
        "stopped": report["stopped"] if report is not None else None,
        "stacks": list(found.stacks),
        "stack_states": None if found.stack_states is None else dict(sorted(found.stack_states.items())),
        "attempts": report["attempts"] if report is not None else [],
        "quoted": report["quoted"] if report is not None else None,
        "actual": report["actual"] if report is not None else None,
    }
