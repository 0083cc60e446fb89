"""Updates of a PCS cluster: its name, size and network are fixed; a node group changes in place except for its type."""

from collections.abc import Iterator

from launcher.model.pcs import LOGIN
from launcher.model.update import KeyChange, Needs, Properties, Updates

CLUSTER_TYPE, GROUP_TYPE, QUEUE_TYPE = "AWS::PCS::Cluster", "AWS::PCS::ComputeNodeGroup", "AWS::PCS::Queue"
_PLAN_KEYS = {"Size": "target.nodes", "Name": "name", "Networking": "network"}


def cluster_keys(old: Properties, new: Properties) -> Iterator[KeyChange]:
    """The changed keys of a cluster that require a new cluster with the same name."""
    for key, plan_key in _PLAN_KEYS.items():
        if old.get(key) != new.get(key):
            yield KeyChange(path=key, old=old.get(key), new=new.get(key), needs=Needs.NEW_CLUSTER, plan_key=plan_key)


def login_type(properties: Properties) -> str | None:
    """The instance type of a login group; None for any other group."""
    named = properties.get("Name") == LOGIN
    return str(properties["InstanceConfigs"][0]["InstanceType"]) if named else None


def login_keys(old: Properties, new: Properties) -> Iterator[KeyChange]:
    """A changed type of the login group: CloudFormation creates another group first, but its name is in use."""
    was, becomes = login_type(old), login_type(new)
    if was is not None and becomes is not None and was != becomes:
        yield KeyChange(
            path="InstanceConfigs", old=was, new=becomes, needs=Needs.NEW_CLUSTER, plan_key="storage.head_node"
        )


UPDATES = Updates(compare={CLUSTER_TYPE: cluster_keys, GROUP_TYPE: login_keys}, head_type={GROUP_TYPE: login_type})
