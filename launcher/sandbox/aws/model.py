"""An emulated resource type: the functions that create it and, if any, change and delete it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


class ResourceRefusedError(Exception):
    """A resource that cannot be created as its template requests; a model raises the error to fail the deployment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Requested:
    """A resource as its template requests it, with all references resolved. `name` is the generated physical name."""

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
        """A required property."""
        value = self.properties.get(name)
        if value is None:
            raise ResourceRefusedError(f"Properties validation failed: required key [{name}] not found")
        return value


@dataclass(slots=True, kw_only=True)
class Created:
    """A resource of this package: the values of Ref and Fn::GetAtt."""

    physical_resource_id: str
    attributes: Mapping[str, Any] = field(default_factory=dict)
    cf_resource_type: str = ""
    logical_resource_id: str = ""

    def get_cfn_attribute(self, attribute_name: str) -> Any:
        """An attribute."""
        return self.attributes[attribute_name]


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """The emulation of one resource type. `change` gets the created resource, `remove` too.

    All functions may raise ResourceRefusedError.
    """

    type: str
    make: Callable[[Requested], Any]
    change: Callable[[Requested, Any], Any] | None = None
    remove: Callable[[Requested, Any], None] | None = None


def keep_resource(_requested: Requested, before: Any) -> Any:
    """A change that leaves the resource as it was created."""
    return before


def nothing(_requested: Requested, _created: Any) -> None:
    """A removal that does nothing: nothing was created, or the parent removes the resource."""
