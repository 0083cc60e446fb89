"""Messages from jobs to people in the guard's code, with moto: each is sent once, whatever the nodes wrote."""

import json
from contextlib import nullcontext
from datetime import timedelta

import pytest

from launcher.agent.events import EventLog
from launcher.agent.node.forecast_watch import watch
from launcher.agent.store import guard_messages
from tests.infra.guard_account import NOW, client

pytestmark = pytest.mark.xdist_group("guard")

BUCKET, FOLDER = "slipway-tiny-checkpoints", "jobs/.guard/stack"
LOOK = timedelta(minutes=5)
DROPPED = "slipway tiny: checkpoint dropped"


class DeletesNothing:
    """S3, whose bucket lets nobody delete."""

    def __init__(self, s3):
        self.s3 = s3

    def __getattr__(self, name):
        return getattr(self.s3, name)

    def delete_object(self, **_):
        raise self.s3.exceptions.ClientError({"Error": {"Code": "AccessDenied"}}, "DeleteObject")


@pytest.fixture
def words_store(aws):
    client("s3").create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": "us-east-2"})
    return client("s3")


@pytest.fixture
def guard_look(words_store, guard_of):
    """One look of the guard's, as the schedule has it."""

    def poll(step=0, guard=None, *, fails=None, **variables):
        default_guard = guard_of(now=NOW + step * LOOK, FOLDER_URI=f"s3://{BUCKET}/{FOLDER}", **variables)
        with nullcontext() if fails is None else pytest.raises(Exception, match=fails):
            (guard or (lambda unchanged: unchanged))(default_guard).watch()

    return poll


def put_report(store, number, reason="step-30 holds 'x', a FIFO", body=None, event=None):
    """What a job's agent leaves (tests/sandbox/agent/test_guard_messages.py has its own hand)."""
    document = {"schema": "slipway.message/1", "at": "2026-11-20T10:00:00.000Z", "job": "tiny", "attempt": 1}
    about = {"event": "checkpoint-dropped", "what": "step 30"} if event is None else {"event": event, "what": None}
    text = json.dumps({**document, **about, "reason": reason}) if body is None else body
    store.put_object(Bucket=BUCKET, Key=f"{FOLDER}/messages/run-1-{number}.json", Body=text)


def remaining_keys(store):
    return [content["Key"] for content in store.list_objects_v2(Bucket=BUCKET, Prefix=FOLDER).get("Contents", [])]


def test_dropped_checkpoint_notified_once_with_reason(aws, words_store, guard_look):
    put_report(words_store, 1)
    put_report(words_store, 2, reason="the disk is on fire")
    guard_look()
    ((subject, text),) = aws.messages
    assert subject == DROPPED
    assert "job tiny, attempt 1, step 30: step-30 holds 'x', a FIFO (2026-11-20T10:00:00.000Z)" in text
    assert "the disk is on fire" in text
    guard_look(1)
    assert aws.messages == []
    assert not any("/messages/" in key for key in remaining_keys(words_store))


def test_idle_reserved_nodes_reported_daily_with_hourly_price(aws, words_store, guard_look):
    def idle(guard):
        guard.all_idle = lambda _: True
        guard.nodes = lambda: [{}, {}]
        return guard

    block = {"PREPAID": "true", "USD_PER_NODE_HOUR": "31.464"}
    guard_look(0, idle, **block)
    ((subject, text),) = aws.messages
    assert subject == "slipway tiny: reserved nodes idle"
    assert "its 2 nodes have been idle for 60 minutes: $62.93 an hour, billed even when idle" in text
    assert aws.fleet == "RUNNING"
    guard_look(1, idle, **block)
    assert aws.messages == []
    guard_look(288, idle, PREPAID="true")
    ((_, text),) = aws.messages
    assert "at a rate that the guard does not know" in text


RESERVED = {"PREPAID": "true", "USD_PER_NODE_HOUR": "31.464", "RESERVED_NODES": "2"}


def test_capacity_block_without_nodes_reported_daily_with_hourly_price(aws, words_store, guard_look):
    window = {"RESERVED_FROM": "2026-11-20T11:30:00+00:00", "RESERVED_UNTIL": "2026-11-21T11:00:00+00:00"}
    # An hour of idle time and 15 minutes more from 11:30, when it begins: its cluster is there since the day before.
    for early in (0, 8):
        guard_look(early, old, **RESERVED, **window)
        assert aws.messages == []
    guard_look(9, old, **RESERVED, **window)
    ((subject, text),) = aws.messages
    assert subject == "slipway tiny: reserved nodes idle"
    assert "none of the 2 reserved nodes has run since 2026-11-20 11:30 UTC: $62.93 an hour" in text
    assert "billed even when idle. A plan with target.cluster: tiny uses them." in text
    for later in (10, 300):
        guard_look(later, old, **RESERVED, **window)
        assert aws.messages == [], "once a day, and not when the block is over"


@pytest.mark.parametrize(
    "variables",
    [
        {**RESERVED, "RESERVED_FROM": "2026-11-20T18:00:00+00:00"},
        {**RESERVED, "RESERVED_UNTIL": "2026-11-20T12:00:00+00:00"},
        {**RESERVED, "IDLE_MINUTES": "0"},
        {"PREPAID": "true"},
    ],
)
def test_block_outside_window_or_without_idle_time_not_reported(aws, words_store, guard_look, variables):
    guard_look(20, old, **variables)
    assert aws.messages == []


def old(guard):
    """A guard whose cluster was deployed a day ago."""
    guard.deployed_at = lambda: guard.now - timedelta(days=1)
    return guard


def test_stopped_reserved_nodes_reported_after_idle_time(aws, words_store, guard_look):
    on_demand = {**RESERVED, "PREPAID": "false"}
    machines = aws.nodes(2)
    guard_look(0, old, **on_demand)
    aws.ec2.terminate_instances(InstanceIds=machines)
    guard_look(14, old, **on_demand)
    assert aws.messages == [], "they ran until 12:02, an hour and a quarter ago at 13:17"
    guard_look(15, old, **on_demand)
    ((_, text),) = aws.messages
    assert "has run since 2026-11-20 12:02" in text


def test_later_report_sent_in_later_message(aws, words_store, guard_look):
    put_report(words_store, 1)
    guard_look()
    assert len(aws.messages) == 1
    put_report(words_store, 2, reason="another")
    guard_look(1)
    ((_, text),) = aws.messages
    assert "another" in text
    assert "FIFO" not in text


def test_each_report_kind_has_separate_message(aws, words_store, guard_look):
    put_report(words_store, 1)
    put_report(words_store, 2, reason="$120 at the end, the budget is $100", event="forecast")
    guard_look()
    messages = dict(aws.messages)
    assert set(messages) == {DROPPED, "slipway tiny: cost forecast"}
    assert messages["slipway tiny: cost forecast"].endswith(
        "the cost of jobs will differ from the quote:\n"
        "job tiny, attempt 1: $120 at the end, the budget is $100 (2026-11-20T10:00:00.000Z)"
    )


def test_forecast_from_trainer_log_notified_once_per_job(aws, words_store, guard_look, tmp_path):
    """The agent's own code up to the store, the guard's from there: what either writes, the other reads."""
    place, quoted = tmp_path / "events.jsonl", {"usd_per_hour": 100.0, "other_usd": 2.0, "budget_usd": 250.0}

    def attempt(number):
        log = EventLog(place, run="run", attempt=number, node="n")
        with guard_messages.forwarding(f"s3://{BUCKET}/{FOLDER}/messages", "tiny", log):
            log.append("attempt-started")
            watching = watch(quoted, place, log, attempt=number, now=0.0)
            for step in range(1, 20):
                watching.lines([{"step": step, "steps": 120, "seconds": step * 90.0}], step * 90.0)

    attempt(1)
    guard_look()
    ((subject, text),) = aws.messages
    assert subject == "slipway tiny: cost forecast"
    # 120 steps of 90 s are 3 hours.
    assert "job tiny, attempt 1: the forecast, $302.00, is above the $250.00 of budget.max_usd (" in text
    attempt(2)
    guard_look(1)
    assert aws.messages == [], "once a job, not once an attempt"
    assert not any("/messages/" in key for key in remaining_keys(words_store))


def test_no_reports_send_no_notification(aws, words_store, guard_look):
    guard_look()
    assert (aws.messages, remaining_keys(words_store)) == ([], [])


def test_report_in_store_without_delete_permission_sent_once(aws, words_store, guard_look):
    put_report(words_store, 1)

    def refusing(guard):
        guard.client = lambda _: DeletesNothing(words_store)
        return guard

    guard_look(0, refusing, fails="DeleteObject")
    guard_look(1, refusing, fails="DeleteObject")
    assert [subject for subject, _ in aws.messages] == [DROPPED, "slipway tiny: the guard could not act"]
    assert any("/messages/" in key for key in remaining_keys(words_store))


def test_failed_notification_is_repeated_at_next_check(aws, words_store, guard_look):
    put_report(words_store, 1)
    guard_look(0, TOPICS="arn:aws:sns:us-east-2:123456789012:no-such-topic", fails="Publish")
    guard_look(1)
    assert [subject for subject, _ in aws.messages] == [DROPPED]


@pytest.mark.parametrize("body", ["", "{", "[]", '{"job": "x"}', "[" * 5000, b"\xff\xfe", "9" * 100_000])
def test_invalid_report_notified_as_short_line(aws, words_store, guard_look, body):
    put_report(words_store, 1, body=body)
    guard_look()
    ((subject, text),) = aws.messages
    assert subject == "slipway tiny: report of a job"
    assert "not a report of a job's agent" in text
    assert len(text) < 600
    assert not any("/messages/" in key for key in remaining_keys(words_store))


def test_many_reports_sent_in_several_messages(aws, words_store, guard_look):
    for number in range(50):
        put_report(words_store, number)
    for step in range(3):
        guard_look(step)
    assert sum(text.count("a FIFO") for _, text in aws.messages) == 50


def test_control_characters_in_report_removed_from_message(aws, words_store, guard_look):
    put_report(words_store, 1, reason="a\nSubject: you have won\x1b[2J" + "x" * 5000)
    guard_look()
    ((_, text),) = aws.messages
    assert text.count("\n") == 1
    assert "\x1b" not in text
    assert len(text) < 600


def test_unavailable_store_does_not_prevent_stop(aws, guard_of):
    aws.nodes(2)
    guard = guard_of(age_h=9.0, TTL_HOURS="8", FOLDER_URI="s3://not-there/x")
    with pytest.raises(Exception, match="NoSuchBucket"):
        guard.watch()
    assert aws.fleet == "STOP_REQUESTED"
