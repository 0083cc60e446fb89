"""Following the deletion of a stack to its end, through real boto3 with answers in botocore's shapes."""

from datetime import UTC, datetime, timedelta

import boto3
import pytest
from botocore.stub import Stubber

from launcher.aws import stacks
from launcher.aws.session import Session
from launcher.aws.stacks import StackState
from launcher.model.errors import AwsError, DeploymentFailedError

ID = "arn:aws:cloudformation:us-east-2:123456789012:stack/slipway-a-training/0"
BEGAN = datetime(2026, 11, 20, 12, tzinfo=UTC)


def state(status="CREATE_COMPLETE"):
    return StackState(id=ID, name="slipway-a-training", status=status, protected=False, outputs={}, tags={})


def event(number, status, logical="", kind="AWS::EC2::VPC", reason=None):
    """An event of a resource, or without a logical id of the stack itself."""
    stack_event = {
        "StackId": ID,
        "EventId": str(number),
        "StackName": "slipway-a-training",
        "LogicalResourceId": logical or "slipway-a-training",
        "PhysicalResourceId": "vpc-1" if logical else ID,
        "ResourceType": kind if logical else "AWS::CloudFormation::Stack",
        "Timestamp": BEGAN + timedelta(seconds=number),
        "ResourceStatus": status,
    }
    return stack_event if reason is None else {**stack_event, "ResourceStatusReason": reason}


CREATED = event(1, "CREATE_COMPLETE")
BEGUN = event(2, "DELETE_IN_PROGRESS")
LEFT = event(3, "DELETE_COMPLETE", "Vpc")
GONE = event(4, "DELETE_COMPLETE")


@pytest.fixture
def stubbed_session():
    """A session whose CloudFormation gives the test's answers."""
    client = boto3.client("cloudformation", region_name="us-east-2", aws_access_key_id="x", aws_secret_access_key="x")
    with Stubber(client) as stub:
        yield Session(environment={}, region="us-east-2", clients={"cloudformation": client}), stub
        stub.assert_no_pending_responses()


def described_as(status):
    """CloudFormation's description of the stack."""
    stack = {"StackName": "slipway-a-training", "StackId": ID, "StackStatus": status, "CreationTime": BEGAN}
    return {"Stacks": [stack]}


def remove(session, stack):
    """The reported events, and the number of waits."""
    events, waits = [], []
    stacks.remove(
        session, stack, lambda stack_event: events.append((stack_event.logical_id, stack_event.status)), waits.append
    )
    return events, len(waits)


def answer(stub, *events):
    stub.add_response("describe_stack_events", {"StackEvents": list(events)}, {"StackName": ID})


def test_stack_removal_is_followed_and_each_event_is_reported_once(stubbed_session):
    session, stub = stubbed_session
    answer(stub, CREATED)
    stub.add_response("delete_stack", {}, {"StackName": ID})
    answer(stub, BEGUN, CREATED)
    answer(stub, LEFT, BEGUN, CREATED)
    answer(stub, GONE, LEFT, BEGUN, CREATED)
    events, waits = remove(session, state())
    assert events == [
        ("slipway-a-training", "DELETE_IN_PROGRESS"),
        ("Vpc", "DELETE_COMPLETE"),
        ("slipway-a-training", "DELETE_COMPLETE"),
    ]
    assert waits == 2


def test_earlier_failed_stack_removal_is_ignored(stubbed_session):
    session, stub = stubbed_session
    old = (event(3, "DELETE_FAILED"), BEGUN, CREATED)
    answer(stub, *old)
    stub.add_response("delete_stack", {}, {"StackName": ID})
    answer(stub, *old)
    stub.add_response("describe_stacks", described_as("DELETE_FAILED"), {"StackName": ID})
    answer(stub, event(9, "DELETE_COMPLETE"), *old)
    assert remove(session, state("DELETE_FAILED")) == ([("slipway-a-training", "DELETE_COMPLETE")], 1)


def test_running_stack_removal_is_followed_without_a_new_request(stubbed_session):
    session, stub = stubbed_session
    answer(stub, LEFT, BEGUN, CREATED)
    answer(stub, GONE, LEFT, BEGUN, CREATED)
    events, _ = remove(session, state("DELETE_IN_PROGRESS"))
    assert [status for _, status in events] == ["DELETE_IN_PROGRESS", "DELETE_COMPLETE", "DELETE_COMPLETE"]


def test_failed_stack_removal_gives_every_reason(stubbed_session):
    session, stub = stubbed_session
    answer(stub, CREATED)
    stub.add_response("delete_stack", {}, {"StackName": ID})
    stuck = event(3, "DELETE_FAILED", "Nodes", "AWS::EC2::SecurityGroup", "sg-1 has a dependent object")
    answer(stub, event(4, "DELETE_FAILED", reason="failed to delete: [Nodes]"), stuck, BEGUN, CREATED)
    with pytest.raises(
        DeploymentFailedError, match=r"Nodes \(AWS::EC2::SecurityGroup\): sg-1 has a dependent"
    ) as caught:
        remove(session, state())
    assert caught.value.exit_code == 6
    assert "--stack-name slipway-a-training" in caught.value.hint


def test_export_in_use_is_the_reason_of_a_failed_stack_removal(stubbed_session):
    session, stub = stubbed_session
    answer(stub, CREATED)
    stub.add_response("delete_stack", {}, {"StackName": ID})
    answer(stub, event(2, "DELETE_FAILED", reason="Export net:VpcId cannot be deleted as it is in use by b"), CREATED)
    with pytest.raises(DeploymentFailedError, match="in use by b"):
        remove(session, state())


def test_missing_stack_is_none_and_a_denied_call_is_an_error(stubbed_session):
    session, stub = stubbed_session
    missing = "Stack with id slipway-a-training does not exist"
    stub.add_client_error("describe_stacks", "ValidationError", missing)
    stub.add_client_error("describe_stacks", "AccessDenied", "not authorized")
    assert stacks.find(session, "slipway-a-training") is None
    with pytest.raises(AwsError, match="AccessDenied"):
        stacks.find(session, "slipway-a-training")


def test_unused_export_has_no_importers(stubbed_session):
    session, stub = stubbed_session
    stub.add_client_error("list_imports", "ValidationError", "Export 'net:VpcId' is not imported by any stack.")
    stub.add_response("list_imports", {"Imports": ["a", "b"]}, {"ExportName": "net:VpcId"})
    assert stacks.importers(session, "net:VpcId") == frozenset()
    assert stacks.importers(session, "net:VpcId") == {"a", "b"}


def describe(stub, status):
    """The next question is for the stack itself."""
    stub.add_response("describe_stacks", described_as(status), {"StackName": ID})


def test_stack_removed_meanwhile_is_not_waited_for(stubbed_session):
    session, stub = stubbed_session
    answer(stub, GONE, LEFT, BEGUN, CREATED)
    stub.add_response("delete_stack", {}, {"StackName": ID})
    answer(stub, GONE, LEFT, BEGUN, CREATED)
    describe(stub, "DELETE_COMPLETE")
    assert remove(session, state()) == ([], 0)


def test_stalled_stack_removal_is_an_error(stubbed_session):
    session, stub = stubbed_session
    answer(stub, CREATED)
    stub.add_response("delete_stack", {}, {"StackName": ID})
    for _ in range(stacks.IDLE_POLLS):
        answer(stub, CREATED)
        describe(stub, "CREATE_COMPLETE")
    with pytest.raises(DeploymentFailedError, match="is CREATE_COMPLETE, and its removal does not continue"):
        remove(session, state())


def test_slow_stack_removal_is_waited_for(stubbed_session):
    session, stub = stubbed_session
    answer(stub, CREATED)
    stub.add_response("delete_stack", {}, {"StackName": ID})
    answer(stub, BEGUN, CREATED)
    for _ in range(stacks.IDLE_POLLS + 3):
        answer(stub, BEGUN, CREATED)
        describe(stub, "DELETE_IN_PROGRESS")
    answer(stub, GONE, BEGUN, CREATED)
    assert remove(session, state())[1] == stacks.IDLE_POLLS + 4
