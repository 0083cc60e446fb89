"""Reduces thousands of places to the best of every type and option, computed in floats."""

import math
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from heapq import heapify, heappop, heappush
from typing import NamedTuple, TypeAlias

from launcher.model.candidate_group import CandidateGroup
from launcher.model.enums import PurchaseOption
from launcher.model.plan import Place
from launcher.planning.work import Estimator
from launcher.pricing.bill import transfer_usd
from launcher.pricing.bill_lines import JobSize
from launcher.pricing.candidate import AnyCandidate, Order, order
from launcher.pricing.compute import boot_hours, charge, charge_bounds, committed_hours
from launcher.pricing.context import PricingContext
from launcher.pricing.other_costs import NEARLY
from launcher.pricing.rate_book import RateBook


class Row(NamedTuple):
    """One place in numbers, in the order in which rows are compared: the smallest is the best.

    A late row misses the deadline. Without a rate `usd` is 0 and the fewest instance-hours win, at any rate.
    """

    late: bool
    unpriced: bool
    usd: float
    instance_hours: float
    hours: float
    region: str
    zone: str
    group: int
    location: int
    nodes: int
    term: int
    interval_s: float | None


class _Size(NamedTuple):
    """One number of nodes, in the order in which sizes are compared at one rate.

    The billed instance-hours, the hours of the job, seconds between checkpoints.
    """

    late: bool
    instance_hours: float
    hours: float
    nodes: int
    interval_s: float | None


_Start: TypeAlias = tuple[Row, Callable[[], Iterator[Row]]]
"""A lower bound of a location's rows, and a function that yields the rows."""


class _Sizes:
    """The numbers of nodes of a group, the best first; each is computed only when no waiting one can be better."""

    def __init__(self, waiting: Iterable[_Size], whole: Callable[[int], _Size | None]) -> None:
        """Start with no computed size.

        Args:
            waiting: each number of nodes with its lower bound.
            whole: computes one size; None if no offering is long enough.
        """
        self._found: list[_Size] = []
        self._waiting = [(count, False) for count in waiting]
        self._whole = whole
        heapify(self._waiting)
        self.least = self._waiting[0][0]
        """A lower bound of all sizes, for any interruption rate."""

    @property
    def first(self) -> _Size | None:
        return self._found[0] if self._found or self._compute_sizes() else None

    def __iter__(self) -> Iterator[_Size]:
        """All sizes, computed as the caller iterates."""
        number = 0
        while number < len(self._found) or self._compute_sizes():
            yield self._found[number]
            number += 1

    def _compute_sizes(self) -> bool:
        """Compute sizes until the next best one is certain; False when none is left."""
        while self._waiting:
            size, known = heappop(self._waiting)
            if known:
                self._found.append(size)
                return True
            size_cost = self._whole(size.nodes)
            if size_cost is not None:
                heappush(self._waiting, (size_cost, True))
        return False


def best_candidates(
    groups: Iterable[CandidateGroup],
    estimator: Estimator,
    context: PricingContext,
    candidate_of: Callable[[Place], AnyCandidate],
) -> list[AnyCandidate]:
    """The best candidate of every type and purchase option: the cheapest with a rate, or else the smallest.

    A plan that names its targets gets one candidate per target; otherwise only the cheapest target is kept.
    `candidate_of` prices a place in full, which is done only for places whose lower bound could still beat the best
    total.
    """
    named, every = context.request.target.kind is not None, tuple(groups)
    rows: dict[tuple[str, str, str], list[_Start]] = {}
    book = RateBook(context.request, context.catalog)
    moved = _Transfers(context)
    for number, group in enumerate(every):
        starts = list(_starts(number, group, estimator, book, moved))
        if not starts:
            least = min(_unpriced(number, group, estimator, context))
            starts = [(least, partial(iter, (least,)))]
        key = (group.target if named else "", group.instance_type, group.option)
        rows.setdefault(key, []).extend(starts)
    discounted = 1 - context.request.purchase.discount_percent / 100

    def rest(row: Row, place: Place) -> float:
        work = estimator.work(place.instance_type, row.nodes)
        return context.bill.other_costs(place, work).min_usd(JobSize(row.hours, row.interval_s, boot_hours(work)))

    def place_of(row: Row) -> Place:
        return every[row.group].place(row.location, row.nodes, row.term)

    return [
        _best(_by_lower_bound(_merged(starts), place_of, rest, discounted), candidate_of) for starts in rows.values()
    ]


def _best(places: Iterable[tuple[float, Row, Place]], candidate_of: Callable[[Place], AnyCandidate]) -> AnyCandidate:
    """The best of the places by their total, as if each place had been priced in full.

    Places come in the order of their lower bound (compute plus minimum other costs) until the bound exceeds the best
    total. A candidate that is refused for a reason other than its hours sets no limit: a more expensive place may be
    possible.
    """
    best: AnyCandidate | None = None
    first: Order | None = None
    limit = math.inf
    for least, row, place in places:
        if least > limit:
            break
        candidate = candidate_of(place)
        this = order(candidate)
        if first is None or this < first:
            best, first = candidate, this
            if candidate.usd is not None and not candidate.unknown_fees and (row.late or not candidate.refusals):
                limit = float(candidate.usd + candidate.missing_usd)
    if best is None:
        raise AssertionError("a type without a row")
    return best


def _by_lower_bound(
    rows: Iterable[Row], place_of: Callable[[Row], Place], rest: Callable[[Row, Place], float], discounted: float
) -> Iterator[tuple[float, Row, Place]]:
    """The places that share the first row's `late` and `unpriced` flags, by the lower bound of their totals.

    A row waits until the next row's compute alone costs more. Without prices only the first row is returned.
    """
    waiting: list[tuple[float, int, Row, Place]] = []
    late = None
    for number, row in enumerate(rows):
        late = row.late if late is None else late
        if row.late != late or (row.unpriced and number):
            break
        place = place_of(row)
        if row.unpriced:
            yield 0.0, row, place
            return
        usd = row.usd * discounted * NEARLY
        while waiting and waiting[0][0] <= usd:
            yield _pop_lowest(waiting)
        heappush(waiting, (usd + rest(row, place), number, row, place))
    while waiting:
        yield _pop_lowest(waiting)


def _pop_lowest(waiting: list[tuple[float, int, Row, Place]]) -> tuple[float, Row, Place]:
    """Remove and return the waiting place with the lowest bound."""
    least, _, row, place = heappop(waiting)
    return least, row, place


def all_places(groups: Iterable[CandidateGroup]) -> Iterator[Place]:
    """Every place of every group."""
    for group in groups:
        for location in range(len(group.locations)):
            for nodes in group.node_counts:
                for term in range(len(group.terms)):
                    yield group.place(location, nodes, term)


class _Transfers(dict[str, float]):
    """Dollars to bring the training data to a region, computed once per region."""

    def __init__(self, context: PricingContext) -> None:
        super().__init__()
        self.context = context

    def __missing__(self, region: str) -> float:
        self[region] = usd = transfer_usd(region, self.context.request, self.context.catalog)
        return usd


def _merged(starts: list[_Start]) -> Iterator[Row]:
    """The rows of all starts in order; a start is opened only when its first row could be the next."""
    waiting: list[tuple[Row, int, Iterator[Row] | None]] = [(row, index, None) for index, (row, _) in enumerate(starts)]
    heapify(waiting)
    while waiting:
        row, number, rows = heappop(waiting)
        if rows is None:
            rows = starts[number][1]()
        else:
            yield row
        following = next(rows, None)
        if following is not None:
            heappush(waiting, (following, number, rows))


def _starts(
    number: int, group: CandidateGroup, estimator: Estimator, book: RateBook, moved: _Transfers
) -> Iterator[_Start]:
    """The places of a group that have a rate: for each location and term its numbers of nodes, the best first.

    Rows that cost more than the best are never built: a row is computed on demand. Only spot depends on the location
    (the advisor's band is per region), and only a commitment depends on its years.
    """
    context, spot = moved.context, group.option is PurchaseOption.SPOT
    known: dict[tuple[float, int | None], _Sizes] = {}
    firsts: dict[int | None, _Size | None] = {}

    def sizes(location: int, term: int) -> _Sizes:
        rate_h = context.node_rate(group.instance_type, group.locations[location][0]) if spot else 0.0
        key = (rate_h, group.terms[term][1])
        if key not in known:
            known[key] = _sizes(group, location, term, estimator, context)
        return known[key]

    def opened(location: int, term: int, rate: float) -> Iterator[Row]:
        region, zone = group.locations[location]
        return _by_size(sizes(location, term), rate, moved[region], (region, zone or "", number, location), term)

    for location, term, rate in book.rates(group):
        years = group.terms[term][1]
        if years not in firsts:
            of_years = sizes(location, term)
            firsts[years] = of_years.least if spot else of_years.first
        first, region = firsts[years], group.locations[location][0]
        if first is not None:
            usd = rate * first.instance_hours + moved[region]
            yield (
                Row(first.late, False, usd, 0.0, 0.0, "", "", number, location, 0, term, None),  # noqa: FBT003 - a field
                partial(opened, location, term, rate),
            )


def _by_size(
    sizes: Iterable[_Size], rate: float, moved_usd: float, where: tuple[str, str, int, int], term: int
) -> Iterator[Row]:
    """The numbers of nodes at one location and one rate; fewer instance-hours never cost more."""
    region, zone, group, location = where
    for late, instance_hours, hours, nodes, interval_s in sizes:
        usd = rate * instance_hours + moved_usd
        yield Row(late, False, usd, instance_hours, hours, region, zone, group, location, nodes, term, interval_s)  # noqa: FBT003 - a field


def _sizes(group: CandidateGroup, location: int, term: int, estimator: Estimator, context: PricingContext) -> _Sizes:
    """The billed size at each number of nodes; empty if no offering is long enough."""
    deadline_h = context.request.purchase.deadline_h
    committed = partial(committed_hours, group.place(location, group.node_counts[0], term), context.request)

    def waiting(nodes: int) -> _Size:
        hours, instance_hours = charge_bounds(estimator.work(group.instance_type, nodes), group.option, committed)
        return _Size(deadline_h is not None and hours > deadline_h, instance_hours, 0.0, nodes, None)

    def whole(nodes: int) -> _Size | None:
        place, work = group.place(location, nodes, term), estimator.work(group.instance_type, nodes)
        spot_hazard = context.hazard(place) if group.option is PurchaseOption.SPOT else None
        cost = charge(place, work, context.request, spot_hazard, context.now, tail=context.tail(place))
        if cost is None:
            return None
        interval_s = work.checkpoint_interval_s if cost.spot is None else cost.spot.interval_s
        late = deadline_h is not None and cost.hours > deadline_h
        return _Size(late, cost.instance_hours, cost.hours, nodes, interval_s)

    return _Sizes(map(waiting, group.node_counts), whole)


def _unpriced(number: int, group: CandidateGroup, estimator: Estimator, context: PricingContext) -> Iterator[Row]:
    """Every place of a group without a rate; places with a known but untrusted price come first."""
    deadline = context.request.purchase.deadline_h
    on_demand = context.catalog.store.on_demand if group.option is PurchaseOption.ON_DEMAND else {}
    for location, (region, zone) in enumerate(group.locations):
        unseen = 0.0 if any(row.usd for row in on_demand.get((group.instance_type, region), ())) else 1.0
        for nodes in group.node_counts:
            hours = estimator.work(group.instance_type, nodes).hours.mid
            late = deadline is not None and hours > deadline
            yield Row(late, True, unseen, hours * nodes, hours, region, zone or "", number, location, nodes, 0, None)  # noqa: FBT003
