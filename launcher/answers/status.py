"""The state of a run: `slipway status`, slipway.status/1."""

import sys
from dataclasses import replace
from datetime import datetime
from typing import Any, Literal

from launcher.answers import meter
from launcher.answers.lines import fold
from launcher.answers.report import attempt_rows, left_up_lines, stop_lines, stored_lines
from launcher.answers.straggler import straggler_lines
from launcher.answers.words import saved_text, usd
from launcher.model.job import JobState
from launcher.model.meter import Meter
from launcher.model.report import Attempt, RunStatus
from launcher.model.straggler import Straggler
from launcher.model.units import number_of
from launcher.records.codec import Json, as_json
from launcher.records.command_record import KILLED, RUNNING
from launcher.records.document import fill_record, json_object
from launcher.records.report_document import Actual, Quoted, ReportDocument, Stopped
from launcher.records.run_state import RunState
from launcher.records.submission import SANDBOX, Submission
from launcher.rendering.names import STORE_STACK
from launcher.targets.registry import target_of
from launcher.workflow.cluster.guard_stop import waiting_text
from launcher.workflow.run.status import NOT_SUBMITTED

ENDED_EARLY = (RunStatus.FAILED.value, RunStatus.CANCELLED.value, RunStatus.INTERRUPTED.value)
"""States of runs without a submitted job: resources may exist nevertheless."""


@json_object
class StatusDocument:
    """The state of a run; null for what is not known, or what the run does not have."""

    schema: Literal["slipway.status/1"] = "slipway.status/1"
    name: str
    run: str
    status: str
    scheduler: str | None
    simulated: bool
    cluster: str | None
    head_node: str | None
    job: str | None
    submitted_at: datetime | None
    state: str | None
    reason: str | None
    guard_reason: str | None
    restarts: int | None
    nodes: tuple[str, ...]
    step: int | None
    steps: int | None
    loss: float | None
    saved_step: int | None
    saved_is_count: bool
    checkpoints_stored: int | None
    layout: str | None
    checkpoint_problems: tuple[str, ...]
    checkpoint_uri: str | None
    meter: meter.MeterDocument | None
    stragglers: tuple[Straggler, ...]
    work: dict[str, Any] | None
    stopped: Stopped | None
    stacks: tuple[str, ...]
    stack_states: dict[str, str] | None
    attempts: tuple[Attempt, ...]
    last_output: tuple[str, ...]
    quoted: Quoted | None
    actual: Actual | None


def document(state: RunState) -> Json:
    """slipway.status/1."""
    submission, facts = state.submission, state.facts
    report = None if state.report is None else ReportDocument.of(replace(state.report, attempts=state.attempts))
    scheduler = report.scheduler if report is not None else None
    if submission is not None:
        scheduler = submission.scheduler
    return as_json(
        fill_record(
            StatusDocument,
            state,
            scheduler=scheduler,
            simulated=report is not None and report.simulated,
            cluster=submission.cluster if submission is not None else None,
            head_node=submission.head_node.text() if submission is not None else None,
            job=submission.job if submission is not None else None,
            submitted_at=submission.asked_at if submission is not None and submission.job else None,
            state=facts.word if facts is not None else None,
            reason=(facts.reason or None) if facts is not None else _problem(state),
            guard_reason=report.guard_reason if report is not None else None,
            restarts=facts.restarts if facts is not None else None,
            nodes=facts.nodes if facts is not None else (),
            checkpoints_stored=report.checkpoints_stored if report is not None else None,
            layout=report.layout if report is not None else None,
            checkpoint_problems=report.checkpoint_problems if report is not None else (),
            checkpoint_uri=submission.checkpoint_uri if submission is not None else None,
            meter=None if state.meter is None else meter.MeterDocument.of(state.meter),
            work=submission.work if submission is not None else None,
            stopped=report.stopped if report is not None else None,
            stack_states=None if state.stack_states is None else dict(sorted(state.stack_states.items())),
            attempts=report.attempts if report is not None else (),
            quoted=report.quoted if report is not None else None,
            actual=report.actual if report is not None else None,
        )
    )


def page(state: RunState, width: int) -> list[str]:
    """The state of a run."""
    lines = ["", *fold(f"  {state.name}: {state.status.replace('-', ' ')}{_job(state)}", width), ""]
    problem, stopped = _problem(state) or "", state.report.guard_reason if state.report is not None else ""
    # The guard's reason has lines of its own.
    reason = (
        "\n    ".join(f"  reason: {problem}".splitlines()) if problem and not (stopped and stopped in problem) else ""
    )
    lines += [piece for line in reason.splitlines() for piece in fold(line, width)]
    lines += [piece for text in _state_lines(state) for piece in fold(text, width)]
    lines += _stop_lines(state, width)
    lines += _progress(state, width)
    if state.attempts and state.report is not None and state.report.stored is not None:
        lines += stored_lines(state.report.stored, width)
    if state.meter is not None:
        lines += ["", *meter_lines(state.meter, width)]
    lines += straggler_lines(state.name, state.stragglers, width, replaceable=replaceable(state))
    if state.attempts:
        lines += ["", *attempt_rows(state.attempts, width, state.status)]
    if state.last_output:
        lines += ["", f"  last output of attempt {len(state.attempts)}"]
        lines += [piece for text in state.last_output for piece in fold(f"    {text}", width)]
        lines.append("")
    if state.submission is not None and state.report is not None:
        # The cluster has just answered.
        lines += left_up_lines(state.report, width)
    return lines


def _stop_lines(state: RunState, width: int) -> list[str]:
    """Why nodes were stopped; of a job that waits for them, what the user can do."""
    if state.report is None:
        return []
    lines, submission, facts = stop_lines(state.report, width), state.submission, state.facts
    waits = facts is not None and facts.state is JobState.PENDING
    if state.report.guard_reason and waits and submission is not None and submission.job is not None:
        lines += fold(f"  {waiting_text(submission.job, state.name)}", width)
    return lines


def _problem(state: RunState) -> str | None:
    """The error that ended the run's command before an attempt of its job started; None if there was none."""
    never = state.submission is None or (state.facts is None and not state.attempts)
    return state.command.problem if never and state.command is not None else None


def replaceable(state: RunState) -> bool:
    """Whether the nodes of a job can be replaced: those of a managed service cannot."""
    return state.submission is not None and not target_of(state.submission.target).is_managed


def _progress(state: RunState, width: int) -> list[str]:
    """What the trainer reported last, and the chips that it does not use."""
    parts = []
    if state.step is not None:
        parts.append(f"step {state.step:,}" + (f" of {state.steps:,}" if state.steps else ""))
    if state.loss is not None:
        parts.append(f"loss {state.loss:.3f}")
    if state.saved_step is not None:
        parts.append(saved_text(state.saved_step, counted=state.saved_is_count))
    lines = [f"  {', '.join(parts)}"] if parts else []
    return lines + (fold(f"  warning: {state.idle_chips}", width) if state.idle_chips else [])


def _state_lines(state: RunState) -> tuple[str, ...]:
    if state.submission is not None:
        return tuple(_where(state.submission))
    if state.report is not None and state.report.endpoint is not None and state.stacks:
        deployed = state.report.endpoint
        return (
            f"  endpoint {deployed.name} in {deployed.region} came into service",
            f"  slipway endpoint test {state.name} shows its current state",
            *_standing(state),
        )
    if state.status == KILLED:
        return tuple(f"  {line}" for line in _killed_lines(state))
    if state.status in (NOT_SUBMITTED, *ENDED_EARLY) and state.stacks:
        return _standing(state)
    return _without_job(state)


def _standing(state: RunState) -> tuple[str, ...]:
    # Resources after slipway down are those that it keeps by default.
    erase = " --checkpoints" if all(stack.endswith(f"-{STORE_STACK}") for stack in state.stacks) else ""
    sandbox = state.command is not None and state.command.sandbox
    rate = state.report.left_up_usd_per_hour if state.report is not None else None
    rate = None if erase else rate
    most = "about" if state.report is not None and state.report.endpoint is not None else "at most"
    return (
        f"  deployed by this run, and {'in AWS ' if sandbox else ''}billed while they exist{_stacks(state)}",
        f"  {most} {usd(rate)} an hour by the quote" if rate else "  slipway cost shows their hourly cost",
        f"  slipway down {state.name}{erase} removes them",
    )


def _without_job(state: RunState) -> tuple[str, ...]:
    """The state of a run that has no job on a reachable cluster and has left no resources."""
    command = state.command
    if command is not None and command.state == RUNNING:
        where = ", in its own sandbox, which ends with it" if state.own_sandbox else ""
        where = "; its job has not started" if command.sandbox and not state.attempts else where
        return (f"  {command.command} is running on this computer (process {command.pid}){where}",)
    if state.status != NOT_SUBMITTED:
        return (f"  this run has ended; slipway report {state.name} shows its result",)
    place = (
        "; slipway sandbox status shows whether its sandbox still runs"
        if command is not None and command.sandbox
        else ""
    )
    return (f"  no job: a {command.command}, {command.state}{place}",) if command is not None else ()


def meter_lines(reading: Meter, width: int) -> list[str]:
    """The meter, wrapped to a width, and remarks on its forecast."""
    lines = fold(f"  {meter.line(reading, bar=sys.stdout.isatty())}", width)
    return lines + [piece for warning in reading.warnings.values() for piece in fold(f"  warning: {warning}", width)]


def _stacks(state: RunState) -> str:
    states = state.stack_states
    if states is None:
        return f": {', '.join(state.stacks)} (their state could not be read)"
    return f": {', '.join(f'{name} {states[name]}' for name in state.stacks)}"


def _killed_lines(state: RunState) -> tuple[str, ...]:
    known = f"its command was killed before a job was submitted; run folder {state.run}"
    if state.report is not None and state.report.simulated:
        if state.stack_states is None:
            return (known, "its sandbox ended with it, and nothing was spent")
        if not state.stacks:
            return (known, "the running sandbox has no stack of it, and nothing was spent")
        there = f"the running sandbox has its stacks{_stacks(state)}"
        return (known, there, f"the next launch continues from them; slipway down {state.name} removes them")
    listed = _stacks(state) if state.stacks else ""
    return (
        known,
        f"its deployment may still exist and be billed{listed}",
        "slipway cost shows what exists and its hourly cost",
        f"slipway down {state.name} removes it",
    )


def _job(state: RunState) -> str:
    submission, facts = state.submission, state.facts
    if submission is None or submission.job is None:
        return ""
    if facts is None:
        scheduler = submission.scheduler.title()
        return f", job {submission.job} ({scheduler} no longer lists it)"
    parts = [f", job {submission.job} {facts.word}"]
    if facts.reason:
        parts.append(f" ({facts.reason})")
    if facts.nodes:
        parts.append(f" on {', '.join(facts.nodes)}")
    if facts.restarts:
        word = "started again" if target_of(submission.target).per_job else "put back into the queue"
        parts.append(f", {word} {number_of(facts.restarts, 'time')}")
    return "".join(parts)


def _where(submission: Submission) -> list[str]:
    work = submission.work
    git = work.get("git")
    revision = "not in git" if git is None else f"git {str(git['revision'])[:12]}{', changed' if git['dirty'] else ''}"
    if target_of(submission.target).per_job:
        where = "the sandbox" if submission.head_node.via == SANDBOX else submission.head_node.region
        what = "training job" if target_of(submission.target).is_managed else "instances of job"
        lines = [f"  {what} {submission.folder} in {where}"]
    else:
        lines = [
            f"  cluster {submission.cluster}: {submission.head_node.text()}",
            f"  job folder: {submission.folder}",
        ]
    return [
        *lines,
        f"  run.workdir: {number_of(work['files'], 'file')}, {revision}",
        f"  checkpoints: {submission.checkpoint_uri}",
    ]
