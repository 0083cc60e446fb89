"""Thousands of places down to the best of every type and option, on plain numbers."""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from launcher.model.enums import PurchaseOption
from launcher.model.plan import Place
from launcher.model.way import Way
from launcher.model.work import Work
from launcher.pricing.bill import transfer_usd
from launcher.pricing.compute import charge
from launcher.pricing.desk import Desk
from launcher.pricing.rate_book import RateBook

Works = Callable[[str, int], Work]
"""The work on a number of machines of a type."""


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
    way: int
    site: int
    nodes: int
    term: int


class _Size(NamedTuple):
    """One number of nodes: the hours of the job and the instance-hours that are paid for."""

    nodes: int
    hours: float
    instance_hours: float


def best_places(ways: Iterable[Way], works: Works, desk: Desk) -> list[Place]:
    """The best place of every type and purchase option: the cheapest that has a rate, or else the smallest.

    A plan that names its targets gets one of each; where any will do, the dearer one is folded away.
    """
    named = desk.request.target.kind is not None
    best: dict[tuple[str, str, str], tuple[Row, Way]] = {}
    book = RateBook(desk.request, desk.catalog)
    moved = _Transfers(desk)
    for number, way in enumerate(ways):
        row = min(_rows(number, way, works, book, moved), default=None)
        row = row or min(_unpriced(number, way, works, desk), default=None)
        key = (way.target if named else "", way.instance_type, way.option)
        if row is not None and (key not in best or row < best[key][0]):
            best[key] = (row, way)
    return [way.place(row.site, row.nodes, row.term) for row, way in best.values()]


def all_places(ways: Iterable[Way]) -> Iterator[Place]:
    """Every place of every way."""
    for way in ways:
        for site in range(len(way.sites)):
            for nodes in way.counts:
                for term in range(len(way.terms)):
                    yield way.place(site, nodes, term)


class _Transfers(dict[str, float]):
    """Dollars to bring the training data to a region, once for each."""

    def __init__(self, desk: Desk) -> None:
        """None yet."""
        super().__init__()
        self.desk = desk

    def __missing__(self, region: str) -> float:
        """Work a region out."""
        self[region] = found = transfer_usd(region, self.desk.request, self.desk.catalog)
        return found


def _rows(number: int, way: Way, works: Works, book: RateBook, moved: _Transfers) -> Iterator[Row]:
    """Every place of a way that has a rate."""
    desk = moved.desk
    deadline = desk.request.purchase.deadline_h
    known: dict[float, list[_Size]] = {}
    for site, term, rate in book.rates(way):
        region, zone = way.sites[site]
        # Only spot depends on where it is: the advisor's band is a region's.
        key = desk.hazard(way.place(site, 1, 0)).mid if way.option is PurchaseOption.SPOT else 0.0
        if key not in known:
            known[key] = list(_sizes(way, site, works, desk))
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
                site,
                size.nodes,
                term,
            )


def _sizes(way: Way, site: int, works: Works, desk: Desk) -> Iterator[_Size]:
    """What is paid for at each number of nodes; none where no offering is long enough."""
    for nodes in way.counts:
        place = way.place(site, nodes, 0)
        danger = desk.hazard(place) if way.option is PurchaseOption.SPOT else None
        cost = charge(place, works(way.instance_type, nodes), desk.request, danger, desk.now)
        if cost is not None:
            yield _Size(nodes, cost.hours, cost.instance_hours)


def _unpriced(number: int, way: Way, works: Works, desk: Desk) -> Iterator[Row]:
    """Every place of a way without a rate; where a price was seen that is not trusted, before the others."""
    deadline = desk.request.purchase.deadline_h
    seen = desk.catalog.store.on_demand if way.option is PurchaseOption.ON_DEMAND else {}
    for site, (region, zone) in enumerate(way.sites):
        unseen = 0.0 if any(row.usd for row in seen.get((way.instance_type, region), ())) else 1.0
        for nodes in way.counts:
            hours = works(way.instance_type, nodes).hours.mid
            late = deadline is not None and hours > deadline
            yield Row(late, True, unseen, hours * nodes, hours, region, zone or "", number, site, nodes, 0)  # noqa: FBT003
