"""The ledger's rows of jobs that still run: their hours and dollars of this moment, as `slipway report` shows them."""

from dataclasses import replace
from datetime import datetime
from pathlib import Path

from launcher.model.errors import UnreadableInputError
from launcher.model.ledger import Ledger, LedgerEntry
from launcher.model.report import RunStatus
from launcher.records.report_document import stored_report
from launcher.records.run_folder import RUNS, RunFolder
from launcher.workflow.run.status import report_at


def with_running(ledger: Ledger, root: Path, now: datetime, *, copied: bool = False) -> Ledger:
    """The ledger of a folder's runs, with what its running jobs have used until now.

    `copied`: the runs are copies that their launches stored when the jobs were submitted.
    """
    running = RunStatus.RUNNING.value
    entries = tuple(
        _at(entry, root, now, copied=copied) if entry.status == running else entry for entry in ledger.entries
    )
    return replace(ledger, entries=entries)


def _at(entry: LedgerEntry, root: Path, now: datetime, *, copied: bool) -> LedgerEntry:
    folder = RunFolder(path=root / RUNS / entry.name / entry.run)
    try:
        report = report_at(entry.name, folder, stored_report(folder), now)
    except UnreadableInputError:
        return entry  # its row was read from the same files: they have just changed
    if not report.running_h:
        # A copy has no attempt yet: what the job has used since then is unknown, not 0.
        return entry._replace(hours=None, usd_at_quoted_rate=None, usd_used=None) if copied else entry
    return entry._replace(
        hours=report.actual_hours, usd_at_quoted_rate=report.usd_at_quoted_rate, usd_used=report.usd_used
    )
