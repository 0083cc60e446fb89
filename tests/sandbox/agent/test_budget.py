"""The guard's message that the budget is used up, read by the agent from the store."""

import json

import pytest

from launcher.agent.store.stop_watch import StopWatch
from tests.sandbox.agent.checkpoints import BUCKET, PREFIX

KEY = ".budget/100.json"
REASON = "$81.20 of $100 is spent, and the rest reserved for the end"
URI = f"s3://{BUCKET}/{PREFIX}{KEY}"
WORD = json.dumps({"schema": "slipway.stop/1", "spent_usd": "81.20", "stop_at_usd": "100"}).encode()


def test_budget_stop_saves_checkpoint_and_job_is_not_requeued(node, bucket):
    node.job(100_000, 0.05, 10, stop_uri=URI)
    process = node.start()
    node.wait_for("checkpoint-uploaded")
    bucket.client.put_object(Bucket=BUCKET, Key=PREFIX + KEY, Body=WORD)
    assert process.wait(timeout=90) == 79
    (ended,) = node.events("stopped")
    assert (ended["ended_by"], ended["exit_code"], ended["reason"]) == ("budget", 79, REASON)
    assert node.events("signalled")[0]["signal"] == "SIGUSR1"
    assert bucket.whole()[-1] == node.last_step()


def test_job_with_used_budget_does_not_start(node, bucket):
    bucket.client.put_object(Bucket=BUCKET, Key=PREFIX + KEY, Body=b"not the guard's")
    node.job(5, 0, 10, stop_uri=URI)
    assert node.run() == 79
    assert not node.events("command-started")
    assert node.events("stopped")[0]["reason"] == "the budget is used up"


def test_unreadable_stop_object_reported_once_and_polled_again(store, bucket):
    messages, stopped = [], []
    bucket.client.put_object(Bucket=BUCKET, Key=PREFIX + KEY, Body=WORD)
    watch = StopWatch(f"s3://no-such-bucket-here/{KEY}", on_stop=stopped.append, on_problem=messages.append)
    assert [watch.poll(), watch.poll()] == [False, False]
    assert (len(messages), stopped) == (1, [])
    assert StopWatch(URI, on_stop=stopped.append, on_problem=messages.append).poll()
    assert stopped == [REASON]


@pytest.mark.parametrize("uri", [None, URI])
def test_missing_stop_object_does_not_stop_job(store, bucket, uri):
    assert not StopWatch(uri, on_stop=pytest.fail, on_problem=pytest.fail).poll()
