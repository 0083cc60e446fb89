"""Two first launches into one empty account: the second waits for the first one's bootstrap."""

from datetime import UTC, datetime

import boto3
import pytest
from botocore.stub import Stubber

from launcher.aws.session import Session
from launcher.model.errors import DeploymentFailedError
from launcher.workflow.deploy.account_preparation import TRIES, prepare_account

MADE = datetime(2026, 11, 28, 4, tzinfo=UTC)


class Bootstraps:
    """A CDK whose bootstrap fails as often as it is told."""

    def __init__(self, failures):
        self.failures, self.calls = failures, []

    def bootstrap(self, _assembly, account, region, qualifier):
        self.calls.append((account, region, qualifier))
        if len(self.calls) <= self.failures:
            raise DeploymentFailedError("cdk bootstrap failed:\nChangeSet [cdk-deploy-change-set] does not exist")


@pytest.fixture
def prepared():
    """Prepare an account whose toolkit stack has these states in turn; the calls and the messages."""
    client = boto3.client("cloudformation", region_name="us-east-2", aws_access_key_id="x", aws_secret_access_key="x")
    with Stubber(client) as stub:
        session = Session(environment={}, region="us-east-2", clients={"cloudformation": client})

        def prepare(*states, failures=0, qualifier=None):
            name = "CDKToolkit" if qualifier is None else f"CDKToolkit-{qualifier}"
            for state in states:
                if state is None:
                    stub.add_client_error("describe_stacks", "ValidationError", f"Stack with id {name} does not exist")
                    continue
                stack = {"StackName": name, "StackId": "id", "StackStatus": state, "CreationTime": MADE}
                stub.add_response("describe_stacks", {"Stacks": [stack]}, {"StackName": name})
            cdk, messages, now = Bootstraps(failures), [], [0.0]
            prepare_account(
                cdk,
                None,
                session,
                account="1",
                qualifier=qualifier,
                notify=messages.append,
                pause=lambda seconds: now.__setitem__(0, now[0] + seconds),
                clock=lambda: now[0],
            )
            stub.assert_no_pending_responses()
            return cdk.calls, messages

        yield prepare


@pytest.mark.parametrize("qualifier", [None, "team"])
def test_bootstrap_of_an_empty_account_runs_at_once(prepared, qualifier):
    calls, messages = prepared(None, qualifier=qualifier)
    assert calls == [("1", "us-east-2", qualifier)]
    assert not [line for line in messages if "another" in line]


@pytest.mark.parametrize("state", ["REVIEW_IN_PROGRESS", "CREATE_IN_PROGRESS", "UPDATE_IN_PROGRESS"])
def test_bootstrap_in_progress_is_waited_for(prepared, state):
    calls, messages = prepared(state, state, "CREATE_COMPLETE")
    assert len(calls) == 1
    assert len([line for line in messages if "another launch is preparing the account" in line]) == 1


@pytest.mark.parametrize("after", ["CREATE_IN_PROGRESS", "CREATE_COMPLETE", "REVIEW_IN_PROGRESS"])
def test_bootstrap_begun_by_both_at_once_succeeds_for_the_second(prepared, after):
    calls, _ = prepared(None, after, "CREATE_COMPLETE", failures=1)
    assert len(calls) == 2


@pytest.mark.parametrize("after", [None, "ROLLBACK_FAILED"])
def test_bootstrap_failure_without_another_bootstrap_is_an_error(prepared, after):
    with pytest.raises(DeploymentFailedError, match="does not exist"):
        prepared(None, after, failures=1)


def test_bootstrap_with_repeated_failures_is_an_error(prepared):
    with pytest.raises(DeploymentFailedError):
        prepared(None, *["CREATE_COMPLETE"] * (2 * TRIES - 1), failures=TRIES)
