"""The lines other than compute, with their totals: exact, and as plain floats for candidates that are screened out."""

from datetime import date
from decimal import Decimal
from typing import NamedTuple

from launcher.model.enums import Basis
from launcher.model.money import CostComponent, Price, Unpriced
from launcher.pricing.bill_lines import (
    CENT_FRACTION,
    MAX_AMOUNT,
    UNITS,
    JobSize,
    Line,
    components,
    sum_units,
    total_usd,
)

ROUNDED_USD = 0.01
"""Upper bound of the total rounding gain when each line of a bill is rounded to the hundredth of a cent."""
NEARLY = 1 - 1e-9
"""Tolerance for comparisons of floats with decimals."""
BEYOND = MAX_AMOUNT / 1e6
"""Hours or checkpoints of a job above which MAX_AMOUNT may cap a line: a job has fewer than a million of each."""


class OtherCosts:
    """The non-compute lines of one place, with their totals; candidates that share the lines share the totals."""

    def __init__(self, lines: tuple[Line, ...]) -> None:
        self.lines = lines
        self._priced = tuple(line for line in lines if isinstance(line.price, Price))
        self._derived = [
            (line, float(line.price.usd))
            for line in lines
            if isinstance(line.price, Price) and line.price.basis is Basis.DERIVED
        ]
        self._dates: dict[tuple[bool, ...], tuple[tuple[date, str], ...]] = {}
        self._unpriced = tuple(line for line in lines if isinstance(line.price, Unpriced))
        self.unknown_fees = tuple(dict.fromkeys(unpriced.fee for unpriced in self._unpriced if unpriced.fee))
        """The keys of the service's fees that have no price (`Fee`)."""
        # The lower bound in floats: one sum for lines with a single price, else tier by tier.
        self._once = self._an_hour = self._an_hour_up = self._a_node_hour = self._a_loss = 0.0
        self._saves: list[tuple[float, int]] = []
        self._tiered: list[tuple[Line, tuple[tuple[float, float], ...]]] = []
        # Hundredths of a cent of each line: once, for an hour of the job, of the cluster and of its nodes, and for a
        # lost node.
        self._rates: list[tuple[float, ...]] = []
        # The same for an hour of the cluster, of lines that nothing else moves.
        self._up_rates: list[float] = []
        for line in self._priced:
            if isinstance(line.price, Price):
                self._add(line, line.price)
        self._totals: dict[JobSize, Decimal] = {}
        self._up: dict[bool, Decimal] = {}
        self._summaries: dict[JobSize, OtherCostsSummary] = {}

    def total_usd(self, size: JobSize) -> Decimal:
        """The total of the priced lines, equal to the sum of their components to the last digit.

        Decimals take several times as long as floats: they add up only where floats may round a line differently.
        """
        total = self._totals.get(size)
        if total is None:
            total = sum_units(self._units(size))
            if total is None:
                total = total_usd(self._priced, size)
            self._totals[size] = total
        return total

    def _units(self, size: JobSize) -> list[float]:
        """Hundredths of a cent of each priced line, in floats and without the cap of the quantity."""
        amounts = size.amounts
        hours, up_h, nodes_h, saves, losses = amounts
        units = [usd * up_h for usd in self._up_rates]
        units += [
            once + an_hour * hours + an_hour_up * up_h + a_node_hour * nodes_h + a_loss * losses
            for once, an_hour, an_hour_up, a_node_hour, a_loss in self._rates
        ]
        units += [usd * (saves - free) * UNITS if saves > free else 0.0 for usd, free in self._saves]
        if self._tiered:
            months = size.months
            for line, slopes in self._tiered:
                if quantity := line.quantity(amounts) / months:
                    usd = months * sum([usd * (quantity - start) for start, usd in slopes if quantity > start])
                    units.append(usd * UNITS)
        return units

    def up_usd_per_hour(self, *, nodes: bool) -> Decimal:
        """The hourly cost of the priced lines while the cluster exists; `nodes` adds the lines of its nodes."""
        if nodes not in self._up:
            rates = ((line.price, line.an_hour_up + (line.a_node_hour if nodes else 0.0)) for line in self._priced)
            usd = (price.usd * Decimal(repr(rate)) for price, rate in rates if isinstance(price, Price))
            self._up[nodes] = sum(usd, Decimal(0)).quantize(CENT_FRACTION)
        return self._up[nodes]

    def usd_per_job_hour(self, size: JobSize) -> Decimal:
        """The cost of one more hour of a job of a size in the priced lines, each at the price of its first unit."""
        rates = ((line.price, line.per_job_hour(size)) for line in self._priced)
        usd = (price.usd * Decimal(repr(rate)) for price, rate in rates if isinstance(price, Price))
        return sum(usd, Decimal(0)).quantize(CENT_FRACTION)

    def _add(self, line: Line, price: Price) -> None:
        """Add a line to the totals in floats."""
        usd = float(price.usd)
        rates = (line.once, line.an_hour, line.an_hour_up, line.a_node_hour, line.a_loss)
        if price.tiers or line.zones or (line.a_save and any(rates)):
            self._tiered.append((line, _slopes(price)))
            return
        if any(rates):
            if any((*rates[:2], *rates[3:])):
                self._rates.append(tuple([usd * UNITS * rate for rate in rates]))
            else:
                self._up_rates.append(usd * UNITS * line.an_hour_up)
        self._once += usd * line.once
        self._an_hour += usd * line.an_hour
        self._an_hour_up += usd * line.an_hour_up
        self._a_node_hour += usd * line.a_node_hour
        self._a_loss += usd * line.a_loss
        if line.a_save:
            self._saves.append((usd * line.a_save, line.saves_free))

    def min_usd(self, size: JobSize) -> float:
        """A lower bound of `total_usd`, below any rounding error."""
        amounts = size.amounts
        hours, up_h, nodes_h, saves, losses = amounts
        amount = self._once + self._an_hour * hours + self._an_hour_up * up_h
        amount += self._a_node_hour * nodes_h
        amount += self._a_loss * losses
        if saves:
            for usd, free in self._saves:
                amount += usd * max(0.0, saves - free)
        if self._tiered:
            months = size.months
            for line, slopes in self._tiered:
                quantity = line.quantity(amounts) / months
                amount += months * sum([usd * (quantity - start) for start, usd in slopes if quantity > start])
        return amount * NEARLY - ROUNDED_USD

    def other_usd(self, size: JobSize) -> tuple[float, float] | None:
        """Two floats that bound `total_usd`, for a comparison with another amount without adding the lines up.

        None for a job so long that quantities are capped.
        """
        if max(size.hours, size.saves) > BEYOND:
            return None
        near = self.min_usd(size)
        return near, near / NEARLY**2 + 2 * ROUNDED_USD

    def summary(self, size: JobSize) -> "OtherCostsSummary":
        """The properties of the lines other than their dollars."""
        if size not in self._summaries:
            amounts = size.amounts
            counted = tuple([bool(line.quantity(amounts)) for line in self._priced])
            derived = [usd * quantity for line, usd in self._derived if (quantity := line.quantity(amounts))]
            if counted not in self._dates:
                self._dates[counted] = self._dates_of(counted)
            self._summaries[size] = OtherCostsSummary(
                dates=self._dates[counted],
                unpriced=components(self._unpriced, size),
                derived=len(derived),
                derived_usd=sum(derived),
            )
        return self._summaries[size]

    def _dates_of(self, counted: tuple[bool, ...]) -> tuple[tuple[date, str], ...]:
        """The dates of the priced lines with a non-zero quantity, the oldest first."""
        some = (line for line, counts in zip(self._priced, counted, strict=True) if counts)
        return tuple(sorted({(line.price.as_of, line.name) for line in some if isinstance(line.price, Price)}))


class OtherCostsSummary(NamedTuple):
    """The dates of the lines with their names, the oldest first; the lines without a price; those with a derived price.

    `derived_usd` has each derived line at the price of its first unit.
    """

    dates: tuple[tuple[date, str], ...]
    unpriced: tuple[CostComponent, ...]
    derived: int
    derived_usd: float


def _slopes(price: Price) -> tuple[tuple[float, float], ...]:
    """The start of each tier, and the price change per unit above it; a price without tiers is one tier."""
    if not price.tiers:
        return ((0.0, float(price.usd)),)
    slopes: list[tuple[float, float]] = []
    before = 0.0
    for tier in price.tiers:
        slopes.append((float(tier.start), float(tier.usd) - before))
        before = float(tier.usd)
    return tuple(slopes)
