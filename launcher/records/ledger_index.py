"""The index of a ledger: one line per run, so that a hundred thousand run folders need not be opened one by one.

The index is a copy of other data and can be deleted at any time. A line holds its checksum, a key, the stamp of the
source, and the run, separated by tabs; a later line with the same key replaces an earlier one.
Lines are added in one write. Slipway ignores incomplete lines of a killed writer, and any other line with a wrong
checksum.
"""

import json
import os
import zlib
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any

from launcher.agent import safe_json
from launcher.agent.shape import read
from launcher.model.ledger import ALONE, LedgerEntry, Shared
from launcher.model.money import UsdRange
from launcher.model.record import record
from launcher.model.report import EndedBy
from launcher.records.codec import as_json, money

FORMAT = "slipway.ledger-index/6"
REWRITE = 2
"""Lines per entry from which the file is rewritten."""
MISSING = 1 << 62
"""Line count of a missing file: above any limit, so that the file is written."""
_moment = datetime.fromisoformat
_AMOUNTS = ("usd_per_hour", "usd_at_quoted_rate", "billed_usd", "usd_used")
_CAUSES = {cause.value: cause for cause in EndedBy}
"""By their words: a look-up takes a ninth of the time of a call of the enumeration."""
_usd = lru_cache(maxsize=65536)(Decimal)
"""Dollars; cached, because the runs of one plan have the same rate, and many the same hours."""
_MARK = 9
"""Bytes of a checksum and the following tab."""


@record
class LedgerIndex:
    """The index in one file."""

    path: Path

    def load(self) -> dict[str, tuple[str, str]]:
        """By key, the stamp and the line of the run; empty without an index, or with one of another version."""
        return self.load_checked()[0]

    def load_checked(self) -> tuple[dict[str, tuple[str, str]], bool]:
        """The index, and whether a line of the file is damaged."""
        try:
            first, *lines = self.path.read_bytes().split(b"\n")
        except OSError:
            return {}, False
        if first != FORMAT.encode():
            return {}, False
        # The checksum covers everything behind it, so that what has a right one splits into three.
        whole = [text for line in lines if line and (text := line[_MARK:]) and line[:_MARK] == _checksum(text)]
        entries = {key: (stamp, run) for key, stamp, run in (text.decode().split("\t", 2) for text in whole)}
        return entries, len(whole) < sum(map(bool, lines))

    def add(self, new: Mapping[str, tuple[str, LedgerEntry]], known: int, *, anew: bool = False) -> None:
        """Add runs; the file is rewritten if most of its lines are outdated.

        `known`: number of keys in the file including `new`; `anew`: `new` replaces the whole file.
        """
        lines = [_line(key, stamp, line_of(entry)) for key, (stamp, entry) in new.items()]
        # A folder that may not be written to is read without an index.
        with suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if anew:
                self._write([], lines)
            elif self._lines() + len(lines) > REWRITE * max(known, 1):
                self._write(self._retained_lines(new.keys()), lines)
            else:
                # Append lines in one write; the first begins on its own line, even after a killed writer
                data = b"\n" + b"\n".join(lines) + b"\n"
                descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND)
                try:
                    os.write(descriptor, data)
                finally:
                    os.close(descriptor)

    def _lines(self) -> int:
        try:
            with self.path.open("rb") as stream:
                good = stream.readline().rstrip(b"\n") == FORMAT.encode()
                count = sum(block.count(b"\n") for block in iter(lambda: stream.read(1 << 20), b""))
        except FileNotFoundError:
            return MISSING
        return count if good else MISSING

    def _retained_lines(self, replaced: Collection[str]) -> Iterable[bytes]:
        return [_line(key, stamp, line) for key, (stamp, line) in self.load().items() if key not in replaced]

    def _write(self, old: Iterable[bytes], lines: Iterable[bytes]) -> None:
        partial = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        with open(partial, "wb", opener=_private) as stream:
            stream.write(b"\n".join([FORMAT.encode(), *old, *lines]) + b"\n")
        partial.replace(self.path)


def _checksum(text: bytes) -> bytes:
    return b"%08x\t" % zlib.crc32(text)


def _line(key: str, stamp: str, line: str) -> bytes:
    text = f"{key}\t{stamp}\t{line}".encode(errors="replace")
    return _checksum(text) + text


def _private(path: str, flags: int) -> int:
    """Open a file for its owner alone, because it contains tags and names."""
    return os.open(path, flags, 0o600)


def line_of(entry: LedgerEntry) -> str:
    """A run as a line, with its fields in order; unknown values are empty."""
    quoted = entry.quoted_usd
    texts = entry._asdict() | {
        "started_at": entry.started_at.isoformat(),
        "ended_at": entry.ended_at.isoformat() if entry.ended_at else None,
        "simulated": int(entry.simulated),
        "monthly": int(entry.monthly),
        "quoted_usd": None if quoted is None else f"{money(quoted.low)} {money(quoted.mid)} {money(quoted.high)}",
        "tags": json.dumps(dict(entry.tags), separators=(",", ":")) if entry.tags else None,
        **{name: money(getattr(entry, name)) for name in _AMOUNTS},
        "places": "|".join(entry.places),
        "shared": None if entry.shared == ALONE else json.dumps(as_json(entry.shared), separators=(",", ":")),
    }
    return "\t".join("" if value is None else " ".join(str(value).split()) for value in texts.values())


def entry_of_line(line: str) -> LedgerEntry | None:
    """The run of a line; None if the line is damaged, so that the run is read again.

    Written out field by field in the order of `line_of`, because a listing calls this a hundred thousand times.
    """
    try:
        # fmt: off
        (name, run, origin, begun, ended, status, simulated, monthly, target, instance_type, nodes, region, option,
         quoted, rate, hours, at_rate, billed, tokens, epochs, interruptions, lost, tags, used, shared, cause,
         guard_reason, places) = line.split("\t")
        # fmt: on
        # As a tuple: its own way in would take each field by its name once more.
        values = (
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
            float(hours) if hours else None,
            _usd(at_rate) if at_rate else None,
            Decimal(billed) if billed else None,
            int(tokens) if tokens else None,
            float(epochs) if epochs else None,
            int(interruptions),
            float(lost),
            _tags(tags) if tags else {},
            _usd(used) if used else None,
            _read_shared(shared) if shared else ALONE,
            _CAUSES[cause] if cause else None,
            guard_reason or None,
            tuple(places.split("|")) if places else (),
        )
        return tuple.__new__(LedgerEntry, values)
    except (ArithmeticError, KeyError, TypeError, ValueError):
        return None


@lru_cache(maxsize=4096)
def _span(text: str) -> UsdRange:
    """A quoted range; cached, because the runs of one plan share it."""
    low, mid, high = text.split(" ")
    return UsdRange(low=Decimal(low), mid=Decimal(mid), high=Decimal(high))


@lru_cache(maxsize=4096)
def _read_shared(text: str) -> Shared:
    return read(Shared, safe_json.loads(text), "shared", whole=True)


@lru_cache(maxsize=4096)
def _tags(text: str) -> Any:
    """Tags; cached, because most runs of a folder have the same."""
    tags = safe_json.loads(text)
    if not isinstance(tags, dict):
        raise TypeError("no tags")
    return tags
