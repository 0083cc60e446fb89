"""The requirement of a change of an existing cluster: nothing, a stopped fleet, or a new cluster."""

from collections.abc import Mapping
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
