"""EKS's guard as Lambda runs it: EKS answers through the Stubber, the rest of AWS is played by moto."""

from datetime import timedelta

import boto3
import pytest
from botocore.stub import Stubber
from moto import mock_aws

from tests.infra.guard_account import NOW, REGION, client
from tests.infra.guard_modules import guard_module

pytestmark = pytest.mark.xdist_group("guard")

NAME = "slipway-tiny"
GROUP = {"clusterName": NAME, "nodegroupName": "workers"}


@pytest.fixture(scope="module")
def module():
    with guard_module("eks") as found:
        yield found


@pytest.fixture
def guard(module, monkeypatch):
    """A guard of a cluster whose time is over; its node group has `desired` of 4 nodes."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    with mock_aws():
        topic = client("sns").create_topic(Name="slipway-tiny")["TopicArn"]
        settings = module.Settings.of(
            {
                "CLUSTER": "tiny",
                "EKS": NAME,
                "STACK": "s",
                "TOPICS": topic,
                "AWS_REGION": REGION,
                "PREPAID": "false",
                "TTL_HOURS": "2",
                "IDLE_MINUTES": "5",
            }
        )
        eks = boto3.client("eks", region_name=REGION)
        stub = Stubber(eks)
        stub.activate()
        made = module.EksGuard(settings, lambda service: eks if service == "eks" else client(service), NOW)
        yield made, stub
        stub.assert_no_pending_responses()


def group(*, desired, status="ACTIVE"):
    sizes = {"minSize": 0, "maxSize": 4, "desiredSize": desired}
    return {"nodegroup": {**GROUP, "status": status, "scalingConfig": sizes}}


def machine(ec2, *, name=NAME, of="workers"):
    (made,) = ec2.run_instances(
        ImageId="ami-12345678",
        MinCount=1,
        MaxCount=1,
        TagSpecifications=[
            {
                "ResourceType": "instance",
                "Tags": [
                    {"Key": "eks:cluster-name", "Value": name},
                    {"Key": "eks:nodegroup-name", "Value": of},
                ],
            }
        ],
    )["Instances"]
    return made["InstanceId"]


class TestNodes:
    def test_they_are_the_machines_of_the_jobs(self, guard):
        made, _ = guard
        wanted = machine(made.ec2)
        machine(made.ec2, of="system")
        machine(made.ec2, name="slipway-other")
        assert [each["InstanceId"] for each in made.nodes()] == [wanted]

    def test_a_notice_is_passed_on_for_its_own_alone(self, guard, monkeypatch):
        made, _ = guard
        told = []
        monkeypatch.setattr(made, "tell", lambda subject, _text: told.append(subject))
        for name in (NAME, "slipway-other"):
            event = {
                "detail-type": "EC2 Spot Instance Interruption Warning",
                "detail": {"instance-id": machine(made.ec2, name=name)},
            }
            made.pass_on(event)
        assert told == ["interruption notice"]


class TestStop:
    def test_the_group_is_set_to_none(self, guard):
        made, stub = guard
        stub.add_response("describe_nodegroup", group(desired=4), GROUP)
        wanted = {**GROUP, "scalingConfig": {"minSize": 0, "desiredSize": 0}}
        stub.add_response("update_nodegroup_config", {"update": {}}, wanted)
        made.watch_time(NOW - timedelta(hours=3), 4)

    @pytest.mark.parametrize("state", [group(desired=0), group(desired=4, status="UPDATING")])
    def test_once_is_enough(self, guard, state):
        made, stub = guard
        stub.add_response("describe_nodegroup", state, GROUP)
        made.stop("its time is over", 4)

    def test_a_group_that_is_not_there_is_nothing_to_stop(self, guard):
        made, stub = guard
        stub.add_client_error("describe_nodegroup", "ResourceNotFoundException", http_status_code=404)
        made.stop("its time is over", 4)
