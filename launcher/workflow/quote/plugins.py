"""Plugins of an organisation: entry points of the group `slipway.plugins`, each an object or module.

A plugin has one or both of

- `check(quote)`: gets slipway.quote/1 of a launch or deployment as a dictionary, after the gate has allowed it, and
  returns findings: mappings with `level` (info, warning, error), `code`, `message`, and if wanted `path` and `hint`. An
  error refuses;
- `prices(folder)`: writes price tables into a folder, CSV files with the names and columns of the catalog
  (`prices/on_demand.csv`, `sources.csv`); `slipway prices refresh --from NAME` takes them into the cache.

A plugin that cannot be loaded, or fails, refuses: an organisation's policy is not skipped silently.
"""

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from launcher.agent.shape import read
from launcher.model.errors import ImpossibleError
from launcher.model.finding import Finding

GROUP = "slipway.plugins"
FUNCTIONS = ("check", "prices")
_FAILURES = (Exception, SystemExit)
"""A plugin that exits would end the launch with a code of its own, 0 too."""
KEYS = {item.name for item in fields(Finding)} - {"line", "column"}


def _read(given: Any) -> Finding:
    if unknown := set(given) - KEYS:
        raise ValueError(f"a finding has {', '.join(sorted(KEYS))}, got {', '.join(map(str, sorted(unknown)))}")
    return read(Finding, {"path": "", **given})


def names() -> tuple[str, ...]:
    """The names of the installed plugins."""
    return tuple(sorted(point.name for point in entry_points(group=GROUP)))


def plugin_findings(quote: Mapping[str, Any]) -> tuple[Finding, ...]:
    """The findings of all plugins about a quote.

    Raises:
        ImpossibleError: a plugin cannot be loaded, or fails, or returns something else than findings.
    """
    return tuple(finding for name in names() for finding in _findings(name, quote))


def _findings(name: str, quote: Mapping[str, Any]) -> Iterator[Finding]:
    check = _function(name, "check")
    if check is None:
        return
    try:
        # A copy of its own: no plugin changes what another one, or the launch, sees.
        for given in check(copy.deepcopy(dict(quote))) or ():
            found = _read(given)
            yield replace(found, code=f"{name}-{found.code}", message=f"{found.message} (plugin {name})")
    except _FAILURES as problem:
        raise _failure(name, "check", problem) from problem


def write_prices(name: str, folder: Path) -> None:
    """Let a plugin write its price tables into a folder.

    Raises:
        ImpossibleError: it has none, cannot be loaded, or fails.
    """
    prices = _function(name, "prices")
    if prices is None:
        raise ImpossibleError(
            f"plugin {name} has no prices", hint=f"price sources are plugins with prices(folder), group {GROUP}"
        )
    try:
        prices(folder)
    except _FAILURES as problem:
        raise _failure(name, "prices", problem) from problem


def _function(name: str, function: str) -> Callable[..., Any] | None:
    try:
        (point,) = entry_points(group=GROUP, name=name)
        plugin = point.load()
        present = [each for each in FUNCTIONS if hasattr(plugin, each)]
        if not present or not all(callable(getattr(plugin, each)) for each in present):
            got = ", ".join(f"{each} = {getattr(plugin, each)!r}" for each in present) or "neither"
            raise TypeError(f"a plugin has a function check(quote), prices(folder), or both, got {got}")
    except _FAILURES as problem:
        raise _failure(name, "import", problem) from problem
    return getattr(plugin, function, None)


def _failure(name: str, step: str, problem: BaseException) -> ImpossibleError:
    reason = " ".join(f"{type(problem).__name__}: {problem}".split())
    hint = f"correct the package that has the entry point {name} of {GROUP}, or uninstall it"
    return ImpossibleError(f"plugin {name} failed in {step}: {reason}", hint=hint)
