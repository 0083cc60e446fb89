"""ParallelCluster's update rules (pcluster/config/config_patch.py and update_policy.py of 3.16.1).

`pcluster` compares the new configuration with the deployed one, key by key, and refuses the complete update if one key
must not change now. Its provider does the same for CloudFormation, which then rolls the stack back.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from launcher.catalog.updates import KeyPolicy, load_cluster_updates
from launcher.model.update import KeyChange, Needs, Properties

_QUEUES, _POOLS = "SlurmQueues", "Pools"
_DEFAULT_STRATEGY = "COMPUTE_FLEET_STOP"
_LOGINS_FIRST = "pcluster removes the pool once no login node runs: login_nodes: 0 and login_pool: true end them"
_PLAN_KEYS = {
    "HeadNode/InstanceType": "storage.head_node",
    "Image/Os": "target.os",
    "Image/CustomAmi": "target.ami",
    "Scheduling/SlurmSettings/ScaledownIdletime": "guardrails.idle_minutes",
    "Scheduling/SlurmQueues": "target.instance_type",
    "Scheduling/SlurmQueues/CustomActions": "",
    "Scheduling/SlurmQueues/CapacityType": "purchase.option",
    "Scheduling/SlurmQueues/ComputeResources/MaxCount": "target.nodes",
    "Scheduling/SlurmQueues/ComputeResources/MinCount": "target.nodes",
    "Scheduling/SlurmQueues/ComputeResources/CapacityReservationTarget": "purchase.reservation",
    "Scheduling/SlurmQueues/Networking/PlacementGroup/Enabled": "target.placement_group",
    "SharedStorage": "storage.lustre_gib",
    "SharedStorage/FsxLustreSettings/StorageCapacity": "storage.lustre_gib",
    "SharedStorage/FsxLustreSettings/PerUnitStorageThroughput": "storage.lustre_mb_s_per_tib",
    "SharedStorage/FsxLustreSettings/KmsKeyId": "storage.kms_key_arn",
    "LoginNodes": "storage.login_nodes",
    "LoginNodes/Pools/Count": "storage.login_nodes",
    "HeadNode/Networking/SubnetId": "target.az_id",
    "HeadNode/Networking/ElasticIp": "network.nat",
    "Scheduling/SlurmQueues/Networking/AssignPublicIp": "network.nat",
    "DevSettings/EfaInterfaceType": "target.efa_layout",
    "Iam/PermissionsBoundary": "security.permissions_boundary_arn",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigurationChange:
    """One key that differs: its path, its name, and whether it is an item of a list."""

    path: tuple[str, ...]
    key: str
    old: Any
    new: Any
    policy: str
    listed: bool = False

    @property
    def text(self) -> str:
        """The path as `pcluster` writes it."""
        return ".".join((*self.path, self.key))

    @property
    def in_queue(self) -> bool:
        """Whether the key is within a queue."""
        return any(word.startswith(f"{_QUEUES}[") for word in self.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """Two configurations and the cluster's state. `fleet`: the fleet is not stopped. `logins`: login nodes run."""

    old: Mapping[str, Any]
    new: Mapping[str, Any]
    fleet: bool
    logins: bool

    @property
    def differences(self) -> tuple[ConfigurationChange, ...]:
        """Every key that differs."""
        return tuple(_compare_keys(self.old, self.new, "", ()))

    def allows(self, difference: ConfigurationChange) -> bool:
        """Whether `pcluster` can update the key now; if it cannot, it refuses the complete update."""
        strategy, stopped = (not self.fleet or (difference.in_queue and self._drains)), not self.fleet
        allowed = {
            "SUPPORTED": True,
            "IGNORED": True,
            # The exception: regions of the US government that no account of ours reaches.
            "SUPPORTED_UNLESS_ADC": True,
            "COMPUTE_FLEET_STOP": stopped,
            "QUEUE_UPDATE_STRATEGY": strategy,
            "RESIZE_UPDATE_STRATEGY_ON_REMOVE": stopped or self._resizes(difference),
            "MANAGED_PLACEMENT_GROUP": strategy and (stopped or not self._drops_group(difference)),
            "MANAGED_FSX": not self._keeps_file_system
            and (
                strategy
                or (isinstance(difference.old, list) and all(item in difference.new for item in difference.old))
            ),
            "SHARED_STORAGE_UPDATE_POLICY": not self.logins and (stopped or self._drains),
            "LOGIN_NODES_POOLS_UPDATE_POLICY": not self.logins or _is_added(difference),
            "LOGIN_NODES_STOP": not self.logins,
            "LOGIN_NODES_POOL_STOP": not self.logins,
        }
        return allowed.get(difference.policy, False)

    @property
    def _strategy(self) -> str:
        return str(self.new["Scheduling"].get("SlurmSettings", {}).get("QueueUpdateStrategy", _DEFAULT_STRATEGY))

    @property
    def _drains(self) -> bool:
        return self._strategy != _DEFAULT_STRATEGY

    def _resizes(self, change: ConfigurationChange) -> bool:
        """Whether the change removes no nodes: it adds a queue or nodes, or the update strategy may terminate nodes."""
        if (change.in_queue or change.key == _QUEUES) and (self._strategy == "TERMINATE" or _is_added(change)):
            return True
        if change.key == "MaxCount":
            return _number(change.new) >= _number(change.old)
        if change.key == "MinCount":
            maximum_changes = (
                difference
                for difference in self.differences
                if difference.path == change.path and difference.key == "MaxCount"
            )
            return any(
                _number(difference.new) - _number(difference.old) >= _number(change.new) - _number(change.old)
                for difference in maximum_changes
            )
        return False

    def _drops_group(self, difference: ConfigurationChange) -> bool:
        """Whether the update removes a placement group that ParallelCluster created."""
        name = next((word for word in difference.path if word.startswith(f"{_QUEUES}[")), "")
        return _has_group(self.old, name) and not _has_group(self.new, name)

    @property
    def _keeps_file_system(self) -> bool:
        created = [
            {
                volume["Name"]
                for volume in side.get("SharedStorage", ())
                if "FileSystemId" not in volume["FsxLustreSettings"]
            }
            for side in (self.old, self.new)
        ]
        return bool(created[0] & created[1])


def _number(value: Any) -> int:
    return int(value or 0)


def _is_added(difference: ConfigurationChange) -> bool:
    return difference.listed and difference.old is None and difference.new is not None


def _has_group(configuration: Mapping[str, Any], queue: str) -> bool:
    for queue_section in configuration["Scheduling"][_QUEUES]:
        if f"{_QUEUES}[{queue_section['Name']}]" == queue:
            return str(queue_section["Networking"].get("PlacementGroup", {}).get("Enabled")).lower() == "true"
    return False


def _compare_keys(old: Any, new: Any, place: str, path: tuple[str, ...]) -> Iterator[ConfigurationChange]:
    """The keys below one place of the schema that differ; `path` also names the items of lists."""
    rules = load_cluster_updates()
    before, after = old or {}, new or {}
    unknown = sorted((before.keys() | after.keys()) - set(rules[place].keys))
    for key in (*rules[place].keys, *unknown):
        below = f"{place}/{key}" if place else key
        rule, was, becomes = rules.get(below, KeyPolicy()), before.get(key), after.get(key)
        change = ConfigurationChange(path=path, key=key, old=was, new=becomes, policy=rule.policy)
        if rule.update_key:
            yield from _list_differences(was or [], becomes or [], below, change)
        elif rule.keys and ((was and becomes) or ((was or becomes) and rule.policy == "IGNORED")):
            yield from _compare_keys(was, becomes, below, (*path, key))
        elif was != becomes and (not rule.keys or was or becomes):
            yield change


def _list_differences(
    old: list[Any], new: list[Any], place: str, change: ConfigurationChange
) -> Iterator[ConfigurationChange]:
    """The differing items of two lists, identified by the key that the schema names."""
    name, key = load_cluster_updates()[place].update_key, change.key
    # In a template it may be a reference.
    before = {json.dumps(entry.get(name)).strip('"'): entry for entry in old}
    after = {json.dumps(entry.get(name)).strip('"'): entry for entry in new}
    for item, becomes in after.items():
        if item in before:
            yield from _compare_keys(before[item], becomes, place, (*change.path, f"{key}[{item}]"))
        else:
            yield ConfigurationChange(
                path=change.path, key=key, old=None, new=becomes, policy=change.policy, listed=True
            )
    for item, was in before.items():
        if item not in after:
            yield ConfigurationChange(path=change.path, key=key, old=was, new=None, policy=change.policy, listed=True)


def changes(old: Properties, new: Properties) -> Iterator[KeyChange]:
    """The differences between two clusters, each with its requirement; existing login nodes count as running."""
    was, becomes = old["ClusterConfiguration"], new["ClusterConfiguration"]
    logins = any(_number(pool["Count"]) for pool in was.get("LoginNodes", {}).get(_POOLS, ()))
    running = Patch(old=was, new=becomes, fleet=True, logins=logins)
    stopped = Patch(old=was, new=becomes, fleet=False, logins=logins)
    for difference in running.differences:
        needs = Needs.NOTHING if running.allows(difference) else Needs.STOPPED_FLEET
        if not stopped.allows(difference):
            needs = Needs.NEW_CLUSTER
        why = _LOGINS_FIRST if difference.key == "LoginNodes" and needs is Needs.NEW_CLUSTER else ""
        yield KeyChange(
            path=difference.text,
            old=difference.old,
            new=difference.new,
            needs=needs,
            plan_key=_plan_key(difference),
            why=why,
        )


def _plan_key(difference: ConfigurationChange) -> str:
    """The key of a plan that decides a key of the configuration, by the nearest name on its path."""
    keys = [word.partition("[")[0] for word in (*difference.path, difference.key)]
    names = ("/".join(keys[:count]) for count in range(len(keys), 0, -1))
    return next((_PLAN_KEYS[name] for name in names if name in _PLAN_KEYS), "")
