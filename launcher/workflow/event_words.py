"""The agent's events in a person's words."""

from collections.abc import Callable

from launcher.workflow.attempts import ENDINGS


def event_words(event: dict[str, object]) -> str | None:
    """One of the agent's events as a person follows it; None for one that only machines need."""
    kind, number = event["event"], event.get("attempt")
    if kind == "attempt-started":
        return f"attempt {number} started on {event.get('node')}"
    if kind == "restored":
        return f"attempt {number} resumes from step {event['step']}, restored from S3 ({event['bytes']:,} bytes)"
    if kind == "notice":
        return f"attempt {number}: notice of an interruption ({event.get('source')})"
    if kind in ENDINGS:
        return f"attempt {number} {kind}, exit {event.get('exit_code')}"
    if kind in ("restore-skipped", "checkpoint-dropped", "drain-failed", "requeue-failed", "retention-failed"):
        return f"attempt {number}: {kind}: {event.get('reason') or event.get('error')}"
    return None


def tell_event(event: dict[str, object], tell: Callable[[str], None]) -> None:
    """Tell a person of an event, where it is one for a person."""
    words = event_words(event)
    if words is not None:
        tell(words)
