"""How an attempt ended: the event, the exit code, the cause in the report, and the reason."""

import time
from dataclasses import dataclass, replace
from pathlib import Path

from launcher.agent import exits
from launcher.agent.attempt_state import COMMAND_ENDED, NO_PROGRESS, fails_in_place, newest_step, telling_events
from launcher.agent.errors import AgentError, LostNodeError
from launcher.agent.events import EventLog
from launcher.agent.job import JobSpec
from launcher.agent.node.notice import (
    BUDGET,
    CANCEL,
    CAPACITY_END,
    FAILURE,
    LOST,
    POD_END,
    SIGNAL,
    SPOT,
    TAKEN_OVER,
    TIME_LIMIT,
    Notice,
)
from launcher.agent.node.placement import Placement
from launcher.agent.supervision import CommandEnd

# The report's words for an end (launcher/model/report.py: EndedBy).
COMPLETED, FAILED, NODE_LOST = "completed", "failure", "node-lost"
ENDED_BY = {
    SPOT: "spot-interruption",
    CAPACITY_END: "time-limit",
    SIGNAL: "time-limit",
    TIME_LIMIT: "time-limit",
    POD_END: "spot-interruption",
    LOST: NODE_LOST,
    CANCEL: "cancel",
    BUDGET: "budget",
    FAILURE: FAILED,
    TAKEN_OVER: FAILED,
}

_UPLOAD_AFTER_CANCEL_S = 10.0
_UPLOAD_AFTER_SIGNAL_S = 300.0
UPLOAD_AFTER_BUDGET_S = 180.0
"""The upload time that the guard reserves from the spending limit (launcher/model/budget_stop.py)."""
_UPLOAD_AFTER_FAILURE_S = 300.0
_AFTER_THE_NODE_S = 15.0
"""If another node of the job ends: its part is stored by then or never; the commit may need this much longer."""

GIVEN_UP_NAME = NOT_TRIED_AGAIN = "not-tried-again"
"""The file next to the events that the batch script checks, and the name of the event."""
_EARLIER_S = 360.0
"""A signal this much before `save_after_s` may be the time limit's: Slurm sends it up to 60 s early (sbatch(1),
--signal), and the batch script may need 5 minutes before it starts the agent. An earlier signal has another cause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """The event, the agent's exit code, the cause that the report gives for the end, and the reason as text.

    `notice` is the source of the notice that ended the attempt; empty without one.
    """

    event: str
    exit_code: int
    ended_by: str
    reason: str = ""
    notice: str = ""

    @property
    def is_failure(self) -> bool:
        """Whether the command or the agent failed."""
        return self.event == "failed"


def completion() -> Ending:
    """The ending of an attempt with all work done."""
    return Ending(event="completed", exit_code=exits.COMPLETED, ended_by=COMPLETED)


def failure(code: int, reason: str) -> Ending:
    """The ending if the command failed, or if the agent could not do its part."""
    return Ending(event="failed", exit_code=code, ended_by=FAILED, reason=reason)


def node_loss(nodes: dict[int, str]) -> Ending:
    """The ending if other nodes of the job are lost; the command's reaction to the loss is not a failure of its own."""
    reason = f"lost: {', '.join(nodes.values())}"
    return Ending(event="interrupted", exit_code=exits.INTERRUPTED, ended_by=NODE_LOST, reason=reason)


def from_notice(notice: Notice) -> Ending:
    """The ending because of a notice, regardless of the command's exit code."""
    where = f" ({notice.node})" if notice.node is not None else ""
    event, code, reason = "interrupted", exits.INTERRUPTED, f"{notice.detail}{where}"
    if notice.source == CANCEL:
        event, code = "cancelled", exits.CANCELLED
    elif notice.source == BUDGET:
        event, code, reason = "stopped", exits.STOPPED, notice.detail
    elif notice.source == FAILURE:
        event, code = "failed", notice.code or exits.INTERNAL
    elif notice.source == TAKEN_OVER:
        event, code = "failed", exits.STORE_FAILED
    return Ending(event=event, exit_code=code, ended_by=ENDED_BY[notice.source], reason=reason, notice=notice.source)


def from_error(error: AgentError) -> Ending:
    """The ending if the agent could not continue."""
    if isinstance(error, LostNodeError):
        return Ending(event="interrupted", exit_code=error.exit_code, ended_by=NODE_LOST, reason=str(error))
    return failure(error.exit_code, str(error))


def command_ending(outcome: CommandEnd) -> Ending:
    """The ending that follows from the end of the command alone."""
    if outcome.hung:
        return failure(exits.HUNG, outcome.hung)
    if outcome.notice is not None:
        return from_notice(outcome.notice)
    code = exits.exit_code_of(outcome.returncode)
    if code != exits.COMPLETED:
        return failure(code, f"{COMMAND_ENDED} {code}")
    if outcome.defect:
        return failure(exits.INTERNAL, f"the command completed, but the agent failed while {outcome.defect}")
    return completion()


def at_time_limit(end: Ending, spec: JobSpec, place: Placement, events: Path, *, ran_s: float) -> Ending:
    """The end of the whole job if its time limit is over, else the same end.

    Slurm repeats an attempt that stored a checkpoint: it resumes. Another one would repeat the same hours.

    Args:
        end: How the attempt ended on this node.
        spec: The job.
        place: The place of this node. Only the first one, which commits, knows what is stored.
        events: The events of this node.
        ran_s: Seconds since the agent's start.
    """
    reported = list(telling_events(events))
    uploads = (event for event in reported if event["event"] == "checkpoint-uploaded")
    stored = any((event.get("run"), event.get("attempt")) == (spec.run, place.attempt) for event in uploads)
    mode = spec.checkpoint.mode
    if end.notice == SIGNAL:
        unknown = place.part > 0 or (mode == "own" and newest_step(reported) < 0)  # as in `give_up`
        if stored or unknown or spec.save_after_s is None or ran_s < spec.save_after_s - _EARLIER_S:
            return end
    elif end.notice != TIME_LIMIT:
        return end
    if stored:
        then = "launch again to resume"
    else:
        why = " (checkpoint.mode: none)" if mode == "none" else ""
        then = f"no checkpoint was stored{why}, so another attempt would repeat it"
    reason = f"the time limit (run.time_limit_h) is over; {then}"
    return replace(end, event="failed", exit_code=exits.OUT_OF_TIME, reason=reason)


def upload_patience_s(outcome: CommandEnd, *, final_s: float) -> float:
    """Maximum seconds for the last checkpoints to reach the store.

    `final_s` is the maximum for the last checkpoint of a completed command.
    """
    notice = outcome.notice
    if notice is None:
        return final_s if outcome.returncode == 0 and not outcome.hung else _UPLOAD_AFTER_FAILURE_S
    if notice.source == CANCEL:
        return _UPLOAD_AFTER_CANCEL_S
    if notice.source == BUDGET:
        return UPLOAD_AFTER_BUDGET_S
    if notice.source == TAKEN_OVER:
        return 0.0
    if outcome.node_goes_at is not None:
        later = 0.0 if notice.node is None else _AFTER_THE_NODE_S
        return max(0.0, outcome.node_goes_at + later - time.monotonic())
    return _UPLOAD_AFTER_SIGNAL_S


def give_up(events: Path, log: EventLog, *, own_mode: bool) -> None:
    """Notify the batch script, after a failure, that another attempt would fail at the same point.

    With `own_mode`, the trainer stores its checkpoints: nothing is known until Slipway has recognised one.
    """
    reported = list(telling_events(events))
    if not fails_in_place(reported) or (own_mode and newest_step(reported) < 0):
        return
    log.append(NOT_TRIED_AGAIN, reason=NO_PROGRESS)
    try:
        events.with_name(GIVEN_UP_NAME).write_text(f"{NO_PROGRESS}\n", encoding="ascii")
    except OSError as error:
        log.append("scratch-error", error=f"only run.retries limits further attempts: {error}")
