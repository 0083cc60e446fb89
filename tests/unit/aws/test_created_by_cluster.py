"""Resources that a Kubernetes cluster created in the account, against moto."""

import boto3
import pytest
from moto import mock_aws

from launcher.aws.created_by_cluster import created_by_cluster
from launcher.aws.session import Session
from launcher.catalog.load import load
from launcher.model.removal import RetainedKind
from launcher.workflow.doctor.leftovers import created_in_kubernetes

REGION, OWN, OTHER = "us-east-2", "slipway-a", "slipway-b"
KEYS = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x"}


def tags(**pairs):
    return [{"Key": key, "Value": value} for key, value in pairs.items()]


@pytest.fixture
def moto_session():
    with mock_aws():
        yield Session(environment=KEYS, region=REGION)


@pytest.fixture
def moto_client(moto_session):
    return lambda service: boto3.client(service, region_name=REGION, aws_access_key_id="x", aws_secret_access_key="x")


@pytest.fixture
def kinds_made(moto_client):
    """One of each kind for each of two clusters, and one of each that no cluster has made."""
    ec2, elb, elbv2 = moto_client("ec2"), moto_client("elb"), moto_client("elbv2")
    subnet = ec2.describe_subnets()["Subnets"][0]
    names = {}
    for cluster in (OWN, OTHER, None):
        owned = tags(**{f"kubernetes.io/cluster/{cluster}": "owned"} if cluster else {"Name": "mine"})
        of_cni = tags(**{"cluster.k8s.amazonaws.com/name": cluster} if cluster else {"Name": "mine"})
        of_controller = tags(**{"elbv2.k8s.aws/cluster": cluster} if cluster else {"Name": "mine"})

        def given(kind, with_tags=owned):
            return [{"ResourceType": kind, "Tags": with_tags}]

        for number in range(12):  # more than are asked for their tags at once
            listener = {"Protocol": "tcp", "LoadBalancerPort": 80, "InstancePort": 80}
            elb.create_load_balancer(
                LoadBalancerName=f"classic-{cluster}-{number}",
                Listeners=[listener],
                Tags=owned,
                AvailabilityZones=[subnet["AvailabilityZone"]],
            )
        elbv2.create_load_balancer(
            Name=f"k8s-{cluster}", Subnets=[subnet["SubnetId"]], Type="network", Tags=of_controller
        )
        zone = {"AvailabilityZone": subnet["AvailabilityZone"], "TagSpecifications": given("volume")}
        names[cluster, RetainedKind.VOLUME] = ec2.create_volume(Size=40, VolumeType="gp3", **zone)["VolumeId"]
        ec2.create_volume(Size=7, VolumeType="io2", Iops=100, **zone)
        interface = {"SubnetId": subnet["SubnetId"], "TagSpecifications": given("network-interface", of_cni)}
        network_interface = ec2.create_network_interface(**interface)["NetworkInterface"]
        names[cluster, RetainedKind.INTERFACE] = network_interface["NetworkInterfaceId"]
        for name in (f"k8s-elb-{cluster}", f"eks-cluster-sg-{cluster}"):
            group = {"GroupName": name, "Description": "x", "VpcId": subnet["VpcId"]}
            security_group = ec2.create_security_group(**group, TagSpecifications=given("security-group"))
            names.setdefault((cluster, RetainedKind.GROUP), security_group["GroupId"])
    return names


def test_resources_created_by_the_cluster_are_found_with_the_delete_command(moto_session, kinds_made):
    created_resources = created_by_cluster(moto_session, OWN)
    balancers = [created for created in created_resources if created.kind is RetainedKind.LOAD_BALANCER]
    assert len(balancers) == 13
    assert all(
        "slipway-a" in balancer.name and balancer.name.split("/")[-2:][0] in balancer.command for balancer in balancers
    )
    assert {"aws elb", "aws elbv2"} == {balancer.command.split(" delete")[0] for balancer in balancers}
    rest = {
        created.kind: created
        for created in reversed(created_resources)
        if created.kind is not RetainedKind.LOAD_BALANCER
    }
    assert {kind: resource.name for kind, resource in rest.items()} == {
        kind: name for (cluster, kind), name in kinds_made.items() if cluster == OWN
    }
    assert [created.gib for created in created_resources if created.kind is RetainedKind.VOLUME] == [40.0, 7.0]
    assert [created.kind for created in created_resources].count(RetainedKind.GROUP) == 1, (
        "EKS's own group goes with the cluster"
    )
    assert all(created.name in created.command for created in rest.values())


def test_account_without_created_resources_has_none(moto_session):
    assert created_by_cluster(moto_session, OWN) == ()


def test_retained_resources_have_a_monthly_cost_and_a_reason(moto_session, kinds_made):
    resources = list(created_in_kubernetes(moto_session, load(), REGION, OWN))
    dollars, unknown = [retained for retained in resources if retained.kind is RetainedKind.VOLUME]
    assert dollars.usd_per_month == load().bill_item("ebs.gp3-storage", REGION).usd * 40
    assert (unknown.usd_per_month, unknown.unpriced) == (None, "its price is unknown")
    assert all(f"--region {REGION}   (for an administrator" in retained.reason for retained in resources)
    assert all(
        "holds the network" in retained.reason for retained in resources if retained.kind is not RetainedKind.VOLUME
    )
