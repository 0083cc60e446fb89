"""The `ledger` command: it lists every run of a folder, from its index and later changes."""

import os
from collections.abc import Iterator, Mapping
from operator import attrgetter, itemgetter
from pathlib import Path

from launcher.model.errors import UnreadableInputError
from launcher.model.ledger import Ledger, LedgerEntry
from launcher.records.ledger_index import LedgerIndex, entry_of_line
from launcher.records.run_folder import DRY_RUN, RUNS, RunFolder

INDEX = Path(".slipway") / "ledger.index"
_BY_BEGINNING = itemgetter(*(LedgerEntry._fields.index(name) for name in ("started_at", "name", "run")))
"""By position, not by name: entries are tuples, and a long ledger has a hundred thousand entries."""
_NAME = attrgetter("name")


def folder_ledger(root: Path) -> Ledger:
    """Every run under a folder, the newest first; dry runs are none.

    Slipway reads a run from the index if the run's folder has not changed since. Every file in a run folder is written
    completely and renamed, so the folder's modification time shows each change.
    """
    index = LedgerIndex(path=root / INDEX)
    known = index.load()
    entries: list[LedgerEntry] = []
    fresh: dict[str, tuple[str, LedgerEntry]] = {}
    unread: list[tuple[str, str]] = []
    for name, run, path, stamp in _folders(root / RUNS):
        key = f"{name}/{run}"
        listed = known.get(key)
        entry = entry_of_line(listed[1]) if listed is not None and listed[0] == stamp else None
        if entry is None:
            # Loaded where a folder is read alone: that takes a third of the time of a listing from the index.
            from launcher.workflow.history.ledger_entries import entry_of

            try:
                entry = entry_of(name, RunFolder(path=Path(path)))
            except UnreadableInputError as problem:
                unread.append((key, problem.message))
                continue
            fresh[key] = (stamp, entry)
        if entry.status != DRY_RUN:
            entries.append(entry)
    if fresh:
        index.add(fresh, len(known.keys() | fresh.keys()))
    return Ledger(source=str(root / RUNS), entries=newest_first(entries), unread=tuple(unread))


def merge_ledgers(ledgers: Mapping[str, Ledger]) -> Ledger:
    """Several ledgers as one, the newest run first; `source` has their places."""
    entries = newest_first([entry for ledger in ledgers.values() for entry in ledger.entries])
    unread = tuple(one for ledger in ledgers.values() for one in ledger.unread)
    return Ledger(source="; ".join(ledgers), entries=entries, unread=unread)


def newest_first(entries: list[LedgerEntry]) -> tuple[LedgerEntry, ...]:
    """The runs by start time, the newest first."""
    return tuple(sorted(entries, key=_BY_BEGINNING, reverse=True))


def _folders(runs: Path) -> Iterator[tuple[str, str, str, str]]:
    if not runs.is_dir():
        return
    with os.scandir(runs) as names:
        plans = [(entry.name, entry.path) for entry in names if entry.is_dir()]
    for name, path in plans:
        with os.scandir(path) as entries:
            folders = [entry for entry in entries if entry.is_dir(follow_symlinks=False)]
        # In the order of their names, which are moments: what is nearly sorted is sorted in a third of the time.
        for folder in sorted(folders, key=_NAME, reverse=True):
            yield name, folder.name, folder.path, str(folder.stat(follow_symlinks=False).st_mtime_ns)
