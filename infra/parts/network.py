"""A VPC with one private subnet in one zone: nobody reaches in, and everything inside reaches AWS."""

from aws_cdk import Fn, RemovalPolicy, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from constructs import Construct

from launcher.model import sizing
from launcher.planning.addresses import Ranges

_ANYWHERE = "0.0.0.0/0"


class Network(Construct):
    """A VPC, a private subnet for every machine, and a public one for the NAT gateway alone.

    The private subnet stands in the zone of the capacity: EFA does not cross zones. No subnet hands out public
    addresses, which instances with several network cards could not have anyway. S3 is reached through a gateway
    endpoint, so checkpoints do not pass the NAT gateway and its price per GB; all other services through NAT.

    Attributes:
        vpc: the VPC.
        private_subnet: where head node, compute nodes and file systems go.
    """

    def __init__(self, scope: Construct, id_: str, *, ranges: Ranges, zone: str | None) -> None:
        """Lay out the network.

        Args:
            scope: the stack.
            id_: construct id.
            ranges: the VPC's range and its two subnets'.
            zone: availability zone id, such as use2-az1; None: the region's first.
        """
        super().__init__(scope, id_)
        self.vpc = ec2.CfnVPC(
            self, "Vpc", cidr_block=str(ranges.vpc), enable_dns_support=True, enable_dns_hostnames=True
        )
        self._name(self.vpc)
        self.private_subnet = self._subnet("Private", str(ranges.private), zone)
        public_subnet = self._subnet("Public", str(ranges.public), zone)
        private_routes = self._routes("Private", self.private_subnet)
        public_routes = self._routes("Public", public_subnet)
        self._egress(public_subnet, public_routes, private_routes)
        ec2.CfnVPCEndpoint(
            self,
            "S3",
            vpc_id=self.vpc.ref,
            service_name=f"com.amazonaws.{Stack.of(self).region}.s3",
            vpc_endpoint_type="Gateway",
            route_table_ids=[private_routes.ref],
        )
        self._flow_log()

    def _name(self, resource: ec2.CfnVPC | ec2.CfnSubnet, suffix: str = "") -> None:
        """The name the console shows."""
        resource.tags.set_tag("Name", f"{Stack.of(self).stack_name}{suffix}")

    def _subnet(self, which: str, cidr: str, zone: str | None) -> ec2.CfnSubnet:
        """One subnet; no machine in it is given a public address."""
        subnet = ec2.CfnSubnet(
            self,
            f"{which}Subnet",
            vpc_id=self.vpc.ref,
            cidr_block=cidr,
            map_public_ip_on_launch=False,
            availability_zone_id=zone,
            availability_zone=Fn.select(0, Fn.get_azs()) if zone is None else None,
        )
        self._name(subnet, f"-{which.lower()}")
        return subnet

    def _routes(self, which: str, subnet: ec2.CfnSubnet) -> ec2.CfnRouteTable:
        """A subnet's own route table."""
        table = ec2.CfnRouteTable(self, f"{which}Routes", vpc_id=self.vpc.ref)
        ec2.CfnSubnetRouteTableAssociation(self, f"{which}Association", route_table_id=table.ref, subnet_id=subnet.ref)
        return table

    def _egress(
        self, public_subnet: ec2.CfnSubnet, public_routes: ec2.CfnRouteTable, private_routes: ec2.CfnRouteTable
    ) -> None:
        """The ways out: an internet gateway for the public subnet, through it a NAT gateway for the private one."""
        internet = ec2.CfnInternetGateway(self, "Internet")
        attachment = ec2.CfnVPCGatewayAttachment(
            self, "InternetAttachment", vpc_id=self.vpc.ref, internet_gateway_id=internet.ref
        )
        out = ec2.CfnRoute(
            self,
            "PublicOut",
            route_table_id=public_routes.ref,
            destination_cidr_block=_ANYWHERE,
            gateway_id=internet.ref,
        )
        out.add_resource_dependency(attachment)
        address = ec2.CfnEIP(self, "NatAddress", domain="vpc")
        address.add_resource_dependency(attachment)
        nat = ec2.CfnNatGateway(self, "Nat", subnet_id=public_subnet.ref, allocation_id=address.attr_allocation_id)
        nat.add_resource_dependency(out)
        ec2.CfnRoute(
            self,
            "PrivateOut",
            route_table_id=private_routes.ref,
            destination_cidr_block=_ANYWHERE,
            nat_gateway_id=nat.ref,
        )

    def _flow_log(self) -> None:
        """A log of refused connections: attempts to get in, rules that are too tight; not the bulk of S3 traffic."""
        group = logs.CfnLogGroup(self, "FlowLogGroup", retention_in_days=sizing.LOG_RETENTION_DAYS)
        group.apply_removal_policy(RemovalPolicy.DESTROY)
        statement = iam.PolicyStatement(
            actions=["logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"],
            resources=[group.attr_arn],
        )
        role = iam.Role(
            self,
            "FlowLogRole",
            assumed_by=iam.ServicePrincipal("vpc-flow-logs.amazonaws.com"),
            description="Writes the VPC's flow log to its log group",
            inline_policies={"WriteFlowLog": iam.PolicyDocument(statements=[statement])},
        )
        ec2.CfnFlowLog(
            self,
            "FlowLog",
            resource_id=self.vpc.ref,
            resource_type="VPC",
            traffic_type="REJECT",
            log_group_name=group.ref,
            deliver_logs_permission_arn=role.role_arn,
        )
