"""The values of a CloudFormation template, with its parameters, mappings and conditions resolved where they are known.

A value that is known only in the account (an attribute of a resource, a parameter without a default, an import) is
`Unknown`, with the reason: no number is guessed for it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from launcher.model.record import record
from launcher.model.values import cut

MAX_DEPTH = 60
"""Values and conditions within each other; deeper ones are unknown."""
NO_VALUE = object()
"""AWS::NoValue: the key or item is left out."""
_LISTS = ("CommaDelimitedList", "List<")


@record
class Unknown:
    """A value that only a deployment knows, and why."""

    reason: str


@record
class Reference:
    """A resource of the template, or one of its attributes."""

    logical_id: str
    attribute: str = ""

    def __str__(self) -> str:
        """A word that stands for the value within a text."""
        return f"${{{self.logical_id}{'.' if self.attribute else ''}{self.attribute}}}"


@record
class Resource:
    """A resource of a template, its properties resolved; `path` is its path in the CDK app, or its logical id."""

    logical_id: str
    type: str
    properties: Mapping[str, Any]
    path: str


class Template:
    """The template of a stack in a region, with the values of its parameters."""

    def __init__(
        self, body: Mapping[str, Any], stack: str, region: str, parameters: Mapping[str, Any] | None = None
    ) -> None:
        """Keep the parts of a template; anything that is not of the expected form is left out."""
        self.name = stack
        self.region = region
        self._raw = _mapping(body.get("Resources"))
        self._parameters = _mapping(body.get("Parameters"))
        self._given = dict(parameters or {})
        self._mappings = _mapping(body.get("Mappings"))
        self._conditions = _mapping(body.get("Conditions"))
        self._resources: dict[str, Resource] = {}

    def resources(self) -> Iterator[Resource]:
        """The resources whose conditions hold, or cannot be known."""
        for logical_id, raw in self._raw.items():
            if isinstance(raw, Mapping) and self._holds(raw.get("Condition")) is not False:
                yield self.resource(logical_id)

    def resource(self, logical_id: str) -> Resource:
        """A resource with its properties resolved; one without a type or properties has empty ones.

        Raises:
            KeyError: the template has no such resource.
        """
        if logical_id not in self._resources:
            raw = _mapping(self._raw[logical_id])
            path = _mapping(raw.get("Metadata")).get("aws:cdk:path")
            self._resources[logical_id] = Resource(
                logical_id=logical_id,
                type=str(raw.get("Type", "")),
                properties=_mapping(self.resolve(raw.get("Properties", {}))),
                path=path.removesuffix("/Resource") if isinstance(path, str) else logical_id,
            )
        return self._resources[logical_id]

    def referred_resource(self, value: Any, *types: str) -> Resource | None:
        """The resource of one of some types that a resolved value refers to; None if it refers to none."""
        if not isinstance(value, Reference) or value.logical_id not in self._raw:
            return None
        resource = self.resource(value.logical_id)
        return resource if not types or resource.type in types else None

    def asset(self, logical_id: str) -> str | None:
        """The file of a nested stack's template, as the CDK names it in the metadata."""
        path = _mapping(_mapping(self._raw[logical_id]).get("Metadata")).get("aws:asset:path")
        return path if isinstance(path, str) else None

    def resolve(self, value: Any, depth: int = 0) -> Any:
        """A value with its functions carried out."""
        if depth > MAX_DEPTH:
            return Unknown(reason="it is nested too deeply")
        if isinstance(value, list):
            items = [self.resolve(item, depth + 1) for item in value]
            return [item for item in items if item is not NO_VALUE]
        if not isinstance(value, Mapping):
            return value
        if len(value) == 1:
            (name, argument), *_ = value.items()
            if name in _FUNCTIONS:
                return _FUNCTIONS[name](self, argument, depth + 1)
            if name.startswith("Fn::"):
                return Unknown(reason=f"{cut(name)} is known at the deployment only")
        values = {key: self.resolve(item, depth + 1) for key, item in value.items()}
        return {key: item for key, item in values.items() if item is not NO_VALUE}

    # --------------------------------------------------------------------------------------------------- functions

    def _ref(self, argument: Any, _depth: int) -> Any:
        name = str(argument)
        known = {"AWS::Region": self.region, "AWS::Partition": "aws", "AWS::NoValue": NO_VALUE}
        if name in known:
            return known[name]
        if name in self._raw or name.startswith("AWS::"):
            return Reference(logical_id=name)
        return self._parameter(name)

    def _parameter(self, name: str) -> Any:
        declared = _mapping(self._parameters.get(name))
        kind = str(declared.get("Type", ""))
        if name in self._given:
            value = self._given[name]
        elif "Default" in declared and not kind.startswith("AWS::SSM::Parameter::Value"):
            value = declared["Default"]
        else:
            return Unknown(reason=f"parameter {cut(name)} has no value here")
        if kind.startswith(_LISTS) and isinstance(value, str):
            return [item.strip() for item in value.split(",")]
        return value

    def _attribute(self, argument: Any, _depth: int) -> Any:
        parts = argument.partition(".")[::2] if isinstance(argument, str) else argument
        if not isinstance(parts, list | tuple) or not parts or parts[0] not in self._raw:
            return Unknown(reason="an attribute of no resource")
        return Reference(logical_id=parts[0], attribute=str(parts[-1]))

    def _if(self, argument: Any, depth: int) -> Any:
        if not _is_list(argument, 3):
            return Unknown(reason="Fn::If needs three values")
        holds = self._holds(argument[0], depth)
        if holds is None:
            return Unknown(reason=f"condition {cut(argument[0])} is known at the deployment only")
        return self.resolve(argument[1 if holds else 2], depth)

    def _join(self, argument: Any, depth: int) -> Any:
        if not _is_list(argument, 2):
            return Unknown(reason="Fn::Join needs a text and a list")
        pieces = self.resolve(argument[1], depth)
        unknown = _first_unknown(pieces if isinstance(pieces, list) else [pieces])
        return unknown or str(argument[0]).join(map(str, pieces))

    def _sub(self, argument: Any, depth: int) -> Any:
        text, values = argument if _is_list(argument, 2) else (argument, {})
        values = _mapping(self.resolve(values, depth))
        pieces, rest = [], str(text)
        while "${" in rest:
            before, _, rest = rest.partition("${")
            name, _, rest = rest.partition("}")
            pieces.append(before)
            if name.startswith("!"):
                pieces.append(f"${{{name[1:]}}}")
                continue
            value = values.get(name) if name in values else self._lookup_name(name, depth)
            if isinstance(value, Unknown):
                return value
            pieces.append("" if value is NO_VALUE else str(value))
        return "".join([*pieces, rest])

    def _lookup_name(self, name: str, depth: int) -> Any:
        logical_id, _, attribute = name.partition(".")
        return self._attribute([logical_id, attribute], depth) if attribute else self._ref(name, depth)

    def _select(self, argument: Any, depth: int) -> Any:
        if not _is_list(argument, 2):
            return Unknown(reason="Fn::Select needs an index and a list")
        index, items = (self.resolve(item, depth) for item in argument)
        if isinstance(items, list) and str(index).isdecimal() and int(index) < len(items):
            return items[int(index)]
        return items if isinstance(items, Unknown) else Unknown(reason="Fn::Select from a list that is not known here")

    def _split(self, argument: Any, depth: int) -> Any:
        if not _is_list(argument, 2):
            return Unknown(reason="Fn::Split needs two texts")
        text = self.resolve(argument[1], depth)
        separator = str(argument[0])
        return (
            text.split(separator)
            if isinstance(text, str) and separator
            else _first_unknown([text], or_else="Fn::Split")
        )

    def _find(self, argument: Any, depth: int) -> Any:
        keys = [self.resolve(key, depth) for key in argument[:3]] if isinstance(argument, list) else []
        value: Any = self._mappings
        for key in keys:
            value = value.get(key) if isinstance(value, Mapping) and isinstance(key, str) else None
        return Unknown(reason="a mapping has no such value") if value is None else self.resolve(value, depth)

    # -------------------------------------------------------------------------------------------------- conditions

    def _holds(self, condition: Any, depth: int = 0) -> bool | None:
        """Whether a condition holds; True without one, None if that is not known."""
        if condition is None:
            return True
        if isinstance(condition, str):
            condition = self._conditions.get(condition, {})
        if depth > MAX_DEPTH or not isinstance(condition, Mapping) or len(condition) != 1:
            return None
        (name, argument), *_ = condition.items()
        if name == "Condition":
            return self._holds(argument, depth + 1)
        return self._equal(argument, depth) if name == "Fn::Equals" else self._combine_conditions(name, argument, depth)

    def _equal(self, argument: Any, depth: int) -> bool | None:
        if not _is_list(argument, 2):
            return None
        left, right = (self.resolve(side, depth + 1) for side in argument)
        # A text that names a resource or the account is known at the deployment only.
        if _first_unknown([left, right]) or any("${" in str(side) for side in (left, right)):
            return None
        return str(left) == str(right)

    def _combine_conditions(self, name: str, argument: Any, depth: int) -> bool | None:
        parts = [self._holds(part, depth + 1) for part in argument] if isinstance(argument, list) else []
        if name == "Fn::Not" and len(parts) == 1:
            return None if parts[0] is None else not parts[0]
        if name not in {"Fn::And", "Fn::Or"} or not parts:
            return None
        decisive = name == "Fn::Or"
        if decisive in parts:
            return decisive
        return None if None in parts else not decisive


_FUNCTIONS: Mapping[str, Callable[[Template, Any, int], Any]] = {
    "Ref": Template._ref,  # noqa: SLF001 - the class's own table
    "Fn::GetAtt": Template._attribute,  # noqa: SLF001
    "Fn::If": Template._if,  # noqa: SLF001
    "Fn::Join": Template._join,  # noqa: SLF001
    "Fn::Sub": Template._sub,  # noqa: SLF001
    "Fn::Select": Template._select,  # noqa: SLF001
    "Fn::Split": Template._split,  # noqa: SLF001
    "Fn::FindInMap": Template._find,  # noqa: SLF001
}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _is_list(value: Any, length: int) -> bool:
    return isinstance(value, list) and len(value) == length


def _first_unknown(values: Sequence[Any], *, or_else: str = "") -> Unknown | None:
    for value in values:
        if isinstance(value, Unknown):
            return value
        if isinstance(value, Mapping | list):
            return Unknown(reason="a list or mapping stands where a text is expected")
    return Unknown(reason=f"{or_else} of a value that is known at the deployment only") if or_else else None
