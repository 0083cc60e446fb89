"""budget.stop_at_usd in the guard's code, with moto: when it acts, what it does, and what it keeps."""

import json
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta

import boto3
import pytest

from tests.infra.guard_account import NOW, client

pytestmark = pytest.mark.xdist_group("guard")

BUCKET, KEY = "slipway-tiny-checkpoints", "jobs/.budget/stack/100.json"
LOOK = timedelta(minutes=5)
SUM = {
    "STOP_AT_USD": "100",
    "STOP_URI": f"s3://{BUCKET}/{KEY}",
    "STOP_SETTLE_MINUTES": "5",
    "STOP_RESERVE_MINUTES": "15",
    "STOP_ENDING_MINUTES": "5",
    "NODES": "2",
    "OTHER_USD_PER_HOUR": "6",
    "USD_PER_NODE_HOUR": "60",
    "IDLE_MINUTES": "0",
}
"""Two nodes at $60 an hour and $6 beside them: $10.50 a check; the reserve is three checks, $31.50."""


@pytest.fixture
def run_checks(aws, guard_of):
    """Look every five minutes, from a moment on, and give the guard of each look."""
    client("s3").create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": "us-east-2"})

    def poll(first, count, *, fails=None, **variables):
        for step in range(first, first + count):
            guard = guard_of(now=NOW + step * LOOK, **{**SUM, **variables})
            with nullcontext() if fails is None else pytest.raises(Exception, match=fails):
                guard.watch()

    return poll


def word():
    """What the guard left for the job; None where it left nothing."""
    listed = client("s3").list_objects_v2(Bucket=BUCKET).get("Contents", [])
    if not listed:
        return None
    assert [content["Key"] for content in listed] == [KEY]
    return json.loads(client("s3").get_object(Bucket=BUCKET, Key=KEY)["Body"].read())


class TestBudgetStopTiming:
    def test_stop_message_written_while_limit_covers_final_checkpoint(self, aws, run_checks):
        aws.nodes(2)
        run_checks(0, 6)
        assert (word(), aws.messages) == (None, [])
        run_checks(6, 1)
        assert word()["stop_at_usd"] == "100"
        assert float(word()["spent_usd"]) == pytest.approx(7 * 10.5)
        assert aws.fleet == "RUNNING"

    def test_nodes_stop_after_settle_time_below_limit(self, aws, run_checks):
        aws.nodes(2)
        run_checks(0, 7)
        run_checks(7, 1)
        assert aws.fleet == "STOP_REQUESTED"
        assert float(SUM["STOP_AT_USD"]) > 8 * 10.5 + 10.5

    def test_starting_nodes_count_towards_limit(self, aws, run_checks):
        run_checks(0, 1, STOP_AT_USD="31")
        assert word() is None or word()["stop_at_usd"] == "31"
        assert [subject for subject, _ in aws.messages] == ["slipway tiny: stopped at the budget"]

    @pytest.mark.parametrize("operation", ["GetParameter", "PutParameter"])
    @pytest.mark.parametrize("hours, told", [(2.0, True), (0.25, False)])
    def test_unreadable_state_counts_cost_since_node_launch(self, aws, guard_of, operation, hours, told):
        """No job can change when EC2 launched its nodes: 2 nodes of 2 hours at $60 are beyond $100."""
        client("s3").create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": "us-east-2"})
        aws.nodes(2)
        guard = guard_of(now=datetime.now(UTC) + timedelta(hours=hours), **SUM)
        lacking = boto3.client("ssm")
        refusal = {"Error": {"Code": "InternalServerError", "Message": "try again"}}

        def refuse(**_):
            raise lacking.exceptions.ClientError(refusal, operation)

        lacking.meta.events.register(f"before-call.ssm.{operation}", refuse)
        guard.ssm = lacking
        with pytest.raises(Exception, match="try again"):
            guard.watch()
        assert (word() is not None) is told
        if told:
            # And one hour of everything else, at $6, since the deployment.
            assert 246 <= float(word()["spent_usd"]) < 251

    def test_guard_without_limit_stores_no_spending(self, aws, guard_of):
        guard_of(USD_PER_NODE_HOUR="60").watch()
        assert aws.metric("DollarsPerLook") == []

    def test_spending_continues_after_new_deployment(self, aws, run_checks, guard_of):
        """Only the estimate begins anew."""
        aws.nodes(2)
        run_checks(0, 5)
        guard = guard_of(age_h=0.0, now=NOW + 5 * LOOK, **SUM)
        guard.watch()
        assert guard.spent == pytest.approx(6 * 10.5)
        assert guard.state.node_hours == pytest.approx(2 / 12)


class TestBudgetStopActions:
    def test_budget_stop_notification_sent_once_with_fix(self, aws, run_checks):
        aws.nodes(2)
        run_checks(0, 7)
        ((subject, text),) = aws.messages
        assert subject == "slipway tiny: stopped at the budget"
        assert "of the $100 of budget.stop_at_usd are spent" in text
        assert "raise budget.stop_at_usd in the plan file and launch it again" in text
        assert "resume from its last checkpoint" in text
        assert "its 2 nodes end in 5 minutes" in text

    def test_fleet_stop_after_budget_notified_once(self, aws, run_checks):
        aws.nodes(2)
        run_checks(0, 7)
        assert len(aws.messages) == 1
        run_checks(7, 3)
        assert "slipway tiny: compute fleet stopped" in {subject for subject, _ in aws.messages}
        assert aws.fleet == "STOP_REQUESTED"

    def test_stop_message_written_by_node_counts_as_old(self, aws, run_checks):
        """Nodes may write below that prefix too: what they put there does not keep them."""
        client("s3").put_object(Bucket=BUCKET, Key=KEY, Body=b"never")
        aws.nodes(2)
        run_checks(0, 7)
        assert aws.fleet == "STOP_REQUESTED"

    def test_unwritable_store_does_not_keep_nodes(self, aws, run_checks):
        aws.nodes(2)
        run_checks(0, 6, STOP_URI="s3://not-there/x.json")
        run_checks(6, 2, STOP_URI="s3://not-there/x.json", fails="NoSuchBucket")
        assert aws.fleet == "RUNNING"
        ((subject, text),) = aws.messages
        assert subject == "slipway tiny: the guard could not act"
        assert "could not tell the job to stop: An error occurred (NoSuchBucket)" in text
        run_checks(8, 1, STOP_URI="s3://not-there/x.json", fails="NoSuchBucket")
        assert aws.fleet == "STOP_REQUESTED"
        assert "the guard could not tell the job to stop" in aws.messages[0][1]

    def test_raised_limit_has_new_stop_message(self, aws, run_checks):
        aws.nodes(2)
        run_checks(0, 8)
        aws.set_fleet("RUNNING")
        run_checks(8, 1, STOP_AT_USD="200", STOP_URI=f"s3://{BUCKET}/jobs/.budget/stack/200.json")
        assert aws.fleet == "RUNNING"
