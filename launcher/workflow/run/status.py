"""The state of a run, from its cluster or from its run folder."""

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

from launcher import plan_file
from launcher.agent.metrics import figures_in
from launcher.aws import stacks
from launcher.aws.clients import Sessions
from launcher.aws.session import Session
from launcher.catalog import load as catalog_load
from launcher.model.errors import AwsError, SlipwayError, UnreadableInputError
from launcher.model.job import JobFacts, JobState
from launcher.model.report import Attempt, EndedBy, Report, RunStatus
from launcher.model.request import PlanRequest
from launcher.model.stages import Notify
from launcher.records.command_record import KILLED, goes_on, read_command
from launcher.records.report_document import report_document, stored_report
from launcher.records.run_folder import EVENTS, JOB_FOLDER, METRICS, RunFolder, earlier_runs, latest
from launcher.records.run_state import RunState
from launcher.records.submission import Submission, in_own_sandbox, read_submission, with_job
from launcher.rendering.names import NETWORK_STACK, SERVING_STACK, STORE_STACK, TRAINING_STACK
from launcher.submit.jobs import SchedulerEndedError
from launcher.workflow.cluster.guard_stop import guard_stop, read_endpoint_stop
from launcher.workflow.cluster.job_connection import connect_job
from launcher.workflow.cluster.reach import gone_if_removed, removal_of
from launcher.workflow.cluster.run_environment import SandboxOutOfReachError, environment_of, environment_of_run
from launcher.workflow.history.attempts import (
    STOPPED,
    attempts,
    budget_stop,
    cancelled_attempts,
    close_last,
    explained_attempts,
    job_events,
    last_start,
    read_events,
    record_stop,
    recorded_stop,
    recorded_unstarted,
    slow_nodes,
)
from launcher.workflow.history.idle_tail import learn_tails
from launcher.workflow.history.ledger_shared import share
from launcher.workflow.history.measurement import keep_measurement
from launcher.workflow.history.run_index import publish
from launcher.workflow.history.stored import stored_checkpoints
from launcher.workflow.run.follow import FIRST_LINE
from launcher.workflow.run.growing_lines import GrowingLines, last_output
from launcher.workflow.run.meter import hours_at, meter_of
from launcher.workflow.run.stragglers import stragglers
from launcher.workflow.run.submission import find_submission
from launcher.workflow.run.submission_watch import Mirror, ending, record_lost

PENDING, UNKNOWN, NOT_SUBMITTED = "pending", "unknown", "not-submitted"
GOING_ON = (PENDING, "running")
_OF_STATE = {
    JobState.PENDING: PENDING,
    JobState.RUNNING: "running",
    JobState.COMPLETED: "succeeded",
    JobState.FAILED: "failed",
    JobState.CANCELLED: "cancelled",
}
_OF_ENDING = {"completed": "succeeded", "failed": "failed", "cancelled": "cancelled", STOPPED: "stopped"}


_OF_A_CLUSTER = (NETWORK_STACK, STORE_STACK, TRAINING_STACK, SERVING_STACK)


def stack_states(folder: RunFolder, known: Iterable[str], environment: Mapping[str, str]) -> dict[str, str] | None:
    """The status of each stack of a run that exists.

    Returns:
        Statuses by name; None if they cannot be read: no readable plan, no region, no credentials, no answer.
    """
    try:
        request = plan_file.load(folder.path / "plan.json")
        if not request.target.region:
            return None
        names = {*known, *_stack_names(request)}
        sessions = Sessions(environment)
    except SlipwayError:
        return None
    try:
        session = sessions.session(request.target.region[0], "cloudformation")
        states = [stacks.find(session, name) for name in sorted(names)]
    except AwsError:
        return None
    finally:
        sessions.close()
    return {stack.name: stack.status for stack in states if stack is not None}


def _stack_names(request: PlanRequest) -> list[str]:
    return [] if request.target.cluster is not None else [f"slipway-{request.name}-{part}" for part in _OF_A_CLUSTER]


def run_state(
    name: str, folder: RunFolder, environment: Mapping[str, str], notify: Notify = lambda _: None
) -> RunState:
    """The state of a run. Copies what the run has written into its folder, and a finished run into the ledger.

    For ended runs of the plan, it also reads how long their nodes stayed up.
    """
    submission = read_submission(folder)
    if submission is None and goes_on(folder):
        return _followed_here(name, folder)
    if submission is None:
        return _with_stacks(ended_state(name, folder), folder, environment)
    try:
        with gone_if_removed(submission, environment):
            return _current_state(name, folder, submission, environment, notify)
    except SchedulerEndedError as problem:
        notify(problem.message)
        if isinstance(problem, SandboxOutOfReachError) and goes_on(folder):
            return _followed_here(name, folder)
        last_state = ended_state(name, folder)
        learn_tails(name, folder.root, environment, datetime.now(UTC), notify)
        # A killed launch whose job was submitted: how the job ended is not known.
        unknown = last_state.status in (RunStatus.RUNNING.value, KILLED)
        return replace(last_state, status=UNKNOWN) if unknown else last_state


def _followed_here(name: str, folder: RunFolder) -> RunState:
    """The state of a run whose command runs on this computer: by what that command brings into the folder."""
    state = with_job_data(ended_state(name, folder), folder)
    if not state.attempts or state.status != RunStatus.RUNNING.value:
        return state
    return with_meter(state, folder, datetime.now(UTC))


def read_before_removal(name: str, root: Path, environment: Mapping[str, str], notify: Notify) -> None:
    """Read the state of a cluster's or endpoint's newest run before its stacks are removed.

    The run's folder then has how the job ended, and the guard's reason for a stop, which go with the stacks.
    """
    try:
        folder = latest(name, root)
    except UnreadableInputError:
        return  # it was launched on another computer
    try:
        run_state(name, folder, environment, notify)
    except SlipwayError as problem:
        notify(f"the last state of run {folder.path.name} could not be read: {problem.message}")


def earlier_running_job(
    name: str, folder: RunFolder, environment: Mapping[str, str], notify: Notify
) -> RunState | None:
    """The newest run of a plan before `folder` whose job waits or runs; `notify` names a run that cannot be read."""
    for run in earlier_runs(name, folder):
        if not (run.path / "report.json").is_file():
            continue
        try:
            if read_submission(run) is None or stored_report(run).status is not RunStatus.RUNNING:
                continue
            state = run_state(name, run, environment)
        except SlipwayError as problem:
            notify(f"warning: whether run {run.path.name} of this plan still runs is unknown: {problem.message}")
            continue
        if state.status in GOING_ON and state.submission is not None:
            return state
    return None


def with_running_job(name: str, root: Path, environment: Mapping[str, str], notify: Notify) -> RunFolder:
    """The newest run of a plan whose job waits or runs, else the newest run.

    A launch may submit a second job beside a running one; `notify` names the other job, or the ended one.
    """
    newest = with_job(name, root, notify, going_on=True)
    other = earlier_running_job(name, newest, environment, notify)
    if other is None or other.submission is None:
        return newest
    if run_state(name, newest, environment).status in GOING_ON:
        notify(f"job {other.submission.job} of run {other.run} is {other.status} too; this is run {newest.path.name}")
        return newest
    notify(f"the job of run {newest.path.name} has ended; this is run {other.run}")
    return RunFolder(path=newest.path.parent / other.run)


def _current_state(
    name: str, folder: RunFolder, submission: Submission, environment: Mapping[str, str], notify: Notify
) -> RunState:
    with closing(connect_job(submission, environment)) as connection:
        source = connection.source
        recorded_submission = find_submission(folder, source)
        if recorded_submission is None:
            return replace(ended_state(name, folder), status=NOT_SUBMITTED, submission=submission)
        facts = source.facts(recorded_submission.submitted_job)
        Mirror(source=source, job=recorded_submission.submitted_job, folder=folder.path / JOB_FOLDER).sync()
    split_log(folder, source.log_name(recorded_submission.submitted_job))
    before = ended_state(name, folder).status
    now, judged = datetime.now(UTC), running_state(name, folder, recorded_submission, facts, environment)
    if judged.status not in _OF_ENDING.values():
        simulated = judged.report is not None and judged.report.simulated
        return with_meter(judged, folder, now, None if simulated else environment)
    if judged.status != before:
        keep_measurement(name, folder, folder.root, catalog_load.load(today=now.date()), notify)
        share(name, folder, environment, now, notify)
        publish(name, folder, environment_of_run(folder, environment), now, notify)
    learn_tails(name, folder.root, environment, now, notify)
    return without_removed(judged, recorded_submission, environment, notify)


def without_removed(
    state: RunState, submission: Submission, environment: Mapping[str, str], notify: Notify
) -> RunState:
    """The state of an ended job, without the cost of a stack that is removed: the store still answers for the job."""
    removal = removal_of(submission, environment)
    if not removal or state.report is None:
        return state
    notify(removal)
    return replace(state, report=replace(state.report, left_up_usd_per_hour=None))


def with_meter(
    state: RunState, folder: RunFolder, now: datetime, environment: Mapping[str, str] | None = None
) -> RunState:
    """The state of a running job with its meter, and with the nodes that slow it down."""
    reading = meter_of(folder, now, environment)
    slow = stragglers(read_events(folder.path / JOB_FOLDER / EVENTS), reading, now)
    return replace(state, meter=reading, stragglers=slow)


def ended_state(name: str, folder: RunFolder) -> RunState:
    """The state of a run that no scheduler is asked about: from its folder alone."""
    has = (folder.path / "report.json").exists()  # also a pipe or device, which is no report
    report = stored_report(folder) if has else None
    command, unstarted = read_command(folder), recorded_unstarted(read_events(folder.events))
    if command is not None and unstarted:
        command = replace(command, problem=f"{command.problem}: {unstarted}" if command.problem else unstarted)
    # Of a sandbox nothing is in an account, and nothing is billed.
    sandbox = command.sandbox if command is not None else report is not None and report.simulated
    status = status_of(folder, report)
    return RunState(
        name=name,
        run=folder.path.name,
        status=status,
        last_output=last_output(folder) if status == RunStatus.FAILED.value else (),
        submission=None,
        facts=None,
        report=report,
        attempts=report.attempts if report is not None else (),
        step=report.attempts[-1].last_step if report is not None and report.attempts else None,
        stacks=() if sandbox else _deployed_stacks(folder, report),
        command=command,
        own_sandbox=in_own_sandbox(folder),
    )


def report_at(name: str, folder: RunFolder, report: Report, now: datetime) -> Report:
    """The report of a running job, with its current attempts and clock, as in `status`."""
    if status_of(folder, report) != RunStatus.RUNNING.value or report.endpoint is not None:
        return report
    state = with_job_data(ended_state(name, folder), folder)
    if state.report is None or not state.attempts:
        return report
    running = hours_at(state.attempts, now) - sum(attempt.hours for attempt in state.attempts)
    return replace(state.report, attempts=state.attempts, running_h=running)


def status_of(folder: RunFolder, report: Report | None) -> str:
    """The status of a run without a submission, from its folder.

    The status is "killed" if the process that created the folder has ended without recording a result.
    """
    command = read_command(folder)
    state = command.state if command is not None else None
    if report is None:
        return NOT_SUBMITTED if state != KILLED else KILLED
    waits = report.status is RunStatus.RUNNING and (report.simulated or read_submission(folder) is None)
    return KILLED if waits and state == KILLED else report.status.value


def _with_stacks(state: RunState, folder: RunFolder, environment: Mapping[str, str]) -> RunState:
    """The state of a run without a submission, with the status of its stacks if CloudFormation answers.

    The stacks of a sandbox that has ended are gone with it.
    """
    report = state.report
    if report is not None and report.endpoint is None and state.status == RunStatus.SUCCEEDED.value:
        return state
    if report is not None and report.simulated and state.command is None:
        return state
    try:
        states = stack_states(folder, _deployed_stacks(folder, report), environment_of_run(folder, environment))
    except SchedulerEndedError:
        return state
    if states is None:
        return state
    return _with_endpoint_stop(
        replace(state, stacks=tuple(sorted(states)), stack_states=states),
        folder,
        environment_of_run(folder, environment),
    )


def _with_endpoint_stop(state: RunState, folder: RunFolder, environment: Mapping[str, str]) -> RunState:
    """The state of an endpoint's run with the reason for which the guard ended the endpoint; updates its report."""
    report, serving = state.report, f"slipway-{state.name}-{SERVING_STACK}"
    if report is None or report.endpoint is None:
        return state
    if serving in (state.stack_states or {}):
        with suppress(AwsError):
            session = Session(environment=environment, region=report.endpoint.region)
            stack = stacks.find(session, serving)
            record_stop(folder, read_endpoint_stop(session, stack) if stack is not None else "")
    reason = recorded_stop(read_events(folder.events))
    if reason and reason != report.guard_reason:
        # Its instances are gone.
        report = replace(report, guard_reason=reason, left_up_usd_per_hour=None)
        folder.write_json("report.json", report_document(report))
    return replace(state, report=report)


def _deployed_stacks(folder: RunFolder, report: Report | None) -> tuple[str, ...]:
    """The stacks with outputs in a run folder, and those that existed when a deployment ended early."""
    outputs = folder.read_json("outputs.json") if (folder.path / "outputs.json").is_file() else {}
    states = dict(report.stacks) if report is not None else {}
    return tuple(sorted(name for name in {*outputs, *states} if states.get(name) != stacks.REMOVED))


def running_state(
    name: str, folder: RunFolder, submission: Submission, facts: JobFacts | None, environment: Mapping[str, str]
) -> RunState:
    """The state of a run from its scheduler, agent and trainer; updates its report."""
    place = folder.path / JOB_FOLDER
    forgotten = "cancelled" if submission.cancelled else _OF_ENDING.get(ending(place) or "", UNKNOWN)
    status = _OF_STATE[facts.state] if facts is not None else forgotten
    # For its scheduler it failed, or is done.
    stopped = budget_stop(read_events(place / EVENTS)) if facts is None or facts.state.final else None
    status = STOPPED if stopped is not None else status
    with suppress(SchedulerEndedError):
        record_lost(folder, submission, environment_of(submission, environment), facts)
    state = with_job_data(ended_state(name, folder), folder)
    output = last_output(folder) if status == RunStatus.FAILED.value else ()
    state = replace(state, attempts=close_last(state.attempts, facts), last_output=output)
    ran = cancelled_attempts(state.attempts) if status == RunStatus.CANCELLED.value else state.attempts
    state = replace(state, status=status, submission=submission, facts=facts, attempts=ran)
    if state.report is not None:
        of_report = RunStatus(status) if status in set(RunStatus) else RunStatus.RUNNING
        billable = state.report.billable_time if facts is None else facts.billable
        report = replace(state.report, status=of_report, attempts=state.attempts, stopped=stopped)
        report = replace(report, billable_time=billable, guard_reason="")
        began = last_start(state.attempts)
        if status in (PENDING, RunStatus.CANCELLED.value):
            stop = guard_stop(submission, environment, began)
            # A cluster whose jobs wait may stop idle nodes after a job was cancelled.
            if status == PENDING or not stop.jobs_wait:
                record_stop(folder, stop.reason, began, **stop.end)
        elif any(attempt.by_pod_end or attempt.ended_by is EndedBy.NODE_LOST for attempt in state.attempts):
            # A job of pods fails with its nodes, or runs again on others.
            stop = guard_stop(submission, environment, None)
            if stop.end:
                record_stop(folder, stop.reason, None, **stop.end)
        if status in (PENDING, RunStatus.CANCELLED.value, RunStatus.FAILED.value):
            report = replace(report, guard_reason=recorded_stop(read_events(folder.events), began))
        ran = explained_attempts(state.attempts, read_events(folder.events))
        report = replace(report, attempts=ran)
        folder.write_json("report.json", report_document(report))
        state = replace(state, report=report, attempts=ran)
    return state


def with_job_data(known: RunState, folder: RunFolder) -> RunState:
    """A run with the data of its agent and its trainer, as far as copied into its folder."""
    place = folder.path / JOB_FOLDER
    events, metric = job_events(folder), _last_metric(place)
    uploaded = [event for event in events if event.get("event") == "checkpoint-uploaded"]
    saved = max(uploaded, key=lambda event: int(event["step"]), default=None)
    step, report = metric.get("step"), known.report
    if report is not None:
        stored = None if report.stored is None else stored_checkpoints(events)
        report = replace(report, stored=stored, slow_nodes=slow_nodes(events))
    return replace(
        known,
        report=report,
        attempts=_with_step(explained_attempts(attempts(events), events), step),
        step=step,
        steps=metric.get("steps"),
        loss=metric.get("loss"),
        saved_step=None if saved is None else int(saved["step"]),
        saved_is_count=saved is not None and bool(saved.get("counted")),
        idle_chips=_idle_chips(events),
    )


def _idle_chips(events: Sequence[Mapping[str, Any]]) -> str:
    """The chips that the newest attempt did not use, on each node; empty if the agents named none."""
    newest = max((event.get("attempt") or 0 for event in events), default=0)
    named = [event for event in events if event.get("event") == "chips-idle" and event.get("attempt") == newest]
    return "; ".join(f"{event.get('node')}: {event.get('reason')}" for event in named)


def _last_metric(place: Path) -> dict[str, Any]:
    """The trainer's last value of each metric; the agent's own lines, one per checkpoint, have no step."""
    metric: dict[str, Any] = {}
    path = place / METRICS
    for line in path.read_bytes().splitlines() if path.is_file() else ():
        figures, _ = figures_in(line)
        metric |= {name: figures[name] for name in ("step", "steps", "loss") if name in figures}
    return metric


def _with_step(past_attempts: tuple[Attempt, ...], step: int | None) -> tuple[Attempt, ...]:
    if not past_attempts or step is None:
        return past_attempts
    return (*past_attempts[:-1], replace(past_attempts[-1], last_step=max(step, past_attempts[-1].last_step or 0)))


def split_log(folder: RunFolder, name: str) -> None:
    """Write a job's output into one log per attempt, from the copied log of that name."""
    path = folder.path / JOB_FOLDER / name
    if not path.is_file():
        return
    lines, parts, begun = GrowingLines(path), list[Path](), False
    with ExitStack() as opened:
        stream: TextIO | None = None
        for text, ends in lines.pieces():
            if stream is None or (not begun and text.startswith(FIRST_LINE)):
                parts.append(folder.logs / f".attempt-{len(parts) + 1}.log.{os.getpid()}")
                stream = opened.enter_context(parts[-1].open("w", encoding="utf-8"))
            stream.write(f"{text}\n" if ends else text)
            begun = not ends
        if rest := lines.rest():
            parts = parts or [folder.logs / f".attempt-1.log.{os.getpid()}"]
            stream = stream or opened.enter_context(parts[-1].open("w", encoding="utf-8"))
            stream.write(rest)
    for number, part in enumerate(parts, start=1):
        part.replace(folder.logs / f"attempt-{number}.log")
