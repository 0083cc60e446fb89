"""Requirements of updates: ParallelCluster's policies, changes that replace a resource, changes a service refuses."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from launcher.catalog.tables import read_cells
from launcher.model.update import Needs

CLUSTER_UPDATES = "pcluster_updates.csv"
"""Generated from the schemas of aws-parallelcluster by tests/infra/test_pcluster_updates.py."""
UNKNOWN = "UNSUPPORTED"
"""The vendor's policy of a key without a policy (config_patch.py)."""
SERVICE_UPDATES = "service_updates.csv"
REPLACEMENT = "replacement.csv"
Replacing = Mapping[str, Mapping[str, bool]]
"""By resource type the paths of properties (`LustreConfiguration/DeploymentType`) that cannot be changed in place, each
with True if this is certain, because some depend on the values. A missing type is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPolicy:
    """One key: its policy, the key that identifies the items of a list, and the keys below it."""

    policy: str = UNKNOWN
    update_key: str = ""
    keys: tuple[str, ...] = ()


@cache
def load_cluster_updates() -> dict[str, KeyPolicy]:
    """The policies by path (`Scheduling/SlurmQueues/Name`), the root's keys under the empty path."""
    rows = {row["key"]: row for row in read_cells(CLUSTER_UPDATES)}
    below: dict[str, list[str]] = {}
    for path in rows:
        parent, _, name = path.rpartition("/")
        below.setdefault(parent, []).append(name)
    policies = {
        path: KeyPolicy(policy=row["policy"], update_key=row["update_key"], keys=tuple(below.get(path, ())))
        for path, row in rows.items()
    }
    return {"": KeyPolicy(keys=tuple(below[""])), **policies}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceRule:
    """One rule of a service on updates."""

    name: str
    resource_type: str
    # The changed property.
    property: str
    # The plan key that decides the property; empty if none does alone.
    plan_key: str
    # Needs.NEW_CLUSTER for an update that the service refuses, Needs.NOTHING for one that ends or replaces nodes.
    needs: Needs
    # Why the service refuses, or the effect.
    why: str


@cache
def load_service_rules() -> tuple[ServiceRule, ...]:
    """The rules; launcher/cdk/service_rules.py has when each applies."""
    return tuple(
        ServiceRule(
            name=row["rule"],
            resource_type=row["resource_type"],
            property=row["property"],
            plan_key=row["plan_key"],
            needs=Needs(row["needs"]),
            why=row["why"],
        )
        for row in read_cells(SERVICE_UPDATES)
    )


def load_replacing() -> Replacing:
    """Read the shipped facts."""
    by_property: dict[str, dict[str, bool]] = {}
    for row in read_cells(REPLACEMENT):
        of_type = by_property.setdefault(row["resource_type"], {})
        if row["property"]:
            of_type[row["property"]] = row["replaces"] == "yes"
    return by_property
