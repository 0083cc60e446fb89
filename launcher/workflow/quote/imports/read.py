"""Reads a file of another tool as a plan: finds out whose it is, and completes what a plan needs."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from launcher import plan_file
from launcher.catalog import safe_yaml
from launcher.catalog.load import Catalog
from launcher.catalog.regular_file import UnusableFileError, read_named
from launcher.catalog.training import load_training
from launcher.model.enums import Level
from launcher.model.errors import SlipwayError, UnreadableInputError, reason_of
from launcher.planning.resolve import resolve_training
from launcher.workflow.quote.command_plan import name_of, plain_name, with_comments
from launcher.workflow.quote.imports.imported import ASSUMED_HOURS, Imported
from launcher.workflow.quote.imports.pcluster import read_parallelcluster
from launcher.workflow.quote.imports.sbatch import read_sbatch
from launcher.workflow.quote.imports.tasks import read_dstack, read_sky
from launcher.workflow.quote.imports.torchx import read_torchx

MAX_BYTES = 1 << 20
NEEDED = ("workload", "run.command", "target.instance_type", "target.nodes")
"""Keys without which the plan is no longer that of the file."""
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
SKY |= {"name", "secrets", "volumes", "service", "config", "experimental", "pool", "api_server"}
SKY |= {"inputs", "outputs", "event_callback", "file_mounts_mapping", "volume_mounts", "api_server_access"}
"""Keys of a SkyPilot task: a file with others is another tool's."""


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
    while _lose_invalid(imported, catalog):
        pass
    return imported


def _lose_invalid(imported: Imported, catalog: Catalog) -> bool:
    """Take out the values that a plan cannot have, and name them with the reason; whether there were any.

    What a plan needs stays: `slipway plan` says what is wrong with it.
    """
    try:
        request = plan_file.loads(safe_yaml.dumps(imported.data))
    except SlipwayError as problem:
        findings, kept = list(problem.findings), False
    else:
        resolution = resolve_training(request, catalog, load_training())
        findings, kept = [finding for finding in resolution.findings if finding.level is Level.ERROR], True
    lost = False
    for finding in findings:
        key = re.sub(r"\[\d+\].*", "", finding.path)
        value = None if kept and key.startswith(NEEDED) else imported.get(key)
        if value is not None:
            secret = key.startswith(("run.env.", "run.secrets."))
            imported.drop(key)
            imported.lose(
                key if secret else f"{key} {value}", f"{finding.message}{finding.hint and f' ({finding.hint})'}"
            )
            lost = True
    return lost


def plan_text(imported: Imported, path: Path) -> str:
    """The plan file, with what was lost and assumed in its first lines."""
    lines = [f"From {imported.kind}, {path.name}."]
    lines += ["Lost:", *(f"  {text}" for text in imported.lost)] if imported.lost else ["Nothing was lost."]
    lines += ["Assumed:", *(f"  {text}" for text in imported.assumed)] if imported.assumed else []
    return with_comments({key: imported.data[key] for key in ORDER if key in imported.data}, lines)


def _read(path: Path, text: str, catalog: Catalog) -> Imported:
    if "#SBATCH" in text:
        return read_sbatch(text, catalog)
    if path.suffix == ".py":
        return read_torchx(text, catalog)
    try:
        parts = [part for part in safe_yaml.documents(text) if part]
    except safe_yaml.YamlError as problem:
        raise UnreadableInputError(f"{path} is not valid YAML: {problem}", hint=f"--from takes {TOOLS}") from problem
    data = parts[0] if parts else None
    if isinstance(data, Mapping) and isinstance(data.get("Scheduling"), Mapping):
        return read_parallelcluster(data, catalog)
    if isinstance(data, Mapping) and data.get("type") in ("task", "dev-environment", "service"):
        return _dstack(data, catalog)
    if all(_is_sky(part) for part in parts) and (jobs := [part for part in parts if set(part) != {"name"}]):
        imported = read_sky(jobs[0], catalog)
        if jobs[1:]:
            names = ", ".join(str(part.get("name") or f"task {number}") for number, part in enumerate(jobs[1:], 2))
            imported.lose(f"tasks {names}", "a plan has one job: write a plan for each, and launch them in their order")
        return imported
    raise UnreadableInputError(f"{path} is of no tool that --from reads", hint=f"--from takes {TOOLS}")


def _is_sky(data: Any) -> bool:
    """Whether a document is a SkyPilot task: other tools have `resources` too."""
    if not isinstance(data, Mapping) or not set(data) <= SKY:
        return False
    resources = data.get("resources")
    return isinstance(data.get("run"), str) or resources is None or isinstance(resources, Mapping)


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
        # A script of several lines may begin with anything, as `if` or `conda`: its programs name no job.
        named = isinstance(command, list) or "\n" not in str(command) or re.search(r"\.(?:py|sh)\b|\s-m\s", command)
        imported.put("name", name_of(words) if words and named else plain_name(path.stem))
    if command is None:
        return
    if imported.get("target.instance_type") is None and not any(
        "set target.instance_type" in text for text in imported.lost
    ):
        imported.lose("instance type", "the file names none: set target.instance_type")
    hours = imported.get("run.time_limit_h")
    imported.put("workload.train.hours", hours or ASSUMED_HOURS)
    source = "the time limit of the file" if hours else "the file has no limit"
    imported.assume(
        "workload.train.hours", f"{hours or ASSUMED_HOURS:g}, {source}; model and tokens_b give an estimate"
    )
    if imported.get("purchase.option") is None:
        imported.put("purchase.option", "on-demand")
        imported.assume("purchase.option", "on-demand")
