"""Layers of a plan file: where defaults are, how layers are merged by kind, and where a value is from.

From the lowest to the highest: the organisation's file, the user's file, the project's file, the files named by
`extends`, the plan, and `--set`.
"""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import field, fields
from pathlib import Path
from typing import Any

from launcher.catalog import safe_yaml
from launcher.model import kinds
from launcher.model.errors import UnreadableInputError
from launcher.model.names import nearest_name
from launcher.model.record import record
from launcher.model.request import PlanRequest

EXTENDS, VARIABLES = "extends", "env"
"""Keys of a file that are no part of the request: the file that it extends, and the variables that it may use."""
ORGANISATION_VARIABLE = "SLIPWAY_ORGANISATION_DEFAULTS"
ORGANISATION_FILE = Path("/etc/slipway/defaults.yaml")
PROJECT_FILES = (Path("slipway.toml"), Path(".slipway") / "defaults.yaml")
PLAN, SETTING = "plan", "--set"
EITHER = (
    frozenset({"workload.train", "workload.serve"}),
    frozenset({"workload.train.tokens_b", "workload.train.hours"}),
    frozenset({"workload.serve.requests_per_s", "workload.serve.hourly_requests_per_s"}),
)
"""Keys of which a plan has one: a layer that gives one of them replaces the others of the layers below."""
WHOLE = frozenset({"purchase.reservation", "purchase.training_plan", "checkpoint.tracker"})
"""Mappings that a layer replaces as a whole."""
PATHS = ("run.workdir", "workload.train.model.config", "workload.serve.model.config")
"""Keys with the path of a local file or folder, relative to the file that gives it."""
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


class Raw(str):
    """A value from the command line or the environment: text until the kind of its key is known."""

    __slots__ = ()


@record
class Layer:
    """One layer of a plan: the file that it is from, in words, its folder, and its data."""

    source: str
    folder: Path
    data: Mapping[Any, Any]


@record
class Resolved:
    """Merged layers: the data, and for each key that is given the source of its value."""

    data: dict[Any, Any]
    sources: dict[str, str] = field(default_factory=dict)


def default_files(plan: Path, environment: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    """The existing files of defaults for a plan, the lowest layer first, each with the kind of its layer.

    Raises:
        UnreadableInputError: the variable of the organisation's file names none, or another user's file is in the way.
    """
    named = environment.get(ORGANISATION_VARIABLE)
    if named and not Path(named).is_file():
        raise UnreadableInputError(
            f"{ORGANISATION_VARIABLE} names no file: {named}",
            hint=f"correct the path, or unset {ORGANISATION_VARIABLE}",
        )
    organisation = Path(named) if named else ORGANISATION_FILE
    home = environment.get("XDG_CONFIG_HOME") or (f"{environment['HOME']}/.config" if environment.get("HOME") else "")
    candidates = [("organisation file", organisation)]
    candidates += [("user file", Path(home) / "slipway" / "defaults.yaml")] if home else []
    yield from ((kind, path) for kind, path in candidates if path.is_file())
    project = _project_file(plan)
    if project is not None:
        yield "project file", project


def _project_file(plan: Path) -> Path | None:
    """The nearest project file in the plan's folder or above it."""
    start = Path.cwd() if str(plan).startswith("/dev/") else plan.resolve().parent
    for folder in (start, *start.parents):
        found = [folder / name for name in PROJECT_FILES if (folder / name).is_file()]
        if len(found) > 1:
            raise UnreadableInputError(
                f"two files of defaults in {folder}: {' and '.join(str(name) for name in PROJECT_FILES)}",
                hint="keep one of them",
            )
        if found:
            _refuse_foreign(found[0], plan)
            return found[0]
    return None


def _refuse_foreign(path: Path, plan: Path) -> None:
    """Refuse defaults that another user left above the plan, as in /tmp: they could name a command or a bucket."""
    trusted = {0, os.getuid()}
    if plan.is_file():
        trusted.add(plan.stat().st_uid)
    owner = path.stat().st_uid
    if owner not in trusted:
        raise UnreadableInputError(
            f"{path} belongs to another user (uid {owner}), and its defaults would apply to {plan}",
            hint="remove it, or copy the plan into a folder of your own",
        )


def merged(layers: list[Layer], folder: Path) -> Resolved:
    """The layers as one; relative paths of each become relative to `folder`, the plan's."""
    result = Resolved(data={})
    for layer in layers:
        data = {key: value for key, value in layer.data.items() if key not in (EXTENDS, VARIABLES)}
        moved = _move_paths(data, layer.folder, folder)
        _merge(result, kinds.Section(of=PlanRequest), result.data, moved, ("", layer.source))
    return result


def _merge(
    result: Resolved,
    kind: kinds.Section | kinds.Table,
    low: dict[Any, Any],
    high: Mapping[Any, Any],
    at: tuple[str, str],
) -> None:
    """Put the keys of a layer over those below; `at` is their path and the layer's source."""
    path, source = at
    known = {} if isinstance(kind, kinds.Table) else _keys(kind.of)
    for key, value in high.items():
        where = f"{path}.{key}" if path else str(key)
        _drop_alternatives(result, low, high, where)
        inner = kind.item if isinstance(kind, kinds.Table) else known.get(key) if isinstance(key, str) else None
        group = None if inner is None or where in WHOLE else _group(inner)
        if group is not None and value is None:
            low.setdefault(key, None)
        elif group is not None and isinstance(value, Mapping):
            below = low.get(key)
            low[key] = dict(below) if isinstance(below, Mapping) else {}
            _merge(result, group, low[key], value, (where, source))
        else:
            low[key] = value if inner is None else _parse_value(inner, value)
            result.sources[where] = source


def _drop_alternatives(result: Resolved, low: dict[Any, Any], high: Mapping[Any, Any], where: str) -> None:
    """Remove what a key replaces from the layers below; two of them in one layer stay, and are refused as ever."""
    for others in (names - {where} for names in EITHER if where in names):
        for other in others:
            last = other.rpartition(".")[2]
            if last in high:
                continue
            low.pop(last, None)
            for known in [name for name in result.sources if f"{name}.".startswith(f"{other}.")]:
                del result.sources[known]


def _group(kind: kinds.Kind) -> kinds.Section | kinds.Table | None:
    """The kind of a mapping whose keys are merged one by one; None for a value that is replaced as a whole."""
    if isinstance(kind, kinds.Section | kinds.Table):
        return kind
    return _group(kind.item) if isinstance(kind, kinds.Nullable) else None


def _keys(owner: type) -> dict[str, kinds.Kind]:
    return {key.name: key.metadata["kind"] for key in fields(owner)}


def _parse_value(kind: kinds.Kind, value: Any) -> Any:
    """A value from the command line or the environment, read as the kind of its key requires."""
    if not isinstance(value, Raw):
        return value
    try:
        read = safe_yaml.loads(value)
    except safe_yaml.YamlError:
        return str(value)
    if isinstance(read, list | dict) and not _is_text(kind):
        return read
    return str(value) if _is_textual(kind) and read not in (None, "auto", "any") else read


def _is_text(kind: kinds.Kind) -> bool:
    return isinstance(kind, kinds.Text) or (isinstance(kind, kinds.Nullable) and _is_text(kind.item))


def _is_textual(kind: kinds.Kind) -> bool:
    """Whether a single value of a kind is text, so that 0123 and yes stay as they are written."""
    inner = getattr(kind, "item", None)
    if isinstance(kind, kinds.Many) and kind.command_line:
        return True
    if isinstance(inner, kinds.Kind):
        return _is_textual(inner)
    return isinstance(kind, kinds.Text | kinds.Choice | kinds.Instant | kinds.NameOr | kinds.Usd)


def _move_paths(data: dict[Any, Any], origin: Path, folder: Path) -> dict[Any, Any]:
    """The data with its relative paths made relative to another folder."""
    if origin.resolve() == folder.resolve():
        return data
    for path in PATHS:
        data = _replace_values(data, path.split("."), lambda value: _relocate_path(value, origin, folder))
    return data


def _replace_values(data: Any, keys: list[str], change: Any) -> Any:
    if not isinstance(data, Mapping) or keys[0] not in data:
        return data
    value = data[keys[0]]
    return {**data, keys[0]: change(value) if len(keys) == 1 else _replace_values(value, keys[1:], change)}


def _relocate_path(value: Any, origin: Path, folder: Path) -> Any:
    if not isinstance(value, str) or not value or "\0" in value or Path(value).expanduser().is_absolute():
        return value
    return os.path.relpath(origin.resolve() / value, folder.resolve())


def expanded(data: Mapping[Any, Any], name: str, environment: Mapping[str, str]) -> Mapping[Any, Any]:
    """A file's data with ${NAME} replaced in its values, for the variables that its key `env` lists.

    Raises:
        UnreadableInputError: `env` is no list of names, or no mapping of names to defaults; a variable is not set.
    """
    listed = data.get(VARIABLES)
    if listed is None:
        return data
    defaults = dict.fromkeys(listed) if isinstance(listed, list) else listed
    if not isinstance(defaults, Mapping) or not all(
        isinstance(key, str) and _VARIABLE.fullmatch(f"${{{key}}}") for key in defaults
    ):
        raise UnreadableInputError(
            f"{name}: env must be a list of variables, or a mapping of variables to defaults, got {listed!r}",
            hint="env: [TEAM, BUCKET]; variables of the job are in run.env",
        )
    values = {}
    for key, default in defaults.items():
        value = environment.get(key, None if default is None else str(default))
        if value is None:
            raise UnreadableInputError(
                f"{name}: the environment has no variable {key}, which env lists",
                hint=f"export {key}=VALUE, or give a default: env: {{{key}: VALUE}}",
            )
        values[key] = value
    return {key: value if key == VARIABLES else _filled(value, values) for key, value in data.items()}


def _filled(value: Any, values: Mapping[str, str]) -> Any:
    if isinstance(value, Mapping):
        return {key: _filled(item, values) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, values) for item in value]
    if not isinstance(value, str):
        return value
    text = _VARIABLE.sub(lambda found: values.get(found[1], found[0]), value)
    return value if text == value else Raw(text) if _VARIABLE.fullmatch(value) else text


def settings_layer(settings: tuple[str, ...]) -> Layer | None:
    """The layer of `--set KEY=VALUE`; None without any.

    Raises:
        UnreadableInputError: a setting has no value, or its key is unknown.
    """
    data: dict[str, Any] = {}
    for text in settings:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise UnreadableInputError(f"--set takes KEY=VALUE, got {text!r}", hint="--set target.nodes=2")
        *parents, last = full_key(name.strip()).split(".", _depth(name.strip()))
        section = data
        for parent in parents:
            section = section.setdefault(parent, {})
        section[last] = Raw(value)
    return Layer(source=SETTING, folder=Path(), data=data) if data else None


def full_key(name: str) -> str:
    """The dotted key of a name: the key itself, an entry of a table, or the only key that ends with the name.

    >>> full_key("target.nodes"), full_key("tokens_b"), full_key("run.env.A")
    ('target.nodes', 'workload.train.tokens_b', 'run.env.A')
    """
    every = dict(_leaves(PlanRequest, ""))
    if name in every or _table_of(name, every) is not None:
        return name
    ends = [key for key in every if key.rpartition(".")[2] == name]
    if len(ends) == 1:
        return ends[0]
    if ends:
        raise UnreadableInputError(f"--set {name} may be {' or '.join(ends)}", hint="write the full key")
    near = nearest_name(name, [*every, *(key.rpartition(".")[2] for key in every)])
    raise UnreadableInputError(f"--set {name}: a plan has no such key", hint=near or "slipway schema prints all keys")


def _depth(name: str) -> int:
    """How often a key is split at its dots: the name of a table's entry may have dots of its own."""
    every = dict(_leaves(PlanRequest, ""))
    table = _table_of(name, every)
    return full_key(name).count(".") if table is None else table.count(".") + 1


def _table_of(name: str, every: Mapping[str, kinds.Kind]) -> str | None:
    tables = (key for key, kind in every.items() if isinstance(kind, kinds.Table))
    return next((key for key in tables if name.startswith(f"{key}.") and len(name) > len(key) + 1), None)


def _leaves(owner: type, path: str) -> Iterator[tuple[str, kinds.Kind]]:
    """Every key that can be set, with its kind: sections by their keys, other mappings as a whole and by their keys."""
    for key, kind in _keys(owner).items():
        where = f"{path}.{key}" if path else key
        group = _group(kind)
        if isinstance(group, kinds.Section):
            if where in WHOLE:
                yield where, kind
            yield from _leaves(group.of, where)
        else:
            yield where, kind
