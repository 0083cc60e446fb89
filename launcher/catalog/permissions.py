"""Permissions of a deployment: the actions of CloudFormation's handlers, and their distribution over policies.

The handlers are facts of the registry (data/permissions/handlers.csv); which of them are left out and why, and on which
resources the rest is allowed, is decided in data/permissions/*.toml.
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
    """One statement: the patterns of the handlers' actions that it takes, and the actions that no handler names.

    `resources` and the values of `conditions` hold {account}, {partition} and {qualifier}; a resource that is
    {buckets}, {roles} or another list of the account's stands for as many as that has. `bounded` ones are for roles
    under the permissions boundary alone, where there is one.
    """

    sid: str
    patterns: tuple[str, ...]
    given: tuple[str, ...]
    resources: tuple[str, ...]
    conditions: Conditions
    bounded: bool

    def takes(self, action: str) -> bool:
        """Whether an action fits one of its patterns."""
        return any(fnmatchcase(action, pattern) for pattern in self.patterns)


@record
class PolicyFacts:
    """One policy: what it holds, in words, and the resource types whose handlers it lets work."""

    name: str
    holds: str
    types: tuple[str, ...]
    statements: tuple[StatementFacts, ...]


@record
class Omission:
    """Actions of some types' handlers that are not allowed, and why the stacks do without."""

    types: tuple[str, ...]
    patterns: tuple[str, ...]
    because: str

    def covers(self, resource_type: str, action: str) -> bool:
        """Whether it leaves out an action of a type."""
        return resource_type in self.types and any(fnmatchcase(action, pattern) for pattern in self.patterns)


@record
class Permissions:
    """All policies, what is left out, and the actions of every type's handlers."""

    policies: tuple[PolicyFacts, ...]
    omissions: tuple[Omission, ...]
    handlers: Mapping[str, tuple[str, ...]]

    def policy(self, name: str) -> PolicyFacts:
        """The policy of a name."""
        return next(facts for facts in self.policies if facts.name == name)

    def actions(self, resource_type: str) -> tuple[str, ...]:
        """What a type's handlers may do.

        Raises:
            KeyError: nothing is known of the type.
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
        holds=policy["holds"],
        types=tuple(policy.get("types", ())),
        statements=tuple(map(_statement, policy["statement"])),
    )


def _statement(statement: Mapping[str, Any]) -> StatementFacts:
    conditions: Mapping[str, Mapping[str, list[str]]] = statement.get("condition", {})
    return StatementFacts(
        sid=statement["sid"],
        patterns=tuple(statement.get("actions", ())),
        given=tuple(statement.get("given", ())),
        resources=tuple(statement["resources"]),
        conditions={
            operator: {key: tuple(values) for key, values in keys.items()} for operator, keys in conditions.items()
        },
        bounded=statement.get("bounded", False),
    )


def _omission(omission: Mapping[str, Any]) -> Omission:
    return Omission(types=tuple(omission["types"]), patterns=tuple(omission["actions"]), because=omission["because"])
