"""The login node of a PCS cluster, by its reports of boots: EC2 and S3 are moto's."""

import boto3
import pytest
from moto import mock_aws

from launcher.aws.session import Session
from launcher.model.errors import DeploymentFailedError
from launcher.rendering.node import login_boots_uri
from launcher.targets.pcs.cluster import LOGIN_S, POLL_S, PcsCluster
from tests.plans import two_node_plan

REGION = "us-east-2"
KEYS = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing"}
WORDS = "s3://store/jobs/.guard/8131d980/messages"
OUTPUTS = {"ClusterName": "slipway-probe", "LoginGroupId": "pcs_login", "Region": REGION, "GuardMessageUri": WORDS}


def client(service):
    return boto3.client(service, region_name=REGION)


class Group:
    """A login group: `run` starts an instance as PCS does, `report` writes what machine.sh reports of its boot."""

    def __init__(self, plan):
        self.plan, self.pauses, self.reports = plan, [], 0

    def run(self):
        tags = [{"Key": "aws:pcs:compute-node-group-id", "Value": "pcs_login"}]
        (instance,) = client("ec2").run_instances(
            ImageId="ami-12c6146b",
            MinCount=1,
            MaxCount=1,
            TagSpecifications=[{"ResourceType": "instance", "Tags": tags}],
        )["Instances"]
        return instance["InstanceId"]

    def report(self, instance, end, text=""):
        bucket, _, prefix = login_boots_uri(WORDS).removeprefix("s3://").partition("/")
        self.reports += 1
        key = f"{prefix}/20261129T10{self.reports:02}00Z-{instance}-{end}.txt"
        client("s3").put_object(Bucket=bucket, Key=key, Body=text.encode())

    def fail(self, text):
        instance = self.run()
        self.report(instance, "failed", text)
        client("ec2").terminate_instances(InstanceIds=[instance])

    def wait(self, act=lambda: None, outputs=OUTPUTS):
        """The login node that a launch finds; `act` happens during each pause."""

        def sleep(seconds):
            self.pauses.append(seconds)
            act()

        session = Session(environment=KEYS, region=REGION)
        return PcsCluster().head_node(self.plan, outputs, session, sleep=sleep)


@pytest.fixture
def group(catalog, monkeypatch):
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    with mock_aws():
        client("s3").create_bucket(Bucket="store", CreateBucketConfiguration={"LocationConstraint": REGION})
        yield Group(two_node_plan("pcs", catalog))


def test_login_node_is_used_after_its_boot_is_reported_as_ready(group):
    instance = group.run()
    node = group.wait(lambda: group.report(instance, "ready") if len(group.pauses) == 4 else None)
    assert (node.instance, len(group.pauses)) == (instance, 4)


def test_three_failed_boots_of_login_nodes_end_the_wait_with_the_last_lines(group):
    with pytest.raises(DeploymentFailedError) as failure:
        group.wait(lambda: group.fail(f"mount\n\nmachine.sh: /fsx is not mounted, boot {len(group.pauses)}\n"))
    assert failure.value.message.splitlines() == [
        "slipway-probe: 3 login nodes failed to boot",
        "  the last lines of the newest failed boot:",
        "  mount",
        "  machine.sh: /fsx is not mounted, boot 3",
    ]
    assert "slipway down probe" in failure.value.hint
    assert len(group.pauses) == 3


def test_failed_login_boots_of_an_earlier_launch_are_not_counted(group):
    for _ in range(3):
        group.fail("an earlier launch")
    instance = group.run()
    assert group.wait(lambda: group.report(instance, "ready")).instance == instance


def test_login_group_without_a_node_ends_the_wait_after_its_time(group):
    with pytest.raises(DeploymentFailedError) as failure:
        group.wait()
    assert failure.value.message == "slipway-probe: no login node is ready after 15 min"
    assert sum(group.pauses) == LOGIN_S


def test_login_node_without_a_report_is_used_after_the_time_of_a_boot(group):
    instance = group.run()
    assert group.wait().instance == instance
    assert LOGIN_S - POLL_S <= sum(group.pauses) <= LOGIN_S


def test_login_node_of_a_cluster_without_reports_is_used_at_once(group):
    instance = group.run()
    outputs = {key: value for key, value in OUTPUTS.items() if key != "GuardMessageUri"}
    assert group.wait(outputs=outputs).instance == instance
    assert group.pauses == []
