"""The ledger: the quote, the duration and the cost of every run."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum
from typing import NamedTuple

from launcher.model.money import UsdRange
from launcher.model.record import INTERNAL, record
from launcher.model.report import EndedBy
from launcher.model.run_cost import PLACES

MILLION = 1_000_000
MIN_USD = Decimal("0.000001")
"""The precision to which quotients of dollars are rounded."""


class Grouping(StrEnum):
    """The keys by which a ledger's runs can be grouped."""

    NAME = "name"
    TAG = "tag"
    TYPE = "type"
    MONTH = "month"


class Shared(NamedTuple):
    """The resources that a run may share with other runs, and their cost (`RunRates`).

    `cluster` is the cluster's name, `reservation` the id of the prepaid capacity in its plan, "" without
    any.
    """

    cluster: str = ""
    reservation: str = ""
    prepaid_usd: Decimal | None = None
    cluster_usd_per_hour: Decimal = Decimal(0)
    start_h: float = 0.0
    tail_h: float = 0.0
    list_usd_per_hour: Decimal | None = None


ALONE = Shared()
"""The default for a run without this information."""


class LedgerEntry(NamedTuple):
    """One run; a tuple, because a ledger creates a hundred thousand entries in a batch."""

    name: str
    # The name of its folder, its creation time.
    run: str
    # A hash of the computer and the parent folder: two users may run the same plan in the same second.
    origin: str
    started_at: datetime
    ended_at: datetime | None
    # That of its report, else not-submitted or "dry run".
    status: str
    # A sandbox run: no money was spent.
    simulated: bool
    # The quote covers a month, not the whole run: an endpoint.
    monthly: bool
    target: str
    instance_type: str
    nodes: int
    region: str
    purchase_option: str
    quoted_usd: UsdRange | None
    # The quoted rate of all nodes.
    usd_per_hour: Decimal | None
    # Wall hours of all attempts, None if they are unknown.
    hours: float | None
    # `hours` at `usd_per_hour`.
    usd_at_quoted_rate: Decimal | None
    # The amount billed by AWS, None until a bill was read.
    billed_usd: Decimal | None
    # The trainer's last reported values, None if it reported none.
    tokens: int | None
    epochs: float | None
    interruptions: int
    # Hours of work that no checkpoint stored when an attempt ended early.
    lost_h: float
    tags: Mapping[str, str]
    # The run's cost by every line of its quote, with a prepaid fee by its hours' share.
    usd_used: Decimal | None = None
    shared: Shared = ALONE
    # Why its last attempt ended: None while it runs, without an attempt, and in entries of earlier versions.
    ended_by: EndedBy | None = None
    # The first line of why the guard stopped the run's nodes, None if it did not.
    guard_reason: str | None = None
    # The instance types and zones of each attempt, where EC2 chose them.
    places: tuple[str, ...] = ()

    @property
    def identity(self) -> tuple[str, str, str]:
        """The key that identifies the run."""
        return self.name, self.run, self.origin

    @property
    def other_types(self) -> tuple[str, ...]:
        """The instance types that EC2 chose for attempts, without the quoted one."""
        types = {word for place in self.places for word in place.replace(",", "").split() if "." in word}
        return tuple(sorted(types - {self.instance_type}))

    @property
    def usd(self) -> Decimal | None:
        """The cost: the bill if available, else by its quote; 0 in the sandbox."""
        if self.simulated:
            return Decimal(0)
        return self._charged_usd

    @property
    def usd_per_million_tokens(self) -> Decimal | None:
        """From the cost in AWS, for a simulated run too; None without tokens or a rate."""
        return _share(self._charged_usd, self.tokens / MILLION if self.tokens else None)

    @property
    def usd_per_epoch(self) -> Decimal | None:
        """From the cost in AWS, for a simulated run too; None if the trainer reported no epochs."""
        return _share(self._charged_usd, self.epochs)

    @property
    def usd_lost(self) -> Decimal | None:
        """The lost hours at the quoted rate; None without a rate."""
        if self.usd_per_hour is None:
            return None
        return (self.usd_per_hour * Decimal(repr(self.lost_h))).quantize(MIN_USD)

    @property
    def _charged_usd(self) -> Decimal | None:
        return self.billed_usd if self.billed_usd is not None else self.usd_used


@record(described=False)
class LedgerTotal:
    """The total of several runs; sandbox runs are counted and cost nothing."""

    # None for all runs.
    key: str | None
    runs: int
    simulated: int
    # Runs with unknown dollars.
    incomplete: int
    # The middle estimates of complete runs that have one, a prepaid fee once.
    quoted_usd: Decimal
    usd_at_quoted_rate: Decimal
    usd_used: Decimal
    # The part of prepaid fees that no run used; it is in no group.
    usd_unused: Decimal
    billed_usd: Decimal
    hours: float
    # Only of runs that reported them.
    tokens: int
    usd_per_million_tokens: Decimal | None
    interruptions: int
    lost_h: float
    usd_lost: Decimal


@record
class Ledger:
    """Every run found, the newest first; `source` is the location, `unread` lists unreadable runs with the reason."""

    source: str
    entries: tuple[LedgerEntry, ...]
    unread: tuple[tuple[str, str], ...] = ()

    @property
    def once(self) -> "Ledger":
        """The ledger without costs that two runs of one cluster would count twice."""
        return Ledger(source=self.source, entries=counted_once(self.entries), unread=self.unread)

    def since(self, moment: datetime) -> "Ledger":
        """The runs that began at or after a moment."""
        recent = tuple(entry for entry in self.entries if entry.started_at >= moment)
        return Ledger(source=self.source, entries=recent, unread=self.unread)


@record(described=False)
class ReservationUse:
    """Prepaid capacity and the part of its fee that a ledger's runs used; `name` is its id, or its only run."""

    name: str
    fee_usd: Decimal
    used_usd: Decimal
    # The part of the fee that no run used.
    unused_usd: Decimal
    # The number of its runs.
    runs: int
    entries: tuple[LedgerEntry, ...] = field(metadata=INTERNAL)
    # The amount by which the quotes of its runs exceed one fee.
    twice_usd: Decimal = field(metadata=INTERNAL)


def reservations(entries: Iterable[LedgerEntry]) -> tuple[ReservationUse, ...]:
    """The prepaid capacity that runs in AWS used, by its name."""
    by_reservation: dict[str, list[LedgerEntry]] = {}
    for entry in entries:
        if entry.shared.prepaid_usd is not None and entry.hours and not entry.simulated:
            by_reservation.setdefault(entry.shared.reservation or f"{entry.name}/{entry.run}", []).append(entry)
    return tuple(_use(name, by_reservation[name]) for name in sorted(by_reservation))


def _use(name: str, runs: Iterable[LedgerEntry]) -> ReservationUse:
    listed = tuple(runs)
    fees = [entry.shared.prepaid_usd or Decimal(0) for entry in listed]
    used = sum((entry.usd_at_quoted_rate or Decimal(0) for entry in listed), Decimal(0))
    fee = max(fees)
    return ReservationUse(
        name=name,
        fee_usd=fee,
        used_usd=used,
        unused_usd=max(Decimal(0), fee - used).quantize(PLACES),
        runs=len(listed),
        entries=listed,
        twice_usd=sum(fees) - fee,
    )


def counted_once(entries: Iterable[LedgerEntry]) -> tuple[LedgerEntry, ...]:
    """The runs, in their order, without costs that two runs of one cluster would count twice.

    Consecutive runs within an idle tail, or overlapping runs, share hours in which both would pay for the cluster, the
    start-up of nodes and the idle tail: the run that began first bears them. A run's own bill is not changed.
    """
    listed = tuple(entries)
    groups: dict[tuple[str, str, str, bool], list[int]] = {}
    for number, entry in enumerate(listed):
        if entry.shared.cluster and entry.hours and entry.usd_used is not None:
            key = (entry.shared.cluster, entry.region, entry.origin, entry.simulated)
            groups.setdefault(key, []).append(number)
    counted = list(listed)
    for numbers in groups.values():
        if len(numbers) > 1:
            numbers.sort(key=lambda number: listed[number].started_at)
            _count_once(counted, numbers)
    return tuple(counted)


def _count_once(entries: list[LedgerEntry], numbers: Iterable[int]) -> None:
    """Subtract from each run of a cluster the costs that an earlier run already bears; in order of their start."""
    last: LedgerEntry | None = None
    until = 0.0
    for number in numbers:
        entry = entries[number]
        begin = entry.started_at.timestamp() / 3600
        end = begin + (entry.hours or 0.0) if entry.ended_at is None else entry.ended_at.timestamp() / 3600
        up, down = begin - entry.shared.start_h, end + entry.shared.tail_h
        if last is not None and until > up:
            twice = entry.shared.cluster_usd_per_hour * _exact(min(until, down) - up)
            twice += _nodes_usd(entry, min(until, begin) - up) + _nodes_usd(entry, min(until, down) - end)
            # The idle tail of the earlier run, in which this one's job ran on its nodes.
            twice += _nodes_usd(last, min(until, end) - max(begin, until - last.shared.tail_h))
            entries[number] = entry._replace(usd_used=max(Decimal(0), (entry.usd_used or 0) - twice).quantize(PLACES))
        if last is None or down > until:
            last, until = entry, down


def _nodes_usd(entry: LedgerEntry, hours: float) -> Decimal:
    """Dollars of so many hours of a run's nodes; 0 if the nodes are prepaid."""
    if entry.usd_per_hour is None or entry.shared.prepaid_usd is not None:
        return Decimal(0)
    return entry.usd_per_hour * _exact(hours)


def _exact(hours: float) -> Decimal:
    return Decimal(repr(max(0.0, hours)))


def total(entries: Iterable[LedgerEntry], key: str | None = None) -> LedgerTotal:
    """The total of several runs."""
    runs = simulated = incomplete = tokens = interruptions = 0
    quoted = at_rate = used = billed = lost = trained = Decimal(0)
    hours = lost_h = 0.0
    prepaid: list[LedgerEntry] = []
    for entry in entries:
        runs += 1
        if entry.simulated:
            simulated += 1
            continue
        if entry.shared.prepaid_usd is not None:
            prepaid.append(entry)
        usd = entry.usd
        incomplete += usd is None
        if usd is not None and entry.tokens:
            tokens += entry.tokens
            trained += usd
        if entry.quoted_usd is not None and not entry.monthly:
            quoted += entry.quoted_usd.mid
        at_rate += entry.usd_at_quoted_rate or 0
        used += entry.usd_used or 0
        billed += entry.billed_usd or 0
        hours += entry.hours or 0.0
        interruptions += entry.interruptions
        lost_h += entry.lost_h
        if entry.lost_h:
            lost += entry.usd_lost or 0
    bought = reservations(prepaid)
    quoted -= sum((use.twice_usd for use in bought), Decimal(0))
    return LedgerTotal(
        key=key,
        runs=runs,
        simulated=simulated,
        incomplete=incomplete,
        quoted_usd=quoted,
        usd_at_quoted_rate=at_rate,
        usd_used=used,
        usd_unused=Decimal(0) if key is not None else sum((use.unused_usd for use in bought), Decimal(0)),
        billed_usd=billed,
        hours=hours,
        tokens=tokens,
        usd_per_million_tokens=_share(trained, tokens / MILLION),
        interruptions=interruptions,
        lost_h=lost_h,
        usd_lost=lost,
    )


def group_totals(entries: Iterable[LedgerEntry], by: Grouping) -> tuple[LedgerTotal, ...]:
    """Totals of runs by a common key, sorted by its name; a run with several tags counts under each of them."""
    by_key: dict[str, list[LedgerEntry]] = {}
    keys = _KEYS[by]
    for entry in entries:
        for key in keys(entry):
            by_key.setdefault(key, []).append(entry)
    return tuple(total(by_key[key], key) for key in sorted(by_key))


_KEYS: Mapping[Grouping, Callable[[LedgerEntry], Iterable[str]]] = {
    Grouping.NAME: lambda entry: (entry.name,),
    Grouping.TAG: lambda entry: [f"{key}={value}" for key, value in entry.tags.items()] or ["no tag"],
    Grouping.TYPE: lambda entry: (entry.instance_type or "Bedrock",),
    Grouping.MONTH: lambda entry: (f"{entry.started_at.astimezone(UTC):%Y-%m}",),
}


def _share(usd: Decimal | None, of: float | None) -> Decimal | None:
    """Dollars over a count, None if one of them is unknown.

    >>> _share(Decimal("30"), 1.5)
    Decimal('20.000000')
    """
    return None if usd is None or not of else (usd / Decimal(repr(of))).quantize(MIN_USD)
