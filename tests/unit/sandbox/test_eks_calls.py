"""EKS calls that moto lacks answer over HTTP as EKS does, and a group's size equals its number of instances."""

import boto3
import pytest
from botocore.exceptions import ClientError
from moto.eks.models import eks_backends

from launcher.aws.eks import access_policies, addon_version, granted_roles
from launcher.aws.session import Session
from launcher.model.emulator import EMULATED_ACCOUNT as ACCOUNT
from launcher.sandbox.aws import eks_calls
from launcher.workflow.cluster.pod_identity import PodIdentity, grant, revoke
from tests.emulators.moto_server import moto_server

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("eks-calls")]

REGION, NAME = "us-east-2", "slipway-x"
ROLE = f"arn:aws:iam::{ACCOUNT}:role/slipway-x-access"


class Hosts:
    """Takes note of sizes."""

    def __init__(self):
        self.sizes = {}

    def resize(self, name, group, count):
        self.sizes[name, group] = count

    def identify(self, name, group, instance_ids):
        assert len(instance_ids) == self.sizes.get((name, group), len(instance_ids))


HOSTS = Hosts()


@pytest.fixture(scope="module")
def eks_session():
    eks_calls.install(HOSTS)
    with moto_server() as endpoint:
        keys = {"AWS_ACCESS_KEY_ID": ACCOUNT, "AWS_SECRET_ACCESS_KEY": "x", "AWS_ENDPOINT_URL": endpoint}
        session = Session(environment=keys, region=REGION)
        place = {"region_name": REGION, "endpoint_url": endpoint}
        client, ec2 = (
            boto3.client(name, **place, aws_access_key_id=ACCOUNT, aws_secret_access_key="x") for name in ("eks", "ec2")
        )
        # Those of the default VPC: machines of a group are started in them.
        subnets = [subnet["SubnetId"] for subnet in ec2.describe_subnets()["Subnets"]][:2]
        network = {"subnetIds": subnets}
        client.create_cluster(name=NAME, roleArn=ROLE, resourcesVpcConfig=network)
        client.create_nodegroup(
            clusterName=NAME,
            nodegroupName="workers",
            nodeRole=ROLE,
            subnets=subnets[:1],
            scalingConfig={"minSize": 0, "maxSize": 4, "desiredSize": 4},
        )
        (backend,) = [
            candidate
            for account in eks_backends.values()
            for candidate in account.values()
            if NAME in candidate.clusters
        ]
        parts = eks_calls.parts_of(backend.clusters[NAME])
        parts.addons["coredns"] = "v1.14.2-eksbuild.4"
        policy = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"
        parts.entries[ROLE] = [{"PolicyArn": policy, "AccessScope": {"Type": "cluster"}}]
        parts.pod_roles["slipway", "slipway-jobs"] = ROLE
        yield session, client


def test_created_eks_resources_are_described(eks_session):
    session, client = eks_session
    assert addon_version(session, NAME, "coredns") == ("ACTIVE", "v1.14.2-eksbuild.4")
    assert access_policies(session, NAME, ROLE) == ("AmazonEKSClusterAdminPolicy",)
    assert client.describe_access_entry(clusterName=NAME, principalArn=ROLE)["accessEntry"]["principalArn"] == ROLE
    assert len(granted_roles(session, NAME, "slipway", "slipway-jobs")) == 1
    assert granted_roles(session, NAME, "default", "slipway-jobs") == ()


@pytest.mark.parametrize(
    "call,arguments",
    [
        ("describe_addon", {"addonName": "none"}),
        ("describe_access_entry", {"principalArn": f"{ROLE}-other"}),
        ("list_associated_access_policies", {"principalArn": f"{ROLE}-other"}),
        ("delete_pod_identity_association", {"associationId": "a-0123456789abcdef0"}),
    ],
)
def test_missing_eks_resource_is_not_found(eks_session, call, arguments):
    _, client = eks_session
    with pytest.raises(ClientError, match="ResourceNotFoundException"):
        getattr(client, call)(clusterName=NAME, **arguments)


def test_pod_identity_is_granted_once_per_account_and_revoked_alone(eks_session):
    session, client = eks_session
    pod_identity = PodIdentity(cluster=NAME, pods_role=ROLE, access_role=ROLE)
    messages, waited = [], []
    for account in ("first", "second", "first"):
        grant(pod_identity, "slipway", account, session, messages.append, wait=waited.append)
    assert len(messages) == len(waited) == 2, "what is granted is left alone, and nobody waits for it"
    with pytest.raises(ClientError, match="ResourceInUseException"):
        client.create_pod_identity_association(
            clusterName=NAME, namespace="slipway", serviceAccount="first", roleArn=ROLE
        )
    assert (
        len({granted_roles(session, NAME, "slipway", service_account) for service_account in ("first", "second")}) == 2
    )
    assert revoke(pod_identity, "slipway", "first", session) is True
    assert revoke(pod_identity, "slipway", "first", session) is False
    assert granted_roles(session, NAME, "slipway", "first") == ()
    assert len(granted_roles(session, NAME, "slipway", "second")) == 1
    assert revoke(pod_identity, "slipway", "second", session) is True


def test_node_group_scaled_to_zero_loses_and_regains_the_machines(eks_session):
    _, client = eks_session
    group = {"clusterName": NAME, "nodegroupName": "workers"}
    client.update_nodegroup_config(**group, scalingConfig={"minSize": 0, "desiredSize": 0})
    assert HOSTS.sizes[NAME, "workers"] == 0
    shown = client.describe_nodegroup(**group)["nodegroup"]["scalingConfig"]
    assert shown == {"minSize": 0, "maxSize": 4, "desiredSize": 0}
    client.update_nodegroup_config(**group, scalingConfig={"desiredSize": 4})
    assert HOSTS.sizes[NAME, "workers"] == 4
    with pytest.raises(ClientError, match="InvalidParameterException"):
        client.update_nodegroup_config(**group, scalingConfig={"desiredSize": 5})
