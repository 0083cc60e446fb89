"""The only parser between YAML or JSON and the model: reports all problems of a file together, each with its path."""

import json
import os
import shlex
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import yaml

from launcher.catalog import safe_yaml
from launcher.catalog.file_places import ML, FilePlace, as_written, children, toml_places, with_place
from launcher.catalog.regular_file import UnusableFileError, is_stream, read_named, read_regular
from launcher.model.errors import ImpossibleError, SlipwayError, UnreadableInputError, reason_of
from launcher.model.finding import Finding, error
from launcher.model.record import record
from launcher.model.request import PlanRequest
from launcher.model.units import number_of
from launcher.model.values import FAILED, OUT_OF_RANGE, cut, describe, is_plain
from launcher.plan_layers import (
    EXTENDS,
    PLAN,
    VARIABLES,
    Layer,
    default_files,
    expand_variables,
    file_of,
    joint_refusal,
    merge_layers,
    settings_layer,
    source_of,
    typed_places,
    unlisted_variables,
    without_removed,
)
from launcher.plan_reader import PlanReader, request_keys
from launcher.targets.registry import target_of

SAVED = "slipway.saved-plan/1"
"""The schema of a file of `slipway plan -o` (launcher/records/saved_plan.py): its `plan` is a complete plan file."""
MAX_BYTES = 4 << 20
"""Limit of a plan file. A commented one has 20 kB, a saved one with its quote 100."""
MAX_EXTENDED = 8
"""Length of a chain of files that extend each other."""


_KINDS: Mapping[type, str] = {list: "a list", str: "text"}
_NO_KEYS = frozenset(f"tag:yaml.org,2002:{name}" for name in ("bool", "int", "float", "null", "timestamp"))
UnknownNames = Callable[[PlanRequest], Sequence[Finding]]
"""What a catalog says of a request's names. A refused plan has it too, for all that could be read of the plan."""


class _UniqueKeyLoader(yaml.SafeLoader):
    """A safe loader that refuses a duplicate key: YAML would silently use the last one."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002 - PyYAML's signature
        keys: set[object] = set()
        for key_node, _ in node.value:
            # YAML 1.1 takes `on` for true and 3.10 for 3.1; no key of a plan is anything but text.
            if isinstance(key_node, yaml.ScalarNode) and key_node.style is None and key_node.tag in _NO_KEYS:
                key_node.tag = "tag:yaml.org,2002:str"
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, list | dict):
                raise yaml.constructor.ConstructorError(None, None, "a key must be a word", key_node.start_mark)
            if key in keys:
                message = f"the key {describe(cut(key))} is given twice"
                raise yaml.constructor.ConstructorError(None, None, message, key_node.start_mark)
            keys.add(key)
        return super().construct_mapping(node, deep)

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:  # noqa: FBT001, FBT002 - PyYAML's signature
        try:
            return super().construct_object(node, deep)
        except ValueError as problem:  # such as of the date 2026-13-01, of which PyYAML does not tell the place
            text = f"{cut(node.value)}: {problem}" if isinstance(node, yaml.ScalarNode) else str(problem)
            raise yaml.constructor.ConstructorError(None, None, text, node.start_mark) from problem


# The word `=` is a value of its own kind in YAML 1.1.
_UniqueKeyLoader.add_constructor("tag:yaml.org,2002:value", lambda _, node: str(node.value))


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


@record
class ResolvedPlan:
    """A request with the files of its layers, the lowest first, and the source of each value that a layer gives."""

    request: PlanRequest
    files: tuple[str, ...]
    sources: Mapping[str, str]


def load(path: Path, settings: tuple[str, ...] = (), unknown_names: UnknownNames | None = None) -> PlanRequest:
    """The request a plan file states, with the defaults of the organisation, the user and the project.

    Args:
        path: a YAML or JSON file.
        settings: values of the command line, each KEY=VALUE, over those of the file.
        unknown_names: asked only if the plan is refused, so that all its problems are named together.

    Raises:
        UnreadableInputError: missing file, bad syntax, an unknown key or a value of the wrong type, with all findings.
        ImpossibleError: all keys and types are valid, but a number is outside the allowed range.
    """
    return resolve(path, settings, unknown_names).request


def resolve(path: Path, settings: tuple[str, ...] = (), unknown_names: UnknownNames | None = None) -> ResolvedPlan:
    """The request of a plan file, and where its values are from; arguments and errors as those of `load`."""
    folder = Path() if is_stream(path) else path.parent
    return _resolve_layers(_text(path), str(path), folder, settings, defaults_of=path, unknown_names=unknown_names)


def _text(path: Path, kind: str = "plan file") -> str:
    try:
        return read_named(path, MAX_BYTES).decode("utf-8-sig")
    except UnusableFileError as problem:
        message = f"cannot read the {kind} {path}: {problem}; allowed: a regular file, or a pipe as /dev/stdin"
        raise UnreadableInputError(message, hint="write the plan to a file, and name that file") from problem
    except (OSError, ValueError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else "it is not UTF-8 text"
        reason = reason if "\0" not in str(path) else "no file has a null character in its name"
        hint = "slipway init writes a commented plan file" if kind == "plan file" else "correct the path"
        hint = "a plan from a pipe is /dev/stdin" if str(path) == "-" else hint
        raise UnreadableInputError(f"cannot read the {kind} {path}: {reason}", hint=hint) from problem


def loads(text: str, *, name: str = "plan file", folder: Path = Path(), file: Path | None = None) -> PlanRequest:
    """The request that YAML or JSON text states; `name` is used in messages, its paths are relative to `folder`.

    With `file`, which the text is of, its paths are relative to the folder of that file, and the defaults apply.
    """
    return _resolve_layers(text, name, folder if file is None else file.parent, (), defaults_of=file).request


def _resolve_layers(
    text: str,
    name: str,
    folder: Path,
    settings: tuple[str, ...],
    *,
    defaults_of: Path | None,
    unknown_names: UnknownNames | None = None,
) -> ResolvedPlan:
    """The request of a text over its layers; `defaults_of` is its file, whose defaults apply."""
    node, data = _parse_text(text, name)
    typed = typed_places(settings)
    reader = PlanReader(node, folder, typed=typed)
    if data.get("schema") == SAVED:
        if settings:
            raise UnreadableInputError(
                f"--set {settings[0]}: {name} is a saved plan, which is carried out unchanged",
                hint="change the plan file, and save it again with slipway plan FILE -o SAVED",
            )
        return ResolvedPlan(request=_request(reader, data.get("plan"), "plan", name), files=(name,), sources={})
    environment = os.environ
    own = _layer(expand_variables(data, name, environment), PLAN, name, folder)
    _refuse_unlisted(own, reader, name)
    # A run's plan.json has every section: nothing is left to default.
    whole = {key for key, *_ in request_keys(PlanRequest)} <= set(data)
    layers = [] if defaults_of is None or whole else default_layers(defaults_of)
    layers += [*_extended_layers(own, environment, (os.path.realpath(folder / Path(name).name),)), own]
    command_line, refusals = settings_layer(settings)
    if command_line is not None:
        layers.append(command_line)
        try:
            _refuse_wrong(command_line, PlanReader(None, folder, typed=typed), "--set")
        except SlipwayError as problem:
            refusals.append(problem)
    result = merge_layers(layers, folder)
    whole_name = name if len(layers) == 1 else f"{name} with its defaults"
    request: PlanRequest | None = None
    try:
        request = _request(reader, result.data, "", whole_name, unknown_names)
    except SlipwayError as problem:
        refusals.append(_with_layers(problem, result.sources))
    else:
        if refusals and unknown_names is not None and (names := reader.with_places(unknown_names(request))):
            refusals.append(_refusal(name, names))
    if request is None or refusals:
        raise joint_refusal(f"{name} with --set", refusals)
    return ResolvedPlan(request=request, files=tuple(layer.source for layer in layers), sources=result.sources)


def default_layers(path: Path) -> list[Layer]:
    """The layers of the organisation, the user and the project below a plan file, the lowest first."""
    files = default_files(path, os.environ)
    return [layer for kind, file in files for layer in _with_extended(kind, file, os.environ)]


def _layer(data: Mapping[Any, Any], source: str, name: str, folder: Path) -> Layer:
    extends = data.get(EXTENDS)
    if extends is not None and (not isinstance(extends, str) or not extends or not is_plain(extends)):
        message = f"{name}: extends must be the path of a file, got {describe(extends)}"
        raise UnreadableInputError(message, hint="extends: base.yaml; that file may extend another one")
    if extends is not None and "://" in extends:
        message = f"{name}: extends must be the path of a local file, got {describe(extends)}"
        raise UnreadableInputError(message, hint="copy that file beside this one, and name the copy")
    return Layer(source=source, folder=folder, data=data)


def _with_extended(kind: str, path: Path, environment: Mapping[str, str]) -> list[Layer]:
    """The layer of a file of defaults, above those of the files that it extends."""
    layer = _partial(path, f"{kind} {path}", environment)
    return [*_extended_layers(layer, environment, (os.path.realpath(path),)), layer]


def _extended_layers(layer: Layer, environment: Mapping[str, str], chain: tuple[str, ...]) -> list[Layer]:
    """The layers of the files that a layer extends, the lowest first."""
    named = layer.data.get(EXTENDS)
    if named is None:
        return []
    path = Path(os.path.normpath(layer.folder / Path(named).expanduser()))
    following = (*chain, os.path.realpath(path))
    if following[-1] in chain or len(chain) > MAX_EXTENDED:
        files = " -> ".join(os.path.relpath(file) for file in following)
        problem = "extends itself" if following[-1] in chain else f"extends more than {MAX_EXTENDED} files"
        hint = "remove the line `extends` from one of them"
        raise UnreadableInputError(f"extends: {os.path.relpath(following[0])} {problem}: {files}", hint=hint)
    try:
        problem = "" if path.is_file() else "is a folder" if path.is_dir() else "does not exist"
    except OSError as unreadable:
        problem = f"cannot be read ({reason_of(unreadable)})"
    if problem:
        message = f"{path} {problem}; the path is relative to the folder of the file that extends it"
        finding = error("extends", EXTENDS, message, "correct the path, or remove the line")
        raise _refusal(os.path.relpath(chain[-1]), [*_placed_in(Path(chain[-1]), [finding])])
    below = _partial(path, f"extends {path}", environment)
    return [*_extended_layers(below, environment, following), below]


def _partial(path: Path, source: str, environment: Mapping[str, str]) -> Layer:
    """The layer of a file that is a part of a plan; its keys and types are checked alone, to name its own lines."""
    text = _text(path, "file of defaults")
    node: yaml.Node | None = None
    if path.suffix == ".toml":
        try:
            data = tomllib.loads(text)
        except tomllib.TOMLDecodeError as problem:
            raise UnreadableInputError(
                f"{path} is not valid TOML: {safe_yaml.shorten_words(str(problem))}", hint="correct that place"
            ) from problem
    else:
        node, data = _parse_text(text, str(path), partial=True)
    layer = _layer(expand_variables(data, str(path), environment), source, str(path), path.parent)
    reader = PlanReader(node, path.parent, toml_places(text) if path.suffix == ".toml" else None)
    _refuse_unlisted(layer, reader, str(path))
    _refuse_wrong(layer, reader, str(path))
    return layer


def _refuse_unlisted(layer: Layer, reader: PlanReader, name: str) -> None:
    if findings := reader.with_places(list(unlisted_variables(layer.data))):
        raise _refusal(name, findings)


def _refuse_wrong(layer: Layer, reader: PlanReader, name: str) -> None:
    """Refuse a layer with unknown keys or wrong values; keys that it does not give are no problem."""
    data = without_removed(merge_layers([layer], layer.folder).data)
    reader.section(PlanRequest, {"slipway": 1, "name": "defaults", **data}, "", (EXTENDS, VARIABLES))
    if findings := reader.with_places([finding for finding in reader.findings if finding.code != "missing-key"]):
        raise _refusal(name, findings)


def _parse_text(text: str, name: str, *, partial: bool = False) -> tuple[yaml.Node | None, dict[Any, Any]]:
    """The node and the mapping of a plan's text; a part of a plan may be empty."""
    try:
        node, data = safe_yaml.parse_yaml(text, _UniqueKeyLoader, _refuse_merge_keys)
    except safe_yaml.YamlError as problem:
        language = "JSON" if name.endswith(".json") else "YAML"
        message = f"{name} is not valid {language}: {problem}"
        raise UnreadableInputError(message, hint="correct that place; slipway init writes a plan file") from problem
    if partial and data is None:
        return node, {}
    if not isinstance(data, dict):
        got = "nothing" if data is None else _KINDS.get(type(data), "a single value")
        form, hint = "a mapping that begins with `slipway: 1`", "slipway init writes one"
        if partial:
            form, hint = "a mapping with keys of a plan file", "target: {region: us-east-1}"
        raise UnreadableInputError(f"{name} must be {form}, got {got}", hint=hint)
    return node, data


def _request(
    reader: PlanReader, data: object, at: str, name: str, unknown_names: UnknownNames | None = None
) -> PlanRequest:
    request = reader.section(PlanRequest, data, at, (EXTENDS, VARIABLES))
    if reader.findings:
        readable = _readable(reader, data, at) if unknown_names else None
        names = reader.with_places(unknown_names(readable)) if unknown_names and readable else []
        raise _refusal(name, reader.with_places(reader.findings), names)
    return _with_ec2_names(cast("PlanRequest", request))


def _readable(reader: PlanReader, data: object, at: str) -> PlanRequest | None:
    """What can be read of a refused plan, with the defaults of the rest; None of a file of something else."""
    if not isinstance(data, Mapping) or "slipway" not in data:
        return None
    request = reader.again().section(PlanRequest, {**data, "slipway": 1, "name": "unnamed"}, at)
    return None if request is FAILED else _with_ec2_names(cast("PlanRequest", request))


def place_findings(path: Path, findings: Sequence[Finding], settings: tuple[str, ...] = ()) -> tuple[Finding, ...]:
    """Findings on a plan with the line and column of their paths; a value of another layer has the layer's name.

    Args:
        path: the plan file, which is read again if it can be.
        findings: what is wrong with the resolved plan.
        settings: values of the command line, each KEY=VALUE.
    """
    try:
        sources = resolve(path, settings).sources
    except SlipwayError:
        sources = {}
    typed = typed_places(settings)
    return tuple(_from_layer(path, finding, source_of(finding.path, sources), typed) for finding in findings)


def _from_layer(plan: Path, finding: Finding, source: str | None, typed: Mapping[str, FilePlace]) -> Finding:
    """A finding with its place in the plan, or in the file of the layer that gives the value; `typed` are --set's."""
    if source in (None, PLAN):
        return _placed_in(plan, [finding])[0]
    file = file_of(source)
    written = as_written(finding, typed) if file is None else _placed_in(file, [finding])[0]
    at = f", line {written.line}" if written.line is not None else ""
    hint = written.hint
    if hint.startswith("remove it"):
        hint = hint.replace("remove it", f"write {finding.path}: null in the plan", 1)
    return replace(finding, message=f"{written.message}; the value is from {source}{at}", hint=hint)


def _with_layers(problem: SlipwayError, sources: Mapping[str, str]) -> SlipwayError:
    """A refusal of merged layers whose findings name the file of defaults that gives the value."""
    findings = []
    for finding in problem.findings:
        source = source_of(finding.path, sources)
        given = source is not None and file_of(source) is not None
        findings.append(_from_layer(Path(), finding, source, {}) if given else finding)
    return type(problem)(problem.message, hint=problem.hint, findings=findings)


def _placed_in(path: Path, findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Findings on a file with the line and column of their paths, where the file can be read again."""
    try:
        text = read_regular(path, MAX_BYTES).decode("utf-8-sig")
        node, data = (None, None) if path.suffix == ".toml" else safe_yaml.parse_yaml(text, _UniqueKeyLoader)
    except (OSError, ValueError):
        return tuple(findings)
    saved = isinstance(data, dict) and data.get("schema") == SAVED
    places = toml_places(text) if path.suffix == ".toml" else PlanReader(node, path.parent).places
    return tuple(
        replace(with_place(replace(finding, path=f"plan.{finding.path}"), places), path=finding.path)
        if saved
        else with_place(finding, places)
        for finding in findings
    )


def _with_ec2_names(request: PlanRequest) -> PlanRequest:
    """The request with EC2's names of instance types, where SageMaker's stand for them: ml.g5.2xlarge is g5.2xlarge."""
    target = request.target
    kinds_named = target.kind or ()
    managed = request.workload.serve is not None or (
        kinds_named and all(target_of(kind).is_managed for kind in kinds_named)
    )
    names = (*(target.instance_type or ()), *target.fallback_types)
    if not managed or not any(name.startswith(ML) for name in names):
        return request
    named = target.instance_type and tuple(name.removeprefix(ML) for name in target.instance_type)
    fallback = tuple(name.removeprefix(ML) for name in target.fallback_types)
    return replace(request, target=replace(target, instance_type=named, fallback_types=fallback))


def _refuse_merge_keys(root: yaml.Node) -> None:
    """Refuse merge keys, which would add keys where no user sees them."""
    pending, visited = [root], set[int]()
    while pending:
        node = pending.pop()
        # Aliases of aliases name the same few nodes many times.
        if id(node) in visited:
            continue
        visited.add(id(node))
        for key, value in children(node):
            if key is not None and key.tag == "tag:yaml.org,2002:merge":
                message = "merge keys (<<) are not taken: write the keys out"
                raise yaml.constructor.ConstructorError(None, None, message, key.start_mark)
            pending.append(value)


def _refusal(name: str, findings: list[Finding], names: Sequence[Finding] = ()) -> SlipwayError:
    """The error that carries the findings: unreadable unless only numbers are out of range or names are unknown."""
    count = len(findings) + len(names)
    message = f"{name} has {number_of(count, 'problem')}"
    kind = ImpossibleError if all(finding.code == OUT_OF_RANGE for finding in findings) else UnreadableInputError
    return kind(message, findings=[*findings, *names])
