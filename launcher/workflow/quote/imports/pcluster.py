"""Reads a configuration of AWS ParallelCluster 3 as a plan of a cluster without a job."""

import re
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
HEAD_READ = {"InstanceType", "Networking"}
HEAD_LOST = {
    "Ssh": "Session Manager opens the head node, no SSH key",
    "Imds": LOST["Imds"],
    "Iam": LOST["Iam"],
    **dict.fromkeys(("CustomActions", "Dcv", "LocalStorage"), "Slipway configures the head node"),
}
HEAD_NETWORKING = {"SubnetId": "network.vpc_id and subnet_ids place a cluster, its head node too"}
QUEUE_READ = {"Name", "ComputeResources", "CapacityType", "CapacityReservationTarget", "Networking"}
QUEUE_LOST = dict.fromkeys(
    ("CustomActions", "Iam", "Image", "ComputeSettings"), "run.setup and run.image configure a job's nodes"
)
RESOURCE_READ = {"Name", "InstanceType", "Instances", "MinCount", "MaxCount", "CapacityReservationTarget"}
RESOURCE_READ |= {"Efa", "Networking"}
RESOURCE_LOST = {"SpotPrice": "AWS bills the spot price; budget.max_usd_per_hour limits what a launch may cost"}
NETWORKING_READ = {"SubnetIds", "PlacementGroup"}
SETTINGS_LOST = {
    "ScaledownIdletime": "guardrails.idle_minutes stops idle nodes",
    "Database": "Slipway keeps what runs cost in its ledger",
}
LUSTRE_READ = {"StorageCapacity", "PerUnitStorageThroughput", "DeploymentType"}
MAX_COUNT = 10
"""ParallelCluster's default of MaxCount."""
MOUNT = "/fsx"
"""Where Slipway mounts FSx for Lustre (templates/parallelcluster/cluster.yaml.j2)."""
_VARIABLE = re.compile(r"\$\w|\$\{|\{\{|<\w")
_FILLED_IN = "another program fills it in"


def read_parallelcluster(config: Mapping[str, Any], catalog: Catalog) -> Imported:
    """The plan of a ParallelCluster configuration: one queue with accelerators, the network, the file system."""
    imported = Imported(kind="a ParallelCluster configuration")
    imported.put("target.kind", "parallelcluster")
    image, head = _section(config.get("Image")), _section(config.get("HeadNode"))
    _put(imported, "target.region", config.get("Region"))
    _put(imported, "target.os", image.get("Os"))
    _put(imported, "target.ami", image.get("CustomAmi"))
    _put(imported, "storage.head_node", head.get("InstanceType"))
    imported.lose_unread("Image.", image, {"Os", "CustomAmi"}, {})
    _queues(imported, _section(config.get("Scheduling")), catalog)
    _storage(imported, config.get("SharedStorage") or ())
    imported.lose_unread("HeadNode.", head, HEAD_READ, HEAD_LOST)
    imported.lose_unread("HeadNode.Networking.", _section(head.get("Networking")), set(), HEAD_NETWORKING)
    logins = _section(config.get("LoginNodes")).get("Pools") or ()
    if logins:
        counts = [_count(imported, f"LoginNodes {pool.get('Name')}: Count", pool.get("Count"), 0) for pool in logins]
        imported.put("storage.login_nodes", sum(count for count in counts if count is not None))
        for pool in logins:
            imported.lose_unread(f"LoginNodes {pool.get('Name')}: ", pool, {"Name", "Count"}, {})
    tags = {tag["Key"]: str(tag["Value"]) for tag in config.get("Tags") or () if "Key" in tag and "Value" in tag}
    if tags:
        imported.put("tags", tags)
    imported.lose_unread("", config, READ, LOST)
    return imported


def _queues(imported: Imported, scheduling: Mapping[str, Any], catalog: Catalog) -> None:
    if scheduling.get("Scheduler") not in (None, "slurm"):
        imported.lose(f"Scheduler {scheduling['Scheduler']}", "Slipway's clusters run Slurm")
    imported.lose_unread("Scheduling.", scheduling, {"Scheduler", "SlurmSettings", "SlurmQueues"}, {})
    imported.lose_unread("SlurmSettings.", _section(scheduling.get("SlurmSettings")), set(), SETTINGS_LOST)
    pairs = [
        (queue, resource, name)
        for queue in scheduling.get("SlurmQueues") or ()
        for resource in queue.get("ComputeResources") or ()
        for name in _types(resource)
    ]
    with_chips = [pair for pair in pairs if (row := catalog.instance_types.get(pair[2])) and row.accelerators]
    # The queue of a template whose type another program fills in.
    with_chips = with_chips or [pair for pair in pairs if _VARIABLE.search(pair[2])][:1]
    if not with_chips:
        named = ", ".join(dict.fromkeys(name for *_, name in pairs)) or "none"
        imported.lose(f"types {named}", "no accelerator type of the catalog is among them: set target.instance_type")
        names = ", ".join(str(queue.get("Name")) for queue in scheduling.get("SlurmQueues") or ())
        if names:
            imported.lose(f"queues {names}", "set target.nodes, purchase.option and network for the type that you name")
        return
    queue, resource, name = with_chips[0]
    _put(imported, "target.instance_type", name)
    _resource(imported, resource, _section(resource.get("CapacityReservationTarget")))
    _queue(imported, queue, resource)
    same = dict.fromkeys(
        str(again.get("Name")) if place is queue else f"{place.get('Name')}/{again.get('Name')}"
        for place, again, other in with_chips[1:]
        if other == name
    )
    if same:
        imported.lose(f"{', '.join(same)} with {name} too", f"a plan has one queue of a type: {resource.get('Name')}")
    others = [pair for pair in with_chips[1:] if pair[2] != name]
    if others:
        imported.put("target.fallback_types", list(dict.fromkeys(other for *_, other in others)))
    apart = dict.fromkeys(str(again.get("Name")) for _, again, _ in others if again is not resource)
    if apart:
        mine = f"their counts, purchase options and other keys are those of {resource.get('Name')}"
        imported.lose(", ".join(apart), f"their types are in target.fallback_types; {mine}")
    with_them = [pair[0] for pair in with_chips]
    rest = dict.fromkeys(
        f"{place.get('Name')}/{again.get('Name')}" if place in with_them else str(place.get("Name"))
        for place, again, other in pairs
        if (place, again, other) not in with_chips
    )
    if rest:
        imported.lose(f"queues {', '.join(rest)}", "without accelerators: Slipway's cluster has those of the plan")


def _resource(imported: Imported, resource: Mapping[str, Any], target: Mapping[str, Any]) -> None:
    """The counts, interfaces and reservation of a compute resource."""
    where = f"{resource.get('Name')}: "
    low = _count(imported, f"{where}MinCount", resource.get("MinCount"), 0)
    high = _count(imported, f"{where}MaxCount", resource.get("MaxCount"), MAX_COUNT)
    if high is not None:
        imported.put("target.nodes", high)
    if low is not None and high is not None and low != high:
        imported.assume("target.nodes", f"MaxCount {high}; MinCount {low}: nodes start with a job and stop when idle")
    efa = _section(resource.get("Efa"))
    if efa.get("Enabled") is False:
        imported.lose(f"{where}Efa.Enabled false", "Slipway gives nodes with EFA all their interfaces")
    imported.lose_unread(f"{where}Efa.", efa, {"Enabled"}, {})
    imported.lose_unread(f"{where}CapacityReservationTarget.", target, {"CapacityReservationId"}, {})
    _put(imported, "purchase.reservation.id", target.get("CapacityReservationId"))
    imported.lose_unread(f"{where}Networking.", _section(resource.get("Networking")), NETWORKING_READ, {})
    imported.lose_unread(where, resource, RESOURCE_READ, RESOURCE_LOST)


def _queue(imported: Imported, queue: Mapping[str, Any], resource: Mapping[str, Any]) -> None:
    """The purchase option, placement and network of a queue, and its reservation where a resource has none."""
    where, networking = f"queue {queue.get('Name')}: ", _section(queue.get("Networking"))
    capacity = str(queue.get("CapacityType") or "ONDEMAND")
    if capacity in OPTIONS:
        imported.put("purchase.option", OPTIONS[capacity])
    else:
        imported.lose(f"CapacityType {capacity}", "set purchase.option")
    _placement(imported, networking, _section(resource.get("Networking")))
    target = _section(queue.get("CapacityReservationTarget"))
    imported.lose_unread(f"{where}CapacityReservationTarget.", target, {"CapacityReservationId"}, {})
    if not resource.get("CapacityReservationTarget"):
        _put(imported, "purchase.reservation.id", target.get("CapacityReservationId"))
    if subnets := networking.get("SubnetIds") or ():
        named = ", ".join(map(str, subnets))
        imported.lose(f"SubnetIds {named}", "the file names no VPC: set network.vpc_id and subnet_ids, else a new one")
    imported.lose_unread(f"{where}Networking.", networking, NETWORKING_READ, {})
    imported.lose_unread(where, queue, QUEUE_READ, QUEUE_LOST)


def _placement(imported: Imported, queue: Mapping[str, Any], resource: Mapping[str, Any]) -> None:
    """Take over whether nodes are in a placement group; one that exists already has no key in a plan.

    `queue` and `resource` are the networks of a queue and its resource, which comes first.
    """
    group = {**_section(queue.get("PlacementGroup")), **_section(resource.get("PlacementGroup"))}
    if isinstance(group.get("Enabled"), bool):
        imported.put("target.placement_group", group["Enabled"])
    imported.lose_unread(
        "PlacementGroup.", group, {"Enabled"}, dict.fromkeys(("Name", "Id"), "Slipway makes the group")
    )


def _types(resource: Mapping[str, Any]) -> list[str]:
    if resource.get("InstanceType"):
        return [str(resource["InstanceType"])]
    return [str(item.get("InstanceType")) for item in resource.get("Instances") or ()]


def _storage(imported: Imported, shared: Sequence[Mapping[str, Any]]) -> None:
    for storage in shared:
        settings = _section(storage.get("FsxLustreSettings"))
        place = storage.get("MountDir")
        if storage.get("StorageType") == "FsxLustre" and place not in (None, MOUNT):
            imported.lose(f"SharedStorage {storage.get('Name')}: MountDir {place}", f"Slipway mounts it at {MOUNT}")
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


def _put(imported: Imported, key: str, value: Any) -> None:
    """Set a key to a text of the file; name a text that another program fills in."""
    if value and _VARIABLE.search(str(value)):
        imported.lose(f"{key} {value}", f"{_FILLED_IN}: set {key}")
    elif value:
        imported.put(key, value)


def _count(imported: Imported, key: str, value: Any, default: int) -> int | None:
    """A count of the file, the default without one; None, and named, for one that another program fills in."""
    if value is None or str(value).isdecimal():
        return default if value is None else int(value)
    imported.lose(f"{key} {value}", f"{_FILLED_IN}: set {'storage.login_nodes' if 'Login' in key else 'target.nodes'}")
    return None


def _section(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
