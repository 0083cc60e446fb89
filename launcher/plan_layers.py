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
from launcher.catalog.file_places import FilePlace, places_of
from launcher.catalog.regular_file import folder_of, mode_of
from launcher.model import kinds
from launcher.model.errors import ImpossibleError, SlipwayError, UnreadableInputError
from launcher.model.finding import Finding, error
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
EXPANDED_LATER = ("run.command", "run.env", "run.setup", "run.before", "run.after", "run.outputs", "run.data")
"""Keys in which ${NAME} may be meant for a shell or the agent of the job."""
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_UNLISTED = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::?[-=?+]([^}]*))?\}")
"""The same, and what a shell would allow with a default."""


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
    # What is no regular file is refused when it is read: its defaults, such as a budget, would be missing in silence.
    yield from ((kind, path) for kind, path in candidates if os.path.lexists(path))
    project = _project_file(plan)
    if project is not None:
        yield "project file", project


def _project_file(plan: Path) -> Path | None:
    """The nearest project file in the plan's folder or above it."""
    start = folder_of(plan)
    for folder in (start, *start.parents):
        found = [folder / name for name in PROJECT_FILES if os.path.lexists(folder / name)]
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
    owners = {path.lstat().st_uid, *([path.stat().st_uid] if mode_of(path) else [])}
    if not owners <= trusted:
        raise UnreadableInputError(
            f"{path} belongs to another user (uid {max(owners - trusted)}), and its defaults would apply to {plan}",
            hint="remove it, or copy the plan into a folder of your own",
        )


def merge_layers(layers: list[Layer], folder: Path) -> Resolved:
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
    for key, given in high.items():
        where = f"{path}.{key}" if path else str(key)
        _drop_alternatives(result, low, high, where)
        inner = kind.item if isinstance(kind, kinds.Table) else known.get(key) if isinstance(key, str) else None
        group = None if inner is None or where in WHOLE else _group(inner)
        value = given if inner is None else _parse_value(inner, given, where, source)
        if group is not None and value is None:
            low.setdefault(key, None)
        elif isinstance(kind, kinds.Table) and value is None and key in low:
            del low[key]
            result.sources.pop(where, None)
        elif group is not None and isinstance(value, Mapping):
            below = low.get(key)
            low[key] = dict(below) if isinstance(below, Mapping) else {}
            _merge(result, group, low[key], value, (where, source))
        else:
            low[key] = value
            result.sources[where] = source


def without_removed(data: Mapping[Any, Any]) -> dict[Any, Any]:
    """The data of one layer without the entries of tables that it removes from the layers below."""
    result = dict(data)
    for table in (key for key, kind in _leaves(PlanRequest, "") if isinstance(kind, kinds.Table)):
        result = _replace_values(result, table.split("."), _without_null)
    return result


def _without_null(table: Any) -> Any:
    if not isinstance(table, Mapping):
        return table
    return {key: value for key, value in table.items() if value is not None}


def source_of(path: str, sources: Mapping[str, str]) -> str | None:
    """The source of a value, or of the value that it is a part of; None if no layer gives it."""
    while path and path not in sources:
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
    return sources.get(path)


def file_of(source: str) -> Path | None:
    """The file of a layer, by the name of its source; None for the plan and the command line."""
    name = source.removeprefix("extends ") if source.startswith("extends ") else source.partition(" file ")[2]
    return Path(name) if name else None


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


def _parse_value(kind: kinds.Kind, value: Any, where: str, source: str) -> Any:
    """A value from the command line or the environment, read as the kind of its key requires.

    Raises:
        UnreadableInputError: it is empty, and its key is no plain text: a script's variable may be unset.
    """
    if not isinstance(value, Raw):
        return value
    if not value.strip():
        if isinstance(kind, kinds.Text):
            return str(value)
        fix = f"--set {where}=null removes the value" if source == SETTING else "set the variable, or give it a default"
        raise UnreadableInputError(f"{where}: the value is empty (from {source})", hint=fix)
    try:
        read = safe_yaml.loads(value)
    except safe_yaml.YamlError:
        return str(value)
    if read is None and isinstance(kind, kinds.Text) and source != SETTING:
        return str(value)
    if isinstance(read, list | dict) and not _is_text(kind):
        # Bash's { A; B; } is a mapping to YAML.
        command = isinstance(kind, kinds.Many) and kind.command_line and isinstance(read, dict)
        return str(value) if command else read
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
    if os.path.realpath(origin) == os.path.realpath(folder):
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
    return os.path.relpath(Path(os.path.realpath(origin), value), os.path.realpath(folder))


def expand_variables(data: Mapping[Any, Any], name: str, environment: Mapping[str, str]) -> Mapping[Any, Any]:
    """A file's data with ${NAME} replaced in its values, for the variables that its key `env` lists.

    Raises:
        UnreadableInputError: `env` is no list of names, or no mapping of names to defaults; a variable is not set.
    """
    listed = data.get(VARIABLES)
    if listed is None:
        return data
    defaults = dict.fromkeys(listed) if isinstance(listed, list) else listed
    if not isinstance(defaults, Mapping) or not all(
        isinstance(key, str) and _VARIABLE.fullmatch(f"${{{key}}}") and not isinstance(default, list | Mapping)
        for key, default in defaults.items()
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
    return {key: value if key == VARIABLES else _fill_in(value, values) for key, value in data.items()}


def _fill_in(value: Any, values: Mapping[str, str]) -> Any:
    if isinstance(value, Mapping):
        return {key: _fill_in(item, values) for key, item in value.items()}
    if isinstance(value, list):
        return [_fill_in(item, values) for item in value]
    if not isinstance(value, str):
        return value
    text = _VARIABLE.sub(lambda found: values.get(found[1], found[0]), value)
    return value if text == value else Raw(text) if _VARIABLE.fullmatch(value) else text


def unlisted_variables(data: Mapping[Any, Any], path: str = "") -> Iterator[Finding]:
    """An error for each ${NAME} that is left in a file's values, where nothing replaces it later."""
    for key, value in data.items():
        where = f"{path}.{key}" if path else str(key)
        if where in (VARIABLES, *EXPANDED_LATER):
            continue
        if isinstance(value, Mapping):
            yield from unlisted_variables(value, where)
        for item in value if isinstance(value, list) else [value]:
            match = _UNLISTED.search(item) if isinstance(item, str) else None
            if match is not None:
                listed = f"env: [{match[1]}]" if match[2] is None else f"env: {{{match[1]}: {match[2]}}}"
                message = f"the file does not list the variable {match[1]}, so {match[0]} stays as it is written"
                yield error(
                    "variable-not-listed", where, message, f"add {listed} to the file, and write ${{{match[1]}}}"
                )


def settings_layer(settings: tuple[str, ...]) -> tuple[Layer | None, list[SlipwayError]]:
    """The layer of `--set KEY=VALUE`, None without any, and the refusals of those without a value or a known key."""
    data: dict[str, Any] = {}
    refusals: list[SlipwayError] = []
    for text in settings:
        try:
            _add_setting(data, text)
        except UnreadableInputError as problem:
            refusals.append(problem)
    return Layer(source=SETTING, folder=Path(), data=data) if data else None, refusals


def typed_places(settings: tuple[str, ...]) -> dict[str, FilePlace]:
    """The values of `--set KEY=VALUE` as they were typed, by their paths; they have no line.

    >>> typed_places(("tokens_b=0x10",))["workload.train.tokens_b"].value.value
    '0x10'
    """
    places: dict[str, FilePlace] = {}
    for setting in settings:
        name, _, value = setting.partition("=")
        try:
            key, node = full_key(name.strip()), safe_yaml.parse_yaml(value)[0]
        except (UnreadableInputError, safe_yaml.YamlError):
            continue
        places |= {} if node is None else {key: FilePlace(0, 0, node)}
        places |= {path: FilePlace(0, 0, place.value) for path, place in places_of(node, key).items()}
    return places


def joint_refusal(name: str, refusals: list[SlipwayError]) -> SlipwayError:
    """One refusal of all; a refusal without findings is a finding itself, and none is named twice."""
    findings: list[Finding] = []
    for refusal in refusals:
        own = refusal.findings or [error("setting", "", refusal.message, refusal.hint)]
        findings += [finding for finding in own if finding not in findings]
    # A wrong value of --set is found in the whole plan again.
    alone = next((refusal for refusal in refusals if list(refusal.findings) == findings), None)
    if len(refusals) == 1 or alone is not None:
        return alone or refusals[0]
    out_of_range = all(isinstance(refusal, ImpossibleError) for refusal in refusals)
    kind = ImpossibleError if out_of_range else UnreadableInputError
    return kind(f"{name} has {len(findings)} problems", findings=findings)


def _add_setting(data: dict[str, Any], text: str) -> None:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise UnreadableInputError(f"--set takes KEY=VALUE, got {text!r}", hint="--set target.nodes=2")
    *parents, last = full_key(name.strip()).split(".", _depth(name.strip()))
    section = data
    for depth, parent in enumerate(parents, 1):
        section = section.setdefault(parent, {})
        if not isinstance(section, dict):
            whole = ".".join(parents[:depth])
            raise UnreadableInputError(f"--set {text}: {whole} is set to {section!s}", hint="set one of them")
    kind = dict(_leaves(PlanRequest, "")).get(".".join((*parents, last)))
    section[last] = _join_values(kind, section.get(last), Raw(value))


def _join_values(kind: kinds.Kind | None, earlier: Any, value: Raw) -> Any:
    """The value of a setting; one that gives a mapping adds its keys to those of earlier settings."""
    if kind is None or _group(kind) is None:
        return value
    try:
        read = safe_yaml.loads(value)
    except safe_yaml.YamlError:
        return value
    if not isinstance(read, dict):
        return value
    return {**(earlier if isinstance(earlier, dict) else {}), **read}


def full_key(name: str) -> str:
    """The dotted key of a name: the key itself, an entry of a table, or the only key that ends with the name.

    >>> full_key("target.nodes"), full_key("tokens_b"), full_key("run.env.A")
    ('target.nodes', 'workload.train.tokens_b', 'run.env.A')
    >>> full_key("env.A")
    'run.env.A'
    """
    every = dict(_leaves(PlanRequest, ""))
    if name in every or _table_of(name, every) is not None:
        return name
    first, dot, entry = name.partition(".")
    ends = [key for key in every if key.rpartition(".")[2] == first]
    if dot and len(ends) == 1 and entry and isinstance(every[ends[0]], kinds.Table):
        return f"{ends[0]}.{entry}"
    if not dot and len(ends) == 1:
        return ends[0]
    if not dot and ends:
        raise UnreadableInputError(f"--set {name} may be {' or '.join(ends)}", hint="write the full key")
    raise UnreadableInputError(f"--set {name}: {_unknown_reason(name, every)}", hint=_near_key(name, every))


def _unknown_reason(name: str, every: Mapping[str, kinds.Kind]) -> str:
    if name in (EXTENDS, VARIABLES):
        return f"{name} is read from files only"
    if any(key.startswith(f"{name}.") for key in every):
        return "a group of keys is set key by key"
    return "a plan has no such key"


def _near_key(name: str, every: Mapping[str, kinds.Kind]) -> str:
    """The fix for an unknown key: the keys of its group, the whole of which it is a part, or the nearest key."""
    if name in (EXTENDS, VARIABLES):
        return f"write {name} in the plan file"
    inner = [key for key in every if key.startswith(f"{name}.")]
    if inner:
        return f"keys: {', '.join(inner[:4])}{', ...' if len(inner) > 4 else ''}"  # noqa: PLR2004 - fit a line
    whole = next((key for key, kind in every.items() if name.startswith(f"{key}.") and _takes_mapping(kind)), None)
    if whole is not None:
        return f"set the whole value: --set '{whole}={{{name.removeprefix(f'{whole}.')}: VALUE}}'"
    short = {"type": "--type", "types": "--type", "spot": "--spot"}
    near = nearest_name(name, [*every, *(key.rpartition(".")[2] for key in every)])
    return f"did you mean {short[name]}?" if name in short else near or "slipway schema prints all keys"


def _takes_mapping(kind: Any) -> bool:
    return (
        isinstance(kind, kinds.NameOr | kinds.NodeCount) or _takes_mapping(getattr(kind, "item", 0)) if kind else False
    )


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
