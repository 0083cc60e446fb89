"""What a key's policy says of somebody: which of some actions it allows them, its conditions aside."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

ANYBODY = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Needed:
    """Somebody who has to be let in: `principals` are a service's name or an ARN in the ways to write it.

    `why` is what goes wrong without. `fatal` says that a launch fails without it; `sid` names the statement of
    docs/security.md that lets it in.
    """

    principals: tuple[str, ...]
    actions: tuple[str, ...]
    sid: str
    why: str
    fatal: bool = True


def lacking(policy: Mapping[str, Any], needed: Needed) -> tuple[str, ...]:
    """The actions that no statement allows, and those that one denies whatever its conditions.

    A statement of `NotPrincipal` or `NotAction` allows nothing here: what it says cannot be told without the request.

    >>> root = {"Effect": "Allow", "Principal": {"AWS": "arn:aws:iam::123456789012:root"}, "Action": "kms:*"}
    >>> asked = Needed(principals=("logs.us-east-2.amazonaws.com",), actions=("kms:Encrypt",), sid="Logs", why="")
    >>> lacking({"Statement": [root]}, asked)
    ('kms:Encrypt',)
    """
    whom = {ANYBODY, *needed.principals}
    statements = [each for each in _statements(policy) if whom & _principals(each)]
    allowed = [word for each in statements if each.get("Effect") == "Allow" for word in _words(each.get("Action"))]
    denied = [
        word
        for each in statements
        if each.get("Effect") == "Deny" and not each.get("Condition")
        for word in _words(each.get("Action"))
    ]
    return tuple(action for action in needed.actions if not _matches(action, allowed) or _matches(action, denied))


def _statements(policy: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    found = policy.get("Statement", [])
    yield from (each for each in ([found] if isinstance(found, dict) else found) if isinstance(each, dict))


def _principals(statement: Mapping[str, Any]) -> frozenset[str]:
    """Everybody a statement names."""
    named = statement.get("Principal", {})
    if isinstance(named, str):
        return frozenset((named,))
    return frozenset(word for words in named.values() for word in _words(words))


def _words(given: Any) -> Sequence[str]:
    if given is None:
        return ()
    return (given,) if isinstance(given, str) else [str(each) for each in given]


def _matches(action: str, patterns: Sequence[str]) -> bool:
    """Whether a pattern covers an action; case does not count, and an action may be a pattern itself."""
    return any(fnmatchcase(action.casefold(), each.casefold()) for each in patterns)
