"""Shell completion: plan files, runs, clusters, regions, instance types, kinds of price.

A user waits for completions, so each reads only names and imports no pricing or planning code. Names that a shell
would have to quote are left out; without any candidate, the shell completes file names.
"""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

VARIABLE = "_SLIPWAY_COMPLETE"
"""The environment variable with which a shell requests completions from typer."""
_LINES = ("COMP_WORDS", "_TYPER_COMPLETE_ARGS")
"""Where typer's scripts put the line: bash's, then everybody else's."""
_PLAIN = re.compile(r"[\w./+@%,=-]+")
_DEPTH, _MAX_FILES, _HEAD = 2, 400, 1 << 16
_WORKLOAD = re.compile(r"""^\s*["']?workload["']?\s*:""", re.MULTILINE)


def typed_words(environment: Mapping[str, str]) -> list[str]:
    """The words of the line that a shell wants completed, after the program's own name.

    >>> (
    ...     typed_words({"COMP_WORDS": "slipway quote "}),
    ...     typed_words({"_TYPER_COMPLETE_ARGS": "slipway -v pl"}),
    ...     typed_words({}),
    ... )
    (['quote'], ['-v', 'pl'], [])
    """
    line = next((environment[name] for name in _LINES if environment.get(name)), "")
    return line.split()[1:]


def plan_files(incomplete: str) -> list[str]:
    """The plan files below the folder that was typed so far, two folders deep."""
    head, _, _ = incomplete.rpartition("/")
    typed_folder = head + "/" if "/" in incomplete else ""
    folder = Path(typed_folder or ".").expanduser()
    candidates = (typed_folder + path.relative_to(folder).as_posix() for path in _below(folder, _DEPTH))
    return sorted({candidate for candidate in candidates if _PLAIN.fullmatch(candidate.removeprefix("~"))})


def run_names(incomplete: str) -> list[str]:  # noqa: ARG001 - typer hands it over and sifts what comes back
    """The plans that have runs in this folder."""
    from launcher.records.run_folder import names

    return names(Path.cwd())


def runs_and_files(incomplete: str) -> list[str]:
    """What NAME|FILE may be: the names of runs, then plan files."""
    return [*run_names(incomplete), *plan_files(incomplete)]


def clusters_and_files(incomplete: str) -> list[str]:
    """The clusters and endpoints that runs of this folder went to, then plan files."""
    return [*cluster_names(incomplete), *plan_files(incomplete)]


def cluster_names(incomplete: str) -> list[str]:
    """The clusters and endpoints that the newest run of each plan of this folder went to."""
    from launcher.model.errors import UnreadableInputError
    from launcher.records.run_folder import latest

    names = set()
    for name in run_names(incomplete):
        with suppress(UnreadableInputError):
            target = latest(name, Path.cwd()).read_json("plan.json").get("target")
            cluster = target.get("cluster") if isinstance(target, dict) else None
            names.add(cluster if isinstance(cluster, str) else name)
    return sorted(names)


def regions(incomplete: str) -> list[str]:  # noqa: ARG001 - as above
    """The regions of the catalog."""
    return [row["name"] for row in _rows("regions.csv")]


def instance_types(incomplete: str) -> list[str]:  # noqa: ARG001 - as above
    """The instance types of the catalog, and those of SageMaker."""
    rows = _rows("instance_types.csv")
    return sorted([row["name"] for row in rows] + [f"ml.{row['name']}" for row in rows if row["ml"] == "true"])


def accelerated_types(incomplete: str) -> list[str]:  # noqa: ARG001 - as above
    """The instance types that have accelerators."""
    return [row["name"] for row in _rows("instance_types.csv") if row["accelerator"]]


def ranks(incomplete: str) -> list[str]:  # noqa: ARG001 - as above
    """The first ranks of any table."""
    return [str(rank) for rank in range(1, 10)]


def swept_keys(incomplete: str) -> list[str]:  # noqa: ARG001 - as above
    """The last words of the keys of a plan file, each with its =."""
    from launcher.model.schema import json_schema

    return sorted({f"{key}=" for key in _keys(json_schema())})


def _keys(schema: Mapping[str, Any]) -> Iterator[str]:
    for variant in schema.get("anyOf", ()):
        yield from _keys(variant)
    for key, inner in schema.get("properties", {}).items():
        yield from list(_keys(inner)) or [key]


def price_kinds(incomplete: str) -> list[str]:  # noqa: ARG001 - as above
    """The kinds that a price list can be filtered by."""
    from launcher.catalog.listing import KINDS

    return list(KINDS)


def _rows(name: str) -> list[dict[str, str]]:
    from launcher.catalog.tables import read_cells

    return read_cells(name)


def _below(folder: Path, depth: int) -> Iterator[Path]:
    """The plan files of a folder and of those in it, without hidden ones; what may not be read is passed by."""
    entries: list[os.DirEntry[str]] = []
    with suppress(OSError), os.scandir(folder) as listing:
        entries = sorted(listing, key=lambda item: item.name)[:_MAX_FILES]
    for entry in entries:
        path = folder / entry.name
        if entry.name.startswith("."):
            continue
        if entry.name.endswith((".yaml", ".yml", ".json")):
            if _is_plan(path):
                yield path
        elif depth > 1 and entry.is_dir():
            yield from _below(path, depth - 1)


def _is_plan(path: Path) -> bool:
    """Whether a file states a workload, as plan files and saved plans do."""
    from launcher.catalog.regular_file import UnusableFileError, opened_regular

    with suppress(OSError, UnusableFileError), opened_regular(path) as stream:
        return _WORKLOAD.search(stream.read(_HEAD).decode("utf-8", errors="replace")) is not None
    return False
