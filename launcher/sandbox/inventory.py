"""What was deployed into a sandbox, what is behind each resource, and what is not."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """One resource of one stack.

    `model` is "moto", "sandbox" (a model of ours) or "nothing"; `reason` says why nothing. `ignored` are the properties
    and attributes that were asked for and are not there.
    """

    stack: str
    logical_id: str
    type: str
    physical_id: str
    model: str
    reason: str
    ignored: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NotEmulated:
    """Something that was asked for and is not there.

    `name` is a resource type, a part of one, a part of a cluster, or an API call.
    """

    name: str
    reason: str


def resources_of(ledger: Mapping[str, Any]) -> tuple[Resource, ...]:
    """The resources in the server's ledger."""
    return tuple(Resource(**{**entry, "ignored": tuple(entry["ignored"])}) for entry in ledger["resources"])


def not_emulated(
    ledger: Mapping[str, Any], clusters: Mapping[str, Sequence[str]], stacks: Collection[str] | None = None
) -> tuple[NotEmulated, ...]:
    """What is not emulated, each thing once, sorted by name.

    Args:
        ledger: the server's, as JSON values.
        clusters: what was left out of each cluster, by its name.
        stacks: the stacks to look at; None for all, the CDK's own among them.

    >>> entry = {"stack": "s", "logical_id": "A", "type": "AWS::XRay::Group", "physical_id": "s-A"}
    >>> entry |= {"model": "nothing", "reason": "moto has no model of this type", "ignored": []}
    >>> not_emulated({"resources": [entry], "actions": {}}, {})
    (NotEmulated(name='AWS::XRay::Group', reason='moto has no model of this type'),)
    """
    found = set()
    for resource in [each for each in resources_of(ledger) if stacks is None or each.stack in stacks]:
        if resource.model == "nothing":
            found.add((resource.type, resource.reason))
        found.update((f"{resource.type}.{name}", "accepted and not looked at") for name in resource.ignored)
    found.update((f"call to {action}", "no such API here") for action in ledger["actions"])
    for cluster, parts in clusters.items():
        found.update((f"cluster {cluster}: {part}", "checked and not made") for part in parts)
    return tuple(NotEmulated(name=name, reason=reason) for name, reason in sorted(found))
