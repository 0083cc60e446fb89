"""Permissions of a deployment: the actions of CloudFormation's handlers, and their distribution over policies.

The handlers are facts of the registry (data/permissions/handlers.csv); data/permissions/*.toml decides which of them
are left out and why, and the allowed resources of the rest.
"""

import tomllib
from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

from launcher.catalog.tables import SNAPSHOT, read_cells
from launcher.model.record import record

HANDLERS = "permissions/handlers.csv"
_FILES = ("policies", "person", "boundary", "roles")

Conditions = Mapping[str, Mapping[str, tuple[str, ...]]]
"""Values by condition key, by operator."""


@record
class StatementFacts:
    """One statement of a policy; `{account}`, `{partition}` and `{qualifier}` are filled in later."""

    sid: str
    # The patterns of handler actions that it allows.
    patterns: tuple[str, ...]
    # Actions that no handler names.
    unlisted_actions: tuple[str, ...]
    # A resource such as {buckets}, {roles} or another list of the account expands to all its entries.
    resources: tuple[str, ...]
    conditions: Conditions
    # Whether it applies only to roles under the permissions boundary, if one exists.
    bounded: bool
    # Whether it keeps its actions from a role that other policies allow them.
    denies: bool

    def matches(self, action: str) -> bool:
        """Whether an action matches one of the patterns."""
        return any(fnmatchcase(action, pattern) for pattern in self.patterns)


@record
class PolicyFacts:
    """One policy: its content in words, and the resource types whose handlers it allows."""

    name: str
    description: str
    types: tuple[str, ...]
    statements: tuple[StatementFacts, ...]


@record
class Omission:
    """Actions of some types' handlers that are not allowed, and why the stacks do not need them."""

    types: tuple[str, ...]
    patterns: tuple[str, ...]
    because: str

    def covers(self, resource_type: str, action: str) -> bool:
        """Whether the omission covers an action of a type."""
        return resource_type in self.types and any(fnmatchcase(action, pattern) for pattern in self.patterns)


@record
class Permissions:
    """All policies, the omissions, and the actions of every type's handlers."""

    policies: tuple[PolicyFacts, ...]
    omissions: tuple[Omission, ...]
    handlers: Mapping[str, tuple[str, ...]]

    def policy(self, name: str) -> PolicyFacts:
        """The policy of a name."""
        return next(facts for facts in self.policies if facts.name == name)

    def actions(self, resource_type: str) -> tuple[str, ...]:
        """The allowed actions of a type's handlers.

        Raises:
            KeyError: the type is unknown.
        """
        return tuple(
            action
            for action in self.handlers[resource_type]
            if not any(omission.covers(resource_type, action) for omission in self.omissions)
        )


@cache
def load_permissions() -> Permissions:
    """Read the shipped facts."""
    policies: list[PolicyFacts] = []
    omissions: list[Omission] = []
    for name in _FILES:
        document = tomllib.loads((SNAPSHOT / "permissions" / f"{name}.toml").read_text(encoding="utf-8"))
        policies += map(_policy, document["policy"])
        omissions += map(_omission, document.get("omit", ()))
    handlers: dict[str, list[str]] = {}
    for row in read_cells(HANDLERS):
        handlers.setdefault(row["resource_type"], []).append(row["action"])
    return Permissions(
        policies=tuple(policies),
        omissions=tuple(omissions),
        handlers={handler: tuple(actions) for handler, actions in handlers.items()},
    )


def _policy(policy: Mapping[str, Any]) -> PolicyFacts:
    return PolicyFacts(
        name=policy["name"],
        description=policy["holds"],
        types=tuple(policy.get("types", ())),
        statements=tuple(map(_statement, policy["statement"])),
    )


def _statement(statement: Mapping[str, Any]) -> StatementFacts:
    conditions: Mapping[str, Mapping[str, list[str]]] = statement.get("condition", {})
    return StatementFacts(
        sid=statement["sid"],
        patterns=tuple(statement.get("actions", ())),
        unlisted_actions=tuple(statement.get("given", ())),
        resources=tuple(statement["resources"]),
        conditions={
            operator: {key: tuple(values) for key, values in keys.items()} for operator, keys in conditions.items()
        },
        bounded=statement.get("bounded", False),
        denies=statement.get("denies", False),
    )


def _omission(omission: Mapping[str, Any]) -> Omission:
    return Omission(types=tuple(omission["types"]), patterns=tuple(omission["actions"]), because=omission["because"])
