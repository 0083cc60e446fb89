"""The network of a cluster and the security group of its nodes, for the stacks of other apps."""

from aws_cdk import Fn
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from infra.parts import efa
from infra.parts import network as parts
from launcher.model.enums import Egress
from launcher.planning.addresses import ranges
from slipway_aws.flags import own_flags
from slipway_aws.refusals import readable


class Network(Construct):
    """A VPC for a cluster: one subnet of nodes in one zone, gateway endpoints for S3 and DynamoDB, a flow log.

    Attributes:
        vpc: the VPC, for `SlipwayCluster(vpc=...)` and the constructs of AWS; its private subnet is that of the nodes.
        node_subnet: the subnet of the nodes; without a NAT gateway it is public, and `vpc` has no private subnet.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        cidr: str = "10.0.0.0/16",
        availability_zone_id: str | None = None,
        nat_gateway: bool = True,
    ) -> None:
        """Create the network.

        Args:
            scope: the parent.
            id_: the id within the parent.
            cidr: the range of addresses of the VPC.
            availability_zone_id: the zone of nodes and NAT gateway, such as "use2-az1"; None: the region's first zone.
            nat_gateway: nodes reach the internet through a NAT gateway; otherwise they have public addresses.

        Raises:
            SlipwayError: the range cannot be split into subnets.
        """
        super().__init__(scope, id_)
        own_flags(self)
        with readable():
            parts_of_range = ranges(cidr)
        zone = availability_zone_id
        resource = parts.Network(
            self,
            "Default",
            ranges=parts_of_range,
            zone=zone,
            egress=Egress.NAT_GATEWAY if nat_gateway else Egress.PUBLIC_ADDRESSES,
            nat_zone=zone,
        )
        subnet = resource.node_subnets[zone]
        # Only the zone's id is known; constructs of AWS want its name, which CloudFormation tells.
        zone_name = subnet.attr_availability_zone if zone is not None else Fn.select(0, Fn.get_azs())
        subnets, tables = [subnet.ref], [resource.node_routes.ref]
        self.vpc: ec2.IVpc = ec2.Vpc.from_vpc_attributes(
            self,
            "Vpc",
            vpc_id=resource.vpc.ref,
            vpc_cidr_block=cidr,
            availability_zones=[zone_name],
            private_subnet_ids=subnets if nat_gateway else None,
            private_subnet_route_table_ids=tables if nat_gateway else None,
            public_subnet_ids=None if nat_gateway else subnets,
            public_subnet_route_table_ids=None if nat_gateway else tables,
        )
        self.node_subnet: ec2.ISubnet = (self.vpc.private_subnets or self.vpc.public_subnets)[0]


class NodeSecurityGroup(Construct):
    """A security group whose members reach each other by any protocol, EFA included, and that nobody else reaches.

    Nodes that start before its rules stand have no EFA until they are restarted: `node.node.add_dependency(group)`.

    Attributes:
        security_group: the group.
    """

    def __init__(self, scope: Construct, id_: str, *, vpc: ec2.IVpc, allow_all_outbound: bool = True) -> None:
        """Create the group in a VPC; `allow_all_outbound`: members may also start connections to any address."""
        super().__init__(scope, id_)
        own_flags(self)
        resource = efa.NodeSecurityGroup(
            self, "Default", vpc_id=vpc.vpc_id, allows_outbound=allow_all_outbound, nat=bool(vpc.private_subnets)
        )
        self.security_group: ec2.ISecurityGroup = ec2.SecurityGroup.from_security_group_id(
            self, "SecurityGroup", resource.group.attr_group_id, mutable=False
        )
