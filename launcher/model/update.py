"""The requirement of a change of an existing cluster: nothing, a stopped fleet, or a new cluster."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias

Properties: TypeAlias = Mapping[str, Any]


class Needs(StrEnum):
    """The requirement before a change can be deployed."""

    NOTHING = "free"
    STOPPED_FLEET = "stopped fleet"
    NEW_CLUSTER = "new cluster"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyChange:
    """One changed key of a resource: its path, both values, and the plan key that decides it, or empty.

    `why` explains a change that needs a new cluster; empty if the rule of the resource's service applies.
    """

    path: str
    old: Any
    new: Any
    needs: Needs
    plan_key: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Updates:
    """The allowed changes of a target's cluster resource.

    `compare` compares a resource's deployed properties with the wanted ones, by the resource's type; `head_type`
    reads the instance type of the head node, controller or system group from the properties.
    """

    compare: Mapping[str, Callable[[Properties, Properties], Iterator[KeyChange]]]
    head_type: Mapping[str, Callable[[Properties], str | None]]
