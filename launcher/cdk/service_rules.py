"""Updates that a service refuses although CloudFormation's table calls them possible.

The rules with their sources are rows of catalog/data/service_updates.csv; this module says when each applies. A
template shows all of it: the deployed one and the wanted one are compared.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from launcher.catalog.updates import ServiceRule, load_service_rules
from launcher.model.update import KeyChange, Needs

Template: TypeAlias = Mapping[str, Any]
Applies: TypeAlias = Callable[[str, Template, Template], "tuple[Any, Any] | None"]
"""The old and the new value if a rule applies to a resource, by its logical id; None if it does not."""


def refused_updates(old: Template, new: Template) -> dict[str, tuple[KeyChange, ...]]:
    """The changes that a service refuses, by the logical id of their resource."""
    refused: dict[str, tuple[KeyChange, ...]] = {}
    for rule in load_service_rules():
        for key in _of_type(old, rule.resource_type).keys() & _of_type(new, rule.resource_type).keys():
            values = _APPLIES[rule.name](key, old, new)
            if values is not None:
                refused[key] = (*refused.get(key, ()), _change(rule, *values))
    return refused


def _change(rule: ServiceRule, old: Any, new: Any) -> KeyChange:
    return KeyChange(
        path=rule.property, old=old, new=new, needs=Needs.NEW_CLUSTER, plan_key=rule.plan_key, why=rule.why
    )


def _of_type(template: Template, resource_type: str) -> dict[str, Mapping[str, Any]]:
    resources = template.get("Resources", {}).items()
    return {key: item.get("Properties", {}) for key, item in resources if item["Type"] == resource_type}


def _properties(template: Template, key: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = template["Resources"][key].get("Properties", {})
    return found


def _variants(template: Template, key: str) -> list[Mapping[str, Any]]:
    return list(_properties(template, key).get("ProductionVariants", ()))


def _names(template: Template, key: str) -> tuple[str, ...]:
    return tuple(str(variant.get("VariantName")) for variant in _variants(template, key))


def _scaled(template: Template) -> Iterator[str]:
    """The variants that are targets for auto scaling."""
    for target in _of_type(template, "AWS::ApplicationAutoScaling::ScalableTarget").values():
        resource = target.get("ResourceId")
        if isinstance(resource, str) and "/variant/" in resource:
            yield resource.rpartition("/")[2]


def _type_of_scaled_variant(key: str, old: Template, new: Template) -> tuple[Any, Any] | None:
    scaled = set(_scaled(old)) & set(_scaled(new))
    before = {variant["VariantName"]: variant.get("InstanceType") for variant in _variants(old, key)}
    for variant in _variants(new, key):
        name, becomes = variant["VariantName"], variant.get("InstanceType")
        if name in scaled and before.get(name) not in (None, becomes):
            return before[name], becomes
    return None


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


_APPLIES: Mapping[str, Applies] = {
    "components-changed": _components_changed,
    "image-of-node-group": _image_of_node_group,
    "lustre-smaller": _lustre_smaller,
    "template-of-node-group": _template_of_node_group,
    "type-of-scaled-variant": _type_of_scaled_variant,
    "variant-changed": _variant_changed,
}
