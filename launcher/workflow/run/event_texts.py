"""Events of the agent in words for the user who follows a launch."""

from collections.abc import Callable
from typing import Any

from launcher.agent.attempt_state import COMMAND_ENDED
from launcher.agent.checkpoint_keys import place_text
from launcher.model.report import EndedBy, instances_text
from launcher.model.stages import Notify
from launcher.model.units import number_of
from launcher.workflow.history.attempts import ENDINGS, POD_END, SIGNAL
from launcher.workflow.history.stored import PROBLEM_EVENTS

_PROBLEMS = (
    "checkpoint-changed",
    "checkpoint-counter-restarted",
    "checkpoint-dropped",
    "checkpoint-kept",
    "checkpoint-removed",
    "checkpoint-replaced",
    "chips-idle",
    "claim-error",
    "drain-failed",
    "files-left",
    "metrics-skipped",
    "not-tried-again",
    "other-layout-kept",
    "output-missing",
    "outputs-not-stored",
    "peers-error",
    "processes-ended",
    "requeue-failed",
    "restore-again",
    "restore-retry",
    "restore-skipped",
    "read-back-failed",
    "read-back-skipped",
    "renames-not-reported",
    "retention-failed",
    "scratch-error",
    "set-incomplete",
    "signal-not-handled",
    "store-error",
    "straggler",
    "uploader-failed",
    "watching-failed",
    *PROBLEM_EVENTS,
)
"""Events that report a problem of a running job."""


def event_text(event: dict[str, object]) -> str | None:
    """An event of the agent in words for the user; None for events that only programs need."""
    kind, begin = str(event["event"]), f"attempt {event.get('attempt')}"
    if kind == "upload-retry":
        # A failed upload. Repeated failures are reported less and less often: the 1st, 2nd, 4th, 8th time
        failures = int(str(event["failures"]))
        if failures & (failures - 1):
            return None
        again = f"trying again in {event['retry_in_s']} s, training continues"
        return f"attempt {event.get('attempt')}: step {event['step']} is not in S3 yet: {event.get('error')}; {again}"
    if kind == "notice" and event.get("source") == "budget":
        return f"{begin}: the guard reports that the budget is used up ({event.get('detail')}): it saves and ends"
    if kind in ENDINGS:
        # Slurm signals a job whose node is set down as it signals a cancelled one; the report knows by what follows.
        ended = "ended on SIGTERM" if kind == "cancelled" else kind
        # The agent's own reason; that the command ended with its code is said already.
        reason = str(event.get("reason") or "") if kind == "failed" else ""
        why = "" if not reason or reason.startswith(COMMAND_ENDED) else f": {reason}"
        return f"{begin} {ended}, exit {event.get('exit_code')}{why}"
    if kind in _PROBLEMS:
        reason, step = str(event.get("reason") or event.get("error")), event.get("step")
        subject = f"step {step}" if step is not None else str(event.get("folder") or "")
        named = not subject or subject in reason
        return f"{begin}: {kind}: {reason if named else f'{subject}: {reason}'}"
    describe = _EVENT_TEXTS.get(kind)
    return None if describe is None else f"{begin}{describe(event)}"


def _restored_text(event: dict[str, object]) -> str:
    if event.get("source") == "own":
        return f" starts with step {event['step']} as the newest checkpoint: {event.get('reason')}"
    origin = "found on its node" if event.get("source") == "node" else "restored from S3"
    place = place_text(int(str(event["step"])), counted=bool(event.get("counted")))
    return f" resumes from {place}, {origin} ({event['bytes']:,} bytes)"


def _files(event: dict[str, object]) -> str:
    return number_of(int(str(event["files"])), "file")


def _instances(event: dict[str, Any]) -> str:
    """The types and zones of an attempt's nodes, where the agent knows them."""
    place = instances_text(event.get("instance_types", ()), event.get("zones", ()))
    return f" ({place})" if place else ""


def _notice(source: str) -> str:
    """The source of a notice; the agent has one word for every SIGTERM from outside, and one for Slurm's signal."""
    words = {
        POD_END: "its node ends",
        SIGNAL: "Slurm's signal before the time limit or a preemption",
        EndedBy.NODE_LOST.value: "another node of the job is gone",
    }
    return words.get(source, source)


def _notice_text(source: str, *, in_pod: bool) -> str:
    if source != EndedBy.CANCEL.value:
        return f": notice of an interruption ({_notice(source)})"
    # Slurm sends SIGTERM for a requeue too; in a pod the store says that a person cancelled the job.
    return (
        " is cancelled: it may save until its grace time is over" if in_pod else ": SIGTERM, for a cancel or a requeue"
    )


_EVENT_TEXTS: dict[str, Callable[[dict[str, object]], str]] = {
    "attempt-started": lambda event: f" started on {event.get('node')}{_instances(event)}",
    "restored": _restored_text,
    "checkpoint-written": lambda event: f": its trainer has written {_files(event)} {event['reason']}",
    "step-started": lambda event: f": step {event['step']} begins",
    "step-ended": lambda event: f": step {event['step']} ended with {event['code']} after {event['seconds']} s",
    "data-fetched": lambda event: (
        f": {event['data']} fetched to {event['path']}: {_files(event)}, {event['bytes']:,} bytes"
    ),
    "outputs-stored": lambda event: f": outputs stored: {_files(event)}, {event['bytes']:,} bytes",
    "checkpoint-layout": lambda event: f": checkpoint layout {event['layout']}",
    "read-back": lambda event: f": step {event['step']} was read back from S3 in {event['seconds']} s",
    "notice": lambda event: _notice_text(str(event.get("source")), in_pod=event.get("left_s") is not None),
    "rebalance-recommended": lambda _: ": EC2 recommends leaving this instance: the risk of interruption is higher",
    "straggler-over": lambda event: f": {event.get('slow_node')} is as fast as the other nodes again",
    "hung": lambda event: f": no step for {number_of(float(str(event['minutes'])), 'minute')}, the agent ends it",
}


def notify_of_event(event: dict[str, object], notify: Notify) -> None:
    """Report an event to the user, if it has words."""
    message = event_text(event)
    if message is not None:
        notify(message)
