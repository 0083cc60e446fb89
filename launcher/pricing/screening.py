"""Reduces thousands of places to the best of every type and option, computed in floats."""

import math
from collections.abc import Callable, Iterable, Iterator
from heapq import heappop, heappush
from typing import NamedTuple

from launcher.model.candidate_group import CandidateGroup
from launcher.model.enums import PurchaseOption
from launcher.model.plan import Place
from launcher.planning.work import Estimator
from launcher.pricing.bill import transfer_usd
from launcher.pricing.bill_lines import JobSize
from launcher.pricing.candidate import AnyCandidate, Order, order
from launcher.pricing.compute import Charge, boot_hours, charge
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
    """One number of nodes of a type and option: whether it is late, its charge, seconds between checkpoints."""

    late: bool
    cost: Charge
    interval_s: float | None


def best_candidates(
    groups: Iterable[CandidateGroup],
    estimator: Estimator,
    context: PricingContext,
    candidate_of: Callable[[Place], AnyCandidate],
) -> list[AnyCandidate]:
    """The best candidate of every type and purchase option: the cheapest with a rate, or else the smallest.

    The best size and place of each, and the best target if the plan names none; a cheaper one at a price that the gate
    refuses for its age comes beside it.
    `candidate_of` prices a place in full, which is done only for places whose lower bound could still beat the best
    total.
    """
    named, every = context.request.target.kind is not None, tuple(groups)
    book, sizes, moved = (
        RateBook(context.request, context.catalog, context.rules.today),
        _Sizes(estimator, context),
        _Transfers(context),
    )
    rows: dict[tuple[str, str, str, bool], list[Row]] = {}
    for number, group in enumerate(every):
        key = (group.target if named else "", group.instance_type, group.option)
        priced = list(_priced(number, group, book, sizes, moved))
        if not priced:
            rows.setdefault((*key, False), []).append(min(_unpriced(number, group, estimator, context)))
        ages: dict[tuple[int, int], bool] = {}
        for row in priced:
            where = (row.location, row.term)
            if where not in ages:
                ages[where] = book.is_old(group, *where, context.rules)
            rows.setdefault((*key, ages[where]), []).append(row)
    discounted = 1 - context.request.purchase.discount_percent / 100

    def rest(row: Row, place: Place) -> float:
        work = estimator.work(place.instance_type, row.nodes)
        return context.bill.other_costs(place, work).min_usd(JobSize(row.hours, row.interval_s, boot_hours(work)))

    def place_of(row: Row) -> Place:
        return every[row.group].place(row.location, row.nodes, row.term)

    best = {
        key: _best(_by_lower_bound(sorted(of_type), place_of, rest, discounted), candidate_of)
        for key, of_type in rows.items()
    }
    return [
        candidate
        for (target, name, option, old), candidate in best.items()
        if _is_shown(candidate, best.get((target, name, option, not old)), old=old)
    ]


def _is_shown(candidate: AnyCandidate, other: AnyCandidate | None, *, old: bool) -> bool:
    """Whether the best candidate of one age of prices says something that the one of the other age does not.

    An old price is shown only if it is the cheaper one, and a missing price only if there is no old one either.
    """
    if other is None or (candidate.usd is None and not old):
        return other is None
    return not old or other.usd is None or bool(other.refusals) or (candidate.usd or 0) < other.usd


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
                limit = float(candidate.usd)
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


class _Sizes(dict[tuple[object, ...], _Size | None]):
    """The billed size of each number of nodes, computed once for equal inputs; None if no offering is long enough.

    Only spot depends on the location (the advisor's band is per region), and only a commitment depends on its years.
    """

    def __init__(self, estimator: Estimator, context: PricingContext) -> None:
        super().__init__()
        self._estimator, self._context = estimator, context

    def of(self, group: CandidateGroup, location: int, nodes: int, term: int) -> _Size | None:
        context = self._context
        spot = group.option is PurchaseOption.SPOT
        rate_h = context.node_rate(group.instance_type, group.locations[location][0]) if spot else None
        key = (group.target, group.instance_type, group.option, nodes, group.terms[term], rate_h)
        if key not in self:
            self[key] = self._compute(group.place(location, nodes, term))
        return self[key]

    def _compute(self, place: Place) -> _Size | None:
        context = self._context
        work = self._estimator.work(place.instance_type, place.nodes)
        hazard = context.hazard(place) if place.option is PurchaseOption.SPOT else None
        cost = charge(place, work, context.request, hazard, context.now, tail=context.tail(place))
        if cost is None:
            return None
        deadline_h = context.request.purchase.deadline_h
        late = deadline_h is not None and cost.hours > deadline_h
        interval_s = work.checkpoint_interval_s if cost.spot is None else cost.spot.interval_s
        return _Size(late, cost, interval_s)


def _priced(number: int, group: CandidateGroup, book: RateBook, sizes: _Sizes, moved: _Transfers) -> Iterator[Row]:
    """Every place of a group that has a rate and an offering that is long enough."""
    spot = group.option is PurchaseOption.SPOT
    for location, term, rate in book.rates(group):
        region, zone = group.locations[location]
        for nodes in group.node_counts:
            size = sizes.of(group, location, nodes, term)
            if size is not None:
                cost = size.cost
                if spot:
                    cost = cost.at_price(book.random_price(group.place(location, nodes, term), rate, cost.hours))
                usd = rate * cost.instance_hours + moved[region]
                where = (region, zone or "", number, location, nodes, term)
                yield Row(size.late, False, usd, cost.instance_hours, cost.line_h, *where, size.interval_s)  # noqa: FBT003 - a field


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
