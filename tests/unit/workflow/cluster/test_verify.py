"""Reading back a deployment: verified, unreadable and unverified resources."""

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import boto3
import pytest
from botocore.stub import Stubber

from launcher.aws.session import Session
from launcher.aws.stacks import StackResource, StackState
from launcher.model.errors import AwsError
from launcher.workflow.cluster.readback.reading import Reading
from launcher.workflow.cluster.verify import read_back
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import pick, price

PLAN = Path(__file__).parents[4] / "examples" / "p5-spot.yaml"
TOPIC = "arn:aws:sns:us-east-2:123456789012:t"


@pytest.fixture
def sns():
    client = boto3.client("sns", region_name="us-east-2", aws_access_key_id="x", aws_secret_access_key="x")
    with Stubber(client) as stub:
        yield client, stub


def reading(client, *types):
    """A training stack with one resource of each type."""
    plan = pick(price(PLAN, datetime(2026, 11, 20, tzinfo=UTC), PriceOptions(any_age=True)), None)[1].plan
    training = StackState(
        id="arn:aws:cloudformation:us-east-2:123456789012:stack/slipway-p5-spot-training/1",
        name="slipway-p5-spot-training",
        status="CREATE_COMPLETE",
        protected=False,
        outputs={"NotifyTopicArn": TOPIC},
        tags={},
    )
    resources = tuple(
        StackResource(stack=training.name, logical_id=type_, physical_id=TOPIC, type=type_, status="CREATE_COMPLETE")
        for type_ in types
    )
    return Reading(
        plan=plan,
        session=Session(environment={}, region="us-east-2", clients={"sns": client}),
        zone=None,
        usd_per_hour=None,
        deployed_now=True,
        main=training,
        resources=resources,
        queues=None,
    )


def test_unreadable_resource_is_noted_without_failure(sns):
    client, stub = sns
    stub.add_client_error("get_topic_attributes", "AuthorizationError", "not authorized", http_status_code=403)
    reader = reading(client, "AWS::SNS::Topic", "AWS::SNS::TopicPolicy")
    unread = read_back(reader)
    assert set(unread) == {"AWS::SNS::Topic", "AWS::SNS::TopicPolicy"}
    assert all("not read back: describe topic" in reason for reason in unread.values())
    assert reader.checks.wrong == []


def test_other_read_failure_is_raised(sns):
    client, stub = sns
    stub.add_client_error("get_topic_attributes", "NotFound", "Topic does not exist", http_status_code=404)
    with pytest.raises(AwsError, match="NotFound"):
        read_back(reading(client, "AWS::SNS::Topic"))


def test_resource_type_without_reader_is_named(sns):
    client, _ = sns
    assert read_back(reading(client, "AWS::XRay::Group", "AWS::CDK::Metadata")) == {
        "AWS::XRay::Group": "created, but Slipway has no check for it"
    }


def test_every_difference_of_resource_is_collected(sns):
    client, stub = sns
    attributes = {"TopicArn": TOPIC, "DisplayName": "another"}
    stub.add_response("get_topic_attributes", {"Attributes": attributes}, {"TopicArn": TOPIC})
    stub.add_response("list_subscriptions_by_topic", {"Subscriptions": []}, {"TopicArn": TOPIC})
    reader = reading(client, "AWS::SNS::Topic")
    assert read_back(reader) == {}
    publishers = "budgets.amazonaws.com, cloudwatch.amazonaws.com"
    assert reader.checks.wrong == [
        "topic: planned slipway p5-spot, found another",
        f"services allowed to publish: planned {publishers}, found none",
        "topic accepts TLS only: planned yes, found no",
    ]
    assert reader.checks.agreed == ["subscribers: none"]


@pytest.mark.parametrize("lower,of_plan,limit", [(50, None, 50), (None, 80, 80), (50, 80, 50), (None, None, None)])
def test_budget_limit_of_stacks_is_lower_of_plan_and_option(sns, lower, of_plan, limit):
    known = reading(sns[0])
    request = known.plan.request
    planned = replace(request, budget=replace(request.budget, max_usd=of_plan and Decimal(of_plan)))
    deployed = replace(known, plan=replace(known.plan, request=planned), lower_usd=lower and Decimal(lower))
    assert deployed.limit_usd == limit
