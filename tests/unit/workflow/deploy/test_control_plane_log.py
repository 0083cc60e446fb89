"""A control plane's log group that EKS recreated after its cluster was deleted blocks the next cluster."""

import json

import boto3
import pytest

from launcher.aws.session import Session
from launcher.catalog.load import load
from launcher.model.errors import ImpossibleError
from launcher.workflow.deploy.leftover_log import remove_leftover_log
from launcher.workflow.doctor import leftovers
from tests.emulators.aws_account import Refused
from tests.plans import two_node_plan

pytestmark = pytest.mark.server

REGION, NAME = "us-east-2", "/aws/eks/slipway-probe/cluster"
NOTHING = {"Resources": {"Topic": {"Type": "AWS::SNS::Topic"}}}


@pytest.fixture
def account_with_logs(account):
    for name in (NAME, f"{NAME}-of-another"):
        client(account, "logs").create_log_group(logGroupName=name)
    return account


def client(account, service):
    keys = {"aws_access_key_id": "x", "aws_secret_access_key": "y", "region_name": REGION}
    return boto3.client(service, endpoint_url=account.moto, **keys)


def names(account):
    return {group["logGroupName"] for group in client(account, "logs").describe_log_groups()["logGroups"]}


def remove(account, *, kind="eks"):
    """The messages of removing the log group before a launch."""
    messages = []
    session = Session(environment=account.environment, region=REGION)
    remove_leftover_log(two_node_plan(kind, load()), session, messages.append)
    return messages


@pytest.mark.parametrize("kind", ["eks", "hyperpod-eks"])
def test_log_group_of_a_removed_cluster_is_deleted_with_a_message_before_deployment(account_with_logs, kind):
    (message,) = remove(account_with_logs, kind=kind)
    assert message.startswith(f"removed log group {NAME}, which EKS wrote")
    assert names(account_with_logs) == {f"{NAME}-of-another"}
    assert remove(account_with_logs, kind=kind) == []


def test_log_group_of_an_existing_stack_or_cluster_is_kept(account_with_logs):
    eks = client(account_with_logs, "eks")
    eks.create_cluster(name="slipway-probe", roleArn="arn:aws:iam::123456789012:role/x", resourcesVpcConfig={})
    assert remove(account_with_logs) == []
    eks.delete_cluster(name="slipway-probe")
    client(account_with_logs, "cloudformation").create_stack(
        StackName="slipway-probe-training", TemplateBody=json.dumps(NOTHING)
    )
    assert remove(account_with_logs) == []
    assert remove(account_with_logs, kind="parallelcluster") == []
    assert NAME in names(account_with_logs)


def test_denied_deletion_of_the_log_group_is_refused_with_the_command(account_with_logs):
    account_with_logs.canned["logs.DeleteLogGroup"] = Refused("AccessDeniedException", "not authorized")
    with pytest.raises(ImpossibleError, match="blocks the deployment") as refused:
        remove(account_with_logs)
    assert refused.value.hint == f"aws logs delete-log-group --region {REGION} --log-group-name {NAME}"


def test_down_lists_the_log_group_with_the_delete_command(account_with_logs):
    session = Session(environment=account_with_logs.environment, region=REGION)
    (retained,) = leftovers.control_plane_log(session, load(), REGION, "slipway-probe")
    assert retained.name == NAME
    assert f"delete-log-group --region {REGION} --log-group-name {NAME}" in retained.reason
