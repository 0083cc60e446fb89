"""The sandbox's EKS refuses what EKS refuses."""

import base64

import pytest
from moto import mock_aws
from moto.ec2.models import ec2_backends
from moto.eks.models import eks_backends
from moto.s3.models import s3_backends

from launcher.sandbox.aws.model import ResourceRefusedError
from launcher.targets.eks.files import user_data
from tests.unit.sandbox.eks_resources import ACCOUNT, HOSTS, MAKE, REGION, ROLE, cluster, group, requested


@pytest.fixture
def ec2_backend():
    with mock_aws():
        yield ec2_backends[ACCOUNT][REGION]


@pytest.fixture
def subnets(ec2_backend):
    vpc = ec2_backend.create_vpc("10.0.0.0/16")
    cut = [("10.0.0.0/28", "us-east-2a"), ("10.0.0.16/28", "us-east-2b"), ("10.0.0.32/28", "us-east-2a")]
    return [ec2_backend.create_subnet(vpc.id, cidr, availability_zone=zone).id for cidr, zone in cut]


class TestCluster:
    def test_created_eks_cluster_can_be_described(self, subnets):
        created = cluster(subnets[:2])
        eks_cluster = eks_backends[ACCOUNT][REGION].describe_cluster("slipway-x")
        assert (eks_cluster.version, eks_cluster.resources_vpc_config["endpointPublicAccess"]) == ("1.35", False)
        assert created.attributes["ClusterSecurityGroupId"].startswith("sg-")

    def test_eks_cluster_in_one_zone_is_refused(self, subnets):
        with pytest.raises(ResourceRefusedError, match="two different AZs"):
            cluster([subnets[0], subnets[2]])

    def test_public_access_ranges_without_a_public_endpoint_are_refused(self, subnets):
        with pytest.raises(ResourceRefusedError, match="publicAccessCidrs"):
            cluster(subnets[:2], PublicAccessCidrs=["52.94.76.0/24"])


BLOCK = {
    "InstanceMarketOptions": {"MarketType": "capacity-block"},
    "CapacityReservationSpecification": {"CapacityReservationTarget": {"CapacityReservationId": "cr-0"}},
}


class TestKubernetes:
    def test_eks_cluster_endpoint_is_the_emulated_kubernetes(self, subnets):
        created = cluster(subnets[:2])
        eks_cluster = eks_backends[ACCOUNT][REGION].describe_cluster("slipway-x")
        assert eks_cluster.endpoint == created.attributes["Endpoint"] == f"http://127.0.0.1:1/slipway-x/{REGION}"

    def test_node_group_machines_have_the_devices_of_the_launch_template(self, ec2_backend, subnets):
        cluster(subnets[:2])
        group(ec2_backend, NetworkInterfaces=[{"InterfaceType": "interface"}, {"InterfaceType": "efa-only"}])
        joined = HOSTS.joined["slipway-x", "workers"]
        assert joined.devices == {"nvidia.com/gpu": "8", "vpc.amazonaws.com/efa": "1"}
        assert (joined.count, joined.room["hugepages-2Mi"], joined.zone) == (2, "5120Mi", "us-east-2a")


class TestNodeGroup:
    def test_created_node_group_can_be_described(self, ec2_backend, subnets):
        cluster(subnets[:2])
        group(ec2_backend, capacity="CAPACITY_BLOCK", **BLOCK)
        node_group = eks_backends[ACCOUNT][REGION].describe_nodegroup("slipway-x", "workers")
        assert node_group.scaling_config["desiredSize"] == 2

    @pytest.mark.parametrize(
        "capacity,data,message",
        [
            ("ON_DEMAND", BLOCK, "does not go with market type"),
            ("CAPACITY_BLOCK", {}, "does not go with market type"),
            ("CAPACITY_BLOCK", {"InstanceMarketOptions": BLOCK["InstanceMarketOptions"]}, "needs the id"),
            ("SPOT", {"IamInstanceProfile": {"Name": "x"}}, "must not specify IamInstanceProfile"),
            ("SPOT", {"NetworkInterfaces": [{"SubnetId": "subnet-1"}]}, "subnets of interfaces"),
            ("SPOT", {"NetworkInterfaces": [{}], "SecurityGroupIds": ["sg-1"]}, "may not be specified"),
        ],
    )
    def test_launch_template_refused_by_eks_is_refused(self, ec2_backend, subnets, capacity, data, message):
        cluster(subnets[:2])
        with pytest.raises(ResourceRefusedError, match=message):
            group(ec2_backend, capacity=capacity, **data)

    def test_desired_nodes_above_the_maximum_are_refused(self, ec2_backend, subnets):
        cluster(subnets[:2])
        with pytest.raises(ResourceRefusedError, match="desired capacity 3"):
            group(ec2_backend, desired=3)


class TestRefusedResources:
    @pytest.mark.parametrize(
        "kind,properties,message",
        [
            ("Addon", {"AddonName": "coredns", "AddonVersion": "latest"}, "not supported: latest"),
            (
                "AccessEntry",
                {"PrincipalArn": ROLE, "AccessPolicies": [{"PolicyArn": "arn:aws:iam::aws:policy/X"}]},
                "policyArn",
            ),
            ("PodIdentityAssociation", {"Namespace": "n", "ServiceAccount": "s"}, "RoleArn"),
        ],
    )
    def test_impossible_eks_resource_is_refused(self, subnets, kind, properties, message):
        cluster(subnets[:2])
        with pytest.raises(ResourceRefusedError, match=message):
            MAKE[kind](requested(kind, ClusterName="slipway-x", **properties))

    def test_eks_resource_without_a_cluster_is_refused(self, ec2_backend):
        with pytest.raises(ResourceRefusedError, match="No cluster found"):
            MAKE["Addon"](requested("Addon", ClusterName="slipway-y", AddonName="coredns"))


class TestBoots:
    URI = "s3://boots-of-eks/jobs/.guard/x/messages/boots"

    @pytest.fixture
    def reports(self, ec2_backend):
        """The reports of boots, by the end of their names."""
        store = s3_backends[ACCOUNT]["aws"]
        store.create_bucket("boots-of-eks", REGION)

        def read(end):
            keys = [key for key in store.buckets["boots-of-eks"].keys if key.endswith(end)]
            return [store.get_object("boots-of-eks", key).value.decode() for key in keys]

        return read

    def test_nodes_that_join_report_it(self, ec2_backend, subnets, reports):
        cluster(subnets[:2])
        group(ec2_backend, UserData=encode(user_data(local_storage=True, reports=self.URI)))
        assert len(reports("-ready.txt")) == 2
        assert all("has joined its cluster" in text for text in reports("-ready.txt"))

    def test_group_whose_nodes_do_not_join_fails_with_their_last_lines_reported(self, ec2_backend, subnets, reports):
        cluster(subnets[:2])
        broken = user_data(local_storage=True, reports=self.URI).replace("kind: NodeConfig", "kind: Nodeconfig")
        with pytest.raises(ResourceRefusedError, match="NodeCreationFailure: 2 of 2 instances failed to join"):
            group(ec2_backend, UserData=encode(broken))
        assert len(reports("-failed.txt")) == 2
        for text in reports("-failed.txt"):
            assert text.startswith("nodeadm: no kind NodeConfig of node.eks.aws/v1alpha1")
            assert "has not joined its cluster in time" in text


def encode(text):
    return base64.b64encode(text.encode()).decode()
