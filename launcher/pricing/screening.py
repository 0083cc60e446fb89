"""Thousands of places down to the best of every type and option, on plain numbers."""

import math
from collections.abc import Callable, Iterable, Iterator
from heapq import heappop, heappush
from operator import itemgetter
from typing import NamedTuple

from launcher.model.candidate_group import CandidateGroup, Term
from launcher.model.enums import PurchaseOption
from launcher.model.plan import Place
from launcher.planning.work import Estimator
from launcher.pricing.bill import transfer_usd
from launcher.pricing.bill_lines import JobSize
from launcher.pricing.candidate import AnyCandidate, Order, order
from launcher.pricing.compute import charge
from launcher.pricing.context import PricingContext
from launcher.pricing.rate_book import RateBook
from launcher.pricing.rest import NEARLY


class Row(NamedTuple):
    """One place in numbers, in the order in which rows are compared: the smallest is the best.

    A late row misses the deadline. Without a rate `usd` is 0 and the instance-hours decide: the cheapest at any rate.
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
    """One number of nodes: the hours of the job, the instance-hours that are paid for, seconds between checkpoints."""

    nodes: int
    hours: float
    instance_hours: float
    interval_s: float | None


def best_candidates(
    groups: Iterable[CandidateGroup],
    estimator: Estimator,
    context: PricingContext,
    candidate_of: Callable[[Place], AnyCandidate],
) -> list[AnyCandidate]:
    """The best candidate of every type and purchase option: the cheapest that has a rate, or else the smallest.

    A plan that names its targets gets one of each; where any will do, the dearer one is folded away. `candidate_of`
    prices a place whole, which is done for those alone whose compute and least rest could still be part of the least
    total.
    """
    named = context.request.target.kind is not None
    rows: dict[tuple[str, str, str], list[tuple[Row, CandidateGroup]]] = {}
    book = RateBook(context.request, context.catalog)
    moved = _Transfers(context)
    for number, group in enumerate(groups):
        found = [(each, group) for each in _rows(number, group, estimator, book, moved)]
        if not found:
            found = [(each, group) for each in sorted(_unpriced(number, group, estimator, context))[:1]]
        rows.setdefault((group.target if named else "", group.instance_type, group.option), []).extend(found)
    discounted = 1 - context.request.purchase.discount_percent / 100

    def rest(row: Row, place: Place) -> float:
        known = context.bill.rest(place, estimator.work(place.instance_type, row.nodes))
        return known.least_usd(JobSize(row.hours, row.interval_s))

    return [_best(found, candidate_of, rest, discounted) for found in rows.values() if found]


def _best(
    rows: list[tuple[Row, CandidateGroup]],
    candidate_of: Callable[[Place], AnyCandidate],
    rest: Callable[[Row, Place], float],
    discounted: float,
) -> AnyCandidate:
    """The best of the rows by the whole bill, as if each had been priced whole.

    Rows are priced in the order of the least that they can come to, their compute and the least of their `rest`, until
    that is more than the best. What is refused for another reason than its hours limits nothing: a dearer place may be
    possible.
    """
    rows.sort(key=itemgetter(0))
    best: AnyCandidate | None = None
    first: Order | None = None
    late, limit = rows[0][0].late, math.inf
    for least, place in _by_least(rows, rest, discounted):
        if least > limit:
            break
        each = candidate_of(place)
        this = order(each)
        if first is None or this < first:
            best, first = each, this
            if each.usd is not None and (late or not each.refusals):
                limit = float(each.usd + each.missing_usd)
    if best is None:
        raise AssertionError("a type without a row")
    return best


def _by_least(
    rows: list[tuple[Row, CandidateGroup]], rest: Callable[[Row, Place], float], discounted: float
) -> Iterator[tuple[float, Place]]:
    """The places like the first row, late and priced as it is, by the least that they can come to.

    A row waits until the compute of the next alone comes to more. Without prices the first row speaks for all.
    """
    first, group = rows[0]
    if first.unpriced:
        yield 0.0, group.place(first.location, first.nodes, first.term)
        return
    waiting: list[tuple[float, int, Place]] = []
    for number, (row, group) in enumerate(rows):
        if row.late != first.late or row.unpriced:
            break
        usd = row.usd * discounted * NEARLY
        while waiting and waiting[0][0] <= usd:
            least, _, place = heappop(waiting)
            yield least, place
        place = group.place(row.location, row.nodes, row.term)
        heappush(waiting, (usd + rest(row, place), number, place))
    while waiting:
        least, _, place = heappop(waiting)
        yield least, place


def all_places(groups: Iterable[CandidateGroup]) -> Iterator[Place]:
    """Every place of every group."""
    for group in groups:
        for location in range(len(group.locations)):
            for nodes in group.counts:
                for term in range(len(group.terms)):
                    yield group.place(location, nodes, term)


class _Transfers(dict[str, float]):
    """Dollars to bring the training data to a region, once for each."""

    def __init__(self, context: PricingContext) -> None:
        """None yet."""
        super().__init__()
        self.context = context

    def __missing__(self, region: str) -> float:
        """Work a region out."""
        self[region] = found = transfer_usd(region, self.context.request, self.context.catalog)
        return found


def _rows(number: int, group: CandidateGroup, estimator: Estimator, book: RateBook, moved: _Transfers) -> Iterator[Row]:
    """Every place of a group that has a rate."""
    context = moved.context
    deadline = context.request.purchase.deadline_h
    known: dict[tuple[float, Term], list[_Size]] = {}
    for location, term, rate in book.rates(group):
        region, zone = group.locations[location]
        # Only spot depends on where it is (the advisor's band is a region's), and a commitment on its years.
        hazard = context.hazard(group.place(location, 1, 0)).mid if group.option is PurchaseOption.SPOT else 0.0
        key = (hazard, group.terms[term])
        if key not in known:
            known[key] = list(_sizes(group, location, term, estimator, context))
        for size in known[key]:
            yield Row(
                deadline is not None and size.hours > deadline,
                False,  # noqa: FBT003 - a field, not a flag
                rate * size.instance_hours + moved[region],
                size.instance_hours,
                size.hours,
                region,
                zone or "",
                number,
                location,
                size.nodes,
                term,
                size.interval_s,
            )


def _sizes(
    group: CandidateGroup, location: int, term: int, estimator: Estimator, context: PricingContext
) -> Iterator[_Size]:
    """What is paid for at each number of nodes; none where no offering is long enough."""
    for nodes in group.counts:
        place = group.place(location, nodes, term)
        spot_hazard = context.hazard(place) if group.option is PurchaseOption.SPOT else None
        work = estimator.work(group.instance_type, nodes)
        cost = charge(place, work, context.request, spot_hazard, context.now, tail=context.tail(place))
        if cost is not None:
            interval_s = work.checkpoint_interval_s if cost.spot is None else cost.spot.interval_s
            yield _Size(nodes, cost.hours, cost.instance_hours, interval_s)


def _unpriced(number: int, group: CandidateGroup, estimator: Estimator, context: PricingContext) -> Iterator[Row]:
    """Every place of a group without a rate; where a price was seen that is not trusted, before the others."""
    deadline = context.request.purchase.deadline_h
    seen = context.catalog.store.on_demand if group.option is PurchaseOption.ON_DEMAND else {}
    for location, (region, zone) in enumerate(group.locations):
        unseen = 0.0 if any(row.usd for row in seen.get((group.instance_type, region), ())) else 1.0
        for nodes in group.counts:
            hours = estimator.work(group.instance_type, nodes).hours.mid
            late = deadline is not None and hours > deadline
            yield Row(late, True, unseen, hours * nodes, hours, region, zone or "", number, location, nodes, 0, None)  # noqa: FBT003
