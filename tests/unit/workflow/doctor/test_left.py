"""The report of remaining resources, and their cost, when a launch ends early."""

import errno
import signal

import pytest

from launcher.aws.session import Session
from launcher.catalog.load import load
from launcher.model.errors import DeclinedError, DeploymentFailedError, InterruptedAtQuestionError
from launcher.workflow.doctor.left_running import left_running, report_earlier_runs, report_running_costs
from tests.emulators.aws_account import Refused
from tests.unit.workflow.doctor.conftest import NOW, REGION, client, stack

pytestmark = pytest.mark.server


@pytest.fixture
def look_left(ready_account, probe_plan):
    return lambda: left_running(
        probe_plan(), Session(environment=ready_account.environment, region=REGION), load(), NOW
    )


def test_account_without_resources_reports_none_exist(look_left):
    assert look_left().lines == ("nothing exists in AWS for this plan",)
    assert look_left().nothing


def test_sandbox_without_resources_names_sandbox(ready_account, probe_plan):
    session = Session(environment=ready_account.environment, region=REGION)
    left_resources = left_running(probe_plan(), session, load(), NOW, sandbox=True)
    assert left_resources.lines == ("nothing exists in the sandbox for this plan",)


def test_existing_stacks_are_named_with_cost_and_down_command(ready_account, look_left):
    stack(ready_account, "network", {"Address": {"Type": "AWS::EC2::EIP", "Properties": {"Domain": "vpc"}}})
    stack(ready_account, "training", {"Topic": {"Type": "AWS::SNS::Topic"}})
    left_resources = look_left()
    assert left_resources.lines[0] == "2 stacks exist and cost $0.005 an hour and what is not known"
    assert left_resources.lines[-1] == "to remove them: slipway down probe --region us-east-2"
    assert not left_resources.nothing
    assert any("slipway-probe-network: CREATE_COMPLETE, $0.005 an hour" in line for line in left_resources.lines)
    assert set(left_resources.stacks) == {
        ("slipway-probe-network", "CREATE_COMPLETE"),
        ("slipway-probe-training", "CREATE_COMPLETE"),
    }


def test_instances_before_guard_deployment_are_counted(ready_account, look_left):
    stack(ready_account, "training", {"Topic": {"Type": "AWS::SNS::Topic"}})
    ec2 = client(ready_account, "ec2")
    tags = [{"Key": "parallelcluster:cluster-name", "Value": "slipway-probe"}]
    ec2.run_instances(
        ImageId="ami-0123456789abcdef0",
        InstanceType="m6i.xlarge",
        MinCount=1,
        MaxCount=1,
        TagSpecifications=[{"ResourceType": "instance", "Tags": tags}],
    )
    assert "$0.19 an hour (CREATE_COMPLETE: 1 x m6i.xlarge at the listed price)" in look_left().lines[1]


def test_failing_inspection_is_reported_with_down_command(ready_account, look_left):
    ready_account.canned["cloudformation.DescribeStacks"] = Refused("AccessDenied", "not authorized", 403)
    (line,) = look_left().lines
    assert "cannot read what exists" in line
    assert "slipway down probe --region us-east-2" in line


@pytest.mark.parametrize(
    "end",
    [
        KeyboardInterrupt,
        DeploymentFailedError("the stack failed"),
        OSError(errno.ENOSPC, "No space left on device", "archive"),
        PermissionError(errno.EACCES, "Permission denied", "work"),
        RuntimeError("a defect"),
    ],
)
def test_launch_ending_early_reports_existing_stacks_and_command(ready_account, probe_plan, end):
    stack(ready_account, "network", {"Address": {"Type": "AWS::EC2::EIP", "Properties": {"Domain": "vpc"}}})
    messages, recorded = [], []
    with (
        pytest.raises((KeyboardInterrupt, DeploymentFailedError, OSError, RuntimeError)),
        report_running_costs(probe_plan(), ready_account.environment, load(), messages.append, recorded.append),
    ):
        raise end
    assert messages[-1] == "to remove it: slipway down probe --region us-east-2"
    assert recorded == [(("slipway-probe-network", "CREATE_COMPLETE"),)]


def test_second_interruption_still_reports_command(ready_account, probe_plan):
    def pressed_again(_):
        signal.raise_signal(signal.SIGINT)  # it comes to the main thread, which waits for this answer
        return Refused("Throttling", "slow down", 400)

    ready_account.canned["cloudformation.DescribeStacks"] = pressed_again
    messages = []
    with (
        pytest.raises(KeyboardInterrupt),
        report_running_costs(probe_plan(), ready_account.environment, load(), messages.append, sandbox=True),
    ):
        raise KeyboardInterrupt
    (message,) = messages
    assert message.startswith("interrupted again before the check of what is billed")
    assert message.endswith(": slipway down probe --region us-east-2 --sandbox checks")


def test_successful_launch_reports_no_remains(ready_account, probe_plan):
    messages = []
    with report_running_costs(probe_plan(), ready_account.environment, load(), messages.append):
        pass
    assert messages == []


ADDRESS = {"Address": {"Type": "AWS::EC2::EIP", "Properties": {"Domain": "vpc"}}}


class TestEarlierAttempts:
    def test_declined_next_candidate_reports_earlier_stacks(self, ready_account, probe_plan):
        stack(ready_account, "network", ADDRESS)
        messages = []
        with (
            pytest.raises(DeclinedError, match=r"^nothing more was done$"),
            report_earlier_runs([probe_plan(), probe_plan()], ready_account.environment, load(), messages.append),
        ):
            raise DeclinedError("nothing was done")
        (head, *_, last) = messages
        assert head.startswith(
            "cluster probe in us-east-2, which got no instances for the job: 1 stack exists and costs"
        )
        assert last == "to remove it: slipway down probe --region us-east-2"

    @pytest.mark.parametrize("end", [InterruptedAtQuestionError, DeploymentFailedError("the next one failed")])
    def test_other_end_of_launch_reports_earlier_stacks(self, ready_account, probe_plan, end):
        stack(ready_account, "network", ADDRESS)
        messages = []
        with (
            pytest.raises((KeyboardInterrupt, DeploymentFailedError)),
            report_earlier_runs([probe_plan()], ready_account.environment, load(), messages.append),
        ):
            raise end
        assert "slipway down probe --region us-east-2" in messages[-1]

    def test_success_elsewhere_reports_earlier_stacks(self, ready_account, probe_plan):
        stack(ready_account, "network", ADDRESS)
        messages = []
        with report_earlier_runs([probe_plan()], ready_account.environment, load(), messages.append):
            pass
        assert "slipway down probe --region us-east-2" in messages[-1]

    def test_declined_launch_without_earlier_runs_reports_no_stacks(self, ready_account):
        messages = []
        with (
            pytest.raises(DeclinedError, match=r"^nothing was done$"),
            report_earlier_runs([], ready_account.environment, load(), messages.append),
        ):
            raise DeclinedError("nothing was done")
        assert messages == []
