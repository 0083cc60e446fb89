"""Reads a file of another tool as a plan: finds out whose it is, and completes what a plan needs."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from launcher.catalog import safe_yaml
from launcher.catalog.load import Catalog
from launcher.catalog.regular_file import UnusableFileError, read_named
from launcher.model.errors import UnreadableInputError, reason_of
from launcher.workflow.quote.command_plan import commented, name_of, plain_name
from launcher.workflow.quote.imports.imported import ASSUMED_HOURS, Imported
from launcher.workflow.quote.imports.pcluster import read_parallelcluster
from launcher.workflow.quote.imports.sbatch import read_sbatch
from launcher.workflow.quote.imports.tasks import read_dstack, read_sky
from launcher.workflow.quote.imports.torchx import read_torchx

MAX_BYTES = 1 << 20
ORDER = (
    "slipway",
    "name",
    "workload",
    "target",
    "network",
    "storage",
    "purchase",
    "checkpoint",
    "budget",
    "run",
    "tags",
)
TOOLS = "an sbatch script, a SkyPilot or dstack task, a ParallelCluster configuration, a torchx component"
SKY = {"resources", "num_nodes", "run", "setup", "envs", "file_mounts", "workdir"}


def import_file(path: Path, catalog: Catalog) -> Imported:
    """A file of another tool as the keys of a plan, with what was lost and assumed.

    Raises:
        UnreadableInputError: the file cannot be read, or is of no tool that is known here.
    """
    try:
        text = read_named(path, MAX_BYTES).decode("utf-8-sig")
    except (UnusableFileError, OSError, ValueError) as problem:
        raise UnreadableInputError(
            f"cannot read {path}: {reason_of(problem)}", hint=f"--from takes {TOOLS}"
        ) from problem
    imported = _read(path, text, catalog)
    _complete(imported, path)
    return imported


def plan_text(imported: Imported, path: Path) -> str:
    """The plan file, with what was lost and assumed in its first lines."""
    lines = [f"From {imported.kind}, {path.name}."]
    lines += ["Lost:", *(f"  {text}" for text in imported.lost)] if imported.lost else ["Nothing was lost."]
    lines += ["Assumed:", *(f"  {text}" for text in imported.assumed)] if imported.assumed else []
    return commented({key: imported.data[key] for key in ORDER if key in imported.data}, lines)


def _read(path: Path, text: str, catalog: Catalog) -> Imported:
    if "#SBATCH" in text:
        return read_sbatch(text, catalog)
    if path.suffix == ".py":
        return read_torchx(text, catalog)
    try:
        data = next((part for part in safe_yaml.documents(text) if part), None)
    except safe_yaml.YamlError as problem:
        raise UnreadableInputError(f"{path} is not valid YAML: {problem}", hint=f"--from takes {TOOLS}") from problem
    if isinstance(data, Mapping) and isinstance(data.get("Scheduling"), Mapping):
        return read_parallelcluster(data, catalog)
    if isinstance(data, Mapping) and data.get("type") in ("task", "dev-environment", "service"):
        return _dstack(data, catalog)
    if isinstance(data, Mapping) and SKY & set(data):
        return read_sky(data, catalog)
    raise UnreadableInputError(f"{path} is of no tool that --from reads", hint=f"--from takes {TOOLS}")


def _dstack(data: Mapping[str, Any], catalog: Catalog) -> Imported:
    if data["type"] != "task":
        raise UnreadableInputError(
            f"a dstack configuration of type {data['type']} is no job", hint="--from takes type: task"
        )
    return read_dstack(data, catalog)


def _complete(imported: Imported, path: Path) -> None:
    """The version, a name, and for a job its hours: the limit of the file, or an assumption."""
    imported.put("slipway", 1)
    command = imported.get("run.command")
    if not imported.get("name"):
        words = [command] if isinstance(command, str) else command
        imported.put("name", name_of(words) if words else plain_name(path.stem))
    if command is None:
        return
    hours = imported.get("run.time_limit_h")
    imported.put("workload.train.hours", hours or ASSUMED_HOURS)
    source = "the time limit of the file" if hours else "the file has no limit"
    imported.assume(
        "workload.train.hours", f"{hours or ASSUMED_HOURS:g}, {source}; model and tokens_b give an estimate"
    )
    if imported.get("purchase.option") is None:
        imported.put("purchase.option", "on-demand")
        imported.assume("purchase.option", "on-demand")
