"""Reduces thousands of places to the best of every type and option, by lower bounds of their totals in floats."""

import math
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import islice
from typing import Generic, NamedTuple, TypeAlias

from launcher.model.candidate_group import CandidateGroup
from launcher.model.enums import COMMITTED, PREPAID, PurchaseOption
from launcher.model.plan import Place
from launcher.model.work import Work
from launcher.planning.disks import DISK_TOO_SMALL
from launcher.planning.work import Estimator
from launcher.pricing.bill import transfer_usd
from launcher.pricing.bill_lines import JobSize, LowestPrices
from launcher.pricing.blocks import HOURS_A_DAY, bought_capacity
from launcher.pricing.candidate import AnyCandidate, Order, order
from launcher.pricing.compute import Charge, charge, committed_hours, least_hours, with_commitment
from launcher.pricing.context import PricingContext
from launcher.pricing.first_rows import FirstRows, Purchase, purchase_of
from launcher.pricing.idle_tail import tail_hours
from launcher.pricing.interruptible import OnSpot
from launcher.pricing.job_hours import job_hours
from launcher.pricing.joint import STEP, JobHours, RandomPrice, Smooth, Spread, median_shift, spread_of
from launcher.pricing.other_costs import NEARLY, ROUNDED_USD
from launcher.pricing.rate_book import RateBook
from launcher.pricing.stop_findings import longest_run_h

Unpriced: TypeAlias = tuple[bool, bool, float, float, str, str, int, int, int]
"""A place without a rate, the first is the best: whether late, whether no price is known, instance-hours, hours,
region, zone, group, location and nodes."""
LEFT_OUT = 0.99
"""A factor below the error of a median of hours at a random price: steps of `median_shift`, and `LEAST_SHIFT`."""
Rates: TypeAlias = list[tuple[float, int]]
"""Rates with the locations that have them, the lowest first."""


class _Offers(NamedTuple):
    """The places of one group and term that have a rate."""

    group: int
    term: int
    rates: Rates
    # The least dollars to bring the training data to one of the places.
    moved: float


class _Compute(NamedTuple):
    """The least compute of an offer with a number of nodes; the smallest comes first."""

    usd: float
    nodes: int
    # The index of the offer.
    offer: int
    instance_hours: float


class _Lead(NamedTuple):
    """The offers of one group, term and number of nodes; the smallest comes first.

    `usd` is the least that its first place can have: `instance_hours` at its rate, and the least of the `others`, the
    lines other than compute.
    """

    usd: float
    group: int
    term: int
    nodes: int
    instance_hours: float
    others: float
    rates: Rates


class _Row(NamedTuple):
    """One place with a lower bound of its total, hardly below it."""

    usd: float
    instance_hours: float
    group: int
    nodes: int
    term: int
    location: int
    charge: Charge


class _Kind(NamedTuple):
    """What the rows of one candidate share; `target` is "" unless the plan names targets."""

    target: str
    instance_type: str
    option: PurchaseOption
    # Whether prices are too old, or no source lists the type there.
    doubtful: bool

    @property
    def other(self) -> "_Kind":
        """The same at the other prices."""
        return self._replace(doubtful=not self.doubtful)


class _Places(NamedTuple):
    """The places of one kind."""

    offers: list[_Offers]
    # The indices of the groups without a rate.
    unpriced: list[int]


class _Best(Generic[AnyCandidate]):
    """The best candidate so far, and the total above which no other can be better."""

    def __init__(self) -> None:
        self.candidate: AnyCandidate | None = None
        self.limit_usd = math.inf
        self._order: Order | None = None
        self._too_small: dict[tuple[int, int], float] = {}
        self._equal: set[tuple[object, ...]] = set()

    def may_lose_to(self, row: _Row) -> bool:
        """Whether a row could be better than the best.

        What a node's disks cannot hold they can hold in no region and at no price: rows of the same group and number
        of nodes end at the total of such a candidate. Of regions with the same prices only the first is priced in full.
        """
        size = (row.group, row.nodes)
        limit = min(self.limit_usd, self._too_small.get(size, math.inf))
        return row.usd <= limit and row[:5] not in self._equal

    def take(self, row: _Row, candidate: AnyCandidate, *, late: bool) -> None:
        """Take a candidate if it is better.

        One that is refused for a reason other than its hours sets no limit: a more expensive place may be possible.
        """
        this = order(candidate)
        if self._order is None or this < self._order:
            self.candidate, self._order = candidate, this
            if candidate.usd is not None and not candidate.unknown_fees and (late or not candidate.refusals):
                self.limit_usd = float(candidate.usd)
                self._equal.add(row[:5])
        if candidate.usd is not None and any(found.code == DISK_TOO_SMALL for found in candidate.refusals):
            size = (row.group, row.nodes)
            self._too_small[size] = min(self._too_small.get(size, math.inf), float(candidate.usd))


def best_candidates(
    groups: Iterable[CandidateGroup],
    estimator: Estimator,
    context: PricingContext,
    candidate_of: Callable[[Place, Charge | None], AnyCandidate],
    first: FirstRows[AnyCandidate] | None = None,
) -> list[AnyCandidate]:
    """The best candidate of every type and purchase option: the cheapest with a rate, or else the smallest.

    The best size and place of each, and the best target if the plan names none; a cheaper one at a price that is too
    old or that no source lists there comes beside it.
    `candidate_of` prices a place with its compute in full, which is done only for places whose lower bound could still
    beat the best total. With `first`, only types and options that a screen with these first rows can show have one.
    """
    screen = _Screen(tuple(groups), estimator, context)
    best: dict[_Kind, AnyCandidate] = {}
    for kind, found in screen.kinds() if first is None else _first_kinds(screen, first):
        if kind not in best:
            best[kind] = _best(found, screen, candidate_of)
            if first is not None:
                first.add(best[kind])
    return [
        candidate
        for kind, candidate in best.items()
        if _is_shown(candidate, best.get(kind.other), doubtful=kind.doubtful)
    ]


def _first_kinds(screen: "_Screen", first: FirstRows[AnyCandidate]) -> Iterator[tuple[_Kind, _Places]]:
    """The kinds that can have one of the first rows, each once those before it have been added to these.

    A kind that cannot be cheaper than another comes after it, and new commitments after all others.
    """
    for commitments in (False, True):
        if commitments and not first.has_room_for_commitments:
            # The first kind without a price stands for all.
            unpriced = (kind for kind in screen.kinds(new_commitments=True) if not kind[1].offers)
            yield from islice(unpriced, 0 if first.has_unpriced else 1)
            return
        kinds = dict(screen.kinds(new_commitments=commitments))
        least = {kind: screen.least_usd(places.offers) for kind, places in kinds.items()}
        for kind in sorted(kinds, key=least.__getitem__):
            if first.may_show(kind.instance_type, screen.purchases(kinds[kind]), least[kind], doubtful=kind.doubtful):
                yield kind, kinds[kind]
                if kind.doubtful and kind.other in kinds:
                    # Whether a doubtful price is shown depends on the other one.
                    yield kind.other, kinds[kind.other]


def _is_shown(candidate: AnyCandidate, other: AnyCandidate | None, *, doubtful: bool) -> bool:
    """Whether the best candidate at doubtful prices, or at the others, says something that the other one does not.

    A doubtful price is shown only if it is the cheaper one, and a missing one only if there is no doubtful one either.
    """
    if other is None or (candidate.usd is None and not doubtful):
        return other is None
    return not doubtful or other.usd is None or bool(other.refusals) or (candidate.usd or 0) < other.usd


def _best(
    places: _Places,
    screen: "_Screen",
    candidate_of: Callable[[Place, Charge | None], AnyCandidate],
) -> AnyCandidate:
    """The best of the places by their total, as if each had been priced in full.

    Places that meet the deadline come before others, of each those with a rate before those without one, and of these
    those that no quota stops before their end.
    """
    for late in (False, True):
        for stopped in (False, True):
            best: _Best[AnyCandidate] = _Best()
            for row in screen.rows(places.offers, best, late=late, stopped=stopped):
                if best.may_lose_to(row):
                    place = screen.groups[row.group].place(row.location, row.nodes, row.term)
                    best.take(row, candidate_of(place, row.charge), late=late)
            if best.candidate is not None:
                return best.candidate
        unpriced = (screen.unpriced(number) for number in places.unpriced)
        first = min((row for row in unpriced if row[0] == late), default=None)
        if first is not None:
            group, location, nodes = screen.groups[first[-3]], *first[-2:]
            return candidate_of(group.place(location, nodes, 0), screen.charge(group, location, nodes, 0))
    raise AssertionError("a type without a place")


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
        self._jobs: dict[tuple[str, int, float | None], tuple[JobHours, OnSpot | None]] = {}
        self._charges: dict[tuple[object, ...], Charge | None] = {}
        self._unused: dict[tuple[object, ...], tuple[float, float]] = {}

    def kinds(self, *, new_commitments: bool | None = None) -> Iterator[tuple[_Kind, _Places]]:
        """The places of every kind; of new commitments alone, or of all others alone, if it says so."""
        request, alike = self._context.request, dict[tuple[str, str, PurchaseOption], list[int]]()
        for number, group in enumerate(self.groups):
            if new_commitments in (None, group.option in COMMITTED and not request.purchase.owned):
                target = group.target if request.target.kind is not None else ""
                alike.setdefault((target, group.instance_type, group.option), []).append(number)
        for key, numbers in alike.items():
            by_doubt: dict[bool, list[_Offers]] = {}
            unpriced = []
            for number in numbers:
                found = self.offers(number)
                for doubtful, offers in found:
                    by_doubt.setdefault(doubtful, []).append(offers)
                if not found:
                    unpriced.append(number)
            if not by_doubt:
                by_doubt[False] = []
            for doubtful, listed in by_doubt.items():
                yield _Kind(*key, doubtful), _Places(listed, [] if doubtful else unpriced)

    def purchases(self, places: _Places) -> set[Purchase]:
        """How the places with a rate are bought."""
        groups = ((self.groups[offers.group], offers.term) for offers in places.offers)
        return {purchase_of(group.place(0, group.node_counts[0], term)) for group, term in groups}

    def offers(self, number: int) -> list[tuple[bool, _Offers]]:
        """The places of a group with a rate and a long enough offering, by whether its price is doubtful."""
        group, book = self.groups[number], self._book.offers(self.groups[number])
        if group.option in PREPAID:
            lengths = (
                self.charge(group, rates[0][1], nodes, 0) for rates in book.values() for nodes in group.node_counts
            )
            if all(length is None for length in lengths):
                return []
        return [
            (doubtful, _Offers(number, term, rates, self._nearest(group, rates)))
            for (term, doubtful), rates in book.items()
        ]

    def least_usd(self, offers: list[_Offers]) -> float:
        """A lower bound of the totals of all places of some offers, late or not; infinite without one."""
        return min([compute.usd for compute in self._least_compute(offers, late=True)], default=math.inf)

    def rows(self, offers: list[_Offers], best: "_Best[AnyCandidate]", *, late: bool, stopped: bool) -> Iterator[_Row]:
        """The places of offers of one type and purchase option that could still be the best.

        Each offer with a number of nodes comes in the order of its least compute, then each place in the order of its
        rate; the first whose lower bound exceeds the best total ends what is left of its kind.
        """
        for compute in sorted(self._least_compute(offers, late=late)):
            if compute.usd > best.limit_usd:
                return
            lead = self._lead(offers[compute.offer], compute)
            if lead.usd <= best.limit_usd:
                yield from self._rows(lead, best, late=late, stopped=stopped)

    def _least_compute(self, offers: list[_Offers], *, late: bool) -> Iterator[_Compute]:
        """The least compute of each offer with each number of nodes.

        It leaves interruptions, health checks and fetching out; on spot a random price shortens it as much as the one
        with the lowest ceiling. The share of the job alone counts if it is higher: a start-up only adds to its hours.
        """
        hours: dict[int, tuple[float, float]] = {}
        for number, (index, term, rates, _) in enumerate(offers):
            group = self.groups[index]
            bought = bought_capacity(self._context.request.purchase, group.option) is not None
            spot = self._book.least_price(group, rates) if group.option is PurchaseOption.SPOT else None
            idle_h, least_h = self._least_unused(group, term)
            for nodes in group.node_counts:
                work = self._estimator.work(group.instance_type, nodes)
                if nodes not in hours:
                    hours[nodes] = least_hours(work)
                job_h, start_h = hours[nodes]
                if late or not self._is_late(job_h):
                    busy_h = job_h + start_h
                    if spot is not None:
                        share = _least_share(work, spot)
                        busy_h = max(job_h * share, busy_h * min(share, LEFT_OUT))
                    used_h = 0.0 if bought else max(busy_h + idle_h, least_h) * nodes
                    yield _Compute(rates[0][0] * used_h * self._discounted - ROUNDED_USD, nodes, number, used_h)

    def _least_unused(self, group: CandidateGroup, term: int) -> tuple[float, float]:
        """The least hours for which a group's nodes stay after a job, and the least that a run pays, used or not."""
        key = (group.target, group.option, group.terms[term][1])
        if key not in self._unused:
            place, request = group.place(0, group.node_counts[0], term), self._context.request
            if group.option in PREPAID:
                self._unused[key] = 0.0, HOURS_A_DAY
            else:
                idle_h = tail_hours(place, request, math.inf, learned=self._context.tail(place))
                self._unused[key] = idle_h, committed_hours(place, request, 0.0)
        return self._unused[key]

    def _lead(self, offers: _Offers, compute: _Compute) -> _Lead:
        """An offer with a number of nodes and the least hours of its places."""
        (number, term, rates, moved), nodes = offers, compute.nodes
        group = self.groups[number]
        place, work = group.place(0, nodes, term), self._estimator.work(group.instance_type, nodes)
        share = 1.0
        if group.option is PurchaseOption.SPOT:
            share = min(LEFT_OUT, _least_share(work, self._book.least_price(group, rates)))
        costs = self._context.bill.least_costs(place, work, self._lowest)
        job = JobSize(least_hours(work)[0] * share, None)
        others = moved + (-ROUNDED_USD if costs is None else costs.min_usd(job))
        instance_h = compute.instance_hours * self._discounted
        return _Lead(rates[0][0] * instance_h + others, number, term, nodes, instance_h, others, rates)

    def _rows(self, lead: _Lead, best: "_Best[AnyCandidate]", *, late: bool, stopped: bool) -> Iterator[_Row]:
        """The places of a lead that are late or not, and that a quota may stop before their end or not.

        There is none if no offering is long enough.
        """
        group = self.groups[lead.group]
        request, quotas = self._context.request, self._context.quotas
        longest_h = longest_run_h(group.place(0, lead.nodes, lead.term), request, quotas)
        for rate, location in lead.rates:
            if rate * lead.instance_hours + lead.others > best.limit_usd:
                return
            known = self.charge(group, location, lead.nodes, lead.term)
            if known is None:
                return
            if quotas:
                longest_h = longest_run_h(group.place(location, lead.nodes, lead.term), request, quotas)
            if self._is_late(known.hours) != late or known.may_exceed(longest_h) != stopped:
                continue
            place, cost = group.place(location, lead.nodes, lead.term), known
            work = self._estimator.work(place.instance_type, place.nodes)
            if cost.spot is not None:
                cost = cost.at_price(self._book.random_price(place, rate, cost.hours))
            usd = rate * cost.instance_hours * self._discounted
            if usd + lead.others > best.limit_usd:
                continue
            usd += self._context.bill.other_costs(place, work).min_usd(_job_size(work, cost))
            yield _Row(usd, cost.instance_hours, lead.group, lead.nodes, lead.term, location, known)

    def _is_late(self, hours: float) -> bool:
        deadline_h = self._context.request.purchase.deadline_h
        return deadline_h is not None and hours > deadline_h

    def unpriced(self, number: int) -> Unpriced:
        """The best place of a group without a rate; places with a known but untrusted price come first."""
        group = self.groups[number]
        on_demand = self._context.catalog.store.on_demand if group.option is PurchaseOption.ON_DEMAND else {}

        def seen(location: int) -> tuple[bool, str, str]:
            region, zone = group.locations[location]
            known = any(row.usd for row in on_demand.get((group.instance_type, region), ()))
            return not known, region, zone or ""

        def size(nodes: int) -> tuple[bool, float, float, int]:
            hours = self._estimator.work(group.instance_type, nodes).hours.mid
            return self._is_late(hours), hours * nodes, hours, nodes

        late, instance_hours, hours, nodes = min(size(nodes) for nodes in group.node_counts)
        (unseen, region, zone), location = min((seen(place), place) for place in range(len(group.locations)))
        return late, unseen, instance_hours, hours, region, zone, number, location, nodes

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


def _least_share(work: Work, price: RandomPrice) -> float:
    """The least factor of the hours of a job on spot in the lines of its bill, at a random price."""
    if work.training is None:
        return LEFT_OUT
    down, up = spread_of(work.hours.low, work.hours.mid, work.hours.high)
    return _share_at(math.ceil(down / STEP), int(up / STEP), price)


@lru_cache(maxsize=1024)
def _share_at(down: int, up: int, price: RandomPrice) -> float:
    """The factor at a speed with a spread in steps: a wider one down, and a narrower one up."""
    return math.exp(median_shift(Smooth(1.0, Spread(down * STEP, up * STEP), 1.0), price)) * LEFT_OUT


def _job_size(work: Work, cost: Charge) -> JobSize:
    """The job as the lines other than compute count it, at the least: without the idle tail and lost nodes."""
    interval_s = work.checkpoint_interval_s if cost.spot is None else cost.spot.interval_s
    return JobSize(cost.line_h, interval_s, cost.line_start_h)
