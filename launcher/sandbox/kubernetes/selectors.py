"""Label and field selectors of requests."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from launcher.sandbox.kubernetes.statuses import RefusedError

Match = Callable[[Mapping[str, Any]], bool]
_SET = re.compile(r"\s*([^\s!=,()]+)\s+(in|notin)\s+\(([^)]*)\)\s*")
_EQUAL = re.compile(r"\s*([^\s!=,()]+)\s*(==|=|!=)\s*([^\s!=,()]*)\s*")
_THERE = re.compile(r"\s*(!?)\s*([^\s!=,()]+)\s*")
_SPLIT = re.compile(r",(?![^(]*\))")
_FIELDS = {
    "Pod": ("metadata.name", "metadata.namespace", "spec.nodeName", "spec.restartPolicy", "status.phase"),
    "Event": (
        *("metadata.name", "metadata.namespace", "involvedObject.kind", "involvedObject.name", "involvedObject.uid"),
        *("involvedObject.namespace", "reason", "type"),
    ),
    "Node": ("metadata.name", "spec.unschedulable"),
    "Job": ("metadata.name", "metadata.namespace", "status.successful"),
}
"""The selectable fields; for any other kind these are name and namespace (pkg/registry, SelectableFields)."""


def labels(text: str) -> Match:
    """A label selector.

    >>> labels("a=1,b in (x, y),!c")({"metadata": {"labels": {"a": "1", "b": "y"}}})
    True
    """
    tests = [_label_test(term) for term in _SPLIT.split(text) if term.strip()]
    return lambda document: all(test(document.get("metadata", {}).get("labels") or {}) for test in tests)


def _label_test(text: str) -> Match:
    if match := _SET.fullmatch(text):
        key, operator, listed = match.groups()
        values = {item.strip() for item in listed.split(",")}
        return lambda label_set: (
            (label_set.get(key) in values) if operator == "in" else (label_set.get(key) not in values)
        )
    if match := _EQUAL.fullmatch(text):
        key, operator, value = match.groups()
        return lambda label_set: (label_set.get(key) == value) if operator != "!=" else (label_set.get(key) != value)
    if match := _THERE.fullmatch(text):
        absent, key = match.groups()
        return lambda label_set: (key not in label_set) if absent else (key in label_set)
    raise RefusedError("BadRequest", f"unable to parse requirement: {text!r}")


def fields(text: str, kind: str) -> Match:
    """A field selector.

    Raises:
        RefusedError: the selector cannot be read, or the kind has no selector for that field.
    """
    tests: list[Match] = []
    for term in filter(None, text.split(",")):
        match = _EQUAL.fullmatch(term)
        if match is None:
            raise RefusedError("BadRequest", f"invalid selector: {text!r}; can't understand {term!r}")
        path, operator, value = match.groups()
        if path not in _FIELDS.get(kind, ("metadata.name", "metadata.namespace")):
            raise RefusedError("BadRequest", f"field label not supported: {path}")
        tests.append(_field_test(path, value, equal=operator != "!="))
    return lambda document: all(test(document) for test in tests)


def _field_test(path: str, value: str, *, equal: bool) -> Match:
    def test(document: Mapping[str, Any]) -> bool:
        value_at: Any = document
        for step in path.split("."):
            value_at = value_at.get(step) if isinstance(value_at, Mapping) else None
        text = str(value_at).lower() if isinstance(value_at, bool) else str("" if value_at is None else value_at)
        return (text == value) is equal

    return test
