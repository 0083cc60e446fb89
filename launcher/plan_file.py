"""The only parser between YAML or JSON and the model: reports all problems of a file together, each with its path."""

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, fields, replace
from pathlib import Path
from typing import Any, cast

import yaml

from launcher.agent.command_line import run_by_bash
from launcher.catalog import safe_yaml
from launcher.catalog.regular_file import UnusableFileError, read_named
from launcher.model import kinds
from launcher.model.errors import ImpossibleError, SlipwayError, UnreadableInputError
from launcher.model.finding import Finding
from launcher.model.names import nearest_name
from launcher.model.request import NodeRange, PlanRequest
from launcher.model.values import FAILED, OUT_OF_RANGE, ScalarReader, describe, is_plain

SAVED = "slipway.saved-plan/1"
"""The schema of a file of `slipway plan -o` (launcher/records/saved_plan.py): its `plan` is a complete plan file."""
MAX_BYTES = 4 << 20
"""Limit of a plan file. A commented one has 20 kB, a saved one with its quote 100."""
MERGE = "tag:yaml.org,2002:merge"


_BOOLEAN, _STRING = "tag:yaml.org,2002:bool", "tag:yaml.org,2002:str"


class _UniqueKeyLoader(yaml.SafeLoader):
    """A safe loader that refuses a duplicate key: YAML would silently use the last one."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002 - PyYAML's signature
        keys: set[object] = set()
        for key_node, _ in node.value:
            if key_node.tag == _BOOLEAN:  # YAML 1.1 takes the word `on` for true; no key is a boolean
                key_node.tag = _STRING
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, list | dict):
                raise yaml.constructor.ConstructorError(None, None, "a key must be a word", key_node.start_mark)
            if key in keys:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} is given twice", key_node.start_mark
                )
            keys.add(key)
        return super().construct_mapping(node, deep)


def is_path(text: str) -> bool:
    """Whether the user's text for a plan is its file rather than its name.

    >>> is_path("jobs/a"), is_path("job.yaml"), is_path("no-such-job")
    (True, True, False)
    """
    return "/" in text or text.endswith((".yaml", ".yml", ".json")) or Path(text).is_file()


def yaml_tokens(line: str) -> str:
    """A command line as the content of a YAML list in brackets; empty if a shell could not split it.

    A word is in quotes if YAML would read it otherwise.

    >>> yaml_tokens("python train.py --name 'a b' --on yes")
    'python, train.py, --name, a b, --on, "yes"'
    """
    try:
        return ", ".join(_yaml_scalar(word) for word in shlex.split(line))
    except ValueError:
        return ""


def _yaml_scalar(text: str) -> str:
    try:
        plain = safe_yaml.loads(f"[{text}]") == [text]
    except safe_yaml.YamlError:
        plain = False
    return text if plain else json.dumps(text, ensure_ascii=False)


def load(path: Path) -> PlanRequest:
    """The request a plan file states.

    Args:
        path: a YAML or JSON file.

    Raises:
        UnreadableInputError: missing file, bad syntax, an unknown key or a value of the wrong type, with all findings.
        ImpossibleError: all keys and types are valid, but a number is outside the allowed range.
    """
    try:
        text = read_named(path, MAX_BYTES).decode("utf-8-sig")
    except UnusableFileError as problem:
        message = f"cannot read the plan file {path}: {problem}; allowed: a regular file, or a pipe as /dev/stdin"
        raise UnreadableInputError(message, hint="write the plan to a file, and name that file") from problem
    except (OSError, ValueError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else "it is not UTF-8 text"
        reason = reason if "\0" not in str(path) else "no file has a null character in its name"
        message = f"cannot read the plan file {path}: {reason}"
        raise UnreadableInputError(message, hint="slipway init writes a commented plan file") from problem
    return loads(text, name=str(path))


def loads(text: str, *, name: str = "plan file") -> PlanRequest:
    """The request that YAML or JSON text states; `name` is used in messages."""
    try:
        node, data = safe_yaml.parsed(text, _UniqueKeyLoader, _refuse_merge_keys)
    except safe_yaml.YamlError as problem:
        language = "JSON" if name.endswith(".json") else "YAML"
        message = f"{name} is not valid {language}: {problem}"
        raise UnreadableInputError(message, hint="correct that place; slipway init writes a plan file") from problem
    if not isinstance(data, dict):
        got = "nothing" if data is None else describe(data)
        raise UnreadableInputError(
            f"{name} must be a mapping that begins with `slipway: 1`, got {got}", hint="slipway init writes one"
        )
    reader, at = _PlanReader(), ""
    if data.get("schema") == SAVED:
        data, at = data.get("plan"), "plan"
    request = reader.section(PlanRequest, data, at)
    if reader.findings:
        places = dict(_places(node, "", set()))
        raise _refusal(name, [_placed(finding, places) for finding in reader.findings])
    return cast("PlanRequest", request)


def _refuse_merge_keys(root: yaml.Node) -> None:
    """Refuse merge keys, which would add keys where no user sees them."""
    pending, visited = [root], set[int]()
    while pending:
        node = pending.pop()
        # Aliases of aliases name the same few nodes many times.
        if id(node) in visited:
            continue
        visited.add(id(node))
        for key, value in _children(node):
            if key is not None and key.tag == MERGE:
                message = "merge keys (<<) are not taken: write the keys out"
                raise yaml.constructor.ConstructorError(None, None, message, key.start_mark)
            pending.append(value)


def _children(node: yaml.Node) -> Iterator[tuple[yaml.Node | None, yaml.Node]]:
    """The content of a node: keys with their values, or values alone."""
    if isinstance(node, yaml.MappingNode):
        yield from node.value
    elif isinstance(node, yaml.SequenceNode):
        yield from ((None, child) for child in node.value)


def _places(node: yaml.Node | None, path: str, visited: set[int]) -> Iterator[tuple[str, yaml.Mark]]:
    """The position of everything below a node, by its path in the file: a key, or an item of a list."""
    if node is None or id(node) in visited:
        return
    visited.add(id(node))
    for index, (key, value) in enumerate(_children(node)):
        if key is None:
            where, mark = f"{path}[{index}]", value.start_mark
        else:
            where, mark = f"{path}.{key.value}" if path else str(key.value), key.start_mark
        yield where, mark
        yield from _places(value, where, visited)


def _placed(finding: Finding, places: Mapping[str, yaml.Mark]) -> Finding:
    path = finding.path
    while path and path not in places:
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
    mark = places.get(path)
    return finding if mark is None else replace(finding, line=mark.line + 1, column=mark.column + 1)


def _refusal(name: str, findings: list[Finding]) -> SlipwayError:
    """The error that carries the findings: unreadable unless only numbers are out of range."""
    count = len(findings)
    message = f"{name} has {count} problem{'s' if count > 1 else ''}"
    kind = ImpossibleError if all(finding.code == OUT_OF_RANGE for finding in findings) else UnreadableInputError
    return kind(message, findings=findings)


def _allowed_hint(word: str, allowed: list[str]) -> str:
    """A hint that names the closest allowed word, or all allowed words if they are few."""
    return nearest_name(word, allowed) or (f"allowed: {', '.join(allowed)}" if len(allowed) <= 12 else "")  # noqa: PLR2004 - what fits a line


def keyed(owner: type) -> list[tuple[str, Field[Any], kinds.Kind]]:
    """The keys of a request dataclass, with their fields and kinds, in order."""
    return [(field.name, field, field.metadata["kind"]) for field in fields(owner)]


class _PlanReader(ScalarReader):
    """Reads values by kind and collects the problems."""

    def section(self, owner: type, data: object, path: str) -> object:
        if data is None:
            data = {}
        if not isinstance(data, Mapping):
            return self.wrong(path, data, "a mapping")
        known = {key: (field, kind) for key, field, kind in keyed(owner)}
        for key in data:
            if str(key) not in known or not isinstance(key, str):
                where = f"{path}.{key}" if path else str(key)
                self.refuse("unknown-key", where, f"unknown key {describe(key)}", _allowed_hint(str(key), list(known)))
        values: dict[str, object] = {}
        complete = True
        for key, (field, kind) in known.items():
            where = f"{path}.{key}" if path else key
            if key not in data:
                if field.default is MISSING and field.default_factory is MISSING:
                    self.refuse("missing-key", where, f"the key {key} is required")
                    complete = False
                continue
            value = self.value(kind, data[key], where)
            if value is FAILED:
                complete = False
            else:
                values[key] = value
        return owner(**values) if complete else FAILED

    def value(self, kind: kinds.Kind, data: object, path: str) -> object:  # noqa: PLR0911 - one case a kind
        match kind:
            case kinds.Nullable() | kinds.Auto() | kinds.AnyOf():
                word = {kinds.Auto: "auto", kinds.AnyOf: "any"}.get(type(kind))
                return None if data is None or (word and data == word) else self.value(kind.item, data, path)
            case kinds.Section():
                return self.section(kind.of, data, path)
            case kinds.Open():
                return self.opened(kind, data, path)
            case kinds.Many():
                return self.many(kind, data, path)
            case kinds.Table():
                return self.table(kind, data, path)
            case kinds.NodeCount():
                return self.node_count(data, path)
            case kinds.NameOr():
                return self.name_or(kind, data, path)
        return self.scalar(kind, data, path)

    def name_or(self, kind: kinds.NameOr, data: object, path: str) -> object:
        if isinstance(data, str) and data:
            return self.text(kinds.Text(), data, path)
        if not isinstance(data, Mapping):
            return self.wrong(path, data, kind.form)
        return self.section(kind.of, data, path)

    def opened(self, kind: kinds.Open, data: object, path: str) -> object:
        if data in ("any", None):
            return None
        if not isinstance(data, list):
            value = self.value(kind.item, data, path)
            return FAILED if value is FAILED else (value,)
        if not data:
            return self.wrong(path, data, "any, one value or a list that is not empty")
        return self.many(kinds.Many(item=kind.item), data, path)

    def many(self, kind: kinds.Many, data: object, path: str) -> object:
        if kind.command_line and isinstance(data, str) and data.strip():
            line = self.value(kind.item, data, path)
            return run_by_bash(line) if isinstance(line, str) else FAILED
        if not isinstance(data, list):
            return self.wrong(path, data, "a list", f"write [{describe(data)}]")
        if kind.command_line and not data:
            return self.wrong(path, data, "a command of at least one word")
        if kind.exactly is not None and len(data) != kind.exactly:
            return self.wrong(path, data, f"a list of {kind.exactly} values", f"it has {len(data)}")
        values = [self.value(kind.item, item, f"{path}[{index}]") for index, item in enumerate(data)]
        return FAILED if any(value is FAILED for value in values) else tuple(values)

    def table(self, kind: kinds.Table, data: object, path: str) -> object:
        if data is None:
            return {}
        if not isinstance(data, Mapping):
            return self.wrong(path, data, "a mapping")
        if kind.max_entries is not None and len(data) > kind.max_entries:
            return self.refuse(OUT_OF_RANGE, path, f"{len(data)} of them, at most {kind.max_entries} are allowed")
        values: dict[str, object] = {}
        for key, item in data.items():
            if not isinstance(key, str) or not is_plain(key) or (kind.keys and not re.fullmatch(kind.keys, key)):
                self.wrong(f"{path}.{key}", key, kind.form)
                continue
            values[key] = self.value(kind.item, item, f"{path}.{key}")
        return FAILED if any(value is FAILED for value in values.values()) else values

    def node_count(self, data: object, path: str) -> object:
        if data in ("any", None):
            return None
        most = kinds.Integer(minimum=1, maximum=10_000)
        if isinstance(data, Mapping):
            for key in data:
                if key not in ("min", "max"):
                    self.refuse("unknown-key", f"{path}.{key}", f"unknown key {describe(key)}", "allowed: min, max")
            low = self.value(most, data.get("min", 1), f"{path}.min")
            high = self.value(most, data.get("max", low), f"{path}.max")
            if not isinstance(low, int) or not isinstance(high, int):
                return FAILED
            if low > high:
                return self.refuse(OUT_OF_RANGE, path, f"min {low} is above max {high}")
            return NodeRange(minimum=low, maximum=high)
        if isinstance(data, str | list) or data is None:
            return self.wrong(path, data, "any, a number, or {min, max}")
        value = self.value(most, data, path)
        return NodeRange(minimum=value, maximum=value) if isinstance(value, int) else FAILED
