"""The index of a ledger: every run in a line, so that a hundred thousand of them need not be opened one by one.

It is a copy of what lies elsewhere and may be thrown away at any time. A line holds a key, the stamp of what it was
read from, and the run, with tabs between; a later line of the same key replaces an earlier one. Lines are added in one
write. A line that a killed writer left half, and anything else that cannot be read, is as if it were not there.
"""

import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any

from launcher.model.ledger import LedgerEntry
from launcher.model.money import UsdRange
from launcher.model.record import record

FORMAT = "slipway.ledger-index/1"
REWRITE = 2
"""Lines an entry from which on the file is written anew."""
MISSING = 1 << 62
"""Lines of a file that is not there: more than any, so that it is written."""


@record
class LedgerIndex:
    """The index in one file."""

    path: Path

    def load(self) -> dict[str, tuple[str, str]]:
        """By key, the stamp and the line of the run; nothing where there is no index, or one of another version."""
        try:
            lines = self.path.read_text(encoding="utf-8", errors="replace").split("\n")
        except OSError:
            return {}
        if lines[0] != FORMAT:
            return {}
        pieces = (line.split("\t", 2) for line in lines)
        return {each[0]: (each[1], each[2]) for each in pieces if len(each) == 3}  # noqa: PLR2004 - key, stamp, run

    def add(self, new: Mapping[str, tuple[str, LedgerEntry]], known: int) -> None:
        """Add runs; the file is written anew where most of it is old.

        Args:
            new: by key, the stamp and the run.
            known: how many keys the file holds with these.
        """
        lines = [f"{key}\t{stamp}\t{line_of(entry)}" for key, (stamp, entry) in new.items()]
        # A folder that may not be written to is read without an index.
        with suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if self._lines() + len(lines) > REWRITE * max(known, 1):
                self._write_anew(new.keys(), lines)
            else:
                self._append(lines)

    def _lines(self) -> int:
        """How many lines the file has."""
        try:
            with self.path.open("rb") as stream:
                good = stream.readline().rstrip(b"\n") == FORMAT.encode()
                count = sum(block.count(b"\n") for block in iter(lambda: stream.read(1 << 20), b""))
        except FileNotFoundError:
            return MISSING
        return count if good else MISSING

    def _append(self, lines: Iterable[str]) -> None:
        """Add lines in one write; the first begins on a line of its own, whatever a killed writer left."""
        data = "\n" + "\n".join(lines) + "\n"
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        try:
            os.write(descriptor, data.encode())
        finally:
            os.close(descriptor)

    def _write_anew(self, fresh: Iterable[str], lines: Iterable[str]) -> None:
        """The file with the newest line of every key, whole."""
        replaced = set(fresh)
        old = [f"{key}\t{stamp}\t{line}" for key, (stamp, line) in self.load().items() if key not in replaced]
        partial = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        with open(partial, "w", encoding="utf-8", opener=_private) as stream:
            stream.write("\n".join([FORMAT, *old, *lines]) + "\n")
        partial.replace(self.path)


def _private(path: str, flags: int) -> int:
    """Open a file for its owner alone: tags and names are in it."""
    return os.open(path, flags, 0o600)


def line_of(entry: LedgerEntry) -> str:
    """A run as a line, its fields in their order; what is not known is empty."""
    from launcher.records.documents import money  # noqa: PLC0415 - reading takes none of what that loads

    quoted = entry.quoted_usd
    texts = entry._asdict() | {
        "started_at": entry.started_at.isoformat(),
        "ended_at": entry.ended_at.isoformat() if entry.ended_at else None,
        "simulated": int(entry.simulated),
        "monthly": int(entry.monthly),
        "quoted_usd": None if quoted is None else f"{money(quoted.low)} {money(quoted.mid)} {money(quoted.high)}",
        "tags": json.dumps(dict(entry.tags), separators=(",", ":")) if entry.tags else None,
        **{name: money(getattr(entry, name)) for name in ("usd_per_hour", "usd_at_quoted_rate", "billed_usd")},
    }
    return "\t".join("" if value is None else " ".join(str(value).split()) for value in texts.values())


def entry_of_line(line: str) -> LedgerEntry | None:
    """The run of a line; None where the line is damaged, so that it is read again.

    Written out field by field in the order of `line_of`: a listing calls it a hundred thousand times.
    """
    try:
        # fmt: off
        (name, run, origin, begun, ended, status, simulated, monthly, target, instance_type, nodes, region, option,
         quoted, rate, hours, used, billed, tokens, epochs, interruptions, lost, tags) = line.split("\t")
        # fmt: on
        # As a tuple: its own way in would take each field by its name once more.
        found = (
            name,
            run,
            origin,
            _moment(begun),
            _moment(ended) if ended else None,
            status,
            simulated == "1",
            monthly == "1",
            target,
            instance_type,
            int(nodes),
            region,
            option,
            _span(quoted) if quoted else None,
            _usd(rate) if rate else None,
            float(hours),
            _usd(used) if used else None,
            Decimal(billed) if billed else None,
            int(tokens) if tokens else None,
            float(epochs) if epochs else None,
            int(interruptions),
            float(lost),
            _tags(tags) if tags else {},
        )
        return tuple.__new__(LedgerEntry, found)
    except (ArithmeticError, TypeError, ValueError):
        return None


_moment = datetime.fromisoformat


@lru_cache(maxsize=4096)
def _span(text: str) -> UsdRange:
    """A quote; the runs of one plan have the same one."""
    low, mid, high = text.split(" ")
    return UsdRange(low=Decimal(low), mid=Decimal(mid), high=Decimal(high))


_usd = lru_cache(maxsize=65536)(Decimal)
"""Dollars; the runs of one plan have the same rate, and many the same hours."""


@lru_cache(maxsize=4096)
def _tags(text: str) -> Any:
    """Tags; most runs of a folder have the same."""
    found = json.loads(text)
    if not isinstance(found, dict):
        raise TypeError("no tags")
    return found
