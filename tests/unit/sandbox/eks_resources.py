"""Clusters and node groups of the sandbox's EKS, for tests of what it refuses."""

from launcher.sandbox.aws.eks import EmulatedEks
from launcher.sandbox.aws.model import Requested

ACCOUNT, REGION = "123456789012", "us-east-2"


class Hosts:
    """Takes what joins, and runs nothing."""

    def __init__(self):
        self.joined = {}

    def host(self, name, region):
        return f"http://127.0.0.1:1/{name}/{region}"

    def join(self, name, machines):
        self.joined[name, machines.group] = machines

    def identify(self, name, group, instance_ids):
        assert (name, group) in self.joined
        assert len(set(instance_ids)) == len(instance_ids)

    def leave(self, name, group):
        del self.joined[name, group]

    def stop(self, name):
        """Nothing runs."""


HOSTS = Hosts()
MAKE = {model.type.rpartition("::")[2]: model.make for model in EmulatedEks(HOSTS).models()}
ROLE = f"arn:aws:iam::{ACCOUNT}:role/slipway-x"


def requested(kind, **properties):
    return Requested(
        type=f"AWS::EKS::{kind}",
        logical_id="X",
        name="x",
        stack_id="s",
        properties=properties,
        account_id=ACCOUNT,
        region_name=REGION,
    )


def cluster(subnet_ids, **network):
    return MAKE["Cluster"](
        requested(
            "Cluster",
            Name="slipway-x",
            RoleArn=ROLE,
            Version="1.35",
            ResourcesVpcConfig={"SubnetIds": subnet_ids, "EndpointPublicAccess": False, **network},
        )
    )


def group(ec2, *, capacity="ON_DEMAND", desired=2, **data):
    template = ec2.create_launch_template("t", "", {"InstanceType": "p5.48xlarge", **data}, {})
    return MAKE["Nodegroup"](
        requested(
            "Nodegroup",
            ClusterName="slipway-x",
            NodegroupName="workers",
            NodeRole=ROLE,
            Subnets=[ec2.describe_subnets()[0].id],
            CapacityType=capacity,
            ScalingConfig={"MinSize": 0, "MaxSize": 2, "DesiredSize": desired},
            LaunchTemplate={"Id": template.id, "Version": "1"},
        )
    )
