"""Two agents on one prefix: one wins, neither corrupts data."""

import json
import signal
from datetime import timedelta

import pytest

from launcher.agent.shape import moment
from tests.sandbox.agent.checkpoints import BUCKET, PREFIX


def owner(bucket):
    return json.loads(bucket.read("claim.json"))


@pytest.fixture
def second(node):
    """Starts an agent of another run on another node, beside the first."""

    def start(**changes):
        node.job(60, 0.1, 1000, **{"run": "r2"} | changes)
        return node.start(node="other")

    return start


class TestOneRun:
    def test_later_attempt_takes_claim_and_earlier_attempt_ends(self, node, bucket):
        node.job(600, 0.1, 1000, keep=1)
        first = node.start(attempt=1)
        node.wait_for("checkpoint-uploaded", attempt=1)
        again = node.start(attempt=2, node="other")
        node.wait_for("restored", attempt=2)
        assert first.wait(timeout=60) == 74
        assert "attempt 2 of run r1" in node.events("failed", attempt=1)[0]["reason"]
        node.wait_for("checkpoint-uploaded", attempt=2)
        again.send_signal(signal.SIGUSR1)
        assert again.wait(timeout=60) == 75
        assert {f"step-{step}/manifest.json" for step in bucket.whole()} <= set(bucket.keys())
        assert (owner(bucket)["attempt"], owner(bucket)["released"]) == (2, True)
        # What the earlier one may have referred to in a last commit is not tagged yet.
        assert not node.events("checkpoints-superseded", attempt=2)

    @pytest.mark.parametrize("last_seen_in", ["claim", "heartbeat"])
    def test_later_attempt_reports_when_killed_attempt_was_last_seen(self, node, bucket, last_seen_in):
        more = (
            {} if last_seen_in == "claim" else {"mode": "none", "message_uri": f"s3://{BUCKET}/{PREFIX}.guard/messages"}
        )
        node.job(600, 0.1, 1000, **more)
        first = node.start(attempt=1)
        node.wait_until(lambda: any(last_seen_in in key or "/running/" in key for key in bucket.all_keys()))
        first.kill()
        first.wait()
        again = node.start(attempt=2, node="other")
        node.wait_for("attempt-lost", attempt=2)
        (lost,) = node.events("attempt-lost", attempt=2)
        started, began = (node.events("attempt-started", attempt=number)[0]["time"] for number in (1, 2))
        assert lost["lost"] == 1
        # The store counts whole seconds.
        assert moment(started) - timedelta(seconds=1) <= moment(lost["last_seen"]) <= moment(began)
        again.terminate()
        again.wait()
        assert not node.events("attempt-lost", attempt=1)

    def test_earlier_attempt_cannot_take_claim_back(self, node, bucket):
        node.job(600, 0.1, 1000)
        node.start(attempt=2)
        node.wait_for("checkpoint-uploaded", attempt=2)
        assert node.start(attempt=1, node="other").wait(timeout=60) == 74
        assert "already owns the checkpoints" in node.events("failed", attempt=1)[0]["reason"]


class TestTwoRuns:
    @pytest.mark.slow
    def test_running_job_keeps_claim_against_second_job(self, node, bucket, second):
        node.job(600, 0.1, 1000)
        first = node.start()
        node.wait_for("checkpoint-uploaded")
        late = second()
        assert late.wait(timeout=120) == 78  # after the first one's next beat: it is alive
        assert first.poll() is None
        assert {bucket.manifest(step).run for step in bucket.whole()} == {"r1"}

    def test_second_job_starts_after_first_job_ends(self, node, bucket, second):
        node.job(2, 0, 1000)
        assert node.run() == 0
        late = second()
        node.wait_until(lambda: any(event["run"] == "r2" for event in node.events("checkpoint-uploaded")))
        late.terminate()
        assert late.wait(timeout=60) == 143

    def test_simultaneous_claims_refuse_one_job(self, node, bucket, front):
        def rule(method, path):
            return "before" if (method, path.endswith("/claim.json")) == ("PUT", True) else None

        front.rule = rule
        node.job(600, 0.1, 1000)
        first = node.start()
        assert front.held.wait(30)
        front.held.clear()
        node.job(600, 0.1, 1000, run="r2")
        other = node.start(node="other")
        assert front.held.wait(30)  # both have found nobody there
        front.rule = lambda *_: None
        front.over.set()
        node.wait_until(lambda: node.events("claim-held"))
        (refusal,) = node.events("claim-held")
        assert {"r1": first, "r2": other}[refusal["by_run"]].poll() is None
        assert owner(bucket)["run"] == refusal["by_run"]

    def test_claim_in_store_without_conditional_writes_works(self, node, bucket, front):
        bucket.client.delete_bucket_policy(Bucket=BUCKET)  # such a store has no such policy either

        def rule(method, path):
            return "no-conditions" if method == "PUT" else None

        front.rule = rule
        node.job(2, 0, 1000)
        assert node.run() == 0
        assert bucket.whole()[-1] == 2
        assert owner(bucket)["released"]


def test_unreadable_claim_is_replaced(node, bucket):
    bucket.write("claim.json", b'{"schema": "slipway.claim/1", "run": 7')
    node.job(1, 0, 1000)
    assert node.run() == 0
    assert owner(bucket)["run"] == "r1"


def test_claim_with_live_owner_is_not_taken(node, bucket):
    owner = {"run": "r0", "attempt": 1, "node": "p5-1", "token": "x", "beat": 3, "released": False}
    bucket.write("claim.json", json.dumps({"schema": "slipway.claim/1", **owner}).encode())
    node.job(1, 0, 1000)
    agent = node.start()
    node.wait_for("claim-held")
    bucket.write("claim.json", json.dumps({"schema": "slipway.claim/1", **owner, "beat": 4}).encode())
    assert agent.wait(timeout=60) == 78
    assert "run r0 writes to s3://checkpoints/a/run/ and still runs on p5-1" in node.events("failed")[0]["reason"]
    assert node.output() == []


def test_claim_released_during_wait_is_taken(node, bucket):
    text = json.dumps(
        {
            "schema": "slipway.claim/1",
            "run": "r0",
            "attempt": 1,
            "node": "gone",
            "token": "x",
            "beat": 3,
            "released": False,
        }
    )
    bucket.write("claim.json", text.encode())
    node.job(1, 0, 1000)
    agent = node.start()
    node.wait_for("claim-held")
    bucket.write("claim.json", text.replace('"released": false', '"released": true').encode())
    assert agent.wait(timeout=60) == 0
