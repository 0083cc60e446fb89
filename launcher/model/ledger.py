"""The ledger: what every run was quoted at, what it took, and what that cost."""

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum
from typing import NamedTuple

from launcher.model.money import UsdRange
from launcher.model.record import record

MILLION = 1_000_000
LEAST_USD = Decimal("0.000001")
"""What a quotient of dollars is rounded to."""


class Grouping(StrEnum):
    """What the runs of a ledger may be added up by."""

    NAME = "name"
    TAG = "tag"
    TYPE = "type"
    MONTH = "month"


class LedgerEntry(NamedTuple):
    """One run; a tuple, since a ledger makes a hundred thousand of them at once.

    `run` is the name of its folder, the moment it was made; `origin` says on which machine and below which folder, as a
    hash, so that two people may run the same plan in the same second. `status` is that of its report, or not-submitted.
    `monthly` says that the quote is of a month and not of the whole: an endpoint. `hours` are wall hours of all
    attempts, `usd_per_hour` the quoted rate of all nodes and `usd_at_quoted_rate` their product. `billed_usd` is what
    AWS has billed, None until a bill was read. `tokens` and `epochs` are what the trainer reported last, None where it
    reported none. `lost_h` are hours of work that no checkpoint had kept when an attempt ended early. A `simulated` run
    is one of the sandbox: nothing was spent.
    """

    name: str
    run: str
    origin: str
    started_at: datetime
    ended_at: datetime | None
    status: str
    simulated: bool
    monthly: bool
    target: str
    instance_type: str
    nodes: int
    region: str
    option: str
    quoted_usd: UsdRange | None
    usd_per_hour: Decimal | None
    hours: float
    usd_at_quoted_rate: Decimal | None
    billed_usd: Decimal | None
    tokens: int | None
    epochs: float | None
    interruptions: int
    lost_h: float
    tags: Mapping[str, str]

    @property
    def identity(self) -> tuple[str, str, str]:
        """What makes it this run and no other."""
        return self.name, self.run, self.origin

    @property
    def usd(self) -> Decimal | None:
        """What it cost: the bill where there is one, else the hours at the quoted rate; nothing in the sandbox."""
        if self.simulated:
            return Decimal(0)
        return self.billed_usd if self.billed_usd is not None else self.usd_at_quoted_rate

    @property
    def usd_per_million_tokens(self) -> Decimal | None:
        """Of what it would cost in AWS, for a simulated run too; None without tokens or a rate."""
        return _share(self._charged, self.tokens / MILLION if self.tokens else None)

    @property
    def usd_per_epoch(self) -> Decimal | None:
        """Likewise; None where the trainer reported no epochs."""
        return _share(self._charged, self.epochs)

    @property
    def usd_lost(self) -> Decimal | None:
        """The hours lost, at the quoted rate; None without one."""
        if self.usd_per_hour is None:
            return None
        return (self.usd_per_hour * Decimal(repr(self.lost_h))).quantize(LEAST_USD)

    @property
    def _charged(self) -> Decimal | None:
        return self.billed_usd if self.billed_usd is not None else self.usd_at_quoted_rate


@record
class LedgerTotal:
    """Some runs added up; those of the sandbox are counted and cost nothing.

    `quoted_usd` sums the middle estimates of whole runs that have one; `incomplete` counts runs whose dollars are not
    known. Per million tokens and per epoch count runs that reported them alone.
    """

    key: str
    runs: int
    simulated: int
    incomplete: int
    quoted_usd: Decimal
    usd_at_quoted_rate: Decimal
    billed_usd: Decimal
    hours: float
    tokens: int
    usd_per_million_tokens: Decimal | None
    interruptions: int
    lost_h: float
    usd_lost: Decimal


@record
class Ledger:
    """Every run that was found, the newest first; `source` is where, `unread` what could not be read and why."""

    source: str
    entries: tuple[LedgerEntry, ...]
    unread: tuple[tuple[str, str], ...] = ()

    def since(self, moment: datetime) -> "Ledger":
        """The runs that began at or after a moment."""
        kept = tuple(each for each in self.entries if each.started_at >= moment)
        return Ledger(source=self.source, entries=kept, unread=self.unread)


def total(entries: Iterable[LedgerEntry], key: str = "") -> LedgerTotal:
    """Runs added up."""
    runs = simulated = incomplete = tokens = interruptions = 0
    quoted = used = billed = lost = trained = Decimal(0)
    hours = lost_h = 0.0
    for each in entries:
        runs += 1
        if each.simulated:
            simulated += 1
            continue
        usd = each.usd
        incomplete += usd is None
        if usd is not None and each.tokens:
            tokens += each.tokens
            trained += usd
        if each.quoted_usd is not None and not each.monthly:
            quoted += each.quoted_usd.mid
        used += each.usd_at_quoted_rate or 0
        billed += each.billed_usd or 0
        hours += each.hours
        interruptions += each.interruptions
        lost_h += each.lost_h
        if each.lost_h:
            lost += each.usd_lost or 0
    return LedgerTotal(
        key=key,
        runs=runs,
        simulated=simulated,
        incomplete=incomplete,
        quoted_usd=quoted,
        usd_at_quoted_rate=used,
        billed_usd=billed,
        hours=hours,
        tokens=tokens,
        usd_per_million_tokens=_share(trained, tokens / MILLION),
        interruptions=interruptions,
        lost_h=lost_h,
        usd_lost=lost,
    )


def grouped(entries: Iterable[LedgerEntry], by: Grouping) -> tuple[LedgerTotal, ...]:
    """Runs added up by what they have in common, by its name; a run with several tags counts under each of them."""
    found: dict[str, list[LedgerEntry]] = {}
    keys = _KEYS[by]
    for entry in entries:
        for key in keys(entry):
            found.setdefault(key, []).append(entry)
    return tuple(total(found[key], key) for key in sorted(found))


_KEYS: Mapping[Grouping, Callable[[LedgerEntry], Iterable[str]]] = {
    Grouping.NAME: lambda entry: (entry.name,),
    Grouping.TAG: lambda entry: [f"{key}={value}" for key, value in entry.tags.items()] or ["no tag"],
    Grouping.TYPE: lambda entry: (entry.instance_type or "Bedrock",),
    Grouping.MONTH: lambda entry: (f"{entry.started_at.astimezone(UTC):%Y-%m}",),
}


def _share(usd: Decimal | None, of: float | None) -> Decimal | None:
    """Dollars over a count, None where one of them is not known.

    >>> _share(Decimal("30"), 1.5)
    Decimal('20.000000')
    """
    return None if usd is None or not of else (usd / Decimal(repr(of))).quantize(LEAST_USD)
