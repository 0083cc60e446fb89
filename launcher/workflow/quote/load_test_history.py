"""Load tests of a folder's runs as measured rows of a serving plan, and why Slipway does not use a test."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from launcher.catalog.load import Catalog
from launcher.model.errors import UnreadableInputError
from launcher.model.finding import Finding, info, warning
from launcher.model.serving import ServedModel, ServingEstimate, ServingFacts
from launcher.model.workload import ServingWorkload
from launcher.planning.serving.measured import why_unused
from launcher.records.load_documents import PastLoadTest, past_load_test
from launcher.records.run_folder import all_runs

LOAD_FILE = "load.json"
CODE = "load-test-unused"


def load_test_history(root: Path | None) -> tuple[tuple[PastLoadTest, ...], tuple[Finding, ...]]:
    """The load tests of every run under a folder, and findings about unreadable files; empty without a folder."""
    loads: list[PastLoadTest] = []
    findings: list[Finding] = []
    for name, folder in all_runs(root) if root is not None else ():
        if not (folder.path / LOAD_FILE).is_file():
            continue
        try:
            load = past_load_test(folder.read_json(LOAD_FILE))
        except UnreadableInputError as problem:
            message = f"the load test of {name} in {folder.path.name} is not used: {problem.message}"
            findings.append(
                warning("load-test-unreadable", "", message, f"slipway endpoint load {name} measures it again")
            )
            continue
        if load is not None:
            loads.append(load)
    return tuple(loads), tuple(findings)


def with_load_tests(facts: ServingFacts, loads: Iterable[PastLoadTest]) -> ServingFacts:
    """The facts, extended by the usable rows of load tests."""
    usable = tuple(load.row for load in loads if not load.unfit)
    return replace(facts, measured=(*facts.measured, *usable)) if usable else facts


def remarks(
    loads: Iterable[PastLoadTest],
    serve: ServingWorkload,
    model: ServedModel | None,
    estimates: Mapping[str, tuple[ServingEstimate, ...]],
    catalog: Catalog,
) -> tuple[Finding, ...]:
    """Findings about load tests of a plan's own model and types: which are not used, and why.

    Only the newest test of each type is reported.
    """
    newest: dict[str, PastLoadTest] = {}
    for load in sorted(loads, key=lambda past: past.row.date):
        if model is not None and load.row.model == model.name and load.row.instance_type in estimates:
            newest[load.row.instance_type] = load
    findings = []
    for name, load in newest.items():
        assert model is not None  # noqa: S101 - none is newest without one
        facts = catalog.instance_types[name]
        reason = load.unfit or why_unused(load.row, serve, model, facts, catalog.accelerators[facts.accelerator or ""])
        if reason:
            findings.append(info(CODE, "workload.serve", f"the {load.row.source} on {name} is not used: {reason}"))
    return tuple(findings)
