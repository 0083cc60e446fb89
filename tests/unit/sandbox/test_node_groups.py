"""EC2's calls on the instances of an EKS node group reach its nodes, and the group keeps its size."""

import boto3
import pytest
from moto import mock_aws
from moto.ec2.responses.instances import InstanceResponse
from moto.eks.models import eks_backends

from launcher.aws import instances
from launcher.aws.session import Session
from launcher.model.emulator import EMULATED_ACCOUNT as ACCOUNT
from launcher.sandbox.aws import node_groups

REGION, NAME, ROLE = "us-east-2", "slipway-x", f"arn:aws:iam::{ACCOUNT}:role/a"
KEYS = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}


class Owner:
    """Takes note of what reaches the nodes."""

    def __init__(self):
        self.restarted, self.renewed = [], []

    def restart(self, name, instance_ids):
        self.restarted += [(name, id_) for id_ in instance_ids]

    def renew_node(self, name, instance_id, new_id):
        self.renewed.append((name, instance_id, new_id))


@pytest.fixture
def group(monkeypatch):
    """The ids of a group of two workers, the owner of its nodes, and a session."""
    for call in ("reboot_instances", "terminate_instances"):
        monkeypatch.setattr(InstanceResponse, call, getattr(InstanceResponse, call))
    monkeypatch.setenv("MOTO_ACCOUNT_ID", ACCOUNT)
    with mock_aws():
        options = {"region_name": REGION, "aws_access_key_id": "a", "aws_secret_access_key": "b"}
        client, ec2 = boto3.client("eks", **options), boto3.client("ec2", **options)
        subnets = [subnet["SubnetId"] for subnet in ec2.describe_subnets()["Subnets"]][:2]
        client.create_cluster(name=NAME, roleArn=ROLE, resourcesVpcConfig={"subnetIds": subnets})
        client.create_nodegroup(
            clusterName=NAME,
            nodegroupName="workers",
            nodeRole=ROLE,
            subnets=subnets[:1],
            scalingConfig={"minSize": 0, "maxSize": 2, "desiredSize": 2},
        )
        (backend,) = [
            backends[REGION] for backends in eks_backends.values() if NAME in getattr(backends[REGION], "clusters", {})
        ]
        ids, owner = node_groups.match(backend, NAME, "workers"), Owner()
        node_groups.install(owner)
        yield ids, owner, Session(environment=KEYS, region=REGION)


def running(session):
    return {found.id for found in instances.cluster_instances(session, "eks:cluster-name", NAME)}


def test_terminated_node_is_replaced(group):
    ids, owner, session = group
    instances.terminate(session, ids[0])
    ((name, old, new),) = owner.renewed
    assert (name, old) == (NAME, ids[0])
    assert running(session) == {ids[1], new}
    assert new not in ids


def test_rebooted_node_keeps_the_instance(group):
    ids, owner, session = group
    instances.reboot(session, ids[1])
    assert owner.restarted == [(NAME, ids[1])]
    assert running(session) == set(ids)


def test_instance_outside_a_group_changes_no_node(group):
    _, owner, session = group
    other = session.client("ec2").run_instances(ImageId="ami-00000000000000000", MinCount=1, MaxCount=1)
    instances.terminate(session, other["Instances"][0]["InstanceId"])
    assert (owner.renewed, owner.restarted) == ([], [])
