"""The `accuracy` command: it compares the quotes of a folder's runs with their measurements."""

from pathlib import Path
from typing import Any

from launcher.agent.shape import read
from launcher.model.accuracy import RunAccuracy
from launcher.model.errors import UnreadableInputError
from launcher.model.ledger import LedgerEntry
from launcher.model.report import RunStatus
from launcher.records.bill_document import BILLED, Amount
from launcher.records.measurements import parse_measurement
from launcher.records.run_folder import RUNS, RunFolder
from launcher.records.stored_quote import stored_quote
from launcher.workflow.history.ledger import folder_ledger
from launcher.workflow.history.measurement import IN_RUN


def run_accuracies(root: Path) -> tuple[tuple[RunAccuracy, ...], tuple[tuple[str, str], ...]]:
    """The training runs under a folder, the newest first, and the unreadable ones, each with the reason."""
    accuracies, ledger = [], folder_ledger(root)
    unread = list(ledger.unread)
    for entry in ledger.entries:
        if not entry.hours or entry.monthly:
            continue
        folder = RunFolder(path=root / RUNS / entry.name / entry.run)
        try:
            accuracies.append(_run(entry, entry.hours, folder))
        except (UnreadableInputError, ValueError) as problem:
            unread.append((f"{entry.name}/{entry.run}", str(problem)))
    return tuple(accuracies), tuple(unread)


def _run(entry: LedgerEntry, hours: float, folder: RunFolder) -> RunAccuracy:
    quote = stored_quote(folder)
    if entry.other_types:
        raise UnreadableInputError(
            f"it ran on {', '.join(entry.other_types)}, and its quote is of {entry.instance_type}"
        )
    cost = quote.cost
    rate, quantity = _billed_ratios(folder)
    measured = None
    if (folder.path / IN_RUN).is_file():
        rate_of_run = parse_measurement(folder.read_json(IN_RUN)).tokens_per_s
        measured = None if rate_of_run is None else rate_of_run.mid
    return RunAccuracy(
        name=entry.name,
        run=entry.run,
        instance_type=entry.instance_type,
        nodes=entry.nodes,
        simulated=entry.simulated,
        succeeded=entry.status == RunStatus.SUCCEEDED.value,
        quoted_tokens_per_s=None if quote.training is None else quote.training.tokens_per_s,
        tokens_per_s=measured,
        quoted_hours=quote.hours,
        hours=hours,
        quoted_usd=entry.quoted_usd,
        usd=entry.billed_usd if entry.billed_usd is not None else cost.paid_usd(hours) if cost else None,
        rate_billed=rate,
        quantity_billed=quantity,
    )


def _billed_ratios(folder: RunFolder) -> tuple[float | None, float | None]:
    """Billed over quoted compute: dollars an instance-hour, and instance-hours; None without a bill."""
    if not (folder.path / BILLED).is_file():
        return None, None
    lines = read(tuple[dict[str, Any], ...], folder.read_json(BILLED).get("lines"), "lines")
    # Compute is the first line of every quote.
    for line in lines[:1]:
        quoted, billed = (read(Amount, line.get(key), f"lines[0].{key}") for key in ("quoted", "billed"))
        if quoted.quantity and billed.quantity and quoted.usd:
            quoted_rate, billed_rate = float(quoted.usd) / quoted.quantity, float(billed.usd or 0) / billed.quantity
            return billed_rate / quoted_rate, billed.quantity / quoted.quantity
    return None, None
