"""ParallelCluster's update policies of the keys that a configuration of Slipway's has."""

from dataclasses import dataclass
from functools import cache

from launcher.catalog.tables import read_cells

CLUSTER_UPDATES = "pcluster_updates.csv"
"""Written from the schemas of aws-parallelcluster by tests/infra/test_pcluster_updates.py."""
UNKNOWN = "UNSUPPORTED"
"""The vendor's policy of a key that names none (config_patch.py)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPolicy:
    """One key: its policy, the key by which the items of a list are told apart, and the keys below it."""

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
    found = {
        path: KeyPolicy(policy=row["policy"], update_key=row["update_key"], keys=tuple(below.get(path, ())))
        for path, row in rows.items()
    }
    return {"": KeyPolicy(keys=tuple(below[""])), **found}
