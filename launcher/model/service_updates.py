"""The changes that HyperPod and EKS allow in a cluster's update, besides CloudFormation's create-only properties.

HyperPod: "To update an existing instance group, you must match the instance type you initially specified" (developer
guide, Updating SageMaker HyperPod cluster configuration, of Slurm and of EKS, 2026-11), so with "the same IAM role" and
ThreadsPerCore "the same value you specified during cluster creation"; "`NodeType` is immutable",
"Existing nodes retain their original FSx configuration" (developer guide, SageMaker HyperPod references). EKS: one
minor version up at a time, never down (user guide, Update existing cluster to new Kubernetes version, 2026-11). Not
seen on AWS.
"""

from collections.abc import Iterator
from typing import Any

from launcher.model.eks import SYSTEM
from launcher.model.hyperpod import CONTROLLER, WORKERS
from launcher.model.update import KeyChange, Needs, Properties

HYPERPOD_TYPE, EKS_TYPE = "AWS::SageMaker::Cluster", "AWS::EKS::Cluster"
_PLAN_KEYS = {
    "InstanceType": "storage.head_node",
    "InstanceCount": "target.nodes",
    "TrainingPlanArn": "purchase.training_plan",
    "CapacityRequirements": "purchase.option",
    "InstanceStorageConfigs": "storage",
    "ExecutionRole": "security.roles.nodes",
}
_FIXED = {
    "InstanceType": "",
    "ExecutionRole": "",
    "ThreadsPerCore": "",
    "InstanceStorageConfigs": "HyperPod mounts file systems and attaches volumes only when it creates a node, and it"
    " never creates the controller again; nodes hang without the old file system",
}
"""The keys that an existing group keeps, with the reason."""


def hyperpod_groups(old: Properties, new: Properties) -> Iterator[KeyChange]:
    """The keys that differ in the instance groups of a HyperPod cluster."""
    before = {group["InstanceGroupName"]: group for group in old["InstanceGroups"]}
    after = {group["InstanceGroupName"]: group for group in new["InstanceGroups"]}
    for name in sorted(before.keys() | after.keys()):
        was, becomes = before.get(name), after.get(name)
        path = f"InstanceGroups[{name}]"
        if was is None or becomes is None:
            yield KeyChange(path=path, old=was, new=becomes, needs=Needs.NOTHING)
            continue
        for key in sorted(was.keys() | becomes.keys()):
            if was.get(key) == becomes.get(key):
                continue
            old, new = (_as_in_plan(key, group.get(key)) for group in (was, becomes))
            fixed = key in _FIXED or (key == "SlurmConfig" and _node_type(old) != _node_type(new))
            needs = Needs.NEW_CLUSTER if fixed else Needs.NOTHING
            of_type = key == "InstanceType" and name == WORKERS
            plan_key = "target.instance_type" if of_type else _PLAN_KEYS.get(key, "")
            yield KeyChange(
                path=f"{path}.{key}", old=old, new=new, needs=needs, plan_key=plan_key, why=_FIXED.get(key, "")
            )


def _as_in_plan(key: str, value: Any) -> Any:
    return str(value).removeprefix("ml.") if key == "InstanceType" else value


def _node_type(slurm: Any) -> Any:
    return (slurm or {}).get("NodeType")


def head_group(properties: Properties) -> str | None:
    """The EC2 instance type of a HyperPod cluster's controller or system group."""
    groups = properties["InstanceGroups"]
    types = (group["InstanceType"] for group in groups if group["InstanceGroupName"] in (CONTROLLER, SYSTEM))
    return next((str(type_name).removeprefix("ml.") for type_name in types), None)


def eks_version(old: Properties, new: Properties) -> Iterator[KeyChange]:
    """The change of a control plane's Kubernetes version."""
    was, becomes = str(old.get("Version")), str(new.get("Version"))
    if was != becomes:
        step = int(becomes.partition(".")[2]) - int(was.partition(".")[2])
        needs = Needs.NOTHING if step == 1 else Needs.NEW_CLUSTER
        yield KeyChange(
            path="Version", old=was, new=becomes, needs=needs, why="EKS goes up one minor version at a time"
        )
