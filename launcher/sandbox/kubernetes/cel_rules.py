"""CEL validation rules in the schema of a custom kind, evaluated as the API server evaluates them.

Only the tests install the CEL library (pyproject): the sandbox's own kinds have no rule that needs it. Of Kubernetes'
additions to CEL, this module has the functions that public definitions use; any other function is an error, never a
pass.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

Cause = tuple[str, str]
RULES = "x-kubernetes-validations"
_UNCHANGED = "self == oldSelf"
_MISSING = "Undefined variable or function"
_FUNCTIONS = {
    "find": lambda text, pattern: (re.search(pattern, text) or [""])[0],
    "findAll": lambda text, pattern: [match[0] for match in re.finditer(pattern, text)],
    "split": lambda text, mark: text.split(mark),
}
"""Functions that Kubernetes adds to CEL (Kubernetes documentation, CEL, "Kubernetes CEL libraries")."""


def broken_rules(schema: Mapping[str, Any], value: Any, old: Any, path: str, shown: str) -> Iterator[Cause]:
    """The rules at one place of a schema that a value violates.

    `old` is None for a new value: transition rules are then skipped.
    """
    for row in schema.get(RULES, ()):
        rule = row["rule"]
        if "oldSelf" in rule and old is None and not row.get("optionalOldSelf"):
            continue
        holds, problem = (value == old, "") if rule == _UNCHANGED else _evaluate(rule, value, old)
        if problem:
            yield path, f'Invalid value: "{shown}": rule evaluation error: {problem}'
        elif holds is not True:
            message = _message(row, value, old) or f"failed rule: {rule}"
            yield path + str(row.get("fieldPath", "")), f'Invalid value: "{shown}": {message}'


def unreadable(schema: Any, path: str = "") -> Iterator[Cause]:
    """The rules of a complete schema that are not valid CEL, as the server reports them for a new definition."""
    if isinstance(schema, Mapping):
        for index, rule in enumerate(schema.get(RULES, ())):
            problem = "" if rule["rule"] == _UNCHANGED else _unreadable(rule["rule"])
            if problem:
                where = f"{path}.{RULES}[{index}].rule"
                yield where, f'Invalid value: "{rule["rule"]}": compilation failed: {problem}'
        for key, inner in schema.items():
            if key != RULES:
                yield from unreadable(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(schema, list):
        for index, inner in enumerate(schema):
            yield from unreadable(inner, f"{path}[{index}]")


def _unreadable(rule: str) -> str:
    import cel  # noqa: PLC0415 - only definitions that a test brings have such rules

    try:
        cel.compile(rule)
    except ValueError as problem:
        return str(problem).partition("\n")[0]
    return ""


def _message(rule: Mapping[str, Any], value: Any, old: Any) -> str:
    """The message of a rule: its evaluated expression, else its fixed text."""
    worked = rule.get("messageExpression")
    if worked:
        result, problem = _evaluate(worked, value, old)
        if not problem and isinstance(result, str) and result.strip():
            return result
    return str(rule.get("message", ""))


def _evaluate(expression: str, value: Any, old: Any) -> tuple[Any, str]:
    import cel  # noqa: PLC0415 - only definitions that a test brings have such rules

    context = cel.Context()
    context.add_variable("self", value)
    context.add_variable("oldSelf", old)
    for name, function in _FUNCTIONS.items():
        context.add_function(name, function)
    try:
        return cel.evaluate(expression, context), ""
    except RuntimeError as problem:
        if _MISSING in str(problem):
            raise LookupError(
                f"the sandbox cannot evaluate a function of this rule: {expression}: {problem}"
            ) from problem
        return None, str(problem)
    except KeyError as problem:
        return None, f"no such key: {problem.args[0]}"
    except (IndexError, TypeError, ValueError) as problem:
        return None, str(problem)


def pair_items(schema: Mapping[str, Any], value: list[Any], old: Any) -> list[Any]:
    """The old value of each item of a list; None for a new item.

    Only items of a list of type map can be identified (Kubernetes documentation, "Transition rules"): transition rules
    are not evaluated in other lists.
    """
    keys = schema.get("x-kubernetes-list-map-keys", ())
    if schema.get("x-kubernetes-list-type") != "map" or not isinstance(old, list):
        return [None] * len(value)
    before = {tuple(item.get(key) for key in keys): item for item in old if isinstance(item, Mapping)}
    names = [tuple(item.get(key) for key in keys) if isinstance(item, Mapping) else () for item in value]
    return [before.get(name) for name in names]
