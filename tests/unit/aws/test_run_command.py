"""Run Command's calls, checked against the service's own model."""

import boto3
import pytest
from botocore.stub import Stubber

from launcher.aws.session import Session
from launcher.aws.ssm import InstanceCommands
from launcher.model.aws_results import Invocation
from launcher.model.errors import AwsError

INSTANCE, COMMAND = "i-0123456789abcdef0", "ef7fdfd8-9b57-4151-a15c-db9a12345678"
INVOCATION = {
    "CommandId": COMMAND,
    "InstanceId": INSTANCE,
    "Comment": "slipway",
    "DocumentName": "AWS-RunShellScript",
    "DocumentVersion": "$DEFAULT",
    "PluginName": "aws:runShellScript",
    "ResponseCode": 0,
    "ExecutionStartDateTime": "2026-11-20T12:00:00.400Z",
    "ExecutionElapsedTime": "PT0.091S",
    "ExecutionEndDateTime": "2026-11-20T12:00:00.400Z",
    "Status": "Success",
    "StatusDetails": "Success",
    "StandardOutputContent": "hello\n",
    "StandardOutputUrl": "",
    "StandardErrorContent": "",
    "StandardErrorUrl": "",
    "CloudWatchOutputConfig": {"CloudWatchOutputEnabled": False},
}


@pytest.fixture
def stub():
    client = boto3.client("ssm", region_name="us-east-2", aws_access_key_id="x", aws_secret_access_key="x")
    with Stubber(client) as stubber:
        yield stubber
        stubber.assert_no_pending_responses()


@pytest.fixture
def commands(stub):
    session = Session(environment={}, region="us-east-2", clients={"ssm": stub.client})
    return InstanceCommands(session=session, instance=INSTANCE)


def test_run_command_is_sent_with_limits(stub, commands):
    answer = {"Command": {"CommandId": COMMAND, "DocumentName": "AWS-RunShellScript", "Status": "Pending"}}
    expected_request = {
        "InstanceIds": [INSTANCE],
        "DocumentName": "AWS-RunShellScript",
        "Comment": "slipway",
        "TimeoutSeconds": 120,
        "Parameters": {"commands": ["echo hello"], "executionTimeout": ["60"]},
    }
    stub.add_response("send_command", answer, expected_request)
    assert commands.send(["echo hello"], 60) == COMMAND


TIMED_OUT = {"Status": "TimedOut", "StatusDetails": "Delivery Timed Out", "ResponseCode": -1}
PENDING = {"Status": "Pending", "StatusDetails": "Pending", "ResponseCode": -1}


@pytest.mark.parametrize(
    "changes, wanted",
    [
        ({}, ("Success", "Success", 0)),
        (TIMED_OUT, ("TimedOut", "DeliveryTimedOut", -1)),
        (PENDING, ("Pending", "Pending", -1)),
    ],
)
def test_run_command_outcome_is_read(stub, commands, changes, wanted):
    stub.add_response("get_command_invocation", INVOCATION | changes, {"CommandId": COMMAND, "InstanceId": INSTANCE})
    status, details, code = wanted
    assert commands.outcome(COMMAND) == Invocation(status=status, details=details, code=code, out="hello\n", err="")


def test_run_command_without_a_record_yet_has_no_outcome(stub, commands):
    stub.add_client_error("get_command_invocation", "InvocationDoesNotExist", http_status_code=400)
    assert commands.outcome(COMMAND) is None


def test_other_run_command_error_is_an_error(stub, commands):
    stub.add_client_error("get_command_invocation", "InternalServerError", "no", http_status_code=500)
    with pytest.raises(AwsError, match="InternalServerError"):
        commands.outcome(COMMAND)
