"""Reduces thousands of places to the best of every type and option, computed in floats."""

import math
from collections.abc import Callable, Iterable, Iterator
from heapq import heapify, heappop, heappush
from typing import NamedTuple, TypeAlias

from launcher.model.candidate_group import CandidateGroup
from launcher.model.enums import COMMITTED, PREPAID, PurchaseOption
from launcher.model.plan import Place
from launcher.model.work import Work
from launcher.planning.disks import DISK_TOO_SMALL
from launcher.planning.work import Estimator
from launcher.pricing.bill import transfer_usd
from launcher.pricing.bill_lines import JobSize, LowestPrices
from launcher.pricing.candidate import AnyCandidate, Order, order
from launcher.pricing.compute import Charge, boot_hours, charge, committed_hours, least_hours, with_commitment
from launcher.pricing.context import PricingContext
from launcher.pricing.interruptible import OnSpot
from launcher.pricing.job_hours import job_hours
from launcher.pricing.joint import LOWEST_SHIFT, JobHours
from launcher.pricing.other_costs import NEARLY, ROUNDED_USD, OtherCosts
from launcher.pricing.rate_book import RateBook

Rates: TypeAlias = list[tuple[float, int]]
"""Rates with the locations that have them, the lowest first."""


class Row(NamedTuple):
    """One place in numbers, in the order in which rows are compared: the smallest is the best.

    A late row misses the deadline. `usd` is a lower bound of the total, hardly below it. Without a rate `usd` is 0 and
    the fewest instance-hours win, at any rate.
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


class _Lead(NamedTuple):
    """Places of one group, size and term by their rates, the first without a row next; the smallest lead comes first.

    `usd` is the least that the next row can have: `instance_hours` at its rate, and `others`, the least of the lines
    other than compute, `moved` of it for the transfer of the data. `edges` are the places of one rate of interruptions
    whose price is nearest to its ceiling; None before places on spot are told apart by their rates. `charge` is that of
    all the places before their random prices; None while only the hours without any interruption are known.
    """

    late: bool
    usd: float
    group: int
    nodes: int
    term: int
    next: int
    instance_hours: float
    others: float
    moved: float
    offers: Rates
    edges: Rates | None = None
    charge: Charge | None = None

    @property
    def after(self) -> "_Lead | None":
        """The lead without its next place; None if that was the last."""
        number = self.next + 1
        if number == len(self.offers):
            return None
        usd = self.offers[number][0] * self.instance_hours + self.others
        rest = (self.instance_hours, self.others, self.moved, self.offers, self.edges, self.charge)
        return _Lead(self.late, usd, self.group, self.nodes, self.term, number, *rest)


class _Market(NamedTuple):
    """The places of one type and option: the row of a group without a rate, and the places that have one."""

    rows: list[Row]
    leads: list[_Lead]


def best_candidates(
    groups: Iterable[CandidateGroup],
    estimator: Estimator,
    context: PricingContext,
    candidate_of: Callable[[Place, Charge | None], AnyCandidate],
) -> list[AnyCandidate]:
    """The best candidate of every type and purchase option: the cheapest with a rate, or else the smallest.

    The best size and place of each, and the best target if the plan names none; a cheaper one at a price that the gate
    refuses for its age comes beside it.
    `candidate_of` prices a place with its compute in full, which is done only for places whose lower bound could still
    beat the best total.
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
    best = {key: _best(_in_order(market, screen), screen, candidate_of) for key, market in markets.items()}
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


def _best(
    rows: Iterable[Row], screen: "_Screen", candidate_of: Callable[[Place, Charge | None], AnyCandidate]
) -> AnyCandidate:
    """The best of the rows by their total, as if each place had been priced in full.

    Rows come in the order of their lower bound until the bound exceeds the best total. A candidate that is refused for
    a reason other than its hours sets no limit: a more expensive place may be possible. Only rows with the first one's
    `late` flag count, and without prices only the first. What a node's disks cannot hold they can hold in no region and
    at no price, so that the rows of the same group and number of nodes end at the total of such a candidate. Of regions
    with the same prices only the first by name is priced in full.
    """
    best: AnyCandidate | None = None
    first: Order | None = None
    late, limit = False, math.inf
    too_small: dict[tuple[int, int], float] = {}
    equal: set[tuple[object, ...]] = set()
    for row in rows:
        if best is None:
            late = row.late
        elif row.usd > limit or row.unpriced or row.late != late:
            break
        size = row.group, row.nodes
        if row.usd > too_small.get(size, math.inf) or (row.usd, row.instance_hours, *size, row.term) in equal:
            continue
        place = screen.groups[row.group].place(row.location, row.nodes, row.term)
        candidate = candidate_of(place, screen.charge(screen.groups[row.group], row.location, row.nodes, row.term))
        this = order(candidate)
        if first is None or this < first:
            best, first = candidate, this
            if candidate.usd is not None and not candidate.unknown_fees and (row.late or not candidate.refusals):
                limit = float(candidate.usd)
                equal.add((row.usd, row.instance_hours, *size, row.term))
        if candidate.usd is not None and any(found.code == DISK_TOO_SMALL for found in candidate.refusals):
            too_small[size] = min(too_small.get(size, math.inf), float(candidate.usd))
        if row.unpriced:
            break
    if best is None:
        raise AssertionError("a type without a row")
    return best


def _in_order(market: _Market, screen: "_Screen") -> Iterator[Row]:
    """The rows from the best, each computed once no row before it can be missing."""
    rows, leads = list(market.rows), list(market.leads)
    heapify(rows)
    heapify(leads)
    while rows or leads:
        if not leads or (rows and rows[0][:3] < (leads[0].late, False, leads[0].usd)):
            yield heappop(rows)
            continue
        lead = heappop(leads)
        if lead.charge is None:
            for known in screen.charged(lead):
                heappush(leads, known)
            continue
        heappush(rows, screen.row(lead, lead.charge))
        after = lead.after
        if after is not None:
            heappush(leads, after)


def all_candidates(
    groups: Iterable[CandidateGroup],
    estimator: Estimator,
    context: PricingContext,
    candidate_of: Callable[[Place, Charge | None], AnyCandidate],
) -> Iterator[AnyCandidate]:
    """The candidate of every place of every group; `candidate_of` prices a place with its compute in full."""
    screen = _Screen(tuple(groups), estimator, context)
    for group in screen.groups:
        for location in range(len(group.locations)):
            for nodes in group.node_counts:
                for term in range(len(group.terms)):
                    yield candidate_of(group.place(location, nodes, term), screen.charge(group, location, nodes, term))


def all_places(groups: Iterable[CandidateGroup]) -> Iterator[Place]:
    """Every place of every group."""
    for group in groups:
        for location in range(len(group.locations)):
            for nodes in group.node_counts:
                for term in range(len(group.terms)):
                    yield group.place(location, nodes, term)


def _shift_hours(hours: float, start_h: float, shift: float) -> float:
    """The hours of a job in the lines of its bill after the shift of the median by a random price."""
    return max(0.0, hours + (hours + start_h) * math.expm1(shift))


class _Screen:
    """The rows of every group, computed in floats, each only when it is asked for."""

    def __init__(self, groups: tuple[CandidateGroup, ...], estimator: Estimator, context: PricingContext) -> None:
        self.groups = groups
        self._discounted = (1 - context.request.purchase.discount_percent / 100) * NEARLY
        self._estimator, self._context = estimator, context
        self._book = RateBook(context.request, context.catalog, context.rules)
        self._transfers: dict[str, float] = {}
        regions = dict.fromkeys(region for group in groups for region, _ in group.locations)
        self._lowest = LowestPrices(regions, context.catalog)
        self._spots: dict[object, list[tuple[Rates, Rates]]] = {}
        self._jobs: dict[tuple[str, int, float | None], tuple[JobHours, OnSpot | None]] = {}
        self._charges: dict[tuple[object, ...], Charge | None] = {}
        self._others: dict[tuple[int, int], OtherCosts | None] = {}
        self._first_places: dict[tuple[int, int], Place] = {}
        self._boots: dict[tuple[int, int], float] = {}

    def markets(self, number: int) -> dict[bool, _Market]:
        """Every place of a group with a rate and a long enough offering, by whether the gate refuses its old price."""
        group = self.groups[number]
        offers = [(*key, rates, self._nearest(group, rates)) for key, rates in self._book.offers(group).items()]
        found: dict[bool, _Market] = {}
        for nodes in group.node_counts if offers else ():
            for old, lead in self._leads(number, nodes, offers):
                found.setdefault(old, _Market([], [])).leads.append(lead)
        return found

    def _leads(
        self, number: int, nodes: int, offers: Iterable[tuple[int, bool, Rates, float]]
    ) -> Iterator[tuple[bool, _Lead]]:
        """The places of a group in one size by term and age of the price; none where no offering is long enough.

        The hours of an offering do not follow those of the job, so its charge is computed at once. No row of another
        has fewer hours than the job without any interruption.
        """
        group, work = self.groups[number], self._estimator.work(self.groups[number].instance_type, nodes)
        used_h, least = work.hours.mid / (1 + work.failure_overhead), -ROUNDED_USD
        late = self._is_late(used_h)
        if group.option in PREPAID:
            for term, old, rates, moved in offers:
                if (known := self.charge(group, rates[0][1], nodes, term)) is not None:
                    lead = _Lead(late, 0.0, number, nodes, term, 0, 0.0, moved, moved, rates)
                    yield old, self._charge_lead(lead, known)
            return
        if group.option is PurchaseOption.SPOT:
            # The charge on spot takes longest: a higher bound saves most of them.
            size = JobSize(_shift_hours(used_h, 0.0, LOWEST_SHIFT), None)
            place, request = self._first_place(number, nodes), self._context.request
            used_h = least_hours(place, work, request, self._context.tail(place))
            least = self._least_usd(number, nodes, size)
        shares: dict[int | None, float] = {}
        for term, old, rates, moved in offers:
            years = group.terms[term][1]
            if group.option in COMMITTED and years not in shares:
                shares[years] = committed_hours(group.place(0, nodes, term), self._context.request, used_h)
            instance_h = max(used_h, shares.get(years, 0.0)) * nodes * self._discounted
            usd, others = rates[0][0] * instance_h + least + moved, least + moved
            yield old, _Lead(late, usd, number, nodes, term, 0, instance_h, others, moved, rates)

    def charged(self, lead: _Lead) -> Iterator[_Lead]:
        """The places of a lead with their charge; on spot first by the rates of interruptions of their regions."""
        group = self.groups[lead.group]
        if group.option is PurchaseOption.SPOT and lead.edges is None:
            for offers, edges in self._alike(lead):
                usd = offers[0][0] * lead.instance_hours + lead.others
                yield _Lead(lead.late, usd, *lead[2:9], offers, edges)
            return
        cost = self.charge(group, lead.offers[0][1], lead.nodes, lead.term)
        if cost is None:
            raise AssertionError("hours without an offering")
        shift = 0.0
        for rate, location in lead.edges or ():
            edge = group.place(location, lead.nodes, lead.term)
            shift = min(shift, cost.shift(self._book.random_price(edge, rate, cost.hours)))
        yield self._charge_lead(lead, cost, shift)

    def _charge_lead(self, lead: _Lead, cost: Charge, shift: float = 0.0) -> _Lead:
        """A lead with the charge of all its places, which random prices lower by `shift` at most."""
        work = self._estimator.work(self.groups[lead.group].instance_type, lead.nodes)
        instance_h, hours = cost.instance_hours, cost.line_h
        if shift:
            hours = _shift_hours(cost.line_h, cost.start_h, shift)
            instance_h += (hours - cost.line_h) * cost.instances
        size = self._size(lead, work, hours, cost)
        others = lead.moved + self._least_usd(lead.group, lead.nodes, size)
        instance_h *= self._discounted
        usd, late, rates = lead.offers[0][0] * instance_h + others, self._is_late(cost.hours), lead.offers
        return _Lead(late, usd, *lead[2:6], instance_h, others, lead.moved, rates, lead.edges, cost)

    def _first_place(self, number: int, nodes: int) -> Place:
        """The first place of a group in one size, for what does not depend on region and term."""
        key = (number, nodes)
        if key not in self._first_places:
            self._first_places[key] = self.groups[number].place(0, nodes, 0)
        return self._first_places[key]

    def _least_usd(self, number: int, nodes: int, size: JobSize) -> float:
        """The least of the lines other than compute and the transfer of data, in any region of a group."""
        key = (number, nodes)
        if key not in self._others:
            place, work = self._first_place(*key), self._estimator.work(self.groups[number].instance_type, nodes)
            self._others[key] = self._context.bill.least_costs(place, work, self._lowest)
        costs = self._others[key]
        return -ROUNDED_USD if costs is None else costs.min_usd(size)

    def _size(self, lead: _Lead, work: Work, hours: float, cost: Charge) -> JobSize:
        """The job as the lines other than compute count it, at the least: without the idle tail and lost nodes."""
        interval_s = work.checkpoint_interval_s if cost.spot is None else cost.spot.interval_s
        key = (lead.group, lead.nodes)
        if key not in self._boots:
            self._boots[key] = boot_hours(self._first_place(*key), work)
        return JobSize(hours, interval_s, self._boots[key])

    def _alike(self, lead: _Lead) -> list[tuple[Rates, Rates]]:
        """Places on spot by their rate of interruptions, each time with those whose price is nearest to its ceiling."""
        group = self.groups[lead.group]
        key = (lead.group, lead.term, lead.offers[0])
        if key not in self._spots:
            alike: dict[float, Rates] = {}
            for rate, location in lead.offers:
                hazard = self._context.node_rate(group.instance_type, group.locations[location][0])
                alike.setdefault(hazard, []).append((rate, location))
            self._spots[key] = [(offers, self._book.nearest_ceiling(group, offers)) for offers in alike.values()]
        return self._spots[key]

    def _is_late(self, hours: float) -> bool:
        deadline_h = self._context.request.purchase.deadline_h
        return deadline_h is not None and hours > deadline_h

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
        return Row(late, True, unseen, instance_hours, hours, region, zone, number, location, nodes, 0)  # noqa: FBT003 - a field

    def row(self, lead: _Lead, cost: Charge) -> Row:
        """The row of a lead's next place, with the lead's charge."""
        rate, location = lead.offers[lead.next]
        place = self.groups[lead.group].place(location, lead.nodes, lead.term)
        work = self._estimator.work(place.instance_type, place.nodes)
        if cost.spot is not None:
            cost = cost.at_price(self._book.random_price(place, rate, cost.hours))
        size = self._size(lead, work, cost.line_h, cost)
        usd = rate * cost.instance_hours * self._discounted
        usd += self._context.bill.other_costs(place, work).min_usd(size)
        where = (place.region, place.az_id or "", lead.group, location, lead.nodes, lead.term)
        return Row(lead.late, False, usd, cost.instance_hours, cost.line_h, *where)  # noqa: FBT003 - a field

    def charge(self, group: CandidateGroup, location: int, nodes: int, term: int) -> Charge | None:
        """The charge of a place, computed once for equal inputs; None if no offering is long enough.

        Only spot depends on the region (its interruptions), only a commitment on its years, and a job's hours on
        neither target nor term.
        """
        context, option = self._context, group.option
        spot = option is PurchaseOption.SPOT
        rate_h = context.node_rate(group.instance_type, group.locations[location][0]) if spot else None
        kind = (group.instance_type, nodes, rate_h)
        key = (*kind, group.target, option if option in PREPAID else None)
        if key not in self._charges:
            place, work = group.place(location, nodes, term), self._estimator.work(group.instance_type, nodes)
            if option in COMMITTED:
                # Every term has the hours of on demand.
                place = place.on_demand
            if kind not in self._jobs:
                self._jobs[kind] = job_hours(work, context.request, context.hazard(place) if spot else None)
            self._charges[key] = charge(
                place, work, context.request, None, context.now, tail=context.tail(place), known_job=self._jobs[kind]
            )
        known = self._charges[key]
        if known is None or option not in COMMITTED:
            return known
        return with_commitment(known, group.place(location, nodes, term), context.request)

    def _nearest(self, group: CandidateGroup, rates: Rates) -> float:
        """The least dollars to bring the training data to one of the places."""
        train = self._context.request.workload.train
        if train is None or not train.data.gib:
            return 0.0
        return min([self._transfer_usd(group.locations[location][0]) for _, location in rates]) * NEARLY

    def _transfer_usd(self, region: str) -> float:
        """Dollars to bring the training data to a region."""
        if region not in self._transfers:
            self._transfers[region] = transfer_usd(region, self._context.request, self._context.catalog)
        return self._transfers[region]
