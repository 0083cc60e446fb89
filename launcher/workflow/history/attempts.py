"""The attempts of a run, from the events of the agent and the launcher."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from launcher.agent import safe_json
from launcher.agent.forecast import STRAGGLER, Point, point_of, stretches
from launcher.agent.metrics import figures_in
from launcher.agent.shape import moment, read
from launcher.model.errors import UnreadableInputError
from launcher.model.job import JobFacts, JobState
from launcher.model.report import Attempt, BudgetStop, EndedBy
from launcher.records.run_folder import EVENTS, JOB_FOLDER, RunFolder

ENDINGS = ("completed", "interrupted", "failed", "cancelled", "stopped")
UNSTARTED = "not-started"
"""The event of a run folder with the reason why no attempt of its job started."""
GUARD_STOPPED = "guard-stopped"
"""The event of a run folder with the guard's reason for stopping nodes, the time, and how that ends an attempt."""
NODE_CHANGED = "node-changed"
"""The event of a run folder with a person's action on a node: when it began and ended (`at`), and whether it ends the
attempt on the node."""
_CHANGE_TAKES = timedelta(minutes=10)
"""The time at most from an action on a node, which a scheduler or a service carries out, to the end of the attempt."""
ATTEMPT_LOST = "attempt-lost"
"""The event of an attempt whose agent reported no end: its number, and when its node was last seen. The next attempt's
agent writes it, and the launcher while the job waits for nodes."""
_HEARTBEAT = timedelta(minutes=5)
"""The time between two heartbeats of a node (launcher/agent/store/heartbeat.py)."""
_RECORDED_AFTER = timedelta(seconds=10)
"""The time at most between the guard's request to stop nodes and its record of it in the store."""
_INTERRUPTED = (EndedBy.SPOT_INTERRUPTION, EndedBy.NODE_LOST)
"""The ends of an attempt because its instances are gone."""
POD_END = "pod-end"
"""The source of a notice by SIGTERM: a pod gets it if its node is drained, and if its job is cancelled. A restart of
the job shows which it was."""
SIGNAL = "signal"
"""The source of a notice by Slurm's `--signal`, which also tells of a preemption."""
_ENDED_BY = {
    **{reason.value: reason for reason in EndedBy},
    POD_END: EndedBy.SPOT_INTERRUPTION,
    "scheduler-signal": EndedBy.TIME_LIMIT,
    "capacity-end": EndedBy.TIME_LIMIT,
}
"""The report's words, and those that agents of earlier versions wrote for the source of a notice."""
_TIME_LIMITS = ("TIMEOUT", "DEADLINE", "DeadlineExceeded", "stopped")
"""The words of Slurm, Kubernetes and SageMaker for a failed job whose time was over."""
_OF_ENDING = {
    "completed": EndedBy.COMPLETED,
    "interrupted": EndedBy.SPOT_INTERRUPTION,
    "failed": EndedBy.FAILURE,
    "cancelled": EndedBy.CANCEL,
    "stopped": EndedBy.BUDGET,
}
"""For an ending whose reason is missing, or the word of another version."""
_NEEDED: Mapping[str, tuple[str, ...]] = {
    "attempt-started": ("attempt", "time"),
    "restored": ("step",),
    "attempt-progress": ("step",),
    "checkpoint-uploaded": ("attempt", "step"),
    ATTEMPT_LOST: ("lost", "last_seen", "time"),
    GUARD_STOPPED: ("time",),
    NODE_CHANGED: ("began", "at", "action", "node"),
    **dict.fromkeys(ENDINGS, ("time",)),
}
"""The values that the readers of a kind of event rely on."""
STOPPED = "stopped"
"""The agent's name for the ending by a spending limit."""


class _Values(NamedTuple):
    """The types of the values that any event may have."""

    event: str = ""
    time: datetime | None = None
    attempt: int = 0
    step: int = 0
    steps: int | None = None
    ended_by: str | None = None
    exit_code: int | None = None
    loss: float | None = None
    lost: int = 0
    last_seen: datetime | None = None
    at: datetime | None = None
    began: datetime | None = None
    action: str = ""
    node: str = ""
    ends_job: bool = False
    instance_types: tuple[str, ...] = ()
    zones: tuple[str, ...] = ()


def budget_stop(events: Iterable[Mapping[str, Any]]) -> BudgetStop | None:
    """The amount spent, its limit, and the stored step; None if the last attempt runs or ended for another reason.

    >>> saved, ended = {"event": "checkpoint-uploaded", "step": 40}, {"event": "stopped", "reason": "$9 of $10"}
    >>> budget_stop([saved, ended]).checkpoint_step
    40
    """
    last, step = None, None
    for event in events:
        kind = event.get("event")
        if kind == "attempt-started":
            last = None
        elif kind in ("checkpoint-uploaded", "restored"):
            step = max(int(event["step"]), step or 0)
        elif kind in ENDINGS:
            last = event
    if last is None or last.get("event") != STOPPED:
        return None
    return BudgetStop(reason=str(last.get("reason") or "the spending limit is reached"), checkpoint_step=step)


def points_of(lines: Iterable[bytes]) -> list[list[Point]]:
    """The lines of metrics with a step and seconds, one list per attempt: each attempt restarts its seconds.

    >>> found = points_of([b'{"step": 1, "seconds": 5}', b'{"step": 2, "seconds": 9}', b'{"step": 2, "seconds": 4}'])
    >>> [[each.step for each in attempt] for attempt in found]
    [[1, 2], [2]]
    """
    points = (point_of(figures_in(line)[0]) for line in lines)
    return stretches(point for point in points if point is not None)


def slow_nodes(events: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """The agents' sentences on nodes that slowed an attempt down, each once.

    >>> slow_nodes([{"event": "straggler", "slow_node": "n2", "reason": "n2 is slow"}, {"event": "completed"}])
    ('n2 is slow',)
    """
    return tuple(dict.fromkeys(str(event.get("reason")) for event in events if event.get("event") == STRAGGLER))


def read_events(path: Path) -> list[dict[str, Any]]:
    """The events of a file, in order; an unfinished last line and lines without an event are left out.

    Raises:
        UnreadableInputError: the file exists and cannot be read.
    """
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return []
    except OSError as problem:
        raise UnreadableInputError(f"cannot read {path}: {problem.strerror or problem}") from problem
    return [event for line in lines if (event := _event(line)) is not None]


def last_start(ran: Sequence[Attempt]) -> datetime | None:
    """When the last attempt began; None before the first."""
    return ran[-1].started_at if ran else None


def recorded_stop(events: Iterable[Mapping[str, Any]], since: datetime | None = None) -> str:
    """The guard's newest reason for stopping nodes, in the events of a run folder; empty without one `since`."""
    stops = [event for event in events if event.get("event") == GUARD_STOPPED and "time" in event]
    # When the guard stopped the nodes, if it says so, else when the launcher read it.
    if not stops or (since is not None and moment(stops[-1].get("at", stops[-1]["time"])) < since):
        return ""
    return str(stops[-1].get("reason", ""))


def record_stop(folder: RunFolder, reason: str, since: datetime | None = None, **end: str) -> str:
    """Keep the guard's reason in a run folder, which outlives its stack; returns the reason.

    `end`: when the guard stopped the nodes (`at`), and the report's word for the end of their attempt (`ended_by`).
    """
    if reason and reason != recorded_stop(read_events(folder.events), since):
        folder.append_event(GUARD_STOPPED, reason=reason, time=datetime.now(UTC).isoformat(), **end)
    return reason


def record_unstarted(folder: RunFolder, reason: str) -> None:
    """Keep the reason why no attempt of a job started in its run folder, which outlives the cluster."""
    folder.append_event(UNSTARTED, reason=reason)


def recorded_unstarted(events: Iterable[Mapping[str, Any]]) -> str:
    """The reason why no attempt started, in the events of a run folder; empty if none is recorded."""
    return next((str(event.get("reason", "")) for event in events if event.get("event") == UNSTARTED), "")


def explained_attempts(ran: tuple[Attempt, ...], events: Sequence[Mapping[str, Any]]) -> tuple[Attempt, ...]:
    """The attempts with the causes that their agents cannot know: they were notified as by a cancel or a lost pod.

    Args:
        ran: all attempts, in order.
        events: those of the run folder, with the guard's stops and the actions on nodes.
    """
    for change in events:
        if change.get("event") == NODE_CHANGED and change.get("ends_job") is True:
            ran = tuple(_changed_attempt(attempt, change) for attempt in ran)
    stops = [event for event in events if event.get("event") == GUARD_STOPPED and "at" in event]
    for stop in stops:
        at, cause = moment(stop["at"]), _ENDED_BY.get(str(stop.get("ended_by")))
        ran = tuple(
            replace(attempt, ended_by=cause, by_pod_end=False) if cause and _ended_with_nodes(attempt, at) else attempt
            for attempt in ran
        )
    return ran


def _changed_attempt(attempt: Attempt, change: Mapping[str, Any]) -> Attempt:
    """The attempt with a person's action on a node, if the action ended it."""
    began, lost = moment(change["began"]), attempt.ended_by is EndedBy.NODE_LOST
    if attempt.ended_at is None or not (lost or attempt.by_pod_end):
        return attempt
    # The last sign of life of a lost node is older.
    earliest, latest = began - (_HEARTBEAT if lost else _RECORDED_AFTER), moment(change["at"]) + _CHANGE_TAKES
    if attempt.started_at > began or not earliest <= attempt.ended_at <= latest:
        return attempt
    action = f"{change['action']} {change['node']}"
    return replace(attempt, ended_by=EndedBy.NODE_LOST, by_pod_end=False, node_action=action)


def _ended_with_nodes(attempt: Attempt, at: datetime) -> bool:
    """Whether an attempt ended because its nodes were stopped at that time."""
    if attempt.ended_at is None or attempt.started_at > at:
        return False
    lost = attempt.ended_by is EndedBy.NODE_LOST
    notified = attempt.ended_by is EndedBy.CANCEL or attempt.by_pod_end
    # The guard records a stop after it, and the last sign of life of a lost node is older.
    before = _HEARTBEAT if lost else _RECORDED_AFTER
    return (lost or notified) and attempt.ended_at >= at - before


def _event(line: str) -> dict[str, Any] | None:
    """The event of a line; None if the line is none, or a value has another type than the event's reader expects."""
    try:
        event = safe_json.loads(line, figures=True)
        if not isinstance(event, dict):
            return None
        kind = read(_Values, event).event
    except ValueError:
        return None
    return event if all(event.get(name) is not None for name in _NEEDED.get(kind, ())) else None


def attempts(events: Iterable[Mapping[str, Any]]) -> tuple[Attempt, ...]:
    """The attempts in the events, in order.

    The agent's `attempt-started`, `restored` and ending events make an attempt. Its last step is the highest of its
    checkpoints, of `attempt-progress`, which the launcher adds while it follows, and of what the next attempt restored.
    An attempt without an ending event lost its node without notice; it ended when its node was last seen
    (`ATTEMPT_LOST`), at the latest when the next one began.
    """
    ran: list[Attempt] = []
    numbers: list[int] = []
    # When each attempt's last event was written, and the reports of lost attempts.
    written: list[datetime] = []
    losses: list[Mapping[str, Any]] = []
    for event in events:
        kind = event.get("event")
        if kind == ATTEMPT_LOST:
            losses.append(event)
        elif kind == "attempt-started":
            if ran and ran[-1].ended_by is EndedBy.CANCEL:
                # Slurm signals a job whose node is set down as it signals a cancelled one, which does not start again.
                ran[-1] = replace(ran[-1], ended_by=EndedBy.NODE_LOST)
            ran.append(_start_attempt(event))
            numbers.append(int(event["attempt"]))
            written.append(moment(event["time"]))
        elif ran and event.get("attempt") == numbers[-1]:
            ran[-1] = _update_attempt(ran[-1], event)
            ran[-2:-1] = [_reached(attempt, event) for attempt in ran[-2:-1]]
            if "time" in event:
                written[-1] = max(written[-1], moment(event["time"]))
    for index, attempt in enumerate(ran):
        if attempt.ended_at is not None:
            continue
        following = ran[index + 1].started_at if index + 1 < len(ran) else None
        # An attempt that wrote after the report was not lost then.
        seen = [
            moment(loss["last_seen"])
            for loss in losses
            if loss["lost"] == numbers[index] and (following is not None or written[index] <= moment(loss["time"]))
        ]
        if ended_at := max([*seen, written[index]]) if seen else following:
            ended_at = min(ended_at, following or ended_at)
            ran[index] = replace(attempt, ended_at=ended_at, ended_by=EndedBy.NODE_LOST)
    return tuple(ran)


def job_events(folder: RunFolder) -> list[dict[str, Any]]:
    """The events of a job's agents, as copied into its run folder; and those of the launcher about its attempts."""
    kinds = (ATTEMPT_LOST, GUARD_STOPPED, NODE_CHANGED)
    own = (event for event in read_events(folder.events) if event.get("event") in kinds)
    return [*read_events(folder.path / JOB_FOLDER / EVENTS), *own]


def record_loss(folder: RunFolder, last_seen: Callable[[int], datetime | None]) -> Attempt | None:
    """Record in a run folder that its open attempt has lost its node; returns the attempt, None if none is open.

    `last_seen` is when a sign of life of the attempt's node was stored, by the attempt's number; None if none was: the
    attempt then ended with its last event.
    """
    events = job_events(folder)
    ran = attempts(events)
    if not ran or ran[-1].ended_at is not None:
        return None
    number = int([event for event in events if event.get("event") == "attempt-started"][-1]["attempt"])
    seen = max(last_seen(number) or ran[-1].started_at, ran[-1].started_at).isoformat()
    known = (event for event in events if event.get("event") == ATTEMPT_LOST and event["lost"] == number)
    if any(event["last_seen"] == seen for event in known):
        return None  # it has written since
    folder.append_event(ATTEMPT_LOST, lost=number, last_seen=seen, time=datetime.now(UTC).isoformat())
    ran = attempts(job_events(folder))
    return ran[-1] if ran[-1].ended_at is not None else None


def close_last(ran: tuple[Attempt, ...], facts: JobFacts | None) -> tuple[Attempt, ...]:
    """The attempts of a job; if it is over and its last has no ending event, the scheduler gives its end and why.

    Slurm signals a job whose node is set down as it signals a cancelled one, which does not wait again.
    """
    if ran and ran[-1].ended_by is EndedBy.CANCEL and facts is not None and facts.state is JobState.PENDING:
        return (*ran[:-1], replace(ran[-1], ended_by=EndedBy.NODE_LOST))
    if not ran or ran[-1].ended_at is not None or facts is None or not facts.state.final:
        return ran
    if facts.attempt is None or facts.attempt.ended_at is None:
        return ran
    ended_at = max(ran[-1].started_at, facts.attempt.ended_at.astimezone(UTC))
    return (*ran[:-1], replace(ran[-1], ended_at=ended_at, ended_by=_cause(facts)))


def _cause(facts: JobFacts) -> EndedBy:
    """Why a job ended whose agent said nothing: the agent was killed, or is gone with its node."""
    if facts.attempt is not None and facts.attempt.node_lost:
        return EndedBy.NODE_LOST
    if facts.state is JobState.FAILED and facts.word.partition(";")[0] in _TIME_LIMITS:
        return EndedBy.TIME_LIMIT
    causes = {JobState.COMPLETED: EndedBy.COMPLETED, JobState.CANCELLED: EndedBy.CANCEL}
    return causes.get(facts.state, EndedBy.FAILURE)


def cancelled_attempts(ran: tuple[Attempt, ...]) -> tuple[Attempt, ...]:
    """The attempts of a cancelled job: its agents are notified only by the end of their containers."""
    if not ran or not ran[-1].by_pod_end:
        return ran
    return (*ran[:-1], replace(ran[-1], ended_by=EndedBy.CANCEL, by_pod_end=False))


def interrupted_attempts(ran: Sequence[Attempt]) -> tuple[Attempt, ...]:
    """The attempts of a run, from all of them in order, that ended because their instances were gone."""
    followed = zip_longest(ran, ran[1:])
    return tuple(
        attempt
        for attempt, after in followed
        if attempt.ended_by in _INTERRUPTED and (after is not None or not attempt.by_pod_end)
    )


def _start_attempt(event: Mapping[str, Any]) -> Attempt:
    return Attempt(
        started_at=moment(event["time"]),
        ended_at=None,
        exit_code=None,
        ended_by=None,
        resumed_from_step=0,
        last_step=None,
        instance_types=tuple(event.get("instance_types", ())),
        zones=tuple(event.get("zones", ())),
    )


def _reached(attempt: Attempt, after: Mapping[str, Any]) -> Attempt:
    """An attempt with the step that the next one restored: the event of a checkpoint can be lost with its node."""
    if after.get("event") != "restored" or after.get("counted"):
        return attempt
    return replace(attempt, last_step=max(int(after["step"]), attempt.last_step or 0))


def _update_attempt(attempt: Attempt, event: Mapping[str, Any]) -> Attempt:
    kind = event.get("event")
    if kind == "restored":
        return replace(attempt, resumed_from_step=int(event["step"]))
    if event.get("counted"):
        return attempt  # its step is a count of saves
    if kind in ("attempt-progress", "checkpoint-uploaded"):
        return replace(attempt, last_step=max(int(event["step"]), attempt.last_step or 0))
    if kind in ENDINGS:
        return replace(
            attempt,
            ended_at=moment(event["time"]),
            exit_code=event.get("exit_code"),
            ended_by=_ENDED_BY.get(str(event.get("ended_by")), _OF_ENDING[str(kind)]),
            by_pod_end=POD_END in (event.get("notice"), event.get("ended_by")),
        )
    return attempt


def unsaved_s(events: Sequence[Mapping[str, Any]], now: datetime) -> float | None:
    """Seconds since the newest checkpoint of the running attempt, or since its start; None if none runs."""
    ran = attempts(events)
    if not ran or ran[-1].ended_at is not None:
        return None
    saved = [
        moment(str(event["time"]))
        for event in events
        if event.get("event") == "checkpoint-uploaded" and "time" in event
    ]
    return max(0.0, (now - max([ran[-1].started_at, *saved])).total_seconds())
