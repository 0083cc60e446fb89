"""The `accuracy` command: it compares the quotes of a folder's runs with their measurements."""

from pathlib import Path
from typing import Any

from launcher.agent.shape import amount, check_shape, read
from launcher.model.accuracy import RunAccuracy
from launcher.model.errors import UnreadableInputError
from launcher.model.ledger import LedgerEntry
from launcher.model.money import Range
from launcher.model.report import RunStatus
from launcher.records.bill_document import BILLED
from launcher.records.documents import parse_cost
from launcher.records.measurements import parse_measurement
from launcher.records.run_folder import RUNS, RunFolder
from launcher.workflow.history.ledger import folder_ledger
from launcher.workflow.history.measurement import IN_RUN

_BILLED: dict[str, Any] = {"quantity": (float, None), "usd": (str, None)}
_SPAN = {"low": float, "mid": float, "high": float}


def run_accuracies(root: Path) -> tuple[tuple[RunAccuracy, ...], tuple[tuple[str, str], ...]]:
    """The training runs under a folder, the newest first, and the unreadable ones, each with the reason."""
    accuracies, ledger = [], folder_ledger(root)
    unread = list(ledger.unread)
    for entry in ledger.entries:
        if not entry.hours or entry.monthly:
            continue
        folder = RunFolder(path=root / RUNS / entry.name / entry.run)
        try:
            accuracies.append(_run(entry, folder))
        except (UnreadableInputError, ValueError) as problem:
            unread.append((f"{entry.name}/{entry.run}", str(problem)))
    return tuple(accuracies), tuple(unread)


def _run(entry: LedgerEntry, folder: RunFolder) -> RunAccuracy:
    quote = folder.read_json("quote.json")
    check_shape(quote, {"hours": _SPAN, "training": ({"tokens_per_s": _SPAN}, None)})
    training: dict[str, Any] | None = quote["training"]
    cost = parse_cost(quote)
    rate, quantity = _billed(folder)
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
        quoted_tokens_per_s=read(Range, training["tokens_per_s"]) if training is not None else None,
        tokens_per_s=measured,
        quoted_hours=read(Range, quote["hours"]),
        hours=entry.hours,
        quoted_usd=entry.quoted_usd,
        usd=entry.billed_usd if entry.billed_usd is not None else cost.paid(entry.hours) if cost else None,
        rate_billed=rate,
        quantity_billed=quantity,
    )


def _billed(folder: RunFolder) -> tuple[float | None, float | None]:
    """Billed over quoted compute: dollars an instance-hour, and instance-hours; None without a bill."""
    if not (folder.path / BILLED).is_file():
        return None, None
    document = folder.read_json(BILLED)
    check_shape(document, {"lines": [{"quoted": _BILLED, "billed": _BILLED}]})
    # Compute is the first line of every quote.
    for line in document["lines"][:1]:
        (quoted, quoted_usd), (billed, billed_usd) = (
            (side["quantity"], float(amount(side["usd"]) or 0)) for side in (line["quoted"], line["billed"])
        )
        if quoted and billed and quoted_usd:
            return (billed_usd / billed) / (quoted_usd / quoted), billed / quoted
    return None, None
