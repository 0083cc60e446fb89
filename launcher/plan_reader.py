"""Reads the values of a plan by the kinds of its keys, and collects their problems with path, line and column."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from launcher.agent.command_line import run_by_bash
from launcher.catalog import safe_yaml
from launcher.catalog.file_places import FilePlace, places_of, with_place
from launcher.model import kinds
from launcher.model.finding import Finding, error
from launcher.model.names import nearest_name
from launcher.model.request import NodeRange, PlanRequest
from launcher.model.values import (
    FAILED,
    OUT_OF_RANGE,
    WHOLE,
    ScalarReader,
    cut,
    cut_line,
    describe,
    is_plain,
    number_hint,
)

SHOWN_KEYS = 3
"""Keys of a file that is no plan in a message, each cut: a key file named by mistake must not reach a CI log."""

ALL_KEYS = "slipway schema prints all keys"


def _allowed_hint(word: str, allowed: list[str], value: object) -> str:
    """A hint that names the closest allowed word, or all allowed words if they are few, or how to list them."""
    if word.isdecimal() and value is None:
        return "a number has no comma: write 1000 for 1,000"  # {max_usd: 1,000} has two entries
    if len(allowed) > 12:  # noqa: PLR2004 - what fits a line
        return nearest_name(word, allowed) or ALL_KEYS
    return nearest_name(word, allowed) or f"allowed: {', '.join(allowed)}"


def _missing_hint(key: str, field: Field[Any], kind: kinds.Kind) -> str:
    """What to add for a required key: its only value, the form of its values, or its meaning."""
    if isinstance(kind, kinds.Integer) and kind.minimum == kind.maximum:
        return f"add {key}: {kind.minimum}"
    form = kind.form if isinstance(kind, kinds.Text) and kind.pattern is not None else field.metadata["doc"]
    return f"add {key}: {form}"


def request_keys(owner: type) -> list[tuple[str, Field[Any], kinds.Kind]]:
    """The keys of a request dataclass, with their fields and kinds, in order."""
    return [(field.name, field, field.metadata["kind"]) for field in fields(owner)]


class PlanReader(ScalarReader):
    """Reads values by kind and collects the problems.

    `node` is the root of their file, or `places` if it is no YAML; `folder` is where it is; `typed` are --set's values.
    """

    def __init__(
        self,
        node: yaml.Node | None,
        folder: Path,
        places: Mapping[str, FilePlace] | None = None,
        typed: Mapping[str, FilePlace] | None = None,
    ) -> None:
        super().__init__()
        self._node = node
        self.folder = folder
        self._toml_places = places
        self._typed = typed or {}

    @cached_property
    def places(self) -> Mapping[str, FilePlace]:
        """Where everything is in the file, by its path; needed only for findings."""
        return {**(places_of(self._node) if self._toml_places is None else self._toml_places), **self._typed}

    def again(self) -> "PlanReader":
        """A reader of the same file without findings."""
        return PlanReader(self._node, self.folder, self._toml_places, self._typed)

    def with_places(self, findings: Sequence[Finding]) -> list[Finding]:
        """Findings with the line and column of their paths."""
        return [with_place(finding, self.places) for finding in findings]

    def source_text(self, path: str, value: object) -> str | None:
        """The text of a value as the file has it; None if it is not known, or no single value without quotes."""
        place = self.places.get(path)
        if place is None:
            return None
        text = place.text if place.value is None else safe_yaml.plain_text(place.value)
        if text is None:
            return None
        try:
            own = tomllib.loads(f"value = {text}")["value"] if place.value is None else safe_yaml.loads(text)
        except ValueError:
            return None
        # It is another's if a layer above or --set replaces it.
        return text if repr(own) == repr(value) and not isinstance(own, str | list | dict) else None

    def show_value(self, value: object, path: str) -> str:
        """A value as a message shows it; a list or mapping in brackets as the file has it."""
        place = self.places.get(path) if isinstance(value, list | dict) else None
        if place is None or not isinstance(place.value, yaml.CollectionNode) or not place.value.flow_style:
            return super().show_value(value, path)
        text = safe_yaml.text_of(place.value)
        return cut_line(text) if repr(safe_yaml.loads(text)) == repr(value) else super().show_value(value, path)

    def section(self, owner: type, data: object, path: str, others: Sequence[str] = ()) -> object:
        """A mapping as its type; FAILED without a value that is required, and a default for each other wrong one.

        `others`: further keys that the mapping may have in a file, for the hint at an unknown one.
        """
        if data is None:
            data = {}
        if not isinstance(data, Mapping):
            return self.wrong(path, data, "a mapping")
        known = {key: (field, kind) for key, field, kind in request_keys(owner)}
        unknown = [key for key in data if not isinstance(key, str) or key not in known]
        for key in unknown[:SHOWN_KEYS]:
            where, short = (f"{path}.{name}" if path else name for name in (str(key), cut(str(key))))
            hint = _allowed_hint(str(key), [*others, *known], data[key])
            finding = with_place(error("unknown-key", where, f"unknown key {describe(cut(key))}", hint), self.places)
            self.findings.append(replace(finding, path=short))
        if len(unknown) > SHOWN_KEYS:
            message = f"{len(unknown) - SHOWN_KEYS} more unknown keys"
            self.refuse("unknown-key", path, message, ALL_KEYS)
        values: dict[str, object] = {}
        complete = True
        # A file of something else, such as of credentials, may have keys of a plan: its values are not shown.
        other = owner is PlanRequest and bool(unknown) and "slipway" not in data
        for key, (field, kind) in known.items():
            where = f"{path}.{key}" if path else key
            if other and key in data:
                continue
            if key not in data:
                if field.default is MISSING and field.default_factory is MISSING:
                    self.refuse("missing-key", where, f"the key {key} is required", _missing_hint(key, field, kind))
                    complete = False
                continue
            value = self._value(kind, data[key], where)
            if value is FAILED:
                # With its default, the rest can still be checked; a request with findings is used for nothing else.
                complete &= field.default is not MISSING or field.default_factory is not MISSING
            else:
                values[key] = value
        return owner(**values) if complete else FAILED

    def _value(self, kind: kinds.Kind, data: object, path: str) -> object:  # noqa: PLR0911 - one case a kind
        match kind:
            case kinds.Nullable() | kinds.Auto() | kinds.AnyOf():
                word = {kinds.Auto: "auto", kinds.AnyOf: "any"}.get(type(kind))
                if data is None or (word and data == word):
                    return None
                if word:
                    self.words[path] = word
                return self._value(kind.item, data, path)
            case kinds.Section():
                return self.section(kind.of, data, path)
            case kinds.Open():
                return self._read_open(kind, data, path)
            case kinds.Many():
                return self._many(kind, data, path)
            case kinds.Table():
                return self._table(kind, data, path)
            case kinds.NodeCount():
                return self._node_count(data, path)
            case kinds.NameOr():
                return self._name_or(kind, data, path)
        return self.scalar(kind, data, path)

    def _name_or(self, kind: kinds.NameOr, data: object, path: str) -> object:
        if isinstance(data, str) and data:
            return self.text(kinds.Text(), data, path)
        if not isinstance(data, Mapping):
            text = self.source_text(path, data)
            return self.wrong(path, data, kind.form, f'write "{text}"' if text else "")
        if "config" in data:
            data = self._read_config(data, path)
            if data is None:
                return FAILED
        return self.section(kind.of, data, path, ["config"])

    def _read_config(self, data: Mapping[object, object], path: str) -> Mapping[object, object] | None:
        """A model's mapping with the dimensions of the config.json that it names; what it states itself wins."""
        named, where = data["config"], f"{path}.config"
        if not isinstance(named, str) or not named or "\0" in named:
            self.wrong(where, named, "the path of a Hugging Face config.json")
            return None
        from launcher.catalog.model_config import ModelConfigError, plan_keys, read_model_config

        try:
            config = read_model_config(self.folder / Path(named).expanduser())
            dimensions: dict[object, object] = dict(plan_keys(config).items())
        except ModelConfigError as problem:
            hint = "name a config.json of a decoder, or give {params_b: N} instead"
            self.refuse("model-config", where, f"cannot use {named}: {problem}", hint)
            return None
        return {**dimensions, **{key: value for key, value in data.items() if key != "config"}}

    def _read_open(self, kind: kinds.Open, data: object, path: str) -> object:
        if data in ("any", None):
            return None
        if not isinstance(data, list):
            if isinstance(data, str) and "," in data:
                return self.wrong(
                    path, data, "one value or a list", f"write [{', '.join(data.replace(',', ' ').split())}]"
                )
            self.words[path] = "any"
            value = self._value(kind.item, data, path)
            return FAILED if value is FAILED else (value,)
        if not data:
            return self.wrong(path, data, "any, one value or a list that is not empty")
        return self._many(kinds.Many(item=kind.item), data, path)

    def _many(self, kind: kinds.Many, data: object, path: str) -> object:
        if kind.command_line and isinstance(data, str) and data.strip():
            line = self._value(kind.item, data, path)
            return run_by_bash(line) if isinstance(line, str) else FAILED
        if not isinstance(data, list):
            return self.wrong(path, data, "a list", self._list_hint(kind, data, path))
        if kind.command_line and not (data and data[0]):
            return self.wrong(path, data, "a command of at least one word")
        if kind.exactly is not None and len(data) != kind.exactly:
            return self.wrong(path, data, f"a list of {kind.exactly} values", f"it has {len(data)}")
        values = [self._value(kind.item, item, f"{path}[{index}]") for index, item in enumerate(data)]
        return FAILED if any(value is FAILED for value in values) else tuple(values)

    def _list_hint(self, kind: kinds.Many, data: object, path: str) -> str:
        """The list to write for its only item, or what is wrong with the item itself."""
        written = f"[{self._item(kind.item, data, path)}]"
        try:
            items = safe_yaml.loads(written)
        except ValueError:
            return ""  # the item is cut to fit the line
        reader = self.again()
        reader._many(kind, items, path)  # noqa: SLF001 - its own class
        return f"each item: {reader.findings[0].message}" if reader.findings else f"write {written}"

    def _item(self, kind: kinds.Kind, data: object, path: str) -> str:
        """A value as the item of a list that it stands for, in the notation of the file."""
        text = self.source_text(path, data) if isinstance(kind, kinds.Text | kinds.NameOr | kinds.Section) else None
        item = f'"{text}"' if text is not None and not isinstance(data, str) else self.show_value(data, path)
        if isinstance(kind, kinds.Section) and not isinstance(data, Mapping):
            first = next((key for key, field, _ in request_keys(kind.of) if field.default is MISSING), None)
            return item if first is None else f"{{{first}: {item}}}"
        return item

    def _table(self, kind: kinds.Table, data: object, path: str) -> object:
        if data is None:
            return {}
        if not isinstance(data, Mapping):
            return self.wrong(path, data, "a mapping")
        if kind.max_entries is not None and len(data) > kind.max_entries:
            return self.refuse(OUT_OF_RANGE, path, f"{len(data)} of them, at most {kind.max_entries} are allowed")
        values: dict[str, object] = {}
        for key, item in data.items():
            if not isinstance(key, str) or not is_plain(key) or (kind.keys and not re.fullmatch(kind.keys, key)):
                finding = error("wrong-type", f"{path}.{key}", f"must be {kind.form}, got {describe(cut(key))}")
                self.findings.append(replace(with_place(finding, self.places), path=f"{path}.{cut(key)}"))
                continue
            values[key] = self._value(kind.item, item, f"{path}.{key}")
            if item is None and values[key] is FAILED:
                hint = f"null removes a value of a layer below, and none gives {cut(key)}"
                self.findings.append(replace(self.findings.pop(), hint=hint))
        return FAILED if any(value is FAILED for value in values.values()) else values

    def _node_count(self, data: object, path: str) -> object:
        if data in ("any", None):
            return None
        most = kinds.Integer(minimum=1, maximum=10_000)
        if isinstance(data, Mapping):
            for key in data:
                if key not in ("min", "max"):
                    self.refuse("unknown-key", f"{path}.{key}", f"unknown key {describe(key)}", "allowed: min, max")
            low = self._value(most, data.get("min", 1), f"{path}.min")
            high = self._value(most, data.get("max", low), f"{path}.max")
            if not isinstance(low, int) or not isinstance(high, int):
                return FAILED
            if low > high:
                hint = f"write {{min: {high}, max: {low}}}"
                return self.refuse(OUT_OF_RANGE, path, f"min {low} is above max {high}", hint)
            return NodeRange(minimum=low, maximum=high)
        if isinstance(data, str | list) or data is None:
            return self.wrong(path, data, "any, a number, or {min, max}", number_hint(data, WHOLE, path))
        value = self._value(most, data, path)
        return NodeRange(minimum=value, maximum=value) if isinstance(value, int) else FAILED
