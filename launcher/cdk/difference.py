"""The changes of a deployment: the templates of an assembly compared with the deployed ones.

This module makes no AWS call. A replacement extends to resources that refer to the replaced one, as in CloudFormation,
because its id changes. The module also finds changes that CloudFormation cannot make: changing or removing an export
that another stack imports, and replacing a resource with a fixed name.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias

from launcher.catalog.updates import Replacing
from launcher.cdk.service_rules import service_changes
from launcher.model.tags import DIGEST_TAG, PLAN_TAG
from launcher.model.update import KeyChange, Needs, Properties

Template: TypeAlias = Mapping[str, Any]
KeyChanges: TypeAlias = Callable[[str, Properties, Properties], Iterator[KeyChange]]
"""A function that finds the changed keys of a resource of a type (`Target.key_changes`)."""

METADATA = "AWS::CDK::Metadata"
JOB_TAGS = frozenset((PLAN_TAG, DIGEST_TAG))
"""Tags that name the plan a cluster was deployed with (launcher/targets/parallelcluster/files.py)."""
JOB_KEYS = frozenset(("PlanDigest", "USD_PER_NODE_HOUR"))
"""The output of the plan's digest, and the guard's rate, which changes with every quote of a spot price."""
RETAINING_POLICIES = frozenset(("Retain", "RetainExceptOnCreate", "Snapshot"))
"""Deletion policies that retain a resource."""
SUBNET = "AWS::EC2::Subnet"
_UNIQUE_WITHIN: Mapping[str, tuple[str, str, str]] = {
    SUBNET: ("CidrBlock", "VpcId", "subnets of that range"),
    "AWS::EC2::Route": ("DestinationCidrBlock", "RouteTableId", "routes to that destination"),
}
"""Types of which EC2 refuses two with one value in a parent: the property, the parent's property, and the words."""
_IN_TEXT = re.compile(r"\$\{([A-Za-z0-9]+)(?:\.[^}]*)?\}")
"""A reference within Fn::Sub."""


class Change(StrEnum):
    """The change of a resource."""

    NEW = "new"
    CHANGED = "changed"
    REPLACED = "replaced"
    MAYBE_REPLACED = "may be replaced"
    REMOVED = "removed"
    RETAINED = "left behind"


REPLACING = frozenset((Change.REPLACED, Change.MAYBE_REPLACED))
_LEAVING = frozenset((Change.REPLACED, Change.REMOVED, Change.RETAINED))
"""Changes after which the resource of the old template goes, or stays outside the stack, when the new ones exist."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceChange:
    """One changed resource; `because` are the differing properties, those that cause a replacement first.

    `keys` are the changed keys of a cluster's own resource, each with its requirement. For a resource that cannot be
    replaced, `keys` has the key that prevents the replacement.
    """

    stack: str
    logical_id: str
    type: str
    change: Change
    because: tuple[str, ...] = ()
    keys: tuple[KeyChange, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StackChange:
    """One stack: whether it is new, whether its template differs only in the job, and its resource changes."""

    name: str
    new: bool
    same: bool
    resources: tuple[ResourceChange, ...]

    def count(self, change: Change) -> int:
        """The number of resources with one kind of change."""
        return sum(resource.change is change for resource in self.resources)


def without_job(part: Any) -> Any:
    """A template without the values that identify the job with which its cluster was deployed.

    >>> tags = [{"Key": "slipway:digest", "Value": "4f"}, {"Key": "slipway:cluster", "Value": "a"}]
    >>> without_job({"Tags": tags, "Outputs": {"PlanDigest": {"Value": "4f"}}})
    {'Tags': [{'Key': 'slipway:cluster', 'Value': 'a'}], 'Outputs': {}}
    >>> without_job({"Tags": {"slipway:digest": "4f", "slipway:cluster": "a"}})
    {'Tags': {'slipway:cluster': 'a'}}
    """
    if isinstance(part, Mapping):
        # Some types have a mapping for their tags.
        return {key: without_job(value) for key, value in part.items() if key not in JOB_KEYS | JOB_TAGS}
    if isinstance(part, list):
        return [without_job(item) for item in part if not (isinstance(item, Mapping) and item.get("Key") in JOB_TAGS)]
    return part


def stack_change(
    name: str, old: Template | None, new: Template, replacing: Replacing, key_changes: KeyChanges | None = None
) -> StackChange:
    """The changes of one stack, except values that only identify the job with which it was deployed.

    `old` is None for a new stack; `key_changes` finds the changed keys of a cluster's resource.
    """
    was, becomes = without_job(old or {}), without_job(new)
    before, after = _resources(was), _resources(becomes)
    fates = dict.fromkeys(after.keys() - before.keys(), Change.NEW)
    reasons: dict[str, tuple[str, ...]] = {}
    for key in before.keys() - after.keys():
        fates[key] = Change.RETAINED if before[key].get("DeletionPolicy") in RETAINING_POLICIES else Change.REMOVED
    for key in after.keys() & before.keys():
        fate, why = _fate(before[key], after[key], replacing)
        if fate is not None:
            fates[key], reasons[key] = fate, why
    _spread_replacements(after, fates, reasons, replacing)
    everything = {**before, **after}
    by_service = {} if old is None else service_changes(was, becomes)
    # A resource may change with one that it refers to.
    fates = {**dict.fromkeys(by_service, Change.CHANGED), **fates}
    moved = frozenset(key for key, fate in fates.items() if fate is Change.REPLACED)
    changes = [
        ResourceChange(
            stack=name,
            logical_id=key,
            type=everything[key]["Type"],
            change=fates[key],
            because=reasons.get(key, ()),
            keys=(
                *_keys(before[key], after[key], fates[key], reasons.get(key, ()), moved, key_changes),
                *by_service.get(key, ()),
            )
            if key in before and key in after
            else tuple(_name_conflicts(key, before, after, fates, moved)),
        )
        for key in sorted(fates)
    ]
    return StackChange(name=name, new=old is None, same=was == becomes, resources=tuple(changes))


def broken_exports(old: Template, new: Template, change: StackChange) -> dict[str, str]:
    """Removed or changed exports, each with the reason: CloudFormation refuses this while a stack imports them."""
    replaced = {resource.logical_id for resource in change.resources if resource.change is Change.REPLACED}
    exports, broken = _exports(new), {}
    for name, value in _exports(old).items():
        if name not in exports:
            broken[name] = "it goes"
        elif moved := sorted(replaced & set(references(exports[name]))):
            broken[name] = f"{', '.join(moved)} is replaced"
        elif exports[name] != value:
            broken[name] = "its value changes"
    return broken


def imports(part: Any) -> Iterator[str]:
    """The names of the exports that a template imports, if they are plain text."""
    if isinstance(part, Mapping):
        name = part.get("Fn::ImportValue")
        if isinstance(name, str):
            yield name
        for value in part.values():
            yield from imports(value)
    elif isinstance(part, list):
        for value in part:
            yield from imports(value)


def references(part: Any) -> Iterator[str]:
    """The logical ids to which a part of a template refers, including pseudo parameters.

    >>> list(references({"Fn::Sub": "${Topic.Arn}/x", "A": [{"Ref": "Vpc"}, {"Fn::GetAtt": ["Role", "Arn"]}]}))
    ['Topic', 'Vpc', 'Role']
    """
    if isinstance(part, list):
        for value in part:
            yield from references(value)
    elif isinstance(part, Mapping):
        for key, value in part.items():
            if key == "Ref":
                yield str(value)
            elif key == "Fn::GetAtt":
                yield str(value[0] if isinstance(value, list) else value.partition(".")[0])
            elif key == "Fn::Sub":
                yield from _IN_TEXT.findall(value if isinstance(value, str) else value[0])
                yield from references(value[1:] if isinstance(value, list) else [])
            else:
                yield from references(value)


def _resources(template: Template) -> dict[str, Mapping[str, Any]]:
    return {key: resource for key, resource in template.get("Resources", {}).items() if resource["Type"] != METADATA}


def _exports(template: Template) -> dict[str, Any]:
    """The value of each export of a template, by its name; computed names are left out."""
    outputs = template.get("Outputs", {}).values()
    return {
        output["Export"]["Name"]: output["Value"]
        for output in outputs
        if isinstance(output.get("Export", {}).get("Name"), str)
    }


def _fate(
    old: Mapping[str, Any], new: Mapping[str, Any], replacing: Replacing
) -> tuple[Change | None, tuple[str, ...]]:
    """The change of a resource that remains in the template; None if it is unchanged."""
    if old["Type"] != new["Type"]:
        return Change.REPLACED, ("Type",)
    was, becomes = old.get("Properties", {}), new.get("Properties", {})
    differing = sorted(key for key in was.keys() | becomes.keys() if was.get(key) != becomes.get(key))
    if not differing:
        return None, ()
    rules = replacing.get(new["Type"], {})
    moved = {path: certain for path, certain in rules.items() if at_path(was, path) != at_path(becomes, path)}
    heads = {path.partition("/")[0] for path in moved}
    because = (*sorted(moved), *(head for head in differing if head not in heads))
    if any(moved.values()):
        return Change.REPLACED, because
    return (Change.MAYBE_REPLACED if moved else Change.CHANGED), because


def fixed_name(resource_type: str, properties: Mapping[str, Any]) -> str | None:
    """The property that fixes a resource's name; None if CloudFormation generates the name.

    "You can't perform updates that require replacement of this resource" (CloudFormation user guide, name type).
    """
    last = resource_type.rpartition("::")[2]
    names = (
        candidate
        for candidate in ("Name", f"{last}Name", f"{last}/{last}Name")
        if at_path(properties, candidate) is not None
    )
    return next(names, None)


def _keys(  # noqa: PLR0917 - the parts of one comparison
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    fate: Change,
    because: Sequence[str],
    moved: frozenset[str],
    key_changes: KeyChanges | None,
) -> Iterator[KeyChange]:
    was, becomes = old.get("Properties", {}), new.get("Properties", {})
    compares = key_changes if old["Type"] == new["Type"] else None
    own = [] if compares is None else list(compares(new["Type"], was, _renew_references(becomes, moved)))
    refused = [key for key in own if key.needs is Needs.NEW_CLUSTER]
    if fate is Change.REPLACED and refused:
        # The target names the plan's keys.
        yield from refused
    elif fate is Change.REPLACED:
        name, two = _unique_property(new["Type"], becomes, moved)
        if name is not None and at_path(was, name) == at_path(becomes, name):
            causes = " and ".join(_cause(reason.partition(":")[0], was, becomes) for reason in because)
            yield KeyChange(
                path=name,
                old=at_path(was, name),
                new=at_path(becomes, name),
                needs=Needs.NEW_CLUSTER,
                why=f"{causes} replaces the resource, and there cannot be two {two}",
            )
    else:
        yield from own


def _cause(path: str, was: Mapping[str, Any], becomes: Mapping[str, Any]) -> str:
    """A changed property, with its values if they are text.

    >>> _cause("CapacityType", {"CapacityType": "SPOT"}, {"CapacityType": "ON_DEMAND"})
    'CapacityType SPOT -> ON_DEMAND'
    """
    old, new = at_path(was, path), at_path(becomes, path)
    return f"{path} {old} -> {new}" if isinstance(old, str) and isinstance(new, str) else path


def _name_conflicts(
    key: str,
    before: Mapping[str, Mapping[str, Any]],
    after: Mapping[str, Mapping[str, Any]],
    fates: Mapping[str, Change],
    moved: frozenset[str],
) -> Iterator[KeyChange]:
    """The unique value of a new resource that another one, which is to leave, still has when the new one is created."""
    if fates[key] is not Change.NEW:
        return
    kind, properties = after[key]["Type"], after[key].get("Properties", {})
    name, two = _unique_property(kind, properties, moved)
    parent = _UNIQUE_WITHIN[kind][1] if kind in _UNIQUE_WITHIN else ""
    for other, leaving in before.items():
        if name is None or leaving["Type"] != kind or fates.get(other) not in _LEAVING:
            continue
        was = leaving.get("Properties", {})
        if at_path(was, name) == at_path(properties, name) and was.get(parent) == properties.get(parent):
            why = f"CloudFormation creates {key} before it removes {other}, and there cannot be two {two}"
            value = at_path(properties, name)
            yield KeyChange(path=name, old=value, new=value, needs=Needs.NEW_CLUSTER, why=why)


def _unique_property(
    resource_type: str, properties: Mapping[str, Any], moved: frozenset[str]
) -> tuple[str | None, str]:
    """The property that must be unique, with what cannot be twice: CloudFormation creates new resources first."""
    if resource_type in _UNIQUE_WITHIN:
        name, parent, two = _UNIQUE_WITHIN[resource_type]
        return (None if moved & set(references(properties.get(parent))) else name), two
    return fixed_name(resource_type, properties), "resources of that name"


def _renew_references(part: Any, moved: frozenset[str]) -> Any:
    if isinstance(part, list):
        return [_renew_references(item, moved) for item in part]
    if not isinstance(part, Mapping):
        return part
    if len(part) == 1 and next(iter(part)) in ("Ref", "Fn::GetAtt", "Fn::Sub") and moved & set(references(part)):
        return {"replaced": part}
    return {key: _renew_references(value, moved) for key, value in part.items()}


def at_path(properties: Any, path: str) -> Any:
    """The value at a path; for a list, the values in each of its items."""
    head, _, rest = path.partition("/")
    if isinstance(properties, list):
        return [at_path(item, path) for item in properties]
    value = properties.get(head) if isinstance(properties, Mapping) else None
    return at_path(value, rest) if rest and value is not None else value


def _spread_replacements(
    after: Mapping[str, Mapping[str, Any]],
    fates: dict[str, Change],
    reasons: dict[str, tuple[str, ...]],
    replacing: Replacing,
) -> None:
    """Extend a replacement to resources that refer to it: replaced if that property cannot change, else changed."""
    waiting = [key for key, fate in fates.items() if fate is Change.REPLACED]
    while waiting:
        moved = waiting.pop()
        for key, item in after.items():
            if fates.get(key) in (Change.NEW, Change.REPLACED):
                continue
            fate, why = _change_of(item, frozenset((moved,)), replacing)
            if fate is None:
                continue
            if fate is Change.REPLACED:
                waiting.append(key)
            fates[key] = fate if fate is Change.REPLACED else fates.get(key, fate)
            reason = f"{why}: {moved} is replaced"
            reasons[key] = (*((reason,) if reason not in reasons.get(key, ()) else ()), *reasons.get(key, ()))


def _change_of(resource: Mapping[str, Any], moved: frozenset[str], replacing: Replacing) -> tuple[Change | None, str]:
    properties = resource.get("Properties", {})
    rules = replacing.get(resource["Type"], {})
    for path, certain in sorted(rules.items()):
        if certain and moved & set(references(at_path(properties, path))):
            return Change.REPLACED, path
    for key in sorted(properties):
        if moved & set(references(properties[key])):
            return Change.CHANGED, key
    return None, ""
