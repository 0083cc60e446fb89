"""Messages about the agent's events for the user who follows a job."""

import pytest

from launcher.workflow.run.event_texts import event_text, notify_of_event


def test_restored_event_names_source() -> None:
    event: dict[str, object] = {"event": "restored", "attempt": 2, "step": 40, "bytes": 43_000_000}
    in_s3, on_node = event_text({**event, "source": "store"}), event_text({**event, "source": "node"})
    assert in_s3 == "attempt 2 resumes from step 40, restored from S3 (43,000,000 bytes)"
    assert on_node == "attempt 2 resumes from step 40, found on its node (43,000,000 bytes)"


def test_repeated_upload_failure_is_reported_with_growing_interval() -> None:
    messages: list[str] = []
    for failures in range(1, 20):
        event: dict[str, object] = {
            "event": "upload-retry",
            "attempt": 1,
            "step": 8,
            "error": "503 SlowDown",
            "retry_in_s": 1.5,
            "failures": failures,
        }
        notify_of_event(event, messages.append)
    message = "attempt 1: step 8 is not in S3 yet: 503 SlowDown; trying again in 1.5 s, training continues"
    assert messages == [message] * 5


@pytest.mark.parametrize(
    "event, words",
    [
        ({"event": "hung", "minutes": 30, "step": 4}, "no step for 30 minutes"),
        ({"event": "rebalance-recommended", "source": "rebalance"}, "risk of interruption"),
        ({"event": "restore-retry", "error": "503"}, "restore-retry: 503"),
        ({"event": "uploader-failed", "error": "KeyError(1)"}, "uploader-failed: KeyError(1)"),
        ({"event": "store-error", "error": "denied"}, "store-error: denied"),
        (
            {"event": "restore-skipped", "step": 20, "reason": "data has 3 bytes instead of 1000"},
            "restore-skipped: step 20: data has 3 bytes instead of 1000",
        ),
        (
            {"event": "checkpoint-dropped", "step": 3, "reason": "a newer checkpoint than step 3 is stored"},
            "checkpoint-dropped: a newer checkpoint than step 3 is stored",
        ),
        (
            {"event": "checkpoint-dropped", "folder": "model_60.pt", "reason": "it may have been unfinished"},
            "checkpoint-dropped: model_60.pt: it may have been unfinished",
        ),
        (
            {"event": "checkpoint-counter-restarted", "reason": "step 10 was saved after step 30"},
            "checkpoint-counter-restarted: step 10 was saved after step 30",
        ),
    ],
)
def test_trouble_events_have_text(event: dict[str, object], words: str) -> None:
    assert words in str(event_text({"attempt": 1, **event}))


def test_internal_events_have_no_text() -> None:
    assert event_text({"event": "command-started", "attempt": 1, "pid": 5}) is None


@pytest.mark.parametrize(
    "code, reason, text",
    [
        (3, "the command ended with 3", "attempt 1 failed, exit 3"),
        (80, "the time limit is over; no checkpoint was stored", None),
        (124, "no step for 30 minutes", None),
    ],
)
def test_failed_attempt_is_shown_with_the_reason_of_the_agent(code: int, reason: str, text: str | None) -> None:
    event: dict[str, object] = {"event": "failed", "attempt": 1, "exit_code": code, "reason": reason}
    assert event_text(event) == (text or f"attempt 1 failed, exit {code}: {reason}")


def test_slurm_signal_is_shown_with_its_possible_causes() -> None:
    text = event_text({"event": "notice", "attempt": 1, "source": "signal"})
    assert text == "attempt 1: notice of an interruption (Slurm's signal before the time limit or a preemption)"


@pytest.mark.parametrize(
    "left_s, text",
    [
        (120.0, "attempt 1 is cancelled: it may save until its grace time is over"),
        (None, "attempt 1: SIGTERM, for a cancel or a requeue"),
    ],
)
def test_cancel_is_no_interruption_in_words(left_s: float | None, text: str) -> None:
    assert event_text({"event": "notice", "attempt": 1, "source": "cancel", "left_s": left_s}) == text


def test_attempt_that_a_signal_ended_is_not_called_cancelled() -> None:
    """Slurm sends it for a cancel, and for a node that is set down: the report has node-lost then."""
    event: dict[str, object] = {"event": "cancelled", "attempt": 2, "exit_code": 143, "reason": "SIGTERM"}
    assert event_text(event) == "attempt 2 ended on SIGTERM, exit 143"
