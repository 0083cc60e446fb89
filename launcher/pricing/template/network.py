"""Load balancers, endpoints, file systems and control planes of templates."""

from collections.abc import Iterator

from launcher.pricing.bill import FSX
from launcher.pricing.template.parts import Item, Missing, Part, mapping, number, why_unknown
from launcher.pricing.template.values import Resource, Template

BALANCERS = {"application": "elb.application-load-balancer", "network": "elb.network-load-balancer"}
AUTO = "EKS Auto Mode: its fee for each instance and the instances that it starts"


def load_balancer(resource: Resource, _template: Template) -> Iterator[Part]:
    """An application or network load balancer, without its capacity units."""
    kind = resource.properties.get("Type", "application")
    if kind in BALANCERS:
        yield Item(item=BALANCERS[kind], name=f"{kind} load balancer", group="network")
    else:
        reason = f"a {kind} load balancer has no price here" if isinstance(kind, str) else why_unknown(kind, "Type")
        yield Missing(name="load balancer", group="network", reason=reason)


def vpc_endpoint(resource: Resource, _template: Template) -> Iterator[Part]:
    """An interface endpoint in each of its subnets; a gateway endpoint is free."""
    kind = resource.properties.get("VpcEndpointType", "Gateway")
    if kind == "Gateway":
        yield Item(item="vpc.gateway-endpoint", name="gateway endpoint", group="network")
        return
    subnets = resource.properties.get("SubnetIds")
    if not isinstance(subnets, list):
        yield Missing(name="interface endpoint", group="network", reason=why_unknown(subnets, "SubnetIds"))
        return
    zones = float(max(1, len(subnets)))
    yield Item(item="vpc.interface-endpoint", name="interface endpoint", group="network", each=zones)


def nat_gateway(resource: Resource, _template: Template) -> Iterator[Part]:
    """A NAT gateway, without the data that passes it; its address is a resource of its own."""
    del resource
    yield Item(item="vpc.nat-gateway", name="NAT gateway", group="network")


def file_system(resource: Resource, _template: Template) -> Iterator[Part]:
    """A file system of FSx: persistent Lustre on SSD by its throughput per TiB."""
    properties = resource.properties
    lustre = mapping(properties.get("LustreConfiguration"))
    gib, speed = number(properties.get("StorageCapacity")), number(lustre.get("PerUnitStorageThroughput"))
    kind = properties.get("FileSystemType")
    if kind != "LUSTRE" or properties.get("StorageType", "SSD") != "SSD":
        reason = f"FSx for {kind} with {properties.get('StorageType', 'SSD')} has no price here"
        yield Missing(name="file system", group="storage", reason=reason)
    elif gib is None:
        reason = why_unknown(properties.get("StorageCapacity"), "StorageCapacity")
        yield Missing(name="file system", group="storage", reason=reason)
    elif speed is None or int(speed) not in FSX:
        reason = f"no price of {lustre.get('DeploymentType', 'SCRATCH_1')} Lustre here"
        yield Missing(name="file system", group="storage", reason=reason)
    else:
        yield Item(item=FSX[int(speed)], name=f"Lustre, {speed:g} MB/s/TiB", group="storage", each=gib)


def control_plane(resource: Resource, _template: Template) -> Iterator[Part]:
    """The control plane of an EKS cluster; nodes of Auto Mode are named."""
    yield Item(item="eks.cluster", name="control plane", group="other")
    compute = mapping(resource.properties.get("ComputeConfig"))
    if str(compute.get("Enabled")).lower() == "true":
        yield Missing(name="Auto Mode", group="compute", reason=AUTO)
