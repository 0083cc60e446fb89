"""A run whose cluster was removed: `status`, `logs` and `report` read the run folder."""

import json
from dataclasses import replace
from datetime import UTC, datetime

import boto3
import pytest
import yaml

from launcher.answers.status import page
from launcher.model.errors import SlipwayError
from launcher.records import run_folder
from launcher.records.report_document import report_document
from launcher.submit.jobs import SchedulerEndedError
from launcher.workflow.run.status import run_state
from launcher.workflow.run.status_logs import follow_logs, refresh_logs
from tests.emulators.aws_account import THROTTLED, Refused
from tests.plans import EXAMPLES
from tests.unit.cli.reports import REPORT
from tests.unit.records.reports import ENDPOINT
from tests.unit.records.reports import REPORT as ENDED
from tests.unit.records.submissions import API, NODE, submission

pytestmark = pytest.mark.server

KILLED_LAUNCH = {
    "schema": "slipway.command/1",
    "command": "launch",
    "pid": 2**22 + 1,  # above Linux's largest: no process has it
    "started_at": "2026-11-20T12:00:00+00:00",
    "ended": None,
    "problem": None,
}
NOTHING = {"Resources": {"Topic": {"Type": "AWS::SNS::Topic"}}}
GONE = Refused("InvalidInstanceId", "Instances not in a valid state for account")
NO_STACK = "cluster x is gone: this is the last known state"


@pytest.fixture
def account_without_node(account):
    # The machine of the run is gone: Systems Manager refuses commands to it in these words.
    account.canned["ssm.SendCommand"] = GONE
    return account


@pytest.fixture(params=["succeeded", "running"])
def status(request):
    return request.param


@pytest.fixture
def left_run(tmp_path, status):
    """A run as the last look has left it."""
    folder = run_folder.create("x", datetime(2026, 11, 20, 12, tzinfo=UTC), tmp_path)
    folder.write_json("report.json", {**REPORT, "name": "x", "status": status, "simulated": False})
    (folder.logs / "attempt-1.log").write_text("what it printed\n")
    return folder


@pytest.mark.parametrize("head_node", [API, NODE, replace(NODE, via="session", instance="sagemaker-cluster:x")])
def test_status_and_logs_of_removed_cluster_come_from_run_folder(account_without_node, left_run, status, head_node):
    submission(head_node, job="j").write(left_run)
    messages = []
    state = run_state("x", left_run, account_without_node.environment, messages.append)
    assert (state.status, state.step) == ({"succeeded": "succeeded", "running": "unknown"}[status], 60)
    assert NO_STACK in messages
    refresh_logs("x", left_run, account_without_node.environment, messages.append)
    assert messages.count(NO_STACK) == 2
    with pytest.raises(SchedulerEndedError, match="cluster x is gone"):
        follow_logs("x", left_run, account_without_node.environment, write=print, notify=messages.append)


@pytest.mark.parametrize("status", ["running"], indirect=True)
def test_status_of_killed_launch_whose_cluster_is_gone_does_not_say_that_nothing_was_submitted(
    account_without_node, left_run
):
    left_run.write_json("report.json", {**REPORT, "name": "x", "status": "running", "simulated": True})
    left_run.write_json("command.json", KILLED_LAUNCH)
    submission(NODE, job="j").write(left_run)
    state = run_state("x", left_run, account_without_node.environment)
    assert state.status == "unknown"
    assert "before a job was submitted" not in "\n".join(page(state, 100))


@pytest.mark.parametrize("status", ["succeeded"], indirect=True)
def test_existing_or_unreadable_cluster_is_not_gone(account_without_node, left_run):
    submission(NODE, job="j").write(left_run)
    client = boto3.client("cloudformation", endpoint_url=account_without_node.moto, region_name="us-east-2", **keys())
    client.create_stack(StackName="slipway-x-training", TemplateBody=json.dumps(NOTHING))
    for _ in ("it stands", "CloudFormation does not say"):
        with pytest.raises(SlipwayError) as refused:
            run_state("x", left_run, account_without_node.environment)
        assert not isinstance(refused.value, SchedulerEndedError)
        account_without_node.canned["cloudformation.DescribeStacks"] = THROTTLED


def test_endpoint_status_names_stack_cost_and_down_command(account_without_node, tmp_path):
    folder = run_folder.create("served", datetime(2026, 11, 20, 12, tzinfo=UTC), tmp_path)
    plan = (EXAMPLES / "serve" / "pinned" / "llama31-8b-inf2.yaml").read_text().replace("llama31-8b-inf2\n", "served\n")
    (folder.path / "plan.json").write_text(json.dumps(yaml.safe_load(plan)))
    report = {
        **report_document(replace(ENDED, attempts=(), scheduler="none", endpoint=ENDPOINT)),
        "name": "served",
        "simulated": False,
    }
    folder.write_json("report.json", {**report, "left_up_usd_per_hour": "77.90"})
    client = boto3.client("cloudformation", endpoint_url=account_without_node.moto, region_name="us-east-1", **keys())
    client.create_stack(StackName="slipway-served-serving", TemplateBody=json.dumps(NOTHING))
    text = "\n".join(page(run_state("served", folder, account_without_node.environment), 120))
    assert "came into service" in text
    assert "slipway-served-serving CREATE_COMPLETE" in text
    assert "$77.90 an hour" in text
    assert "slipway down served removes them" in text
    client.delete_stack(StackName="slipway-served-serving")
    assert "this run has ended" in "\n".join(page(run_state("served", folder, account_without_node.environment), 120))


def keys():
    return {"aws_access_key_id": "x", "aws_secret_access_key": "y"}
