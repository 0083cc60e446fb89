"""The requirement of a change of an existing cluster: nothing, a stopped fleet, or a new cluster."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias

Properties: TypeAlias = Mapping[str, Any]


class Needs(StrEnum):
    """What has to happen before a change can be deployed."""

    NOTHING = "free"
    STOPPED_FLEET = "stopped fleet"
    NEW_CLUSTER = "new cluster"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyChange:
    """One key of a resource that changes: its path there, both values, and the plan key that decides it, or empty.

    `why` says, for a change that needs a new cluster, who refuses it; empty for the rule of the resource's service.
    """

    path: str
    old: Any
    new: Any
    needs: Needs
    plan_key: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Updates:
    """How the resource of a target's cluster can be changed.

    `compare` compares the properties of a resource as deployed with those wanted, by the resource's type; `head_type`
    reads from properties which instance type the head node, controller or system group has.
    """

    compare: Mapping[str, Callable[[Properties, Properties], Iterator[KeyChange]]]
    head_type: Mapping[str, Callable[[Properties], str | None]]
