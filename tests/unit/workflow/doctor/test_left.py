"""What is said to stand, and to cost, when a launch ends early."""

import pytest

from launcher.aws.session import Session
from launcher.catalog.load import load
from launcher.model.errors import DeploymentFailedError
from launcher.workflow.cost.left import left_standing, telling_what_stands
from tests.stand_ins.aws_account import Refused
from tests.unit.workflow.doctor.conftest import NOW, REGION, client
from tests.unit.workflow.doctor.test_cost import stack

pytestmark = pytest.mark.server


@pytest.fixture
def left(account, plan):
    return lambda: left_standing(plan(), Session(environment=account.environment, region=REGION), load(), NOW)


def test_nothing_is_said_to_be_nothing(left):
    assert left().lines == ("nothing stands in AWS for this plan",)


def test_what_was_made_before_the_end_is_named_with_its_cost_and_its_end(account, left):
    stack(account, "network", {"Address": {"Type": "AWS::EC2::EIP", "Properties": {"Domain": "vpc"}}})
    stack(account, "training", {"Topic": {"Type": "AWS::SNS::Topic"}})
    found = left()
    assert found.lines[0] == (
        "2 stacks stand and cost $0.005 an hour and what is not known: "
        "slipway down probe --region us-east-2 removes them"
    )
    assert any("slipway-probe-network: CREATE_COMPLETE, $0.005 an hour" in each for each in found.lines)
    assert set(found.stacks) == {
        ("slipway-probe-network", "CREATE_COMPLETE"),
        ("slipway-probe-training", "CREATE_COMPLETE"),
    }


def test_machines_that_run_before_their_guard_is_there_are_counted(account, left):
    stack(account, "training", {"Topic": {"Type": "AWS::SNS::Topic"}})
    ec2 = client(account, "ec2")
    (image,) = ec2.describe_images(MaxResults=5)["Images"][:1]
    tags = [{"Key": "parallelcluster:cluster-name", "Value": "slipway-probe"}]
    ec2.run_instances(
        ImageId=image["ImageId"],
        InstanceType="m6i.xlarge",
        MinCount=1,
        MaxCount=1,
        TagSpecifications=[{"ResourceType": "instance", "Tags": tags}],
    )
    assert "$0.19 an hour (CREATE_COMPLETE: 1 x m6i.xlarge at the listed price)" in left().lines[1]


def test_a_look_that_fails_is_said_with_the_command(account, left):
    account.canned["cloudformation.DescribeStacks"] = Refused("AccessDenied", "not authorized", 403)
    (line,) = left().lines
    assert "cannot be asked" in line
    assert "slipway down probe --region us-east-2" in line


@pytest.mark.parametrize("end", [KeyboardInterrupt, DeploymentFailedError("the stack failed")])
def test_a_story_that_ends_early_tells_what_stands_and_keeps_it(account, plan, end):
    stack(account, "network", {"Address": {"Type": "AWS::EC2::EIP", "Properties": {"Domain": "vpc"}}})
    told, kept = [], []
    with (
        pytest.raises((KeyboardInterrupt, DeploymentFailedError)),
        telling_what_stands(plan(), account.environment, load(), told.append, kept.append),
    ):
        raise end
    assert "slipway down probe --region us-east-2 removes them" in told[0]
    assert kept == [(("slipway-probe-network", "CREATE_COMPLETE"),)]


def test_a_story_that_ends_well_tells_nothing(account, plan):
    told = []
    with telling_what_stands(plan(), account.environment, load(), told.append):
        pass
    assert told == []
