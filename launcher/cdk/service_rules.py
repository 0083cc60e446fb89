"""Updates that a service refuses although CloudFormation's table calls them possible, and those that end nodes.

The rules with their sources are rows of catalog/data/service_updates.csv; this module says when each applies. A
template shows all of it: the deployed one and the wanted one are compared.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from launcher.catalog.updates import ServiceRule, load_service_rules
from launcher.model import pcs
from launcher.model.update import KeyChange

Template: TypeAlias = Mapping[str, Any]
Applies: TypeAlias = Callable[[str, Template, Template], "tuple[Any, Any] | None"]
"""The old and the new value if a rule applies to a resource, by its logical id; None if it does not."""
_TEMPLATES = {"Id": "LaunchTemplate", "TemplateId": "CustomLaunchTemplate"}
"""The property of a group with its launch template, by the name of the template's id in it: EKS's, and PCS's."""
_OF_NODES = ("AmiId", "IamInstanceProfileArn", "NodeLifecycleActions")


def service_changes(old: Template, new: Template) -> dict[str, tuple[KeyChange, ...]]:
    """The changes to which a rule of a service applies, by the logical id of their resource."""
    changes: dict[str, tuple[KeyChange, ...]] = {}
    for rule in load_service_rules():
        for key in (
            _resources_of_type(old, rule.resource_type).keys() & _resources_of_type(new, rule.resource_type).keys()
        ):
            values = _APPLIES[rule.name](key, old, new)
            if values is not None:
                changes[key] = (*changes.get(key, ()), _change(rule, *values))
    return changes


def _change(rule: ServiceRule, old: Any, new: Any) -> KeyChange:
    return KeyChange(path=rule.property, old=old, new=new, needs=rule.needs, plan_key=rule.plan_key, why=rule.why)


def _resources_of_type(template: Template, resource_type: str) -> dict[str, Mapping[str, Any]]:
    resources = template.get("Resources", {}).items()
    return {key: item.get("Properties", {}) for key, item in resources if item["Type"] == resource_type}


def _properties(template: Template, key: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = template["Resources"][key].get("Properties", {})
    return found


def _variants(template: Template, key: str) -> list[Mapping[str, Any]]:
    return list(_properties(template, key).get("ProductionVariants", ()))


def _names(template: Template, key: str) -> tuple[str, ...]:
    return tuple(str(variant.get("VariantName")) for variant in _variants(template, key))


def _scaled_variants(template: Template) -> Iterator[str]:
    """The variants that are targets for auto scaling."""
    for target in _resources_of_type(template, "AWS::ApplicationAutoScaling::ScalableTarget").values():
        resource = target.get("ResourceId")
        if isinstance(resource, str) and "/variant/" in resource:
            yield resource.rpartition("/")[2]


def _type_of_scaled_variant(key: str, old: Template, new: Template) -> tuple[Any, Any] | None:
    # CloudFormation removes a target that the new template lacks, or a renamed one, only after the endpoint's update.
    scaled, after = set(_scaled_variants(old)), _instance_types(new, key)
    for name, was in _instance_types(old, key).items():
        becomes = after.get(name) or next(iter(after.values()), was)
        if name in scaled and was != becomes:
            return was, becomes
    return None


def _type_of_components(key: str, old: Template, new: Template) -> tuple[Any, Any] | None:
    own = {variant["VariantName"] for variant in _variants(old, key) if "ModelName" in variant}
    after = _instance_types(new, key)
    for name, was in _instance_types(old, key).items():
        if name in after.keys() - own and was != after[name]:
            return was, after[name]
    return None


def _instance_types(template: Template, key: str) -> dict[str, str]:
    """The instance types of the variants by name, as the plan has them."""
    return {
        str(variant["VariantName"]): str(variant.get("InstanceType")).removeprefix("ml.")
        for variant in _variants(template, key)
    }


def _variant_changed(key: str, old: Template, new: Template) -> tuple[Any, Any] | None:
    before, after = _names(old, key), _names(new, key)
    return None if before == after else (", ".join(before), ", ".join(after))


def _components_changed(key: str, old: Template, new: Template) -> tuple[Any, Any] | None:
    kinds = []
    for template in (old, new):
        own = all("ModelName" in variant for variant in _variants(template, key))
        kinds.append("models of variants" if own else "inference components")
    return None if kinds[0] == kinds[1] else (kinds[0], kinds[1])


def _capacity(key: str, old: Template, new: Template) -> tuple[int, int] | None:
    before, after = (_properties(template, key).get("StorageCapacity") for template in (old, new))
    return (before, after) if isinstance(before, int) and isinstance(after, int) else None


def _lustre_smaller(key: str, old: Template, new: Template) -> tuple[Any, Any] | None:
    capacity = _capacity(key, old, new)
    return capacity if capacity is not None and capacity[1] < capacity[0] else None


def _launch_template(template: Template, key: str) -> str | None:
    """The logical id of a node group's launch template."""
    reference = _properties(template, key).get("LaunchTemplate", {}).get("Id")
    return reference.get("Ref") if isinstance(reference, Mapping) else reference


def _template_of_node_group(key: str, old: Template, new: Template) -> tuple[Any, Any] | None:
    before, after = _launch_template(old, key), _launch_template(new, key)
    return None if before == after or None in (before, after) else (before, after)


def _image_of_node_group(key: str, old: Template, new: Template) -> tuple[Any, Any] | None:
    images = []
    for template in (old, new):
        data = template["Resources"].get(str(_launch_template(template, key)), {}).get("Properties", {})
        images.append("an image of its own" if "ImageId" in data.get("LaunchTemplateData", {}) else "EKS's image")
    return None if images[0] == images[1] else (images[0], images[1])


def _template_data(template: Template, key: str, property_name: str = "Id") -> Any:
    """The data of the launch template to which a group refers; None if it is not in the same template."""
    reference = _properties(template, key).get(_TEMPLATES[property_name], {}).get(property_name)
    name = str(reference.get("Ref")) if isinstance(reference, Mapping) else ""
    return _properties(template, name).get("LaunchTemplateData") if name in template["Resources"] else None


def _nodes_of_node_group_replaced(key: str, old: Template, new: Template) -> tuple[Any, Any] | None:
    before, after = (_template_data(template, key) for template in (old, new))
    return None if before == after or None in (before, after) else (before, after)


def _nodes_of_group_replaced(key: str, old: Template, new: Template) -> tuple[Any, Any] | None:
    if _is_resized(key, old, new, ("InstanceConfigs", "Name")):
        return None
    before, after = (
        {"template": _template_data(template, key, "TemplateId")}
        | {name: _properties(template, key).get(name) for name in _OF_NODES}
        for template in (old, new)
    )
    return None if before == after else (before, after)


def _is_resized(key: str, old: Template, new: Template, names: tuple[str, ...]) -> bool:
    return any(_properties(old, key).get(name) != _properties(new, key).get(name) for name in names)


def _maximum(properties: Mapping[str, Any]) -> int:
    return int(properties["ScalingConfiguration"]["MaxInstanceCount"])


def _group_smaller(key: str, old: Template, new: Template) -> tuple[Any, Any] | None:
    before, after = (_maximum(_properties(template, key)) for template in (old, new))
    return (before, after) if after < before else None


def _groups_beyond_size(key: str, old: Template, new: Template) -> tuple[Any, Any] | None:
    """The nodes of all groups, with those of groups that CloudFormation removes after it made the new ones."""
    size = next((size for size in pcs.SIZES if size.name == _properties(new, key).get("Size")), None)
    before, after = (_resources_of_type(template, "AWS::PCS::ComputeNodeGroup") for template in (old, new))
    leaving = [
        group
        for name, group in before.items()
        if name not in after or _is_resized(name, old, new, ("InstanceConfigs", "Name"))
    ]
    wanted = sum(map(_maximum, after.values()))
    together = wanted + sum(map(_maximum, leaving))
    if size is None or not leaving or not wanted <= size.nodes < together:
        return None
    return f"{size.name}, {size.nodes} instances", f"{together} instances"


def _scheduler_version(key: str, old: Template, new: Template) -> tuple[Any, Any] | None:
    was, becomes = (str(_properties(template, key)["Scheduler"]["Version"]) for template in (old, new))
    return None if was == becomes or 0 < pcs.slurm_steps(was, becomes) <= pcs.MOST_STEPS else (was, becomes)


_APPLIES: Mapping[str, Applies] = {
    "components-changed": _components_changed,
    "group-smaller": _group_smaller,
    "groups-beyond-size": _groups_beyond_size,
    "image-of-node-group": _image_of_node_group,
    "lustre-smaller": _lustre_smaller,
    "nodes-of-group-replaced": _nodes_of_group_replaced,
    "nodes-of-node-group-replaced": _nodes_of_node_group_replaced,
    "scheduler-version": _scheduler_version,
    "template-of-node-group": _template_of_node_group,
    "type-of-components": _type_of_components,
    "type-of-scaled-variant": _type_of_scaled_variant,
    "variant-changed": _variant_changed,
}
