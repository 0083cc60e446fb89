"""The agent's events in a person's words."""

from collections.abc import Callable

from launcher.workflow.history.attempts import ENDINGS
from launcher.workflow.history.stored import TROUBLES

_TROUBLES = (
    "checkpoint-changed",
    "checkpoint-dropped",
    "checkpoint-kept",
    "checkpoint-removed",
    "checkpoint-replaced",
    "claim-trouble",
    "drain-failed",
    "files-left",
    "metrics-skipped",
    "not-tried-again",
    "other-layout-kept",
    "output-missing",
    "outputs-not-stored",
    "peers-trouble",
    "requeue-failed",
    "restore-again",
    "restore-retry",
    "restore-skipped",
    "read-back-failed",
    "read-back-skipped",
    "renames-not-reported",
    "retention-failed",
    "scratch-trouble",
    "store-trouble",
    "uploader-failed",
    "watching-failed",
    *TROUBLES,
)
"""What goes wrong while the job goes on."""


def event_words(event: dict[str, object]) -> str | None:
    """One of the agent's events as a person follows it; None for one that only machines need."""
    kind, begin = str(event["event"]), f"attempt {event.get('attempt')}"
    if kind == "upload-retry":
        return _upload_trouble(event)
    if kind == "notice" and event.get("source") == "budget":
        return f"{begin}: the guard says that the budget is used up ({event.get('detail')}): it saves and leaves"
    if kind in ENDINGS:
        return f"{begin} {kind}, exit {event.get('exit_code')}"
    if kind in _TROUBLES:
        return f"{begin}: {kind}: {event.get('reason') or event.get('error')}"
    words = _WORDS.get(kind)
    return None if words is None else f"{begin}{words(event)}"


def _restored(event: dict[str, object]) -> str:
    """Which checkpoint an attempt begins with, and where it comes from."""
    if event.get("source") == "own":
        return f" begins where step {event['step']} is the newest checkpoint: {event.get('reason')}"
    origin = "taken over on its node" if event.get("source") == "node" else "restored from S3"
    return f" resumes from step {event['step']}, {origin} ({event['bytes']:,} bytes)"


_WORDS: dict[str, Callable[[dict[str, object]], str]] = {
    "attempt-started": lambda event: f" started on {event.get('node')}",
    "restored": _restored,
    "checkpoint-written": lambda event: f": its trainer has written {event['files']} files {event['reason']}",
    "step-started": lambda event: f": step {event['step']} begins",
    "step-ended": lambda event: f": step {event['step']} ended with {event['code']} after {event['seconds']} s",
    "data-fetched": lambda event: (
        f": {event['data']} fetched to {event['path']}: {event['files']} files, {event['bytes']:,} bytes"
    ),
    "outputs-stored": lambda event: f": outputs stored: {event['files']} files, {event['bytes']:,} bytes",
    "checkpoint-layout": lambda event: f": its checkpoints are of layout {event['layout']}",
    "read-back": lambda event: f": step {event['step']} is read back from S3 in {event['seconds']} s",
    "notice": lambda event: f": notice of an interruption ({event.get('source')})",
    "rebalance-recommended": lambda _: ": EC2 recommends to leave this instance, an interruption has become likelier",
    "hung": lambda event: f": no step for {event['minutes']} minutes, it is ended",
}


def _upload_trouble(event: dict[str, object]) -> str | None:
    """An upload that failed. One that goes on failing is told ever more rarely: at the 1st, 2nd, 4th, 8th time."""
    failures = int(str(event["failures"]))
    if failures & (failures - 1):
        return None
    again = f"tried again in {event['retry_in_s']} s, training goes on"
    return f"attempt {event.get('attempt')}: step {event['step']} is not in S3 yet: {event.get('error')}; {again}"


def tell_event(event: dict[str, object], tell: Callable[[str], None]) -> None:
    """Tell a person of an event, where it is one for a person."""
    words = event_words(event)
    if words is not None:
        tell(words)
