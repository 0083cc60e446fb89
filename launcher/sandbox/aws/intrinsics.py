"""Fn::GetAZs for every region, as moto knows one region only: the zones of the stack's region, or of the named one."""

from typing import Any

from moto.cloudformation import parsing
from moto.ec2.models.availability_zones_and_regions import RegionsAndZonesBackend

_GET_ZONES = "Fn::GetAZs"
_by_moto = parsing.clean_json


def resolve_references(value: Any, resources: Any) -> Any:
    """A part of a template with its references resolved; replaces moto's function, which this function calls."""
    if isinstance(value, dict) and _GET_ZONES in value:
        region = _by_moto(value[_GET_ZONES], resources) or resources["AWS::Region"]
        return [zone.name for zone in RegionsAndZonesBackend.zones[region]]
    return _by_moto(value, resources)


def install() -> None:
    """Make moto use `resolve_references`."""
    setattr(parsing, _by_moto.__name__, resolve_references)
