"""Thousands of places down to the best of every type and option, on plain numbers."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from launcher.model.candidate_group import CandidateGroup, Term
from launcher.model.enums import PurchaseOption
from launcher.model.plan import Place
from launcher.planning.work import Estimator
from launcher.pricing.bill import transfer_usd
from launcher.pricing.compute import charge
from launcher.pricing.context import PricingContext
from launcher.pricing.rate_book import RateBook


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


class _Size(NamedTuple):
    """One number of nodes: the hours of the job and the instance-hours that are paid for."""

    nodes: int
    hours: float
    instance_hours: float


def best_places(groups: Iterable[CandidateGroup], estimator: Estimator, context: PricingContext) -> list[Place]:
    """The best place of every type and purchase option: the cheapest that has a rate, or else the smallest.

    A plan that names its targets gets one of each; where any will do, the dearer one is folded away.
    """
    named = context.request.target.kind is not None
    best: dict[tuple[str, str, str], tuple[Row, CandidateGroup]] = {}
    book = RateBook(context.request, context.catalog)
    moved = _Transfers(context)
    for number, group in enumerate(groups):
        row = min(_rows(number, group, estimator, book, moved), default=None)
        row = row or min(_unpriced(number, group, estimator, context), default=None)
        key = (group.target if named else "", group.instance_type, group.option)
        if row is not None and (key not in best or row < best[key][0]):
            best[key] = (row, group)
    return [group.place(row.location, row.nodes, row.term) for row, group in best.values()]


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
            )


def _sizes(
    group: CandidateGroup, location: int, term: int, estimator: Estimator, context: PricingContext
) -> Iterator[_Size]:
    """What is paid for at each number of nodes; none where no offering is long enough."""
    for nodes in group.counts:
        place = group.place(location, nodes, term)
        spot_hazard = context.hazard(place) if group.option is PurchaseOption.SPOT else None
        cost = charge(place, estimator.work(group.instance_type, nodes), context.request, spot_hazard, context.now)
        if cost is not None:
            yield _Size(nodes, cost.hours, cost.instance_hours)


def _unpriced(number: int, group: CandidateGroup, estimator: Estimator, context: PricingContext) -> Iterator[Row]:
    """Every place of a group without a rate; where a price was seen that is not trusted, before the others."""
    deadline = context.request.purchase.deadline_h
    seen = context.catalog.store.on_demand if group.option is PurchaseOption.ON_DEMAND else {}
    for location, (region, zone) in enumerate(group.locations):
        unseen = 0.0 if any(row.usd for row in seen.get((group.instance_type, region), ())) else 1.0
        for nodes in group.counts:
            hours = estimator.work(group.instance_type, nodes).hours.mid
            late = deadline is not None and hours > deadline
            yield Row(late, True, unseen, hours * nodes, hours, region, zone or "", number, location, nodes, 0)  # noqa: FBT003
