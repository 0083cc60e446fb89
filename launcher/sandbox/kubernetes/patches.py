"""Patches in the three forms that the API takes: merge, strategic merge, and a list of operations."""

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from launcher.sandbox.kubernetes.statuses import RefusedError

_KEYS = {
    "conditions": "type",
    "containers": "name",
    "env": "name",
    "initContainers": "name",
    "ownerReferences": "uid",
    "volumeMounts": "mountPath",
    "volumes": "name",
}
"""What names an element of a list that is merged (`patchMergeKey` of the API's types); other lists are replaced."""


def merged(found: Any, patch: Any) -> Any:
    """A JSON merge patch (RFC 7386).

    >>> merged({"a": 1, "b": {"c": 2}}, {"a": None, "b": {"d": 3}})
    {'b': {'c': 2, 'd': 3}}
    """
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    made = dict(found) if isinstance(found, dict) else {}
    for key, value in patch.items():
        if value is None:
            made.pop(key, None)
        else:
            made[key] = merged(made.get(key), value)
    return made


def merged_by_key(found: Any, patch: Any, name: str = "") -> Any:
    """A strategic merge patch: as a merge patch, but lists of named things are merged by what names them."""
    if isinstance(patch, list) and name in _KEYS and isinstance(found, list):
        return _merged_list(found, patch, _KEYS[name])
    if name == "finalizers" and isinstance(patch, list):
        return [*(found or []), *(each for each in patch if each not in (found or []))]
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    made = dict(found) if isinstance(found, dict) else {}
    for key, value in patch.items():
        if key.startswith("$deleteFromPrimitiveList/"):
            field = key.partition("/")[2]
            made[field] = [each for each in made.get(field, []) if each not in value]
        elif key.startswith("$"):
            raise RefusedError("BadRequest", f"this API knows no directive {key}")
        elif value is None:
            made.pop(key, None)
        else:
            made[key] = merged_by_key(made.get(key), value, key)
    return made


def _merged_list(found: list[Any], patch: list[Any], key: str) -> list[Any]:
    made = {each[key]: each for each in found}
    for each in patch:
        if key not in each:
            raise RefusedError("BadRequest", f"map: {each} does not contain declared merge key: {key}")
        if each.get("$patch") == "delete":
            made.pop(each[key], None)
        else:
            made[each[key]] = merged_by_key(made.get(each[key], {}), each)
    return list(made.values())


def operated(found: Any, operations: Sequence[Mapping[str, Any]]) -> Any:
    """A list of operations (RFC 6902): add, remove, replace, test.

    >>> operated({"a": {"b/c": 1}}, [{"op": "replace", "path": "/a/b~1c", "value": 2}])
    {'a': {'b/c': 2}}
    """
    made = copy.deepcopy(found)
    for operation in operations:
        steps = [step.replace("~1", "/").replace("~0", "~") for step in str(operation["path"]).split("/")[1:]]
        try:
            parent = made
            for step in steps[:-1]:
                parent = parent[int(step)] if isinstance(parent, list) else parent[step]
            _operate(parent, steps[-1], operation)
        except (KeyError, IndexError, ValueError, TypeError) as problem:
            text = f"the server rejected our request due to an error in our request: {operation['path']}"
            raise RefusedError("Invalid", text) from problem
    return made


def _operate(parent: Any, last: str, operation: Mapping[str, Any]) -> None:
    kind = operation["op"]
    place: Any = (len(parent) if last == "-" else int(last)) if isinstance(parent, list) else last
    if kind == "add" and isinstance(parent, list):
        parent.insert(place, operation["value"])
    elif kind == "add":
        parent[place] = operation["value"]
    elif kind == "replace":
        del parent[place]
        parent.insert(place, operation["value"]) if isinstance(parent, list) else parent.update(
            {place: operation["value"]}
        )
    elif kind == "remove":
        del parent[place]
    elif kind == "test":
        if parent[place] != operation["value"]:
            raise ValueError(f"{operation['path']} is not {operation['value']!r}")
    else:
        raise ValueError(f"no operation {kind!r}")


FORMS: Mapping[str, Callable[[Any, Any], Any]] = {
    "application/merge-patch+json": merged,
    "application/strategic-merge-patch+json": merged_by_key,
    "application/json-patch+json": operated,
}
"""By the media type of the request."""
