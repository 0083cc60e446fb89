"""The resources of one stack: created in order, changed, deleted, each with an entry in the ledger.

moto creates a resource when it is first read. This module creates it in its turn, so that DependsOn holds, progress is
visible, and a failure names the resource.
"""

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from functools import partial
from typing import Any, ClassVar, TypeVar

from moto.cloudformation import parsing
from moto.cloudformation.exceptions import UnformattedGetAttTemplateException, ValidationError
from moto.cloudformation.parsing import ResourceMap
from moto.core.common_models import CloudFormationModel
from moto.core.exceptions import ServiceException
from moto.ec2.models.core import TaggedEC2Resource
from moto.ssm.models import ssm_backends
from werkzeug.exceptions import HTTPException

from launcher.catalog.updates import load_replacing
from launcher.cdk.difference import at_path, fixed_name
from launcher.sandbox.aws.ledger import MOTO, NOTHING, SANDBOX, EmulationLedger, Properties, Resource
from launcher.sandbox.aws.model import Created, Model, Requested, ResourceRefusedError
from launcher.sandbox.aws.placeholder import NOTHING_MADE, Placeholder, placeholder, reason
from launcher.sandbox.aws.references import in_order

_T = TypeVar("_T")

_REFUSALS = (ServiceException, HTTPException)
"""Errors of an emulated API that refuses a request: the template is wrong."""

_LACKS = (LookupError, TypeError, ValueError, AttributeError, AssertionError, NotImplementedError)
"""Errors inside moto: the emulation is incomplete, and the template may be right."""


class ResourceFailedError(Exception):
    """The creation, change or removal of one resource failed."""

    def __init__(self, logical_id: str, why: str) -> None:
        super().__init__(f"{logical_id}: {why}")
        self.logical_id = logical_id
        self.why = why


class Resources(ResourceMap):
    """The resources of one stack by logical id; None for a resource that is not created or whose condition is false."""

    ledger: ClassVar[EmulationLedger]

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.made_from: dict[str, dict[str, Any]] = {}
        self.replaced: dict[str, tuple[Any, dict[str, Any]]] = {}

    def __getitem__(self, key: str) -> Any:
        """The resource, parameter or pseudo parameter with a name."""
        if key in self._parsed_resources:
            return self._parsed_resources[key]
        if key in self._resource_json_map:
            return None
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        """The logical ids of the created resources."""
        return iter(self.made_from)

    def get(self, key: str, default: Any = None) -> Any:
        """The target of Fn::GetAtt: a resource whose missing attributes are invented and recorded in the ledger."""
        value = super().get(key, default)
        if isinstance(value, CloudFormationModel | Created):
            return _Attributes(value, lambda attribute: self._placeholder_value(key, attribute))
        return value

    def parse_ssm_parameter(self, value: str, value_type: str) -> Any:
        """The value of a template parameter that is stored in the Parameter Store."""
        if ssm_backends[self._account_id][self._region_name].get_parameter(value) is None:
            raise ValidationError(
                message=f"Unable to fetch parameters [{value}] from parameter store for this account."
            )
        return super().parse_ssm_parameter(value, value_type)

    def validate_outputs(self) -> None:
        """Do nothing: the attributes of outputs are evaluated at the end, when the resources exist."""

    def adopt(self, other: "Resources") -> None:
        """Adopt the resources of another map that this template still contains."""
        for name in self._resource_json_map:
            if name in other.made_from:
                self._parsed_resources[name] = other[name]
                self.made_from[name] = other.made_from[name]

    def order(self) -> list[str]:
        """All logical ids whose condition holds, in the order of creation."""
        return [name for name in in_order(self._resource_json_map) if self._is_enabled(name)]

    def type_of(self, name: str) -> str:
        """The type of a resource in the template."""
        return str(self._resource_json_map[name]["Type"])

    def physical_id(self, name: str) -> str:
        """The physical id of a resource; empty before its creation."""
        return str(getattr(self._parsed_resources.get(name), "physical_resource_id", None) or "")

    def _resolve(self, name: str) -> tuple[Any, dict[str, Any], str]:
        definition = self._resource_json_map[name]
        try:
            model, json, generated = self._attempt(
                name, lambda: parsing.parse_resource_and_generate_name(name, definition, self)
            )
        except _LACKS as problem:
            raise ResourceFailedError(name, f"its definition cannot be resolved: {problem!r}") from problem
        return model, json, generated

    def make(self, name: str) -> None:
        """Create a resource.

        Raises:
            ResourceFailedError: an emulated API or a model of the sandbox refused the resource.
        """
        model, json, physical_name = self._resolve(name)
        self.made_from[name] = deepcopy(json)  # moto's launch templates change their definition
        requested = self._request_of_resource(name, json, physical_name)
        lack = ""
        try:
            created = self._attempt(name, lambda: self._created_by(model, requested, json))
        except _LACKS as problem:
            if isinstance(model, Model):
                raise
            lack = f"moto cannot create it as the template defines it: {problem!r}"
            created = placeholder(requested)
        self._store(name, created)
        self._record(name, model, requested.properties, lack)

    def change(self, name: str, before: "Resources") -> bool:
        """Change a resource of `before`; False if its definition is unchanged.

        Raises:
            ResourceFailedError: an emulated API or a model of the sandbox refused the change.
        """
        if name in before.replaced:
            # The way back: what was replaced is still there, and what took its place goes with `sweep`.
            return True
        model, json, physical_name = self._resolve(name)
        if json == before.made_from.get(name):
            return False
        original = before[name]
        named = parsing.resource_name_property_from_type(self.type_of(name))
        if original is not None and (not named or named not in json["Properties"]):
            # A name that CloudFormation made up stays with the resource.
            physical_name = original.physical_resource_id.rpartition(":")[2].rpartition("/")[2]
        definition = deepcopy(json)
        requested = self._request_of_resource(name, json, physical_name)
        replaced = _requires_replacement(self.type_of(name), before.made_from[name]["Properties"], json["Properties"])
        fixed = fixed_name(self.type_of(name), json["Properties"])
        if replaced and fixed is not None and fixed not in replaced:
            raise ResourceFailedError(
                name,
                "CloudFormation cannot update a stack when a custom-named resource requires replacing. Rename "
                f"{physical_name} and update the stack again. ({', '.join(replaced)})",
            )
        change = _change_of(model)
        if replaced and isinstance(model, Model):
            change = _replace_resource(model)
        if change is None or original is None:
            self.ledger.remark(self["AWS::StackName"], name, "an update (it stays as it was created)")
            return True
        changed = self._attempt(name, lambda: change(requested, original))
        if isinstance(model, Model) and changed.physical_resource_id != original.physical_resource_id:
            self.replaced[name] = (original, before.made_from[name])
        self._store(name, changed)
        self.made_from[name] = definition
        return True

    def sweep(self, *, back: bool) -> None:
        """Remove the replaced resources; with `back`, remove their replacements."""
        for name, (original, json) in reversed(self.replaced.items()):
            resource, made_from = (self[name], self.made_from[name]) if back else (original, json)
            self._attempt(name, partial(self._unmake, name, resource, made_from))
        self.replaced.clear()

    def remove(self, name: str) -> bool:
        """Remove a resource; False if its deletion policy retains it.

        Raises:
            ResourceFailedError: an emulated API or a model of the sandbox refused the removal.
        """
        json = self.made_from[name]
        resource = self._parsed_resources.get(name)
        retained = str(json.get("DeletionPolicy", "")).startswith("Retain")
        if resource is not None and not retained:
            self._attempt(name, lambda: self._unmake(name, resource, json))
        del self.made_from[name]
        self._parsed_resources.pop(name, None)
        return not retained

    def _request_of_resource(self, name: str, json: dict[str, Any], physical_name: str) -> Requested:
        return Requested(
            type=json["Type"],
            logical_id=name,
            name=physical_name,
            stack_id=self.stack_id,
            properties=Properties(json["Properties"]),
            account_id=self._account_id,
            region_name=self._region_name,
        )

    def _created_by(self, model: Any, requested: Requested, json: dict[str, Any]) -> Any:
        if isinstance(model, Model):
            return model.make(requested)
        return model.create_from_cloudformation_json(
            requested.name,
            {**json, "Properties": requested.properties},
            requested.account_id,
            requested.region_name,
            LogicalId=requested.logical_id,
            StackId=requested.stack_id,
            ResourceType=requested.type,
        )

    def _unmake(self, name: str, resource: Any, json: dict[str, Any]) -> None:
        model: Any = parsing.resource_class_from_type(json["Type"])
        if isinstance(resource, Placeholder):
            return
        if not isinstance(model, Model):
            self._delete_resource(resource, json)
        elif model.remove is not None:
            model.remove(self._request_of_resource(name, json, resource.physical_resource_id), resource)

    def _is_enabled(self, name: str) -> bool:
        condition = self._resource_json_map[name].get("Condition")
        return not condition or bool(self.lazy_condition_map[condition])

    def _store(self, name: str, resource: Any) -> None:
        resource.cf_resource_type = self.type_of(name)
        resource.logical_resource_id = name
        self._parsed_resources[name] = resource
        if resource.cf_resource_type == "AWS::Lambda::LayerVersion":
            # moto gives it no id, and what refers to it would get the model itself.
            resource.physical_resource_id = resource.arn
        if isinstance(resource, TaggedEC2Resource):
            stack_tags = {
                "aws:cloudformation:stack-name": self["AWS::StackName"],
                "aws:cloudformation:stack-id": self.stack_id,
                "aws:cloudformation:logical-id": name,
            }
            resource.add_tags({**self.tags, **stack_tags})

    def _record(self, name: str, model: Any, properties: Properties, lack: str) -> None:
        nothing = lack or (reason(self.type_of(name)) if model is NOTHING_MADE else "")
        # The property that names the resource was read on the way to `generate_resource_name`.
        named = parsing.resource_name_property_from_type(self.type_of(name))
        entry = Resource(
            stack=self["AWS::StackName"],
            logical_id=name,
            type=self.type_of(name),
            physical_id=self.physical_id(name),
            model=NOTHING if nothing else SANDBOX if isinstance(model, Model) else MOTO,
            reason=nothing,
            ignored=() if nothing else tuple(key for key in properties.unread() if key != named),
        )
        self.ledger.record(entry)

    def _placeholder_value(self, name: str, attribute: str) -> str:
        self.ledger.remark(self["AWS::StackName"], name, f"the attribute {attribute}")
        definition = {"Type": self.type_of(name), "Properties": {}}
        return placeholder(
            self._request_of_resource(name, definition, self.physical_id(name) or name)
        ).get_cfn_attribute(attribute)

    def _attempt(self, name: str, act: Callable[[], _T]) -> _T:
        try:
            return act()
        except ResourceRefusedError as problem:
            raise ResourceFailedError(name, str(problem)) from problem
        except _REFUSALS as problem:
            raise ResourceFailedError(name, getattr(problem, "message", "") or str(problem)) from problem


class _Attributes:
    """A resource as Fn::GetAtt sees it: `missing` invents the attributes that moto does not know."""

    def __init__(self, resource: Any, missing: Callable[[str], str]) -> None:
        self._resource = resource
        self._missing = missing

    def get_cfn_attribute(self, attribute: str) -> Any:
        if not hasattr(self._resource, "get_cfn_attribute"):
            return self._missing(attribute)
        try:
            value = self._resource.get_cfn_attribute(attribute)
        except (UnformattedGetAttTemplateException, NotImplementedError, AttributeError, KeyError):
            return self._missing(attribute)
        return self._missing(attribute) if value is None else value


def _requires_replacement(resource_type: str, was: Mapping[str, Any], becomes: Mapping[str, Any]) -> list[str]:
    """The changed create-only properties."""
    rules = load_replacing().get(resource_type, {})
    return [path for path, certain in rules.items() if certain and at_path(was, path) != at_path(becomes, path)]


def _replace_resource(model: Model) -> Callable[[Requested, Any], Any]:
    """A replacement: the new resource is created before the old resource is removed."""
    return lambda requested, _original: model.make(requested)


def _change_of(model: Any) -> Callable[[Requested, Any], Any] | None:
    if isinstance(model, Model):
        return model.change
    update = model.update_from_cloudformation_json
    if getattr(update, "__isabstractmethod__", False):
        return None
    return lambda requested, original: update(
        original_resource=original,
        new_resource_name=requested.name,
        cloudformation_json={"Type": requested.type, "Properties": requested.properties},
        account_id=requested.account_id,
        region_name=requested.region_name,
    )
