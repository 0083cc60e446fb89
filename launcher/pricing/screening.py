"""Reduces thousands of places to the best of every type and option, computed in floats."""

import math
from collections.abc import Callable, Iterable, Iterator
from heapq import heapify, heappop, heappush, heapreplace
from typing import NamedTuple

from launcher.model.candidate_group import CandidateGroup
from launcher.model.enums import PREPAID, PurchaseOption
from launcher.model.plan import Place
from launcher.planning.work import Estimator
from launcher.pricing.bill import transfer_usd
from launcher.pricing.bill_lines import JobSize
from launcher.pricing.candidate import AnyCandidate, Order, order
from launcher.pricing.compute import Charge, boot_hours, charge, least_hours
from launcher.pricing.context import PricingContext
from launcher.pricing.interruptible import OnSpot
from launcher.pricing.job_hours import job_hours
from launcher.pricing.joint import JobHours
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


class _Lead(NamedTuple):
    """Places of one group, size and term by their rates, the first without a row next; the smallest lead comes first.

    `usd` is the least that the next row can have: `instance_hours` without any interruption at its rate, and `moved`,
    the dollars to bring the data to the nearest of the places. `offers` are rates with their locations.
    """

    late: bool
    usd: float
    group: int
    nodes: int
    term: int
    next: int
    instance_hours: float
    moved: float
    offers: list[tuple[float, int]]

    @property
    def after(self) -> "_Lead | None":
        """The lead without its next place; None if that was the last."""
        number = self.next + 1
        if number == len(self.offers):
            return None
        return self._replace(next=number, usd=self.offers[number][0] * self.instance_hours + self.moved)


class _Market(NamedTuple):
    """The places of one type and option: those that are computed, and those that may never need to be."""

    rows: list[Row]
    leads: list[_Lead]


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
    screen = _Screen(tuple(groups), estimator, context)
    markets: dict[tuple[str, str, str, bool], _Market] = {}
    for number, group in enumerate(screen.groups):
        target = group.target if context.request.target.kind is not None else ""
        found = screen.markets(number)
        for old, market in found.items() or ((False, _Market([screen.unpriced(number)], [])),):
            one = markets.setdefault((target, group.instance_type, group.option, old), _Market([], []))
            one.rows.extend(market.rows)
            one.leads.extend(market.leads)
    best = {
        key: _best(_by_lower_bound(_in_order(market, screen.row), screen), candidate_of)
        for key, market in markets.items()
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


def _in_order(market: _Market, row_of: Callable[[_Lead], Row]) -> Iterator[Row]:
    """The rows from the best, each computed once no row before it can be missing."""
    rows, leads = list(market.rows), list(market.leads)
    heapify(rows)
    heapify(leads)
    while rows or leads:
        if not leads or (rows and rows[0][:3] < (leads[0].late, False, leads[0].usd)):
            yield heappop(rows)
            continue
        heappush(rows, row_of(leads[0]))
        after = leads[0].after
        if after is None:
            heappop(leads)
        else:
            heapreplace(leads, after)


def _by_lower_bound(rows: Iterable[Row], screen: "_Screen") -> Iterator[tuple[float, Row, Place]]:
    """The places that share the first row's `late` and `unpriced` flags, by the lower bound of their totals.

    A row waits until the next row's compute alone costs more. Without prices only the first row is returned.
    """
    waiting: list[tuple[float, int, Row, Place]] = []
    late = None
    for number, row in enumerate(rows):
        late = row.late if late is None else late
        if row.late != late or (row.unpriced and number):
            break
        place = screen.groups[row.group].place(row.location, row.nodes, row.term)
        if row.unpriced:
            yield 0.0, row, place
            return
        usd = row.usd * screen.discounted * NEARLY
        while waiting and waiting[0][0] <= usd:
            yield _pop_lowest(waiting)
        heappush(waiting, (usd + screen.rest(row, place), number, row, place))
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


class _Screen:
    """The rows of every group, computed in floats, each only when it is asked for."""

    def __init__(self, groups: tuple[CandidateGroup, ...], estimator: Estimator, context: PricingContext) -> None:
        self.groups = groups
        self.discounted = 1 - context.request.purchase.discount_percent / 100
        self._estimator, self._context = estimator, context
        self._book = RateBook(context.request, context.catalog, context.rules)
        self._transfers: dict[str, float] = {}
        self._jobs: dict[tuple[str, int, float | None], tuple[JobHours, OnSpot | None]] = {}
        self._charges: dict[tuple[object, ...], Charge | None] = {}

    def markets(self, number: int) -> dict[bool, _Market]:
        """Every place of a group with a rate and a long enough offering, by whether the gate refuses its old price.

        The hours of an offering do not follow those of the job, so its rows are computed at once.
        """
        group = self.groups[number]
        offers: dict[tuple[int, bool], list[tuple[float, int]]] = {}
        for location, term, rate, old in self._book.rates(group):
            offers.setdefault((term, old), []).append((rate, location))
        found: dict[bool, _Market] = {}
        for (term, old), rates in offers.items():
            moved = min([self._moved(group.locations[location][0]) for _, location in rates])
            rates.sort()
            for nodes in group.node_counts:
                late, hours = self._least(group, nodes, term)
                lead = _Lead(late, rates[0][0] * hours + moved, number, nodes, term, 0, hours, moved, rates)
                if group.option not in PREPAID:
                    found.setdefault(old, _Market([], [])).leads.append(lead)
                elif self._charge(group.place(rates[0][1], nodes, term)) is not None:
                    rows = [self._row(lead, rate, location) for rate, location in rates]
                    found.setdefault(old, _Market([], [])).rows.extend(rows)
        return found

    def row(self, lead: _Lead) -> Row:
        """The row of a lead's next place."""
        return self._row(lead, *lead.offers[lead.next])

    def unpriced(self, number: int) -> Row:
        """The best place of a group without a rate; places with a known but untrusted price come first."""
        group, deadline = self.groups[number], self._context.request.purchase.deadline_h
        on_demand = self._context.catalog.store.on_demand if group.option is PurchaseOption.ON_DEMAND else {}

        def seen(location: int) -> tuple[float, str, str]:
            region, zone = group.locations[location]
            known = any(row.usd for row in on_demand.get((group.instance_type, region), ()))
            return 0.0 if known else 1.0, region, zone or ""

        def size(nodes: int) -> tuple[bool, float, float, int]:
            hours = self._estimator.work(group.instance_type, nodes).hours.mid
            return deadline is not None and hours > deadline, hours * nodes, hours, nodes

        late, instance_hours, hours, nodes = min(size(nodes) for nodes in group.node_counts)
        (unseen, region, zone), location = min((seen(place), place) for place in range(len(group.locations)))
        return Row(late, True, unseen, instance_hours, hours, region, zone, number, location, nodes, 0, None)  # noqa: FBT003 - a field

    def rest(self, row: Row, place: Place) -> float:
        """A lower bound of the lines other than compute."""
        work = self._estimator.work(place.instance_type, row.nodes)
        size = JobSize(row.hours, row.interval_s, boot_hours(work))
        return self._context.bill.other_costs(place, work).min_usd(size)

    def _least(self, group: CandidateGroup, nodes: int, term: int) -> tuple[bool, float]:
        """Whether the job without any interruption is late, and its instance-hours: no row of this size has less."""
        work, request, place = (
            self._estimator.work(group.instance_type, nodes),
            self._context.request,
            group.place(0, nodes, term),
        )
        deadline_h, hours = request.purchase.deadline_h, work.hours.mid / (1 + work.failure_overhead)
        late = deadline_h is not None and hours > deadline_h
        return late, least_hours(place, work, request, self._context.tail(place)) * nodes

    def _row(self, lead: _Lead, rate: float, location: int) -> Row:
        place = self.groups[lead.group].place(location, lead.nodes, lead.term)
        cost = self._charge(place)
        if cost is None:
            raise AssertionError("hours without an offering")
        work, deadline_h = (
            self._estimator.work(place.instance_type, place.nodes),
            self._context.request.purchase.deadline_h,
        )
        late = deadline_h is not None and cost.hours > deadline_h
        interval_s = work.checkpoint_interval_s if cost.spot is None else cost.spot.interval_s
        if place.option is PurchaseOption.SPOT:
            cost = cost.at_price(self._book.random_price(place, rate, cost.hours))
        usd = rate * cost.instance_hours + self._moved(place.region)
        where = (place.region, place.az_id or "", lead.group, location, lead.nodes, lead.term)
        return Row(late, False, usd, cost.instance_hours, cost.line_h, *where, interval_s)  # noqa: FBT003 - a field

    def _charge(self, place: Place) -> Charge | None:
        """The charge of a place, computed once for equal inputs; None if no offering is long enough.

        Only spot depends on the region (its interruptions), only a commitment on its years, and a job's hours on
        neither target nor term.
        """
        context, spot = self._context, place.option is PurchaseOption.SPOT
        rate_h = context.node_rate(place.instance_type, place.region) if spot else None
        kind = (place.instance_type, place.nodes, rate_h)
        key = (*kind, place.target, place.option, place.plan_kind, place.term_years)
        if key not in self._charges:
            work = self._estimator.work(place.instance_type, place.nodes)
            hazard = context.hazard(place) if spot else None
            if kind not in self._jobs:
                self._jobs[kind] = job_hours(work, context.request, hazard)
            tail, job = context.tail(place), self._jobs[kind]
            self._charges[key] = charge(place, work, context.request, hazard, context.now, tail=tail, known_job=job)
        return self._charges[key]

    def _moved(self, region: str) -> float:
        """Dollars to bring the training data to a region."""
        if region not in self._transfers:
            self._transfers[region] = transfer_usd(region, self._context.request, self._context.catalog)
        return self._transfers[region]
