"""A VPC with a subnet of nodes in each of its zones: no inbound access, and outbound access to AWS for every node."""

from collections.abc import Mapping
from ipaddress import IPv4Network

from aws_cdk import Fn, RemovalPolicy, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from constructs import Construct

from infra.parts.nat_instance import NatInstance
from launcher.model import sizing
from launcher.model.enums import Egress
from launcher.planning.addresses import Ranges, zone_range

_ANYWHERE = "0.0.0.0/0"


class Network(Construct):
    """A VPC, private subnets for every node, and a public one for the NAT alone; or a public one for the nodes.

    A cluster's subnet is in the zone of its capacity, because EFA does not cross zones. Private subnets assign no
    public addresses, which instances with several network cards could not have anyway. A public subnet of nodes does:
    no rule of a security group lets anyone in. S3 and DynamoDB
    (ParallelCluster's state) are reached through gateway endpoints, which are free and avoid the NAT gateway's price
    per GB. All other services are reached through NAT or directly, except those with an interface endpoint that the
    plan pays for; private subnets without NAT reach nothing else.

    Attributes:
        vpc: the VPC.
        node_subnets: the subnets of head nodes, compute nodes and file systems, by zone id; a cluster's own network
            has one, whose zone is None for the region's first zone.
        node_routes: the route table of these subnets.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        ranges: Ranges,
        zone: str | None,
        egress: Egress,
        nat_zone: str | None,
        shared_zones: tuple[str, ...] = (),
        endpoints: tuple[str, ...] = (),
    ) -> None:
        """`zone` is an availability zone id such as use2-az1; None: the region's first zone.

        `egress` is how nodes reach what is outside the network, `nat_zone` the zone of a NAT gateway or NAT instance.
        `shared_zones` are the zones of a shared network. Each service of `endpoints` (such as "ssm") gets an interface
        endpoint, billed by the hour.
        """
        super().__init__(scope, id_)
        self.vpc = ec2.CfnVPC(
            self, "Vpc", cidr_block=str(ranges.vpc), enable_dns_support=True, enable_dns_hostnames=True
        )
        self._name(self.vpc)
        zones: Mapping[str | None, IPv4Network] = {
            shared_zone: zone_range(ranges, shared_zone) for shared_zone in shared_zones
        }
        public, closed = egress is Egress.PUBLIC_ADDRESSES, egress is Egress.ENDPOINTS
        kind = "Nodes" if public else "Private"
        self.node_subnets = {
            az_id: self._subnet(_label(az_id) if shared_zones else kind, str(cidr), az_id, public=public)
            for az_id, cidr in (zones or {zone: ranges.private}).items()
        }
        self.node_routes = self._routes(kind, *self.node_subnets.values())
        if public:
            self._internet(self.node_routes)
        elif not closed:
            public_subnet = self._subnet("Public", str(ranges.public), nat_zone)
            public_routes = self._routes("Public", public_subnet)
            internet = self._internet(public_routes)
            # One id for both kinds: a change of the kind replaces the route in place, and EC2 refuses a second one.
            route = ec2.CfnRoute(
                self, "PrivateOut", route_table_id=self.node_routes.ref, destination_cidr_block=_ANYWHERE
            )
            if egress is Egress.NAT_GATEWAY:
                route.nat_gateway_id = self._nat(public_subnet, *internet)
            else:
                nat = NatInstance(self, "NatInstance", vpc_id=self.vpc.ref, cidr=str(ranges.vpc), subnet=public_subnet)
                nat.instance.add_resource_dependency(internet[1])
                route.instance_id = nat.instance.ref
        self._gateway_endpoint("S3", "s3", self.node_routes)
        self._gateway_endpoint("DynamoDb", "dynamodb", self.node_routes)
        if endpoints:
            self._interface_endpoints(endpoints, str(ranges.vpc))
        self._flow_log()

    def _name(self, resource: ec2.CfnVPC | ec2.CfnSubnet, suffix: str = "") -> None:
        resource.tags.set_tag("Name", f"{Stack.of(self).stack_name}{suffix}")

    def _subnet(self, kind: str, cidr: str, zone: str | None, *, public: bool = False) -> ec2.CfnSubnet:
        """A subnet; `public`: it gives its instances public addresses."""
        subnet = ec2.CfnSubnet(
            self,
            f"{kind}Subnet",
            vpc_id=self.vpc.ref,
            cidr_block=cidr,
            map_public_ip_on_launch=public,
            availability_zone_id=zone,
            availability_zone=Fn.select(0, Fn.get_azs()) if zone is None else None,
        )
        self._name(subnet, f"-{kind.lower()}")
        return subnet

    def _routes(self, kind: str, *subnets: ec2.CfnSubnet) -> ec2.CfnRouteTable:
        table = ec2.CfnRouteTable(self, f"{kind}Routes", vpc_id=self.vpc.ref)
        for subnet in subnets:
            label = subnet.node.id.removesuffix("Subnet")
            ec2.CfnSubnetRouteTableAssociation(
                self, f"{label}Association", route_table_id=table.ref, subnet_id=subnet.ref
            )
        return table

    def _gateway_endpoint(self, id_: str, service: str, routes: ec2.CfnRouteTable) -> None:
        """A free route to a service that bypasses the NAT gateway."""
        ec2.CfnVPCEndpoint(
            self,
            id_,
            vpc_id=self.vpc.ref,
            service_name=f"com.amazonaws.{Stack.of(self).region}.{service}",
            vpc_endpoint_type="Gateway",
            route_table_ids=[routes.ref],
        )

    def _interface_endpoints(self, services: tuple[str, ...], vpc_range: str) -> None:
        """One endpoint per service, in one zone that all others reach; each further zone would cost as much again."""
        group = ec2.CfnSecurityGroup(
            self,
            "EndpointSecurityGroup",
            vpc_id=self.vpc.ref,
            group_description="Slipway interface endpoints: HTTPS from the VPC",
            security_group_ingress=[
                ec2.CfnSecurityGroup.IngressProperty(
                    ip_protocol="tcp", from_port=443, to_port=443, cidr_ip=vpc_range, description="HTTPS from the VPC"
                )
            ],
            # Without a rule EC2 would allow everything.
            security_group_egress=[
                ec2.CfnSecurityGroup.EgressProperty(
                    ip_protocol="-1", cidr_ip="127.0.0.1/32", description="endpoints start no connections"
                )
            ],
        )
        for service in services:
            ec2.CfnVPCEndpoint(
                self,
                f"{_label(service)}Endpoint",
                vpc_id=self.vpc.ref,
                service_name=f"com.amazonaws.{Stack.of(self).region}.{service}",
                vpc_endpoint_type="Interface",
                private_dns_enabled=True,
                subnet_ids=[next(iter(self.node_subnets.values())).ref],
                security_group_ids=[group.attr_group_id],
            )

    def _internet(self, routes: ec2.CfnRouteTable) -> tuple[ec2.CfnVPCGatewayAttachment, ec2.CfnRoute]:
        """The internet gateway of the VPC, and the route of a public subnet to it."""
        internet = ec2.CfnInternetGateway(self, "Internet")
        attachment = ec2.CfnVPCGatewayAttachment(
            self, "InternetAttachment", vpc_id=self.vpc.ref, internet_gateway_id=internet.ref
        )
        out = ec2.CfnRoute(
            self, "PublicOut", route_table_id=routes.ref, destination_cidr_block=_ANYWHERE, gateway_id=internet.ref
        )
        out.add_resource_dependency(attachment)
        return attachment, out

    def _nat(self, public_subnet: ec2.CfnSubnet, attachment: ec2.CfnVPCGatewayAttachment, out: ec2.CfnRoute) -> str:
        """The id of the NAT gateway in the public subnet."""
        address = ec2.CfnEIP(self, "NatAddress", domain="vpc")
        address.add_resource_dependency(attachment)
        nat = ec2.CfnNatGateway(self, "Nat", subnet_id=public_subnet.ref, allocation_id=address.attr_allocation_id)
        nat.add_resource_dependency(out)
        return nat.ref

    def _flow_log(self) -> None:
        """A log of rejected connections: attempted access and too strict rules, without the bulk of S3 traffic."""
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


def _label(name: str | None) -> str:
    """A zone's or service's name as part of a construct id: "Use2Az1" for "use2-az1", "EcrApi" for "ecr.api"."""
    return "".join(part.capitalize() for part in (name or "").replace(".", "-").split("-"))
