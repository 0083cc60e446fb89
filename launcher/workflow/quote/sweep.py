"""The `plan --sweep` option: it sets keys of a plan to several values, and finds the best candidate at each point."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import product
from pathlib import Path
from typing import Any, TypeAlias

from launcher import plan_file
from launcher.agent import safe_json
from launcher.catalog import safe_yaml
from launcher.catalog.load import Catalog
from launcher.model.document import document
from launcher.model.errors import ImpossibleError, SlipwayError, UnreadableInputError
from launcher.model.names import nearest_name
from launcher.model.quote import Quote
from launcher.model.record import record
from launcher.model.request import PlanRequest
from launcher.pricing.priced import Priced
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import load_request, price_request

MAX_POINTS = 64
UNPRICED = ("security.",)
"""Sections whose keys change no price."""


Axis: TypeAlias = tuple[str, tuple[Any, ...]]
"""A dotted key of the plan file, or its last word, and its values in order."""


@record
class Point:
    """One point: the values by key, and its candidates, or why it has none."""

    values: Mapping[str, Any]
    priced: Priced | None
    reason: str = ""

    @property
    def best(self) -> Quote | None:
        """The quote of the point's first candidate."""
        return None if self.priced is None else self.priced.quote(1)


@record
class Sweep:
    """Every point of the axes (full keys with their values), in their order; `request` is the plan as written."""

    path: Path
    request: PlanRequest
    now: datetime
    axes: Mapping[str, tuple[Any, ...]]
    points: tuple[Point, ...]

    @property
    def cheapest(self) -> Point | None:
        """The point with the lowest total; None if no point has a total."""
        known = [(point.best.usd.mid, point) for point in self.points if point.best is not None and point.best.usd]
        return min(known, key=lambda pair: pair[0])[1] if known else None


def sweep(path: Path, texts: Sequence[str], now: datetime, options: PriceOptions) -> Sweep:
    """Price a plan at every combination of values.

    Each of `texts` is `KEY=VALUE,VALUE`; a key is dotted, or only its last word if no other key has the same one.

    Raises:
        UnreadableInputError: the file or a sweep is invalid, or the sweep has too many points.
    """
    return sweep_axes(path, [_axis(text) for text in texts], now, options)


def sweep_axes(path: Path, axes: Sequence[Axis], now: datetime, options: PriceOptions) -> Sweep:
    """The same for parsed axes; their keys may be the last words of the full keys.

    Raises:
        UnreadableInputError: the file or a key cannot be read, or the sweep has too many points.
    """
    request, catalog = load_request(path, now, options)
    return sweep_request(path, request, catalog, axes, now=now, options=options)


def sweep_request(
    path: Path,
    request: PlanRequest,
    catalog: Catalog,
    wanted_axes: Sequence[Axis],
    *,
    now: datetime,
    options: PriceOptions,
) -> Sweep:
    """The same for an existing request; `path` is its plan file.

    Raises:
        UnreadableInputError: a key cannot be read, or the sweep has too many points.
    """
    plain = document(request)
    names = [_key(name, plain) for name, _ in wanted_axes]
    axes = dict(zip(names, (values for _, values in wanted_axes), strict=True))
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UnreadableInputError(f"--sweep {twice} is given twice", hint="put all its values into one option")
    count = 1
    for values in axes.values():
        count *= len(values)
    if count > MAX_POINTS:
        raise UnreadableInputError(f"--sweep makes {count} points, at most {MAX_POINTS} are allowed", hint="drop some")
    points = []
    for values in product(*axes.values()):
        chosen = dict(zip(axes, values, strict=True))
        variant = _with(plain, chosen)
        try:
            priced = price_request(path, variant, catalog, now, options)
        except ImpossibleError as problem:
            reason = problem.findings[0].message if problem.findings else problem.message
            points.append(Point(values=chosen, priced=None, reason=reason))
        else:
            points.append(Point(values=chosen, priced=priced))
    return Sweep(path=path, request=request, now=now, axes=axes, points=tuple(points))


def _axis(text: str) -> Axis:
    name, equals, rest = text.partition("=")
    parts = [word.strip() for word in rest.split(",") if word.strip()]
    if not equals or not parts:
        raise UnreadableInputError(f"--sweep takes KEY=VALUE,VALUE, got {text!r}", hint="--sweep nodes=1,2,4,8")
    try:
        values = tuple(dict.fromkeys(safe_yaml.loads(word) for word in parts))
    except (safe_yaml.YamlError, TypeError) as problem:
        raise UnreadableInputError(f"--sweep {name}: {rest!r} is not a list of plain values") from problem
    return name.strip(), values


def _key(name: str, plain: Mapping[str, Any]) -> str:
    """The dotted key of a name; keys that change no price must be given in full."""
    every = list(_leaves(plain))
    if name in every:
        return name
    ends = [key for key in every if key.rpartition(".")[2] == name and not key.startswith(UNPRICED)]
    if len(ends) == 1:
        return ends[0]
    if ends:
        raise UnreadableInputError(f"--sweep {name} may be {' or '.join(ends)}", hint="write the full key")
    hint = nearest_name(name, [*every, *(key.rpartition(".")[2] for key in every)]) or "a key of the plan file, dotted"
    raise UnreadableInputError(f"--sweep {name}: the plan has no such key", hint=hint)


def _leaves(data: Mapping[str, Any], path: str = "") -> Iterator[str]:
    for key, value in data.items():
        key_path = f"{path}.{key}" if path else str(key)
        if isinstance(value, Mapping) and value and not {"min", "max"} >= set(value):
            yield from _leaves(value, key_path)
        else:
            yield key_path


def _with(plain: Mapping[str, Any], values: Mapping[str, Any]) -> PlanRequest:
    data = safe_json.loads(json.dumps(plain))
    for key, value in values.items():
        *parents, last = key.split(".")
        section = data
        for parent in parents:
            section = section[parent]
        section[last] = value
    try:
        return plan_file.loads(json.dumps(data, default=str))
    except SlipwayError as problem:
        # The lines belong to no file of the user.
        findings = [replace(finding, line=None, column=None) for finding in problem.findings]
        raise UnreadableInputError(f"--sweep {point_text(values)} cannot be priced", findings=findings) from problem


def point_text(values: Mapping[str, Any]) -> str:
    """The values of a point in one line.

    >>> point_text({"target.nodes": 2, "workload.train.precision": "fp8"})
    'nodes 2, precision fp8'
    """
    return ", ".join(f"{key.rpartition('.')[2]} {value}" for key, value in values.items())
