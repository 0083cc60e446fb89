"""EC2 instances of templates: instances, groups, fleets, node groups, ParallelCluster and Batch."""

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from launcher.model.record import record
from launcher.pricing.template.parts import (
    BLOCK,
    ON_DEMAND,
    SPOT,
    Instances,
    Item,
    Missing,
    Part,
    mapping,
    mappings,
    number,
    why_unknown,
)
from launcher.pricing.template.values import Resource, Template
from launcher.pricing.template.volumes import EKS_DISK_GIB, ROOT, devices, times, volume

LAUNCH_TEMPLATE, RESERVATION = "AWS::EC2::LaunchTemplate", "AWS::EC2::CapacityReservation"
MARKETS = {"spot": SPOT, "capacity-block": BLOCK, "SPOT": SPOT, "CAPACITY_BLOCK": BLOCK}
PERCENT = 100
ADDRESS = "vpc.public-ipv4"
VCPUS = "vCPUs"
"""The name of instances that are counted in vCPUs."""


@record
class Launch:
    """What a launch template, launch configuration or instance states of each instance."""

    type: Any
    market: str
    block_devices: Any
    addresses: int
    reserved: bool


def launch_of(data: Mapping[str, Any], template: Template) -> Launch:
    """What a template's data states; `reserved` if a reservation of the same template holds the instances."""
    interfaces = mappings(data.get("NetworkInterfaces"))
    target = mapping(mapping(data.get("CapacityReservationSpecification")).get("CapacityReservationTarget"))
    market = mapping(data.get("InstanceMarketOptions")).get("MarketType", "spot" if data.get("SpotPrice") else None)
    return Launch(
        type=data.get("InstanceType"),
        market=MARKETS.get(market, ON_DEMAND),
        block_devices=data.get("BlockDeviceMappings"),
        # Templates write the flag as a boolean or as a text.
        addresses=sum(str(one.get("AssociatePublicIpAddress")).lower() == "true" for one in (*interfaces, data)),
        reserved=template.referred_resource(target.get("CapacityReservationId"), RESERVATION) is not None,
    )


def named_launch(specification: Any, template: Template) -> Launch | None:
    """The launch template that a resource names by its id or name; None if it is not in this template."""
    stated = mapping(specification)
    # Each type of resource has its own keys for the id and the name of a launch template.
    for key in ("LaunchTemplateId", "LaunchTemplateName", "Id", "Name", "TemplateId"):
        referred = template.referred_resource(stated.get(key), LAUNCH_TEMPLATE)
        if referred is not None:
            return launch_of(mapping(referred.properties.get("LaunchTemplateData")), template)
    name = stated.get("LaunchTemplateName", stated.get("Name"))
    for resource in template.resources() if isinstance(name, str) else ():
        if resource.type == LAUNCH_TEMPLATE and resource.properties.get("LaunchTemplateName") == name:
            return launch_of(mapping(resource.properties.get("LaunchTemplateData")), template)
    return None


def group_parts(
    types: Iterable[Any], launch: Launch | None, count: float, most: float, *, name: str = "", market: str | None = None
) -> Iterator[Part]:
    """The parts of a number of equal instances: themselves, their volumes, their public addresses.

    Args:
        types: the types that they may have; of none, the launch template's.
        launch: what a launch template states; None if it is not in this template.
        count: instances after the deployment.
        most: the largest number.
        name: of the group within the resource.
        market: the purchase option; None: the launch template's.
    """
    stated = [*types] or ([launch.type] if launch is not None else [])
    known = tuple(dict.fromkeys(kind for kind in stated if isinstance(kind, str)))
    bought = market or (launch.market if launch is not None else ON_DEMAND)
    reserved = launch is not None and launch.reserved
    if not known:
        reason = why_unknown(stated[0] if stated else None, "InstanceType")
        yield Missing(name=" ".join(filter(None, (name, "instances"))), group="compute", reason=reason)
    # Instances in a reservation of the same template are billed by the reservation.
    elif not reserved:
        yield Instances(types=known, count=count, most=most, name=name, market=bought)
    if launch is None:
        yield ROOT
        return
    yield from times(devices(launch.block_devices), count, most)
    if launch.addresses:
        each = float(launch.addresses)
        yield Item(item=ADDRESS, name="public IPv4 address", group="network", each=each, count=count, most=most)


def instance(resource: Resource, template: Template) -> Iterator[Part]:
    """One instance."""
    own = launch_of(resource.properties, template)
    launch = named_launch(resource.properties.get("LaunchTemplate"), template) or own
    devices_own = resource.properties.get("BlockDeviceMappings")
    joined = Launch(
        type=own.type if own.type is not None else launch.type,
        market=launch.market,
        block_devices=devices_own if devices_own is not None else launch.block_devices,
        addresses=own.addresses or launch.addresses,
        reserved=own.reserved or launch.reserved,
    )
    yield from group_parts((), joined, 1, 1)


def sizes(properties: Mapping[str, Any], least: str, wanted: str, most: str) -> tuple[float, float] | Missing:
    """The number of a group after its deployment and its maximum."""
    minimum = number(properties.get(least), 0)
    maximum = number(properties.get(most), number(properties.get(wanted), minimum))
    desired = number(properties.get(wanted), minimum)
    if minimum is None or maximum is None or desired is None:
        key = most if maximum is None else wanted if desired is None else least
        return Missing(name="instances", group="compute", reason=why_unknown(properties.get(key), key))
    return max(minimum, desired), max(minimum, desired, maximum)


def auto_scaling_group(resource: Resource, template: Template) -> Iterator[Part]:
    """An Auto Scaling group, of one type or of a mixed policy."""
    properties = resource.properties
    counts = sizes(properties, "MinSize", "DesiredCapacity", "MaxSize")
    if isinstance(counts, Missing):
        yield counts
        return
    mixed = mapping(properties.get("MixedInstancesPolicy"))
    if mixed:
        yield from _mixed_policy_parts(mixed, template, *counts)
        return
    configuration = template.referred_resource(
        properties.get("LaunchConfigurationName"), "AWS::AutoScaling::LaunchConfiguration"
    )
    launch = (
        launch_of(configuration.properties, template)
        if configuration is not None
        else named_launch(properties.get("LaunchTemplate"), template)
    )
    yield from group_parts((), launch, *counts)


def _mixed_policy_parts(mixed: Mapping[str, Any], template: Template, count: float, most: float) -> Iterator[Part]:
    """The on-demand and the spot share of a mixed policy (defaults: no base, all above it on demand)."""
    stated = mapping(mixed.get("LaunchTemplate"))
    launch = named_launch(stated.get("LaunchTemplateSpecification"), template)
    types = _override_types(stated.get("Overrides"))
    distribution = mapping(mixed.get("InstancesDistribution"))
    base = number(distribution.get("OnDemandBaseCapacity"), 0) or 0.0
    share = number(distribution.get("OnDemandPercentageAboveBaseCapacity"), PERCENT)
    on_demand = [
        min(whole, base + math.ceil(max(0.0, whole - base) * (PERCENT if share is None else share) / PERCENT))
        for whole in (count, most)
    ]
    if on_demand[1]:
        yield from group_parts(types, launch, *on_demand, market=ON_DEMAND)
    if most > on_demand[1]:
        yield from group_parts(types, launch, count - on_demand[0], most - on_demand[1], market=SPOT)


def _override_types(overrides: Any) -> list[Any]:
    return [item["InstanceType"] for item in mappings(overrides) if "InstanceType" in item]


def fleet(resource: Resource, template: Template) -> Iterator[Part]:
    """An EC2 fleet: its target capacity counts as instances."""
    capacity = mapping(resource.properties.get("TargetCapacitySpecification"))
    total = number(capacity.get("TotalTargetCapacity"))
    configurations = mappings(resource.properties.get("LaunchTemplateConfigs"))
    if total is None or not configurations:
        reason = why_unknown(capacity.get("TotalTargetCapacity"), "TotalTargetCapacity")
        yield Missing(name="instances", group="compute", reason=reason)
        return
    launch = named_launch(configurations[0].get("LaunchTemplateSpecification"), template)
    types = [kind for one in configurations for kind in _override_types(one.get("Overrides"))]
    default = capacity.get("DefaultTargetCapacityType")
    market = MARKETS.get(default) if isinstance(default, str) else None
    yield from group_parts(types, launch, total, total, market=market)


def spot_fleet(resource: Resource, template: Template) -> Iterator[Part]:
    """A spot fleet request."""
    data = mapping(resource.properties.get("SpotFleetRequestConfigData"))
    total = number(data.get("TargetCapacity"))
    specifications = mappings(data.get("LaunchSpecifications"))
    configurations = mappings(data.get("LaunchTemplateConfigs"))
    if total is None:
        yield Missing(
            name="instances", group="compute", reason=why_unknown(data.get("TargetCapacity"), "TargetCapacity")
        )
    elif specifications:
        types = [one.get("InstanceType") for one in specifications]
        yield from group_parts(types, launch_of(specifications[0], template), total, total, market=SPOT)
    else:
        launch = (
            named_launch(configurations[0].get("LaunchTemplateSpecification"), template) if configurations else None
        )
        types = [kind for one in configurations for kind in _override_types(one.get("Overrides"))]
        yield from group_parts(types, launch, total, total, market=SPOT)


def reservation(resource: Resource, _template: Template) -> Iterator[Part]:
    """An On-Demand Capacity Reservation: billed whether instances run in it or not."""
    count, kind = number(resource.properties.get("InstanceCount"), 1), resource.properties.get("InstanceType")
    if count is None or not isinstance(kind, str):
        yield Missing(name="reservation", group="compute", reason=why_unknown(kind, "InstanceType"))
        return
    note = "billed whether used or not; instances in it are not counted again"
    yield Instances(types=(kind,), count=count, most=count, name="reservation", note=note)


def node_group(resource: Resource, template: Template) -> Iterator[Part]:
    """A managed node group of EKS."""
    properties = resource.properties
    counts = sizes(mapping(properties.get("ScalingConfig")), "MinSize", "DesiredSize", "MaxSize")
    if isinstance(counts, Missing):
        yield counts
        return
    launch = named_launch(properties.get("LaunchTemplate"), template)
    types = properties.get("InstanceTypes")
    market = MARKETS.get(properties.get("CapacityType", ""), ON_DEMAND if launch is None else launch.market)
    stated = types if isinstance(types, list) else []
    if launch is None and "LaunchTemplate" not in properties:
        disk = {"VolumeSize": properties.get("DiskSize", EKS_DISK_GIB)}
        # EKS starts t3.medium if no type is named (EKS API reference, CreateNodegroup).
        known = tuple(kind for kind in stated or ["t3.medium"] if isinstance(kind, str))
        yield Instances(types=known, count=counts[0], most=counts[1], market=market)
        yield from times(volume(disk, "disk", default="gp3"), *counts)
        return
    yield from group_parts(stated, launch, *counts, market=market)


def pcs_group(resource: Resource, template: Template) -> Iterator[Part]:
    """A compute node group of AWS PCS: EC2 instances, and the service's fee for each."""
    properties = resource.properties
    counts = sizes(
        mapping(properties.get("ScalingConfiguration")), "MinInstanceCount", "MinInstanceCount", "MaxInstanceCount"
    )
    if isinstance(counts, Missing):
        yield counts
        return
    types = [one.get("InstanceType") for one in mappings(properties.get("InstanceConfigs"))]
    option = properties.get("PurchaseOption")
    market = MARKETS.get(option) if isinstance(option, str) else None
    launch = named_launch(properties.get("CustomLaunchTemplate"), template)
    yield from group_parts(types, launch, *counts, market=market)
    yield Missing(name="PCS fee of the nodes", group="other", reason="AWS PCS's fees have no listed price here")


def pcs_cluster(_resource: Resource, _template: Template) -> Iterator[Part]:
    """The controller of AWS PCS."""
    yield Missing(name="PCS controller", group="other", reason="AWS PCS's fees have no listed price here")


def batch(resource: Resource, template: Template) -> Iterator[Part]:
    """A compute environment of AWS Batch: its vCPUs, as instances of the dearest type that it names."""
    compute = mapping(resource.properties.get("ComputeResources"))
    kind = compute.get("Type")
    # Fargate is billed by vCPU and GiB, not by instance.
    if kind not in {"EC2", "SPOT"}:
        reason = why_unknown(kind, "Type") if not isinstance(kind, str) else f"{kind} has no price here"
        yield Missing(name="vCPUs", group="compute", reason=reason)
        return
    counts = sizes(compute, "MinvCpus", "DesiredvCpus", "MaxvCpus")
    types = compute.get("InstanceTypes")
    if isinstance(counts, Missing) or not isinstance(types, list):
        reason = counts.reason if isinstance(counts, Missing) else why_unknown(types, "InstanceTypes")
        yield Missing(name="vCPUs", group="compute", reason=reason)
        return
    known = tuple(kind for kind in types if isinstance(kind, str))
    market = SPOT if kind == "SPOT" else ON_DEMAND
    launch = named_launch(compute.get("LaunchTemplate"), template)
    yield Instances(types=known, count=counts[0], most=counts[1], name=VCPUS, market=market)
    if launch is None:
        yield ROOT


def parallelcluster(resource: Resource, _template: Template) -> Iterator[Part]:
    """The cluster of ParallelCluster's custom resource: head node, login nodes, and the queues' nodes."""
    configuration = mapping(resource.properties.get("ClusterConfiguration"))
    head = mapping(configuration.get("HeadNode"))
    yield from _node("head node", head, head, 1, 1)
    for pool in mappings(mapping(configuration.get("LoginNodes")).get("Pools")):
        count = number(pool.get("Count"), 1) or 0.0
        yield from _node("login nodes", pool, pool, count, count)
    for queue in mappings(mapping(configuration.get("Scheduling")).get("SlurmQueues")):
        market = MARKETS.get(str(queue.get("CapacityType")), ON_DEMAND)
        for nodes in mappings(queue.get("ComputeResources")):
            counts = sizes(nodes, "MinCount", "MinCount", "MaxCount")
            if isinstance(counts, Missing):
                yield counts
                continue
            stated = mapping(queue.get("ComputeSettings"))
            yield from _node(f"queue {queue.get('Name', '')}", nodes, stated, *counts, market=market)
    for mount in mappings(configuration.get("SharedStorage")):
        yield from _shared_parts(mount)


def _node(
    name: str,
    stated: Mapping[str, Any],
    storage: Mapping[str, Any],
    count: float,
    most: float,
    *,
    market: str = ON_DEMAND,
) -> Iterator[Part]:
    types = [stated["InstanceType"]] if "InstanceType" in stated else _override_types(stated.get("Instances"))
    known = tuple(kind for kind in types if isinstance(kind, str))
    if known:
        yield Instances(types=known, count=count, most=most, name=name, market=market)
    else:
        yield Missing(name=name, group="compute", reason=why_unknown(types[0] if types else None, "InstanceType"))
    root = mapping(mapping(storage.get("LocalStorage")).get("RootVolume"))
    if "Size" in root:
        parts = volume(root, f"root volume, {name}", size="Size", default="gp3")
        yield from times(parts, count, most)
    else:
        yield Missing(name=f"root volume, {name}", group="storage", reason=ROOT.reason)


def _shared_parts(mount: Mapping[str, Any]) -> Iterator[Part]:
    settings = mapping(mount.get("EbsSettings"))
    if mount.get("StorageType") == "Ebs" and "Size" in settings:
        yield from volume(settings, "shared volume", size="Size", default="gp3")
        return
    existing = any("FileSystemId" in mapping(mount.get(key)) for key in ("FsxLustreSettings", "EfsSettings"))
    if not existing:
        kind = mount.get("StorageType")
        yield Missing(name=f"shared storage {kind}", group="storage", reason="its size is not stated as a block device")
