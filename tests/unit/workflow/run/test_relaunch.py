"""Launching over earlier launches: the owner of the checkpoints, and a job that must not start again."""

from types import SimpleNamespace

import boto3
import pytest

from launcher import plan_file
from launcher.aws.objects import Objects
from launcher.aws.session import Session
from launcher.model.errors import ImpossibleError
from launcher.planning.pin import pinned_plan
from launcher.workflow.deploy.account import Account
from launcher.workflow.run.earlier_step import refuse_from_step
from launcher.workflow.run.relaunch import (
    earlier_run_lines,
    from_step_text,
    prefix_suffix,
    refuse_fresh,
    with_earlier_runs_warning,
)
from tests.plans import NOW

PLACE = "s3://team-store/runs/llm"
PLAN = """
slipway: 1
name: llm
workload: {train: {model: llama-3.1-8b, hours: 10}}
target: {kind: parallelcluster, region: us-east-1, instance_type: p5.48xlarge, nodes: 1}
purchase: {option: on-demand}
checkpoint: {uri: "%s"}
run: {command: [python, train.py]}
"""


@pytest.fixture
def account_with_store(account):
    boto3.client("s3", **_keys(account)).create_bucket(Bucket="team-store")
    return account


def _keys(account):
    return {
        "region_name": "us-east-1",
        "endpoint_url": account.environment["AWS_ENDPOINT_URL"],
        "aws_access_key_id": "a",
        "aws_secret_access_key": "b",
    }


def plan_of(catalog, owner=None, mode="agent"):
    text = PLAN % PLACE + (f"tags: {{owner: {owner}}}\n" if owner else "")
    if mode != "agent":
        text = text.replace("checkpoint: {", f"checkpoint: {{mode: {mode}, ")
    return pinned_plan(plan_file.loads(text), catalog)


def launch(account, plan, messages):
    """A launch of the plan: its messages before the question; then it is submitted."""
    lines = list(earlier_run_lines(plan, SimpleNamespace(environment=account.environment), NOW))
    first = Objects.at(Session(environment=account.environment, region="us-east-1"), PLACE)
    prefix_suffix(plan, first, None, messages.append)
    return lines


def test_launch_over_job_of_other_user_gives_warning(account_with_store, catalog):
    messages = []
    assert launch(account_with_store, plan_of(catalog, "ana"), messages) == []
    assert launch(account_with_store, plan_of(catalog, "ana"), messages) == []
    (line,) = launch(account_with_store, plan_of(catalog, "bo"), messages)
    assert line.startswith("warning: ana launched this plan last, not bo")
    (line,) = launch(account_with_store, plan_of(catalog), messages)
    assert line.startswith("warning: bo launched this plan last, not moto")  # the user of these credentials
    assert messages == []


def test_shared_role_is_not_a_job_owner(account_with_store, catalog):
    messages = []
    launch(account_with_store, plan_of(catalog, "ana"), messages)
    sts = boto3.client("sts", **_keys(account_with_store))
    credentials = sts.assume_role(RoleArn="arn:aws:iam::123456789012:role/ci", RoleSessionName="build-7")["Credentials"]
    shared = {
        **account_with_store.environment,
        "AWS_ACCESS_KEY_ID": credentials["AccessKeyId"],
        "AWS_SECRET_ACCESS_KEY": credentials["SecretAccessKey"],
        "AWS_SESSION_TOKEN": credentials["SessionToken"],
    }
    assert launch(SimpleNamespace(environment=shared), plan_of(catalog), messages) == []
    (line,) = launch(account_with_store, plan_of(catalog, "bo"), messages)
    assert "ana launched this plan last" in line


def test_fresh_start_with_own_checkpoints_refused(catalog):
    with pytest.raises(ImpossibleError, match=r"checkpoint\.mode is own"):
        refuse_fresh(plan_of(catalog, mode="own"))
    refuse_fresh(plan_of(catalog))


@pytest.mark.parametrize("mode", ["own", "dcp"])
def test_from_step_with_own_or_dcp_checkpoints_refused(catalog, mode):
    with pytest.raises(ImpossibleError, match=rf"--from-step: checkpoint\.mode is {mode}"):
        refuse_from_step(plan_of(catalog, mode=mode))
    refuse_from_step(plan_of(catalog))


def test_from_step_without_checkpoint_refused_before_question(account_with_store, catalog):
    context = SimpleNamespace(environment=account_with_store.environment)
    with pytest.raises(ImpossibleError, match="no checkpoint of step 7"):
        from_step_text(plan_of(catalog), context, 7)


def test_from_step_in_new_sandbox_refused(catalog):
    account = Account.emulated(None, SimpleNamespace(record=None), ())
    with pytest.raises(ImpossibleError, match="begins without checkpoints"):
        with_earlier_runs_warning(account, plan_of(catalog), NOW, None, fresh=False, second=None, from_step=3)
