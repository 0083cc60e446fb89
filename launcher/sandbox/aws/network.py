"""EC2's network types: EC2 returns the settings of the template, and deletes them with the stack.

Judged by: cfn-lint 1.58.0's copy of CloudFormation's registry, which judges every synthesised template
(tests/infra/linting.py); Describe calls by moto 5.2.5.

Emulated: VPC with its DNS settings, subnets by zone name or zone id, gateways, NAT, NAT instances, routes and their
association with subnets, VPC endpoints, flow logs, tags; the refusal to delete a subnet or VPC that others use. Not
emulated: traffic, updates (a resource stays as created), IPv6.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from moto.ec2.models import ec2_backends
from moto.ec2.models.core import TaggedEC2Resource
from moto.ec2.models.elastic_ip_addresses import ElasticAddress
from moto.ec2.models.flow_logs import FlowLogs
from moto.ec2.models.instances import Instance
from moto.ec2.models.internet_gateways import InternetGateway
from moto.ec2.models.nat_gateways import NatGateway
from moto.ec2.models.route_tables import Route, RouteTable
from moto.ec2.models.subnets import Subnet
from moto.ec2.models.vpcs import VPC, VPCEndPoint
from moto.ssm.models import ssm_backends

from launcher.sandbox.aws.model import Created, Model, Requested, ResourceRefusedError

_Resource = TypeVar("_Resource")
_REFERENCE = re.compile(r"\{\{resolve:ssm:(?P<name>[^:}]+)\}\}")


def ec2(requested: Requested) -> Any:
    """The emulated EC2 in which a resource is created."""
    return ec2_backends[requested.account_id][requested.region_name]


def network_problem(network: Mapping[str, Any] | None, account: str, region: str) -> str | None:
    """Why SageMaker refuses a VpcConfig: an unknown subnet or security group, or several VPCs (API reference)."""
    if network is None:
        return None
    backend = ec2_backends[account][region]
    subnets = {subnet.id: subnet.vpc_id for zone in backend.subnets.values() for subnet in zone.values()}
    groups = {group.id: group.vpc_id for vpc in backend.groups.values() for group in vpc.values()}
    for kind, names, known in (
        ("subnet", network["Subnets"], subnets),
        ("security group", network["SecurityGroupIds"], groups),
    ):
        for name in names:
            if name not in known:
                return f"The {kind} ID {name!r} does not exist."
    vpcs = {*(subnets[name] for name in network["Subnets"]), *(groups[name] for name in network["SecurityGroupIds"])}
    if len(vpcs) > 1:
        return f"Subnets and security groups must be in one VPC, got {', '.join(sorted(map(str, vpcs)))}."
    return None


def by_moto(model: Any) -> Callable[[Requested], Any]:
    """A function that creates a resource with moto's model, and tags it."""

    def make(requested: Requested) -> Any:
        definition = {"Type": requested.type, "Properties": requested.properties}
        resource = model.create_from_cloudformation_json(
            requested.name, definition, requested.account_id, requested.region_name
        )
        return with_tags(requested, resource)

    return make


def with_tags(requested: Requested, resource: _Resource) -> _Resource:
    """The resource with the tags of its template."""
    tags = {tag["Key"]: tag["Value"] for tag in requested.get("Tags", [])}
    if tags and isinstance(resource, TaggedEC2Resource):
        resource.add_tags(tags)
    return resource


def _vpc(requested: Requested) -> VPC:
    vpc: VPC = by_moto(VPC)(requested)
    for name, attribute in (("EnableDnsSupport", "enable_dns_support"), ("EnableDnsHostnames", "enable_dns_hostnames")):
        value = requested.get(name)
        if value is not None:
            ec2(requested).modify_vpc_attribute(vpc.id, attribute, value)
    return vpc


def _subnet(requested: Requested) -> Subnet:
    subnet: Subnet = ec2(requested).create_subnet(
        vpc_id=requested.need("VpcId"),
        cidr_block=requested.need("CidrBlock"),
        availability_zone=requested.get("AvailabilityZone"),
        availability_zone_id=requested.get("AvailabilityZoneId"),
    )
    # To moto the first subnet in a zone is the zone's default one, and hands out public addresses.
    subnet.default_for_az = False
    subnet.map_public_ip_on_launch = bool(requested.get("MapPublicIpOnLaunch", False))
    return with_tags(requested, subnet)


def _attachment(requested: Requested) -> Created:
    gateway, vpc = requested.need("InternetGatewayId"), requested.need("VpcId")
    ec2(requested).attach_internet_gateway(gateway, vpc)
    return Created(physical_resource_id=f"IGW|{vpc}")


def _association(requested: Requested) -> Created:
    association = ec2(requested).associate_route_table(
        route_table_id=requested.need("RouteTableId"), subnet_id=requested.need("SubnetId")
    )
    return Created(physical_resource_id=association, attributes={"Id": association})


def _nat(requested: Requested) -> NatGateway:
    nat: NatGateway = ec2(requested).create_nat_gateway(
        requested.need("SubnetId"),
        requested.get("AllocationId"),
        connectivity_type=requested.get("ConnectivityType", "public"),
    )
    return with_tags(requested, nat)


def _instance(requested: Requested) -> Instance:
    """A NAT instance, with the image that a dynamic reference to a parameter names."""
    image = requested.need("ImageId")
    reference = _REFERENCE.fullmatch(image)
    if reference is not None:
        backend = ssm_backends[requested.account_id][requested.region_name]
        parameter = backend.get_parameter(reference["name"])
        if parameter is None:
            raise ResourceRefusedError(f"Parameter {reference['name']} not found. (Service: Ssm, Status Code: 400)")
        image = parameter.value
    (interface,) = requested.need("NetworkInterfaces")
    (instance,) = (
        ec2(requested)
        .run_instances(
            image_id=image,
            count=1,
            user_data=requested.get("UserData"),
            security_group_names=[],
            security_group_ids=interface["GroupSet"],
            instance_type=requested.need("InstanceType"),
            is_instance_type_default=False,
            subnet_id=interface["SubnetId"],
            block_device_mappings=[],
        )
        .instances
    )
    ec2(requested).modify_instance_attribute(
        instance.id, "source_dest_check", bool(requested.get("SourceDestCheck", True))
    )
    made: Instance = with_tags(requested, instance)
    return made


def _endpoint(requested: Requested) -> VPCEndPoint:
    policy = requested.get("PolicyDocument")
    endpoint: VPCEndPoint = ec2(requested).create_vpc_endpoint(
        vpc_id=requested.need("VpcId"),
        service_name=requested.need("ServiceName"),
        endpoint_type=requested.get("VpcEndpointType", "Gateway"),
        policy_document=json.dumps(policy) if policy else None,
        route_table_ids=requested.get("RouteTableIds", []),
        subnet_ids=requested.get("SubnetIds", []),
        security_group_ids=requested.get("SecurityGroupIds", []),
        private_dns_enabled=requested.get("PrivateDnsEnabled"),
    )
    return with_tags(requested, endpoint)


def _remove_vpc(requested: Requested, vpc: VPC) -> None:
    """Delete a VPC; EC2 refuses one with endpoints or security groups, which moto deletes."""
    backend = ec2(requested)
    groups = [group for group in backend.groups[vpc.id].values() if group.name != "default"]
    if groups or any(endpoint.vpc_id == vpc.id for endpoint in _endpoints(requested)):
        raise ResourceRefusedError(_in_use("vpc", vpc.id))
    backend.delete_vpc(vpc.id)


def _remove_subnet(requested: Requested, subnet: Subnet) -> None:
    """Delete a subnet; EC2 refuses one with interfaces, also of endpoints, which moto deletes."""
    backend = ec2(requested)
    free = [interface for interface in backend.enis.values() if interface.status == "available"]
    held = {interface.subnet.id for interface in free}
    held |= {subnet_id for endpoint in _endpoints(requested) for subnet_id in endpoint.subnet_ids or ()}
    if subnet.id in held:
        raise ResourceRefusedError(_in_use("subnet", subnet.id))
    backend.delete_subnet(subnet.id)


def _endpoints(requested: Requested) -> list[VPCEndPoint]:
    """The endpoints that are not deleted."""
    endpoints = ec2(requested).vpc_end_points.values()
    return [endpoint for endpoint in endpoints if endpoint.state != "deleted"]


def _in_use(kind: str, name: str) -> str:
    return f"The {kind} '{name}' has dependencies and cannot be deleted. (Service: Ec2, Status Code: 400)"


def _detach(requested: Requested, attachment: Created) -> None:
    del attachment
    ec2(requested).detach_internet_gateway(requested.need("InternetGatewayId"), requested.need("VpcId"))


def _remove_nat(requested: Requested, nat: NatGateway) -> None:
    ec2(requested).delete_nat_gateway(nat.id)
    # moto keeps the gateway's interface.
    ec2(requested).delete_network_interface(nat._eni.id)  # noqa: SLF001 - no other name of it


def _change_route(requested: Requested, route: Route) -> Route:
    """Replace the target in place (update handler of aws-ec2-route); another table or range makes a new route."""
    ec2(requested).replace_route(
        route.route_table.id,
        route.destination_cidr_block,
        nat_gateway_id=requested.get("NatGatewayId"),
        gateway_id=requested.get("GatewayId"),
        instance_id=requested.get("InstanceId"),
    )
    return route


def _remove_endpoint(requested: Requested, endpoint: VPCEndPoint) -> None:
    if endpoint.vpc_endpoint_type == "Gateway":
        # moto looks for the route in tables that go away with the same stack.
        endpoint.route_table_ids = []
    ec2(requested).delete_vpc_endpoints([endpoint.id])


MODELS = (
    Model(type="AWS::EC2::VPC", make=_vpc, remove=_remove_vpc),
    Model(type="AWS::EC2::Subnet", make=_subnet, remove=_remove_subnet),
    Model(
        type="AWS::EC2::InternetGateway",
        make=by_moto(InternetGateway),
        remove=lambda requested, gateway: ec2(requested).delete_internet_gateway(gateway.id),
    ),
    Model(type="AWS::EC2::VPCGatewayAttachment", make=_attachment, remove=_detach),
    Model(
        type="AWS::EC2::EIP",
        make=by_moto(ElasticAddress),
        remove=lambda requested, address: ec2(requested).release_address(allocation_id=address.allocation_id),
    ),
    Model(type="AWS::EC2::NatGateway", make=_nat, remove=_remove_nat),
    Model(
        type="AWS::EC2::Instance",
        make=_instance,
        remove=lambda requested, instance: ec2(requested).terminate_instances([instance.id]),
    ),
    Model(
        type="AWS::EC2::RouteTable",
        make=by_moto(RouteTable),
        remove=lambda requested, table: ec2(requested).delete_route_table(table.id),
    ),
    Model(
        type="AWS::EC2::Route",
        make=by_moto(Route),
        change=_change_route,
        remove=lambda requested, route: ec2(requested).delete_route(route.route_table.id, route.destination_cidr_block),
    ),
    Model(
        type="AWS::EC2::SubnetRouteTableAssociation",
        make=_association,
        remove=lambda requested, association: ec2(requested).disassociate_route_table(association.physical_resource_id),
    ),
    Model(type="AWS::EC2::VPCEndpoint", make=_endpoint, remove=_remove_endpoint),
    Model(
        type="AWS::EC2::FlowLog",
        make=by_moto(FlowLogs),
        remove=lambda requested, flow_log: ec2(requested).delete_flow_logs([flow_log.id]),
    ),
)
