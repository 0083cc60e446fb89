"""The order in which CloudFormation creates the resources of a template: each after the resources it references."""

import graphlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

_SUBSTITUTION = re.compile(r"\$\{([^!}]+)\}")


def named_in(value: Any) -> Iterator[str]:
    """The logical ids that a part of a template references with Ref, Fn::GetAtt, Fn::Sub or DependsOn.

    The names of parameters and pseudo parameters are included; callers that need only resources filter them.

    >>> sorted(
    ...     named_in(
    ...         {"A": {"Ref": "Vpc"}, "B": {"Fn::GetAtt": ["Role", "Arn"]}, "C": {"Fn::Sub": "x-${Key.Arn}-${!y}"}}
    ...     )
    ... )
    ['Key', 'Role', 'Vpc']
    """
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _named_by(key, inner)
    elif isinstance(value, list):
        for inner in value:
            yield from named_in(inner)


def _named_by(key: str, inner: Any) -> Iterator[str]:
    if key == "Ref" and isinstance(inner, str):
        yield inner
    elif key == "Fn::GetAtt":
        yield inner.split(".")[0] if isinstance(inner, str) else inner[0]
    elif key == "Fn::Sub":
        text, values = (inner, {}) if isinstance(inner, str) else inner
        yield from (name.split(".")[0] for name in _SUBSTITUTION.findall(text) if name not in values)
        yield from named_in(values)
    elif key == "DependsOn":
        yield from [inner] if isinstance(inner, str) else inner
    else:
        yield from named_in(inner)


def in_order(resources: Mapping[str, Any]) -> list[str]:
    """The logical ids, each after the ids that it references; otherwise in the order of the template.

    Raises:
        ValueError: resources refer to each other in a circle.

    >>> in_order({"Subnet": {"Properties": {"VpcId": {"Ref": "Vpc"}}}, "Vpc": {}})
    ['Vpc', 'Subnet']
    """
    graph = {name: [other for other in named_in(json) if other in resources] for name, json in resources.items()}
    sorter = graphlib.TopologicalSorter(graph)
    try:
        sorter.prepare()
    except graphlib.CycleError as error:
        circle = " -> ".join(error.args[1])
        raise ValueError(f"Circular dependency between resources: [{circle}]") from error
    place = {name: index for index, name in enumerate(resources)}
    ordered: list[str] = []
    while sorter.is_active():
        ready = sorted(sorter.get_ready(), key=place.__getitem__)
        ordered.extend(ready)
        sorter.done(*ready)
    return ordered


def imports_of(template: Any) -> set[str]:
    """The names of exports that a template imports with Fn::ImportValue, if they are literal.

    >>> imports_of({"A": {"Fn::ImportValue": "net:Vpc"}})
    {'net:Vpc'}
    """
    if isinstance(template, Mapping):
        names = {value for key, value in template.items() if key == "Fn::ImportValue" and isinstance(value, str)}
        return names.union(*(imports_of(value) for value in template.values()))
    if isinstance(template, list):
        return set().union(*(imports_of(value) for value in template))
    return set()
