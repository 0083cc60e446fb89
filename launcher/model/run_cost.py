"""The cost of a run from the lines of its quote: the single function for every "used $"."""

from collections.abc import Sequence
from dataclasses import field
from decimal import Decimal

from launcher.model.record import formerly, record

PLACES = Decimal("0.0001")
"""The rounding of dollars, the same as for the lines of a quote."""


@record
class RunRates:
    """The growth of a quote's lines, in dollars an hour; 0 means no such line.

    `prepaid_usd` is the fee of a complete offering, None if nodes are billed by the hour. One more hour of the job adds
    `other_usd_per_hour` to the non-compute lines. `cluster_usd_per_hour` are the lines that last as long as the
    cluster, `start_h` and `tail_h` the billed hours of the nodes before and after the job: runs that share a cluster
    share these. `list_usd_per_hour` is the on-demand rate of all nodes, None if unknown. `type_usd_per_hour` is the
    quoted rate of all nodes by instance type, empty unless EC2 chooses among several types.
    """

    prepaid_usd: Decimal | None = None
    other_usd_per_hour: Decimal = field(default=Decimal(0), metadata=formerly("beside_usd_per_hour"))
    cluster_usd_per_hour: Decimal = Decimal(0)
    start_h: float = 0.0
    tail_h: float = 0.0
    list_usd_per_hour: Decimal | None = None
    type_usd_per_hour: tuple[tuple[str, Decimal], ...] = ()

    def for_types(self, types: Sequence[str], usd_per_hour: Decimal) -> Decimal:
        """The rate of all nodes on these instance types, one for each node; a type without a rate has the quoted one.

        >>> rates = RunRates(type_usd_per_hour=(("g5.xlarge", Decimal(2)), ("g6.xlarge", Decimal(4))))
        >>> rates.for_types(("g5.xlarge", "g6.xlarge"), Decimal(2)), rates.for_types((), Decimal(2))
        (Decimal('3'), Decimal('2'))
        """
        known = dict(self.type_usd_per_hour)
        if not known or not types:
            return usd_per_hour
        return sum((known.get(name, usd_per_hour) for name in types), Decimal(0)) / len(types)


NO_RATES = RunRates()
"""The rates of a quote without growth rates: its non-compute lines stay as quoted."""


@record
class RunCost:
    """A quote's middle estimate: `usd` for `hours` of the job, `usd_per_hour` for all nodes."""

    usd: Decimal
    hours: float
    usd_per_hour: Decimal
    rates: RunRates = NO_RATES

    def other_usd(self, hours: float) -> Decimal:
        """All lines except the nodes' job hours: start-up, tail, head node, storage, network."""
        instances = self._instance_usd(self.hours) if self.rates.prepaid_usd is None else self.rates.prepaid_usd
        more = self.rates.other_usd_per_hour * (_exact(hours) - _exact(self.hours))
        return max(Decimal(0), self.usd - instances + more)

    def used_usd(self, hours: float) -> Decimal:
        """The cost that a run of so many job hours bears: its hours' share of a prepaid fee, and the other lines."""
        return (self._instance_usd(hours) + self.other_usd(hours)).quantize(PLACES)

    def usd_so_far(self, hours: float) -> Decimal:
        """The cost so far of a job that still runs: its start-up, and all hourly lines until now.

        `used` also includes the idle tail, and the lines that are due at the end, such as storage.
        """
        begun = hours + self.rates.start_h
        instances = self._instance_usd(hours if self.rates.prepaid_usd is not None else begun)
        spent = instances + self.rates.other_usd_per_hour * _exact(begun)
        return min(spent, self.used_usd(hours)).quantize(PLACES)

    def unused_usd(self, hours: float) -> Decimal:
        """The part of a prepaid fee that such a run leaves unused."""
        fee = self.rates.prepaid_usd
        return Decimal(0) if fee is None else max(Decimal(0), fee - self._instance_usd(hours)).quantize(PLACES)

    def paid_usd(self, hours: float) -> Decimal:
        """The cost of such a run if no other run uses the rest of a prepaid fee; at the quoted hours, the quote."""
        return self.used_usd(hours) + self.unused_usd(hours)

    @property
    def an_hour_more(self) -> Decimal:
        """The growth of `paid` with each hour of the job."""
        instances = self.usd_per_hour if self.rates.prepaid_usd is None else Decimal(0)
        return instances + self.rates.other_usd_per_hour

    def _instance_usd(self, hours: float) -> Decimal:
        return self.usd_per_hour * _exact(hours)


def _exact(hours: float) -> Decimal:
    return Decimal(repr(hours))


def run_cost(usd: Decimal | None, hours: float, usd_per_hour: Decimal | None, rates: RunRates) -> RunCost | None:
    """The cost of a run by its quote; None if the quote has no total."""
    if usd is None or usd_per_hour is None:
        return None
    return RunCost(usd=usd, hours=hours, usd_per_hour=usd_per_hour, rates=rates)
