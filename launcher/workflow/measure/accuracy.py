"""The story of `accuracy`: every run of a folder, quoted against measured."""

from pathlib import Path
from typing import Any

from launcher.model.accuracy import RunAccuracy
from launcher.model.errors import UnreadableInputError
from launcher.model.ledger import LedgerEntry
from launcher.model.money import Range
from launcher.model.report import RunStatus
from launcher.records.measurements import parse_measurement
from launcher.records.run_folder import RUNS, RunFolder
from launcher.records.shape import hold
from launcher.workflow.ledger.book import folder_ledger
from launcher.workflow.measure.keep import IN_RUN

_SPAN = {"low": float, "mid": float, "high": float}


def run_accuracies(root: Path) -> tuple[tuple[RunAccuracy, ...], tuple[tuple[str, str], ...]]:
    """The runs under a folder that trained, the newest first, and what could not be read, with the reason."""
    found, ledger = [], folder_ledger(root)
    unread = list(ledger.unread)
    for entry in ledger.entries:
        if not entry.hours or entry.monthly:
            continue
        folder = RunFolder(path=root / RUNS / entry.name / entry.run)
        try:
            found.append(_run(entry, folder))
        except (UnreadableInputError, ValueError) as problem:
            unread.append((f"{entry.name}/{entry.run}", str(problem)))
    return tuple(found), tuple(unread)


def _run(entry: LedgerEntry, folder: RunFolder) -> RunAccuracy:
    quote = folder.read_json("quote.json")
    hold(quote, {"hours": _SPAN, "training": ({"tokens_per_s": _SPAN}, None)})
    training: dict[str, Any] | None = quote["training"]
    measured = None
    if (folder.path / IN_RUN).is_file():
        measured = parse_measurement(folder.read_json(IN_RUN)).tokens_per_s.mid
    return RunAccuracy(
        name=entry.name,
        run=entry.run,
        instance_type=entry.instance_type,
        nodes=entry.nodes,
        simulated=entry.simulated,
        succeeded=entry.status == RunStatus.SUCCEEDED.value,
        quoted_tokens_per_s=_range(training["tokens_per_s"]) if training is not None else None,
        tokens_per_s=measured,
        quoted_hours=_range(quote["hours"]),
        hours=entry.hours,
        quoted_usd=entry.quoted_usd,
        usd=entry.billed_usd if entry.billed_usd is not None else entry.usd_at_quoted_rate,
    )


def _range(found: dict[str, float]) -> Range:
    return Range(low=found["low"], mid=found["mid"], high=found["high"])
