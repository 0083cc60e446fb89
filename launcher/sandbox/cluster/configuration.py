"""Reads a ParallelCluster configuration, and validates it against the emulated AWS.

The rules are those of aws-parallelcluster 3.16.1's validators (pcluster/validators, read 2026-11-20) for what this
project writes. All problems are collected; the sandbox neither calls nor needs ParallelCluster itself.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from launcher.sandbox.cluster.schema import Problem, RequestRefusedError, problems
from launcher.sandbox.cluster.slurm_settings import denied_settings
from launcher.sandbox.cluster.specification import AwsFacts, ClusterSpec, NodeGroup, Queue, TypeFacts

_CLUSTER_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9-]{0,59}")
_NAME = re.compile(r"[a-z][a-z0-9-]{0,24}")
_LUSTRE_FIRST_GIB, _LUSTRE_STEP_GIB = 1200, 2400
_MAX_COUNT = 10
"""ParallelCluster's default of MaxCount."""


def read(name: str, configuration: Mapping[str, Any], aws: AwsFacts) -> ClusterSpec:
    """The cluster that a configuration describes."""
    invalid = list(problems(configuration))
    if not _CLUSTER_NAME.fullmatch(name):
        message = f"got {name!r}, allowed: a letter, then letters, digits and '-', 60 in all"
        invalid.append(Problem(path="ClusterName", message=message))
    if not invalid:
        for check in (_cluster_problems, _head_problems, _setting_problems, _storage_problems, _queue_problems):
            invalid.extend(check(configuration, aws))
    if invalid:
        raise RequestRefusedError("configuration", invalid)
    head = configuration["HeadNode"]
    scheduling = configuration["Scheduling"]
    return ClusterSpec(
        name=name,
        head_instance_type=head["InstanceType"],
        head_subnet_id=head["Networking"]["SubnetId"],
        head_security_groups=_groups_of(head["Networking"]),
        queues=tuple(
            Queue(
                name=queue["Name"],
                exclusive=bool(queue.get("JobExclusiveAllocation")),
                settings={key: str(value) for key, value in queue.get("CustomSlurmSettings", {}).items()},
            )
            for queue in scheduling["SlurmQueues"]
        ),
        groups=tuple(
            _node_group(queue, resource, aws)
            for queue in scheduling["SlurmQueues"]
            for resource in queue["ComputeResources"]
        ),
        settings=tuple(_slurm_settings(scheduling)),
        tags={tag["Key"]: tag["Value"] for tag in configuration.get("Tags", [])},
        left_out=tuple(_unsupported_keys(configuration)),
    )


def _one_of(value: Any, allowed: tuple[str, ...], path: str) -> Iterator[Problem]:
    if value not in allowed:
        yield Problem(path=path, message=f"got {value!r}, allowed: {', '.join(allowed)}")


def _cluster_problems(configuration: Mapping[str, Any], aws: AwsFacts) -> Iterator[Problem]:
    yield from _one_of(configuration.get("Region", aws.region), (aws.region,), "Region")
    for index, pool in enumerate(configuration.get("LoginNodes", {}).get("Pools", [])):
        path = f"LoginNodes.Pools[{index}]"
        yield from _known_type(pool["InstanceType"], aws, f"{path}.InstanceType")
        yield from _network(pool["Networking"]["SubnetIds"], pool["Networking"], aws, f"{path}.Networking")


def _head_problems(configuration: Mapping[str, Any], aws: AwsFacts) -> Iterator[Problem]:
    head = configuration["HeadNode"]
    yield from _known_type(head["InstanceType"], aws, "HeadNode.InstanceType")
    yield from _network([head["Networking"]["SubnetId"]], head["Networking"], aws, "HeadNode.Networking")
    yield from _scripts(head, aws, "HeadNode")
    subnet = aws.subnet(head["Networking"]["SubnetId"])
    if subnet is not None and subnet.gives_public_addresses and not head["Networking"].get("ElasticIp"):
        # cluster_stack.py, _add_head_eni: EC2 gives an interface that exists before its instance no public address.
        message = "the head node gets no public address from its subnet and cannot reach AWS: set ElasticIp"
        yield Problem(path="HeadNode.Networking.ElasticIp", message=message)


def _setting_problems(configuration: Mapping[str, Any], aws: AwsFacts) -> Iterator[Problem]:
    del aws
    scheduling = configuration["Scheduling"]
    slurm = scheduling.get("SlurmSettings", {})
    path = "Scheduling.SlurmSettings"
    for index, settings in enumerate(slurm.get("CustomSlurmSettings", [])):
        yield from denied_settings(settings, "cluster", f"{path}.CustomSlurmSettings[{index}]")


def _storage_problems(configuration: Mapping[str, Any], aws: AwsFacts) -> Iterator[Problem]:
    del aws
    mounts: set[str] = set()
    for index, storage in enumerate(configuration.get("SharedStorage", [])):
        path = f"SharedStorage[{index}]"
        if storage["MountDir"] in mounts:
            yield Problem(path=f"{path}.MountDir", message=f"{storage['MountDir']} is mounted twice")
        mounts.add(storage["MountDir"])
        lustre = storage.get("FsxLustreSettings", {})
        gib = lustre.get("StorageCapacity", 0)
        is_new = storage["StorageType"] == "FsxLustre" and "FileSystemId" not in lustre and "BackupId" not in lustre
        if is_new and gib != _LUSTRE_FIRST_GIB and (gib == 0 or gib % _LUSTRE_STEP_GIB):
            message = f"got {gib}, allowed: {_LUSTRE_FIRST_GIB} or a multiple of {_LUSTRE_STEP_GIB} GiB"
            yield Problem(path=f"{path}.FsxLustreSettings.StorageCapacity", message=message)


def _queue_problems(configuration: Mapping[str, Any], aws: AwsFacts) -> Iterator[Problem]:
    queues = configuration["Scheduling"]["SlurmQueues"]
    if not queues:
        yield Problem(path="Scheduling.SlurmQueues", message="empty; at least 1 queue is required")
    yield from _names([queue["Name"] for queue in queues], "Scheduling.SlurmQueues")
    for index, queue in enumerate(queues):
        path = f"Scheduling.SlurmQueues[{index}]"
        yield from _network(queue["Networking"]["SubnetIds"], queue["Networking"], aws, f"{path}.Networking")
        yield from _scripts(queue, aws, path)
        yield from denied_settings(queue.get("CustomSlurmSettings", {}), "queue", f"{path}.CustomSlurmSettings")
        for number, access in enumerate(queue.get("Iam", {}).get("S3Access", [])):
            if access["BucketName"] != "*" and not aws.has_object(access["BucketName"], None):
                yield Problem(path=f"{path}.Iam.S3Access[{number}]", message=f"no bucket {access['BucketName']}")
        resources = queue.get("ComputeResources", [])
        if not resources:
            yield Problem(path=f"{path}.ComputeResources", message="empty; at least 1 is required")
        yield from _names([resource["Name"] for resource in resources], f"{path}.ComputeResources")
        for number, resource in enumerate(resources):
            combined = configuration.get("DevSettings", {}).get("EfaInterfaceType") == "efa"
            yield from _resource_problems(
                queue, resource, aws, f"{path}.ComputeResources[{number}]", combined_efa=combined
            )


def _resource_problems(
    queue: Mapping[str, Any], resource: Mapping[str, Any], aws: AwsFacts, path: str, *, combined_efa: bool
) -> Iterator[Problem]:
    yield from denied_settings(
        resource.get("CustomSlurmSettings", {}), "compute resource", f"{path}.CustomSlurmSettings"
    )
    yield from _count_problems(queue, resource, path)
    if ("InstanceType" in resource) == ("Instances" in resource):
        yield Problem(path=path, message="needs either InstanceType or Instances")
        return
    name = _type_of(resource)
    facts = aws.instance_type(name)
    if facts is None:
        yield Problem(path=f"{path}.InstanceType", message=f"EC2 has no instance type {name!r}")
        return
    with_efa = bool(resource.get("Efa", {}).get("Enabled"))
    if with_efa:
        yield from _efa(queue, resource, facts, aws, path)
    several = "several network cards" if facts.network_cards > 1 else ""
    if with_efa and not combined_efa and not several:
        several = "an efa-only interface beside its first one (DevSettings.EfaInterfaceType is not efa)"
    public = [s for s in queue["Networking"]["SubnetIds"] if (it := aws.subnet(s)) and it.gives_public_addresses]
    if several and (public or queue["Networking"].get("AssignPublicIp")):
        message = f"{name} has {several}, and EC2 gives such instances no public address: use a private subnet"
        yield Problem(path=path, message=message)


def _count_problems(queue: Mapping[str, Any], resource: Mapping[str, Any], path: str) -> Iterator[Problem]:
    low, high = resource.get("MinCount", 0), resource.get("MaxCount", _MAX_COUNT)
    if not 0 <= low <= high or high == 0:
        yield Problem(
            path=path, message=f"MinCount {low}, MaxCount {high}: needs 0 <= MinCount <= MaxCount, MaxCount > 0"
        )
    if queue.get("CapacityType") != "CAPACITY_BLOCK":
        return
    if low != high or low == 0:
        yield Problem(
            path=path, message=f"MinCount {low}, MaxCount {high}: a Capacity Block needs both equal and above 0"
        )
    if not _reservation(queue, resource):
        yield Problem(path=path, message="a Capacity Block needs CapacityReservationTarget.CapacityReservationId")
    if _placement(queue, resource).get("Enabled"):
        yield Problem(path=path, message="a Capacity Block must not have a placement group")


def _reservation(queue: Mapping[str, Any], resource: Mapping[str, Any]) -> str:
    target = resource.get("CapacityReservationTarget", queue.get("CapacityReservationTarget", {}))
    return str(target.get("CapacityReservationId", ""))


def _efa(
    queue: Mapping[str, Any], resource: Mapping[str, Any], facts: TypeFacts, aws: AwsFacts, path: str
) -> Iterator[Problem]:
    if not facts.efa:
        yield Problem(path=f"{path}.Efa.Enabled", message=f"{_type_of(resource)} has no EFA")
    if queue.get("CapacityType") != "CAPACITY_BLOCK" and not _placement(queue, resource):
        yield Problem(path=path, message="EFA needs an explicit placement group setting: set PlacementGroup.Enabled")
    security_groups = queue["Networking"].get("SecurityGroups", [])
    if security_groups and not any(aws.admits_itself(group) for group in _groups_of(queue["Networking"])):
        message = "EFA needs a security group that lets all traffic in and out to itself"
        yield Problem(path=f"{path}.Efa", message=message)


def _placement(queue: Mapping[str, Any], resource: Mapping[str, Any]) -> Mapping[str, Any]:
    placement_group = resource.get("Networking", {}).get("PlacementGroup")
    placement: Mapping[str, Any] = placement_group or queue["Networking"].get("PlacementGroup", {})
    return placement


def _names(names: list[str], path: str) -> Iterator[Problem]:
    for name in names:
        if not _NAME.fullmatch(name) or name == "default":
            message = f"got {name!r}, allowed: a lower-case letter, then letters, digits and '-', 25 in all"
            yield Problem(path=f"{path}.Name", message=message)
        if names.count(name) > 1:
            yield Problem(path=f"{path}.Name", message=f"{name} is used twice")


def _known_type(name: str, aws: AwsFacts, path: str) -> Iterator[Problem]:
    if aws.instance_type(name) is None:
        yield Problem(path=path, message=f"EC2 has no instance type {name!r}")


def _network(subnets: list[str], networking: Mapping[str, Any], aws: AwsFacts, path: str) -> Iterator[Problem]:
    if not subnets:
        yield Problem(path=path, message="needs a subnet")
    for subnet in subnets:
        if aws.subnet(subnet) is None:
            yield Problem(path=path, message=f"no subnet {subnet!r} in {aws.region}")
    for group in _groups_of(networking):
        if aws.admits_itself(group) is None:
            yield Problem(path=path, message=f"no security group {group!r} in {aws.region}")


def _scripts(part: Mapping[str, Any], aws: AwsFacts, path: str) -> Iterator[Problem]:
    for event, action in part.get("CustomActions", {}).items():
        for script in action.get("Sequence", [action]):
            uri = script.get("Script", "")
            where = f"{path}.CustomActions.{event}"
            bucket, _, key = uri.removeprefix("s3://").partition("/")
            if uri.startswith("https://"):
                continue
            if not uri.startswith("s3://") or not bucket or not key:
                yield Problem(path=where, message=f"got {uri!r}, allowed: s3://bucket/key or https://...")
            elif not aws.has_object(bucket, key):
                yield Problem(path=where, message=f"no object {uri}")


def _groups_of(networking: Mapping[str, Any]) -> tuple[str, ...]:
    return (*networking.get("SecurityGroups", []), *networking.get("AdditionalSecurityGroups", []))


def _type_of(resource: Mapping[str, Any]) -> str:
    return str(resource["InstanceType"] if "InstanceType" in resource else resource["Instances"][0]["InstanceType"])


def _node_group(queue: Mapping[str, Any], resource: Mapping[str, Any], aws: AwsFacts) -> NodeGroup:
    name = _type_of(resource)
    facts = aws.instance_type(name)
    if facts is None:
        raise KeyError(name)
    halved = 2 if resource.get("DisableSimultaneousMultithreading") else 1
    return NodeGroup(
        queue=queue["Name"],
        name=resource["Name"],
        instance_type=name,
        capacity_type=queue.get("CapacityType", "ONDEMAND"),
        min_count=resource.get("MinCount", 0),
        max_count=resource.get("MaxCount", _MAX_COUNT),
        subnet_id=queue["Networking"]["SubnetIds"][0],
        security_groups=_groups_of(queue["Networking"]),
        efa=bool(resource.get("Efa", {}).get("Enabled")),
        placement_group=bool(_placement(queue, resource).get("Enabled")),
        cpus=facts.vcpus // halved,
        memory_mib=facts.memory_mib,
        gpus=facts.gpus,
        settings={key: str(value) for key, value in resource.get("CustomSlurmSettings", {}).items()},
        reservation=_reservation(queue, resource),
    )


def _slurm_settings(scheduling: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for settings in scheduling.get("SlurmSettings", {}).get("CustomSlurmSettings", []):
        # One of several keys is a node or a partition of the user's own, which this sandbox does not run.
        if len(settings) == 1:
            yield from ((key, str(value)) for key, value in settings.items())


def _unsupported_keys(configuration: Mapping[str, Any]) -> Iterator[str]:
    for key in ("SharedStorage", "LoginNodes", "Monitoring", "DirectoryService", "AdditionalPackages"):
        if configuration.get(key):
            yield key
    parts = {"HeadNode": configuration["HeadNode"]}
    parts.update({f"queue {queue['Name']}": queue for queue in configuration["Scheduling"]["SlurmQueues"]})
    for name, part in parts.items():
        yield from (f"{name}: {key} (not run)" for key in ("CustomActions", "HealthChecks") if part.get(key))
        if any(resource.get("Efa", {}).get("Enabled") for resource in part.get("ComputeResources", [])):
            yield f"{name}: EFA interfaces"
