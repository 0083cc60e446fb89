"""Reads a configuration of AWS ParallelCluster 3 as a plan of a cluster without a job."""

from collections.abc import Mapping, Sequence
from typing import Any

from launcher.catalog.load import Catalog
from launcher.workflow.quote.imports.imported import Imported

OPTIONS = {"ONDEMAND": "on-demand", "SPOT": "spot", "CAPACITY_BLOCK": "capacity-block"}
LOST = {
    "Monitoring": "Slipway has a dashboard and alarms of its own",
    "Imds": "Slipway requires IMDSv2",
    "Iam": "security.permissions_boundary_arn, and roles of your own in security.roles",
}
READ = {"Region", "Image", "HeadNode", "Scheduling", "SharedStorage", "LoginNodes", "Tags"}
HEAD_READ = {"InstanceType", "Networking", "Imds"}
HEAD_LOST = ("CustomActions", "Ssh", "Iam", "Dcv", "LocalStorage")
QUEUE_READ = {"Name", "ComputeResources", "CapacityType", "CapacityReservationTarget", "Networking"}
QUEUE_LOST = dict.fromkeys(
    ("CustomActions", "Iam", "Image", "ComputeSettings"), "run.setup and run.image configure a job's nodes"
)
RESOURCE_READ = {"Name", "InstanceType", "Instances", "MinCount", "MaxCount", "CapacityReservationTarget", "Efa"}
RESOURCE_LOST = {"SpotPrice": "AWS bills the spot price; budget.max_usd_per_hour limits what a launch may cost"}
NETWORKING_READ = {"SubnetIds", "SubnetId", "PlacementGroup"}
SETTINGS_LOST = {
    "ScaledownIdletime": "guardrails.idle_minutes stops idle nodes",
    "Database": "Slipway keeps what runs cost in its ledger",
}
LUSTRE_READ = {"StorageCapacity", "PerUnitStorageThroughput", "DeploymentType"}
MAX_COUNT = 10
"""ParallelCluster's default of MaxCount."""


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
    for key in HEAD_LOST:
        if head.get(key):
            imported.lose(f"HeadNode.{key}", "Slipway configures the head node: Session Manager opens it, no SSH key")
    _queues(imported, _section(config.get("Scheduling")), catalog)
    _storage(imported, config.get("SharedStorage") or ())
    imported.lose_unread("HeadNode.", head, {*HEAD_READ, *HEAD_LOST}, {})
    imported.lose_unread("HeadNode.Networking.", _section(head.get("Networking")), NETWORKING_READ, {})
    logins = _section(config.get("LoginNodes")).get("Pools") or ()
    if logins:
        imported.put("storage.login_nodes", sum(_number(pool.get("Count"), 0) for pool in logins))
    tags = {tag["Key"]: str(tag["Value"]) for tag in config.get("Tags") or () if "Key" in tag and "Value" in tag}
    if tags:
        imported.put("tags", tags)
    imported.lose_unread("", config, READ, LOST)
    return imported


def _queues(imported: Imported, scheduling: Mapping[str, Any], catalog: Catalog) -> None:
    if scheduling.get("Scheduler") not in (None, "slurm"):
        imported.lose(f"Scheduler {scheduling['Scheduler']}", "Slipway's clusters run Slurm")
    imported.lose_unread("SlurmSettings.", _section(scheduling.get("SlurmSettings")), set(), SETTINGS_LOST)
    pairs = [
        (queue, resource, name)
        for queue in scheduling.get("SlurmQueues") or ()
        for resource in queue.get("ComputeResources") or ()
        for name in _types(resource)
    ]
    with_chips = [pair for pair in pairs if (row := catalog.instance_types.get(pair[2])) and row.accelerators]
    if not with_chips:
        named = ", ".join(dict.fromkeys(name for *_, name in pairs)) or "none"
        imported.lose(f"types {named}", "no accelerator type of the catalog is among them: set target.instance_type")
        names = ", ".join(str(queue.get("Name")) for queue in scheduling.get("SlurmQueues") or ())
        if names:
            imported.lose(f"queues {names}", "set target.nodes, purchase.option and network for the type that you name")
        return
    queue, resource, name = with_chips[0]
    imported.put("target.instance_type", name)
    low, high = _number(resource.get("MinCount"), 0), _number(resource.get("MaxCount"), MAX_COUNT)
    imported.put("target.nodes", high)
    if low != high:
        imported.assume("target.nodes", f"MaxCount {high}; MinCount {low}: nodes start with a job and stop when idle")
    imported.put("purchase.option", OPTIONS.get(str(queue.get("CapacityType", "ONDEMAND")), "on-demand"))
    target = _section(resource.get("CapacityReservationTarget") or queue.get("CapacityReservationTarget"))
    imported.lose_unread("CapacityReservationTarget.", target, {"CapacityReservationId"}, {})
    if target.get("CapacityReservationId"):
        imported.put("purchase.reservation", {"id": target["CapacityReservationId"]})
    subnets = _section(queue.get("Networking")).get("SubnetIds") or ()
    if subnets:
        named = ", ".join(map(str, subnets))
        imported.lose(f"SubnetIds {named}", "the file names no VPC: set network.vpc_id and subnet_ids, else a new one")
    imported.lose_unread(
        f"queue {queue.get('Name')}: Networking.", _section(queue.get("Networking")), NETWORKING_READ, {}
    )
    imported.lose_unread(f"{resource.get('Name')}: ", resource, RESOURCE_READ, RESOURCE_LOST)
    same = dict.fromkeys(str(again.get("Name")) for _, again, other in with_chips[1:] if other == name)
    if same:
        imported.lose(f"{', '.join(same)} with {name} too", f"a plan has one queue of a type: {resource.get('Name')}")
    others = dict.fromkeys(other for *_, other in with_chips[1:] if other != name)
    if others:
        imported.put("target.fallback_types", list(others))
    rest = dict.fromkeys(str(pair[0].get("Name")) for pair in pairs if pair not in with_chips)
    if rest:
        imported.lose(f"queues {', '.join(rest)}", "without accelerators: Slipway's cluster has those of the plan")
    imported.lose_unread(f"queue {queue.get('Name')}: ", queue, QUEUE_READ, QUEUE_LOST)


def _types(resource: Mapping[str, Any]) -> list[str]:
    if resource.get("InstanceType"):
        return [str(resource["InstanceType"])]
    return [str(item.get("InstanceType")) for item in resource.get("Instances") or ()]


def _storage(imported: Imported, shared: Sequence[Mapping[str, Any]]) -> None:
    for storage in shared:
        settings = _section(storage.get("FsxLustreSettings"))
        lustre = storage.get("StorageType") == "FsxLustre" and settings.get("StorageCapacity")
        if lustre and imported.get("storage.lustre_gib") is None:
            imported.put("storage.lustre_gib", settings["StorageCapacity"])
            if settings.get("PerUnitStorageThroughput"):
                imported.put("storage.lustre_mb_s_per_tib", settings["PerUnitStorageThroughput"])
            deployment = settings.get("DeploymentType")
            if deployment not in (None, "PERSISTENT_2"):
                imported.lose(
                    f"SharedStorage {storage.get('Name')}: DeploymentType {deployment}", "Slipway makes PERSISTENT_2"
                )
            why = "run.data downloads folders of S3; the file system begins empty"
            linked = dict.fromkeys(("ImportPath", "ExportPath", "DataRepositoryAssociations", "AutoImportPolicy"), why)
            imported.lose_unread(f"SharedStorage {storage.get('Name')}: ", settings, LUSTRE_READ, linked)
        else:
            kind = storage.get("StorageType")
            imported.lose(
                f"SharedStorage {storage.get('Name')} ({kind})", "Slipway makes FSx for Lustre, and a store in S3"
            )


def _number(value: Any, default: int) -> int:
    """A count of the file; the default for none, and for a variable that another program fills in."""
    return int(value) if str(value).isdecimal() else default


def _section(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
