"""A guard that lacks a right does the rest of its work, reports the missing right, and its call fails."""

from contextlib import nullcontext
from datetime import timedelta

import boto3
import pytest

from tests.infra.guard_account import NOW, client

pytestmark = pytest.mark.xdist_group("guard")

BUCKET = "slipway-tiny-checkpoints"
LOOK = timedelta(minutes=5)
CANNOT_STOP = {"dynamodb:GetItem", "dynamodb:UpdateItem", "cloudformation:DescribeStacks"}
"""Without the first two nothing stops a fleet, without the last nobody knows its age."""
NEEDED = (
    "ec2:DescribeInstances",
    "cloudformation:DescribeStacks",
    "ssm:GetParameter",
    "ssm:PutParameter",
    "cloudwatch:PutMetricData",
    "dynamodb:GetItem",
    "dynamodb:UpdateItem",
    "s3:ListObjectsV2",
    "sns:Publish",
)


@pytest.fixture
def refused_look(aws, guard_of):
    """A look under a role without a right, at a cluster of two nodes whose time is over."""
    client("s3").create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": "us-east-2"})
    there = aws.nodes(2)

    def call(refused, step, *, fails=True):
        if aws.fleet == "STOP_REQUESTED":
            # As ParallelCluster does; the guard reports those that stay.
            aws.ec2.terminate_instances(InstanceIds=there)
        service, _, operation = refused.partition(":")
        lacking = boto3.client(service)

        def refuse(**_):
            message = (
                f"User: arn:aws:sts::1:assumed-role/guard/x is not authorized to perform: {refused} on resource: x"
            )
            error = {"Error": {"Code": "AccessDeniedException", "Message": message}}
            raise lacking.exceptions.ClientError(error, operation)

        lacking.meta.events.register(f"before-call.{service}.{operation}", refuse)
        guard = guard_of(now=NOW + step * LOOK, TTL_HOURS="2", FOLDER_URI=f"s3://{BUCKET}/jobs/.guard/stack")
        clients = {service: lacking}
        guard.client = lambda name: clients.get(name) or client(name)
        for name in ("ec2", "cloudwatch", "dynamodb", "cloudformation", "sns", "ssm"):
            setattr(guard, name, guard.client(name))
        del guard.deployed_at
        age = timedelta(hours=9)
        described = type(guard).deployed_at
        guard.deployed_at = lambda: min(described(guard), NOW - age)
        with pytest.raises(Exception, match="is not authorized") if fails else nullcontext():
            guard.watch()

    return call


@pytest.mark.parametrize("right", NEEDED)
def test_missing_permission_named_daily_and_other_steps_continue(aws, refused_look, right):
    for step in range(3):
        # A fleet that is stopped needs neither.
        refused_look(right, step, fails=step == 0 or right != "sns:Publish")
    messages = dict(aws.messages)
    assert (aws.fleet == "STOP_REQUESTED") == (right not in CANNOT_STOP)
    if right == "sns:Publish":
        assert messages == {}, "the alarm on the function's errors tells"
        return
    failed = messages.pop("slipway tiny: the guard could not act")
    assert f"Missing right of the guard's role: {right}" in failed
    assert "It is tried again every 5 minutes." in failed
    assert "By hand: slipway down tiny" in failed
    assert set(messages) == (set() if right in CANNOT_STOP else {"slipway tiny: compute fleet stopped"})
    refused_look(right, 3)
    assert aws.messages == []


def test_uncountable_nodes_report_no_running_nodes_metric(aws, refused_look):
    refused_look("ec2:DescribeInstances", 0)
    assert aws.metric("RunningNodes") == [], "the alarm on silence hears it"
    refused_look("dynamodb:UpdateItem", 1, fails=False)
    listed = client("cloudwatch").list_metrics(Namespace="Slipway", MetricName="RunningNodes")["Metrics"]
    assert listed, "what it can count, it reports"
