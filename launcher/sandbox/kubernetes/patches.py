"""Patches in the three forms that the API accepts: merge, strategic merge, and a list of operations."""

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
"""The key of elements in merged lists (`patchMergeKey` of the API's types); other lists are replaced."""


def merge_patch(target: Any, patch: Any) -> Any:
    """A JSON merge patch (RFC 7386).

    >>> merge_patch({"a": 1, "b": {"c": 2}}, {"a": None, "b": {"d": 3}})
    {'b': {'c': 2, 'd': 3}}
    """
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge_patch(result.get(key), value)
    return result


def merged_by_key(target: Any, patch: Any, name: str = "") -> Any:
    """A strategic merge patch: like a merge patch, but lists with a merge key are merged by that key."""
    if isinstance(patch, list) and name in _KEYS and isinstance(target, list):
        return _merged_list(target, patch, _KEYS[name])
    if name == "finalizers" and isinstance(patch, list):
        return [*(target or []), *(item for item in patch if item not in (target or []))]
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if key.startswith("$deleteFromPrimitiveList/"):
            field = key.partition("/")[2]
            result[field] = [item for item in result.get(field, []) if item not in value]
        elif key.startswith("$"):
            raise RefusedError("BadRequest", f"the sandbox's API does not support the directive {key}")
        elif value is None:
            result.pop(key, None)
        else:
            result[key] = merged_by_key(result.get(key), value, key)
    return result


def _merged_list(target: list[Any], patch: list[Any], key: str) -> list[Any]:
    result = {item[key]: item for item in target}
    for item in patch:
        if key not in item:
            raise RefusedError("BadRequest", f"map: {item} does not contain declared merge key: {key}")
        if item.get("$patch") == "delete":
            result.pop(item[key], None)
        else:
            result[item[key]] = merged_by_key(result.get(item[key], {}), item)
    return list(result.values())


def apply_operations(target: Any, operations: Sequence[Mapping[str, Any]]) -> Any:
    """A list of operations (RFC 6902): add, remove, replace, test.

    >>> apply_operations({"a": {"b/c": 1}}, [{"op": "replace", "path": "/a/b~1c", "value": 2}])
    {'a': {'b/c': 2}}
    """
    result = copy.deepcopy(target)
    for operation in operations:
        steps = [step.replace("~1", "/").replace("~0", "~") for step in str(operation["path"]).split("/")[1:]]
        try:
            parent = result
            for step in steps[:-1]:
                parent = parent[int(step)] if isinstance(parent, list) else parent[step]
            _operate(parent, steps[-1], operation)
        except (KeyError, IndexError, ValueError, TypeError) as problem:
            text = f"the server rejected our request due to an error in our request: {operation['path']}"
            raise RefusedError("Invalid", text) from problem
    return result


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
    "application/merge-patch+json": merge_patch,
    "application/strategic-merge-patch+json": merged_by_key,
    "application/json-patch+json": apply_operations,
}
"""The patch functions by the media type of the request."""
