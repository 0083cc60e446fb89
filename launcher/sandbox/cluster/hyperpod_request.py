"""Reads a request for a HyperPod cluster with Slurm, and validates it against the emulated AWS.

SageMaker's own model of CreateCluster (botocore 1.44.5, sagemaker/2017-07-24 service-2.json) validates the shape;
members that only clusters on EKS have are in hyperpod_eks_request.py. The rules between groups are those of the
developer guide (SageMaker HyperPod references, API-driven Slurm configuration). All problems are collected.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from launcher.aws.api_shape import complaints
from launcher.sandbox.cluster.schema import Problem, RequestRefusedError
from launcher.sandbox.cluster.specification import AwsFacts, ClusterSpec, NodeGroup, Queue, TypeFacts
from launcher.sandbox.cluster.training_plan import TrainingPlan

_OF_THE_WHOLE = ("ClusterName", "InstanceGroups", "VpcConfig", "Orchestrator")
_OF_A_GROUP = ("InstanceType", "LifeCycleConfig", "SlurmConfig")
"""Required members of a group with Slurm whose type the user chooses, beyond those required of every cluster."""
_SETTING = re.compile(r"^\s*add_setting (\w+) (\S+)$", re.MULTILINE)
"""The line of the controller's script that adds a setting to slurm.conf (templates/hyperpod/on_create.sh.j2)."""
_USABLE = ("Scheduled", "Active")
"""States of a training plan in which clusters can use its instances."""
_PREFIX = "ml."
CONTINUOUS = "Continuous"
"""The `NodeProvisioningMode` in which instances start one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAccount:
    """The environment of a cluster's instances: the AWS around it, its controller's script, file systems by DNS name.

    `training_plans` are the purchased plans, by ARN.
    """

    aws: AwsFacts
    script: str
    file_systems: frozenset[str]
    training_plans: Mapping[str, TrainingPlan] = field(default_factory=dict)


def script_of_controller(request: Mapping[str, Any]) -> tuple[str, str] | None:
    """The bucket and key of the controller's script; None if the request does not name a valid place."""
    for group in request.get("InstanceGroups", []):
        if group.get("SlurmConfig", {}).get("NodeType") == "Controller":
            return script_place(group)
    return None


def read(request: Mapping[str, Any], account: ClusterAccount) -> ClusterSpec:
    """The cluster that a request describes."""
    invalid = [Problem(path="", message=text) for text in complaints("sagemaker", ("CreateCluster",), request)]
    invalid.extend(_absent(request))
    if not invalid:
        for check in (_part_problems, _group_problems, training_plan_problems):
            invalid.extend(check(request, account))
    if invalid:
        raise RequestRefusedError("request", invalid)
    controller = next(group for group in request["InstanceGroups"] if _part(group) == "Controller")
    compute = [group for group in request["InstanceGroups"] if _part(group) == "Compute"]
    names = dict.fromkeys(_partition(group) for group in compute)
    return ClusterSpec(
        name=request["ClusterName"],
        head_instance_type=ec2_type(controller),
        head_subnet_id=network_of(request, controller)["Subnets"][0],
        head_security_groups=tuple(network_of(request, controller)["SecurityGroupIds"]),
        queues=tuple(Queue(name=name, exclusive=False, settings={}) for name in names),
        groups=tuple(_node_group(request, group, account.aws) for group in compute),
        settings=tuple(_SETTING.findall(account.script)),
        tags={tag["Key"]: tag["Value"] for tag in request.get("Tags", [])},
        left_out=tuple(_unsupported_parts(request, account.aws)),
    )


def _part(group: Mapping[str, Any]) -> str:
    return str(group["SlurmConfig"]["NodeType"])


def _partition(group: Mapping[str, Any]) -> str:
    return str(group["SlurmConfig"]["PartitionNames"][0])


def ec2_type(group: Mapping[str, Any]) -> str:
    """EC2's name for a group's type."""
    return str(group["InstanceType"]).removeprefix(_PREFIX)


def network_of(request: Mapping[str, Any], group: Mapping[str, Any]) -> Mapping[str, Any]:
    """Subnets and security groups of a group: its own, or those of the cluster."""
    network: Mapping[str, Any] = group.get("OverrideVpcConfig") or request["VpcConfig"]
    return network


def script_place(group: Mapping[str, Any]) -> tuple[str, str] | None:
    """Bucket and key of a group's script; None if the group does not name a valid place."""
    scripts = group.get("LifeCycleConfig", {})
    bucket, _, folder = str(scripts.get("SourceS3Uri", "")).removeprefix("s3://").partition("/")
    name = scripts.get("OnInitComplete") or scripts.get("OnCreate")
    return (bucket, f"{folder.rstrip('/')}/{name}".lstrip("/")) if bucket and name else None


def _absent(request: Mapping[str, Any]) -> Iterator[Problem]:
    yield from (Problem(path=key, message="missing") for key in _OF_THE_WHOLE if key not in request)
    if "Slurm" not in request.get("Orchestrator", {"Slurm": {}}):
        yield Problem(path="Orchestrator.Slurm", message="missing")
    for index, group in enumerate(request.get("InstanceGroups", [])):
        path = f"InstanceGroups[{index}]"
        yield from (Problem(path=f"{path}.{key}", message="missing") for key in _OF_A_GROUP if key not in group)
        # With OnCreate nothing but the script sets up Slurm (awsome-distributed-ai@95b939c, 5.sagemaker-hyperpod).
        for key in ("SourceS3Uri", "OnInitComplete"):
            if key not in group.get("LifeCycleConfig", {key: ""}):
                yield Problem(path=f"{path}.LifeCycleConfig.{key}", message="missing")


def _part_problems(request: Mapping[str, Any], account: ClusterAccount) -> Iterator[Problem]:
    del account
    groups = request["InstanceGroups"]
    controllers = [group for group in groups if _part(group) == "Controller"]
    if len(controllers) != 1 or controllers[0]["InstanceCount"] != 1:
        counts = [(controller["InstanceGroupName"], controller["InstanceCount"]) for controller in controllers]
        yield Problem(path="InstanceGroups", message=f"needs one Controller group with one instance, got {counts}")
    if not any(_part(group) == "Compute" for group in groups):
        yield Problem(path="InstanceGroups", message="needs a Compute group, got none")
    if len(logins := [group["InstanceGroupName"] for group in groups if _part(group) == "Login"]) > 1:
        yield Problem(path="InstanceGroups", message=f"allows one Login group, got {', '.join(logins)}")
    if "SlurmConfigStrategy" not in request.get("Orchestrator", {}).get("Slurm", {}):
        yield Problem(path="Orchestrator.Slurm.SlurmConfigStrategy", message="missing")
    names = [group["InstanceGroupName"] for group in groups]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield Problem(path="InstanceGroups", message=f"{name} is used twice")


def _group_problems(request: Mapping[str, Any], account: ClusterAccount) -> Iterator[Problem]:
    for index, group in enumerate(request["InstanceGroups"]):
        path = f"InstanceGroups[{index}]"
        if _part(group) == "Compute" and len(group["SlurmConfig"].get("PartitionNames", [])) != 1:
            yield Problem(path=f"{path}.SlurmConfig.PartitionNames", message="the sandbox supports one name")
        if _part(group) != "Compute" and "PartitionNames" in group["SlurmConfig"]:
            yield Problem(path=f"{path}.SlurmConfig.PartitionNames", message=f"{_part(group)} groups have no partition")
        if group["InstanceCount"] < 1:
            yield Problem(path=f"{path}.InstanceCount", message=f"got {group['InstanceCount']}, allowed: 1 and more")
        yield from instance_problems(request, group, account.aws, path)
        yield from file_problems(request, group, account, path)


def instance_problems(
    request: Mapping[str, Any], group: Mapping[str, Any], aws: AwsFacts, path: str
) -> Iterator[Problem]:
    """Problems of instances: the type, the subnets and the security groups must exist."""
    facts = facts_of(group, aws)
    if facts is None:
        message = f"got {group['InstanceType']!r}, allowed: {_PREFIX} and a type that EC2 has"
        yield Problem(path=f"{path}.InstanceType", message=message)
    network = network_of(request, group)
    for subnet in network["Subnets"]:
        if aws.subnet(subnet) is None:
            yield Problem(path=path, message=f"no subnet {subnet!r} in {aws.region}")
    admit = {group_id: aws.admits_itself(group_id) for group_id in network["SecurityGroupIds"]}
    for security_group in [name for name, admits in admit.items() if admits is None]:
        yield Problem(path=path, message=f"no security group {security_group!r} in {aws.region}")
    # With one of several that does not, EFA's check between instances fails (awslabs/awsome-distributed-ai, pull 259).
    closed = [name for name, admits in admit.items() if admits is False]
    if facts is not None and facts.efa and closed:
        named = ", ".join(closed)
        message = f"EFA needs every security group to let all traffic in and out to itself, {named} does not"
        yield Problem(path=path, message=message)


def training_plan_problems(request: Mapping[str, Any], account: ClusterAccount) -> Iterator[Problem]:
    """Problems of training plans: they must exist, with enough instances for the groups."""
    counts: dict[str, int] = {}
    for index, group in enumerate(request["InstanceGroups"]):
        arn, path = group.get("TrainingPlanArn"), f"InstanceGroups[{index}].TrainingPlanArn"
        if arn is None:
            continue
        bought = account.training_plans.get(arn)
        if bought is None:
            yield Problem(path=path, message=f"no training plan {arn}")
            continue
        counts[arn] = counts.get(arn, 0) + group["InstanceCount"]
        yield from (Problem(path=path, message=message) for message in _against(bought, request, group, account.aws))
        if counts[arn] > bought.count:
            yield Problem(path=path, message=f"needs {counts[arn]} instances, the training plan has {bought.count}")


def _against(
    bought: TrainingPlan, request: Mapping[str, Any], group: Mapping[str, Any], aws: AwsFacts
) -> Iterator[str]:
    status = bought.status(datetime.now(UTC))
    if status not in _USABLE:
        yield f"the training plan is {status}, allowed: {', '.join(_USABLE)}"
    if group["InstanceType"] != bought.instance_type:
        yield f"the training plan has {bought.instance_type}, got {group['InstanceType']}"
    for subnet in [aws.subnet(subnet_id) for subnet_id in network_of(request, group)["Subnets"]]:
        if subnet is not None and bought.zone_id is not None and subnet.zone_id != bought.zone_id:
            yield f"the training plan is in {bought.zone_id}, the subnet in {subnet.zone_id}"


def file_problems(
    request: Mapping[str, Any], group: Mapping[str, Any], account: ClusterAccount, path: str
) -> Iterator[Problem]:
    """Problems of files: a script must exist in S3, file systems must be mountable, and keys usable."""
    script = script_place(group)
    if script is None or not account.aws.has_object(*script):
        uri = f"s3://{'/'.join(script)}" if script else "that it names"
        yield Problem(path=f"{path}.LifeCycleConfig", message=f"no object {uri}")
    for storage in group.get("InstanceStorageConfigs", []):
        if "VolumeKmsKeyId" in storage.get("EbsVolumeConfig", {}) and request.get("NodeProvisioningMode") != CONTINUOUS:
            # Developer guide, customer managed keys of HyperPod (2026-11).
            message = f"a customer managed key needs NodeProvisioningMode {CONTINUOUS}"
            yield Problem(path=f"{path}.InstanceStorageConfigs", message=message)
        name = storage.get("FsxLustreConfig", {}).get("DnsName")
        if name is not None and name not in account.file_systems:
            yield Problem(path=f"{path}.InstanceStorageConfigs", message=f"no file system {name}")


def facts_of(group: Mapping[str, Any], aws: AwsFacts) -> TypeFacts | None:
    """EC2's facts about a group's type; None if the type does not exist."""
    return aws.instance_type(ec2_type(group)) if group["InstanceType"].startswith(_PREFIX) else None


def _node_group(request: Mapping[str, Any], group: Mapping[str, Any], aws: AwsFacts) -> NodeGroup:
    facts, network, count = facts_of(group, aws), network_of(request, group), group["InstanceCount"]
    if facts is None:
        raise KeyError(group["InstanceType"])
    name = group["InstanceGroupName"]
    return NodeGroup(
        queue=_partition(group),
        name=name,
        instance_type=ec2_type(group),
        capacity_type="SPOT" if "Spot" in group.get("CapacityRequirements", {}) else "ONDEMAND",
        min_count=count,
        max_count=count,
        subnet_id=network["Subnets"][0],
        security_groups=tuple(network["SecurityGroupIds"]),
        efa=facts.efa,
        placement_group=False,
        cpus=facts.vcpus,
        memory_mib=facts.memory_mib,
        gpus=facts.gpus,
        settings={},
        own_names=tuple(f"{name}-{number + 1}" for number in range(count)),
    )


def _unsupported_parts(request: Mapping[str, Any], aws: AwsFacts) -> Iterator[str]:
    """The parts of a request that are validated as far as possible, and then not emulated."""
    yield "srun --auto-resume (a job whose node failed is requeued)"
    for group in request["InstanceGroups"]:
        name, facts = f"group {group['InstanceGroupName']}", facts_of(group, aws)
        yield f"{name}: {group['LifeCycleConfig']['OnInitComplete']} (its commands as root)"
        if _part(group) != "Compute":
            yield f"{name}: its instances (nothing runs on them)"
        if facts is not None and facts.efa and _part(group) == "Compute":
            yield f"{name}: EFA interfaces"
        if any("FsxLustreConfig" in config for config in group.get("InstanceStorageConfigs", [])):
            yield f"{name}: FSx for Lustre (not mounted)"
        if any("EbsVolumeConfig" in config for config in group.get("InstanceStorageConfigs", [])):
            yield f"{name}: volumes"
        yield from (f"{name}: {key}" for key in ("ImageId", "OnStartDeepHealthChecks") if key in group)
        if "TrainingPlanArn" in group:
            yield f"{name}: the window of its training plan (its instances exist immediately and stay)"
