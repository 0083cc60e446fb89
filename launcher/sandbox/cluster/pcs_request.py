"""Validates requests to AWS PCS as the service does, against the emulated AWS. All problems are collected.

Shapes, enums, patterns and limits of members are botocore's (1.44.5, pcs); the rest is of the PCS user guide and of the
comments in AWS's own templates (launcher/model/pcs.py names them).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from launcher.aws.api_shape import complaints
from launcher.model import pcs
from launcher.sandbox.cluster.specification import AwsFacts

_USER_DATA_BYTES = 16_384
_KEPT = ("clusterName", "size", "networking")
"""What UpdateCluster cannot modify (PCS user guide, Updating a cluster, limitations)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterLimits:
    """The facts about a cluster: its size, the maximum number of instances of its groups, and its subnets."""

    size: str
    max_instances: int
    subnets: tuple[str, ...]


def cluster_problems(request: Mapping[str, Any], aws: AwsFacts) -> list[str]:
    """Problems of a CreateCluster request."""
    problems = complaints("pcs", ("CreateCluster",), request)
    if problems:
        return problems
    network, slurm = request["networking"], request.get("slurmConfiguration", {})
    version = request["scheduler"]["version"]
    if version not in pcs.SLURM_VERSIONS:
        problems.append(f"scheduler/version: got {version}, allowed: {', '.join(pcs.SLURM_VERSIONS)}")
    if len(network.get("subnetIds", ())) != 1:
        problems.append(f"networking/subnetIds: exactly one is supported, got {len(network.get('subnetIds', ()))}")
    problems.extend(_places(network.get("subnetIds", ()), network.get("securityGroupIds", ()), aws))
    if slurm.get("accounting", {}).get("defaultPurgeTimeInDays") == 0:
        problems.append("slurmConfiguration/accounting/defaultPurgeTimeInDays: got 0, allowed: -1, and 1 to 10000")
    problems.extend(_settings(slurm, pcs.CLUSTER_SETTINGS))
    return problems


def cluster_update_problems(before: Mapping[str, Any], request: Mapping[str, Any]) -> Iterator[str]:
    """Problems of an UpdateCluster request (PCS user guide, Updating a cluster, and its scheduler version)."""
    yield from (f"{key}: cannot be modified" for key in _KEPT if before.get(key) != request.get(key))
    was, becomes = (str(each["scheduler"]["version"]) for each in (before, request))
    if was != becomes and not 0 < pcs.slurm_steps(was, becomes) <= pcs.MOST_STEPS:
        yield f"scheduler/version: {becomes} is not a compatible target of {was}"


def _places(subnets: Any, groups: Any, aws: AwsFacts) -> Iterator[str]:
    yield from (f"subnet {subnet} does not exist" for subnet in subnets if aws.subnet(subnet) is None)
    admit = {group: aws.admits_itself(group) for group in groups}
    yield from (f"security group {group_id} does not exist" for group_id, admits in admit.items() if admits is None)
    if not any(admit.values()):
        yield "no security group lets all traffic in and out to itself: nodes cannot reach the controller"


def _settings(slurm: Mapping[str, Any], allowed: frozenset[str]) -> Iterator[str]:
    """Problems of settings: those that PCS does not support, and an empty list."""
    settings = slurm.get("slurmCustomSettings")
    if settings is not None and not settings:
        yield "slurmConfiguration/slurmCustomSettings: an empty list"
    for setting in settings or ():
        if setting["parameterName"] not in allowed:
            yield f"slurmConfiguration/slurmCustomSettings: {setting['parameterName']} is not supported"


def group_problems(request: Mapping[str, Any], limits: ClusterLimits, aws: AwsFacts) -> list[str]:
    """Problems of a CreateComputeNodeGroup request in a cluster."""
    problems = complaints("pcs", ("CreateComputeNodeGroup",), request)
    if problems:
        return problems
    problems.extend(size_problems(request["scalingConfiguration"], limits))
    for config in request["instanceConfigs"]:
        if aws.instance_type(config["instanceType"]) is None:
            problems.append(f"instanceConfigs: EC2 has no instance type {config['instanceType']}")
    problems.extend(
        f"subnet {subnet_id} does not exist" for subnet_id in request["subnetIds"] if aws.subnet(subnet_id) is None
    )
    problems.extend(_profile(request["iamInstanceProfileArn"], aws))
    problems.extend(_template(request, aws))
    problems.extend(_settings(request.get("slurmConfiguration", {}), pcs.GROUP_SETTINGS))
    stages = request.get("nodeLifecycleActions", {}).get("stages", {})
    problems.extend(problem for scripts in stages.values() for script in scripts for problem in _script(script, aws))
    return problems


def size_problems(scaling: Mapping[str, int], limits: ClusterLimits) -> Iterator[str]:
    """What PCS refuses of a group's sizes."""
    least, most = scaling["minInstanceCount"], scaling["maxInstanceCount"]
    if least > most:
        yield f"scalingConfiguration: minInstanceCount {least} is more than maxInstanceCount {most}"
    if 0 < least < most:
        yield f"scalingConfiguration: {least} static, {most - least} dynamic; a group must be all static or all dynamic"
    size = next(row for row in pcs.SIZES if row.name == limits.size)
    if limits.max_instances + most > size.nodes:
        yield f"a cluster of size {size.name} takes {size.nodes} instances, got {limits.max_instances + most}"


def _profile(arn: str, aws: AwsFacts) -> Iterator[str]:
    role = aws.profile_role(arn)
    if role is None:
        yield f"Invalid IAM Instance Profile ARN {arn}"
    elif not pcs.is_own_role(role):
        yield f"The role ARN is invalid: {role} has neither the path {pcs.ROLE_PATH} nor a name that begins with AWSPCS"


def _template(request: Mapping[str, Any], aws: AwsFacts) -> Iterator[str]:
    """Problems of a launch template: PCS must be able to add its data, and the purchase option must be the group's."""
    named = request.get("customLaunchTemplate")
    if named is None:
        yield "customLaunchTemplate: required"
        return
    template = aws.template(named["id"], named["version"])
    if template is None:
        yield f"no version {named['version']} of launch template {named['id']}"
        return
    data, user_data = template
    if user_data and "Content-Type: multipart/mixed" not in user_data:
        yield "the launch template's UserData is not MIME multipart: the node would never join"
    if len(user_data.encode()) > _USER_DATA_BYTES:
        yield f"the launch template's UserData has {len(user_data.encode())} bytes, allowed: {_USER_DATA_BYTES}"
    interfaces = data.get("NetworkInterfaces", [])
    if interfaces and data.get("SecurityGroupIds"):
        yield "the launch template has both NetworkInterfaces and SecurityGroupIds"
    for interface in interfaces:
        if not interface.get("Groups"):
            yield f"network card {interface.get('NetworkCardIndex', 0)}: no Groups"
        if interface.get("InterfaceType") == "efa-only":
            yield f"network card {interface.get('NetworkCardIndex', 0)}: efa-only is not supported, allowed: efa"
    yield from _capacity(request.get("purchaseOption", "ONDEMAND"), request, data)


def _capacity(option: str, request: Mapping[str, Any], data: Mapping[str, Any]) -> Iterator[str]:
    market = data.get("InstanceMarketOptions", {}).get("MarketType")
    reservation = (data.get("CapacityReservationSpecification") or {}).get("CapacityReservationTarget", {})
    if (option == "CAPACITY_BLOCK") != (market == "capacity-block"):
        yield f"purchaseOption {option} and the launch template's MarketType {market} do not agree"
    if option != "CAPACITY_BLOCK":
        return
    if not reservation.get("CapacityReservationId"):
        yield "CAPACITY_BLOCK: the launch template names no CapacityReservationId"
    if data.get("InstanceType") != request["instanceConfigs"][0]["instanceType"]:
        yield f"CAPACITY_BLOCK: the launch template's InstanceType is {data.get('InstanceType')}"
    if data.get("Placement"):
        yield "CAPACITY_BLOCK: the launch template has a placement group"


def _script(script: Mapping[str, Any], aws: AwsFacts) -> Iterator[str]:
    """Problems of a script: nodes must be able to fetch it, and its checksum must match."""
    source = script["scriptSource"]
    uri, checksum = source["scriptLocation"], source.get("checksum")
    if not uri.startswith("s3://"):
        return
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    digest = aws.digest(bucket, key)
    if digest is None:
        yield f"lifecycle script {script['name']}: no object {uri}"
    elif checksum is not None and checksum.lower() != digest:
        yield f"lifecycle script {script['name']}: its checksum is not that of {uri}"


def update_problems(request: Mapping[str, Any], limits: ClusterLimits) -> list[str]:
    """Problems of an UpdateComputeNodeGroup request that scales a group."""
    problems = complaints("pcs", ("UpdateComputeNodeGroup",), request)
    if not problems and "scalingConfiguration" in request:
        problems.extend(size_problems(request["scalingConfiguration"], limits))
    return problems


def queue_problems(request: Mapping[str, Any], groups: frozenset[str]) -> list[str]:
    """Problems of a CreateQueue request in a cluster with some node groups."""
    problems = complaints("pcs", ("CreateQueue",), request)
    named = [configuration["computeNodeGroupId"] for configuration in request.get("computeNodeGroupConfigurations", ())]
    return problems or [f"no compute node group {group}" for group in named if group not in groups]
