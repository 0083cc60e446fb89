"""The instances of a cluster in EC2: their addresses, their boot output, and how one is rebooted or ended."""

import boto3
import pytest
from moto import mock_aws

from launcher.aws import instances
from launcher.aws.session import Session
from launcher.model.errors import AwsError

REGION = "us-east-2"
KEYS = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}


@pytest.fixture
def ec2():
    with mock_aws():
        yield boto3.client("ec2", region_name=REGION, aws_access_key_id="a", aws_secret_access_key="b")


@pytest.fixture
def session():
    return Session(environment=KEYS, region=REGION)


def run(ec2, cluster, role):
    tags = [{"Key": "eks:cluster-name", "Value": cluster}, {"Key": "eks:nodegroup-name", "Value": role}]
    specification = [{"ResourceType": "instance", "Tags": tags}]
    options = {"ImageId": "ami-00000000000000000", "MinCount": 1, "MaxCount": 1, "TagSpecifications": specification}
    (instance,) = ec2.run_instances(**options)["Instances"]
    return instance


def test_node_instances_have_id_address_and_host(ec2, session):
    wanted = run(ec2, "slipway-a", "workers")
    run(ec2, "slipway-a", "system")
    run(ec2, "slipway-b", "workers")
    more = [{"Name": "tag:eks:nodegroup-name", "Values": ["workers"]}]
    (found,) = instances.cluster_instances(session, "eks:cluster-name", "slipway-a", more)
    assert (found.id, found.address) == (wanted["InstanceId"], wanted["PrivateIpAddress"])
    assert found.host == wanted["PrivateDnsName"].partition(".")[0]
    assert found.launched_at == wanted["LaunchTime"]


def test_console_output_is_text(ec2, session):
    assert "Linux version" in instances.console_output(session, run(ec2, "slipway-a", "workers")["InstanceId"])


def test_ended_instance_is_not_listed_any_more(ec2, session):
    instance = run(ec2, "slipway-a", "workers")["InstanceId"]
    instances.reboot(session, instance)
    assert len(instances.cluster_instances(session, "eks:cluster-name", "slipway-a")) == 1
    instances.terminate(session, instance)
    assert instances.cluster_instances(session, "eks:cluster-name", "slipway-a") == ()


@pytest.mark.parametrize("call", [instances.reboot, instances.terminate, instances.console_output])
def test_missing_instance_is_an_aws_error(ec2, session, call):
    with pytest.raises(AwsError, match="i-0123456789abcdef0"):
        call(session, "i-0123456789abcdef0")
