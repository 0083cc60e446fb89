"""slipway.down/1: what went, what stays, and what that costs."""

from typing import Any

from launcher.model.removal import Removal


def removal_document(removal: Removal) -> dict[str, Any]:
    """A removal as the contract's JSON; `done` is false for one that is only shown."""
    return {
        "schema": "slipway.down/1",
        "cluster": removal.cluster,
        "region": removal.region,
        "done": removal.done,
        "stacks": [{"name": name, "status": status} for name, status in removal.stacks],
        "jobs": [{"name": name, "status": status} for name, status in removal.jobs],
        "instances": [{"instance_type": each, "count": count} for each, count in removal.instances],
        "kept": [
            {
                "kind": each.kind.value,
                "name": each.name,
                "reason": each.reason,
                "gib": each.gib,
                "usd_per_month": None if each.usd_per_month is None else format(each.usd_per_month, "f"),
                "unpriced": each.unpriced,
            }
            for each in removal.kept
        ],
        "usd_per_month": format(removal.usd_per_month, "f"),
        "incomplete": removal.incomplete,
    }
