"""An emulated resource type: the functions that create it and, if any, change and delete it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


class ResourceRefusedError(Exception):
    """A resource that cannot be made as its template wants it; a model raises it to fail the deployment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Requested:
    """A resource as its template wants it, every reference filled in. `name` is the generated physical name."""

    type: str
    logical_id: str
    name: str
    stack_id: str
    properties: Any
    account_id: str
    region_name: str

    def get(self, name: str, default: Any = None) -> Any:
        """A property, or the default."""
        return self.properties.get(name, default)

    def need(self, name: str) -> Any:
        """A property that has to be there."""
        value = self.properties.get(name)
        if value is None:
            raise ResourceRefusedError(f"Properties validation failed: required key [{name}] not found")
        return value


@dataclass(slots=True, kw_only=True)
class Created:
    """A resource of this package: what Ref and Fn::GetAtt answer."""

    physical_resource_id: str
    attributes: Mapping[str, Any] = field(default_factory=dict)
    cf_resource_type: str = ""
    logical_resource_id: str = ""

    def get_cfn_attribute(self, attribute_name: str) -> Any:
        """An attribute."""
        return self.attributes[attribute_name]


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """The emulation of one resource type. `change` gets what was made before, `remove` the resource.

    All of them may raise ResourceRefusedError.
    """

    type: str
    make: Callable[[Requested], Any]
    change: Callable[[Requested, Any], Any] | None = None
    remove: Callable[[Requested, Any], None] | None = None


def keep(_requested: Requested, before: Any) -> Any:
    """A change without an effect: the resource stays as created."""
    return before


def nothing(_requested: Requested, _created: Any) -> None:
    """The removal of what was not made, or goes with what it belongs to."""
