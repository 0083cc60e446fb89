"""Reads a configuration of AWS ParallelCluster 3 as a plan of a cluster without a job."""

from collections.abc import Mapping, Sequence
from typing import Any

from launcher.catalog.load import Catalog
from launcher.workflow.quote.imports.imported import Imported

OPTIONS = {"ONDEMAND": "on-demand", "SPOT": "spot", "CAPACITY_BLOCK": "capacity-block"}
LOST = {
    "Monitoring": "Slipway has a dashboard and alarms of its own",
    "DirectoryService": "no key of a plan",
    "Imds": "Slipway requires IMDSv2",
    "AdditionalPackages": "no key of a plan",
    "DevSettings": "no key of a plan",
}


def read_parallelcluster(config: Mapping[str, Any], catalog: Catalog) -> Imported:
    """The plan of a ParallelCluster configuration: one queue with accelerators, the network, the file system."""
    imported = Imported(kind="a ParallelCluster configuration")
    imported.put("target.kind", "parallelcluster")
    if config.get("Region"):
        imported.put("target.region", config["Region"])
    image, head = _section(config.get("Image")), _section(config.get("HeadNode"))
    given = (("target.os", image.get("Os")), ("target.ami", image.get("CustomAmi")))
    for name, value in (*given, ("storage.head_node", head.get("InstanceType"))):
        if value:
            imported.put(name, value)
    for key in ("CustomActions", "Ssh", "Iam", "Dcv", "LocalStorage"):
        if head.get(key):
            imported.lose(f"HeadNode.{key}", "Slipway configures the head node: Session Manager opens it, no SSH key")
    _queues(imported, _section(config.get("Scheduling")), catalog)
    _storage(imported, config.get("SharedStorage") or ())
    logins = _section(config.get("LoginNodes")).get("Pools") or ()
    if logins:
        imported.put("storage.login_nodes", sum(int(pool.get("Count") or 0) for pool in logins))
    tags = {tag["Key"]: str(tag["Value"]) for tag in config.get("Tags") or () if "Key" in tag and "Value" in tag}
    if tags:
        imported.put("tags", tags)
    for key, why in LOST.items():
        if config.get(key):
            imported.lose(key, why)
    return imported


def _queues(imported: Imported, scheduling: Mapping[str, Any], catalog: Catalog) -> None:
    if scheduling.get("Scheduler") not in (None, "slurm"):
        imported.lose(f"Scheduler {scheduling['Scheduler']}", "Slipway's clusters run Slurm")
    pairs = [
        (queue, resource, name)
        for queue in scheduling.get("SlurmQueues") or ()
        for resource in queue.get("ComputeResources") or ()
        for name in _types(resource)
    ]
    with_chips = [pair for pair in pairs if (row := catalog.instance_types.get(pair[2])) and row.accelerators]
    if not with_chips:
        imported.lose("SlurmQueues", "no compute resource has an accelerator type: set target.instance_type")
        return
    queue, resource, name = with_chips[0]
    imported.put("target.instance_type", name)
    low, high = int(resource.get("MinCount") or 0), int(resource.get("MaxCount") or 10)
    imported.put("target.nodes", high)
    if low != high:
        imported.assume("target.nodes", f"MaxCount {high}; MinCount {low}: nodes start with a job and stop when idle")
    imported.put("purchase.option", OPTIONS.get(str(queue.get("CapacityType", "ONDEMAND")), "on-demand"))
    target = _section(resource.get("CapacityReservationTarget") or queue.get("CapacityReservationTarget"))
    if target.get("CapacityReservationId"):
        imported.put("purchase.reservation", {"id": target["CapacityReservationId"]})
    subnets = _section(queue.get("Networking")).get("SubnetIds") or ()
    if subnets:
        named = ", ".join(map(str, subnets))
        imported.lose(f"SubnetIds {named}", "the file names no VPC: set network.vpc_id and subnet_ids, else a new one")
    others = dict.fromkeys(other for *_, other in with_chips[1:] if other != name)
    if others:
        imported.put("target.fallback_types", list(others))
    rest = dict.fromkeys(str(pair[0].get("Name")) for pair in pairs if pair not in with_chips)
    if rest:
        imported.lose(f"queues {', '.join(rest)}", "without accelerators: Slipway's cluster has those of the plan")
    for key in ("CustomActions", "Iam", "Image", "ComputeSettings"):
        if queue.get(key):
            imported.lose(f"queue {queue.get('Name')}: {key}", "run.setup and run.image configure a job's nodes")


def _types(resource: Mapping[str, Any]) -> list[str]:
    if resource.get("InstanceType"):
        return [str(resource["InstanceType"])]
    return [str(item.get("InstanceType")) for item in resource.get("Instances") or ()]


def _storage(imported: Imported, shared: Sequence[Mapping[str, Any]]) -> None:
    for storage in shared:
        settings = _section(storage.get("FsxLustreSettings"))
        if storage.get("StorageType") == "FsxLustre" and settings.get("StorageCapacity"):
            imported.put("storage.lustre_gib", int(settings["StorageCapacity"]))
            if settings.get("PerUnitStorageThroughput"):
                imported.put("storage.lustre_mb_s_per_tib", int(settings["PerUnitStorageThroughput"]))
        else:
            kind = storage.get("StorageType")
            imported.lose(
                f"SharedStorage {storage.get('Name')} ({kind})", "Slipway makes FSx for Lustre, and a store in S3"
            )


def _section(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
