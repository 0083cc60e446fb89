"""The cost of a run from the lines of its quote: the one function behind every "used $"."""

from decimal import Decimal

from launcher.model.record import record

PLACES = Decimal("0.0001")
"""Dollars are rounded to this, as the lines of a quote are."""


@record
class RunRates:
    """How the lines of a quote grow, dollars an hour; what is 0 is in no line.

    `prepaid_usd` is the fee of a whole offering, None where machines are billed by the hour. One more hour of the job
    adds `beside_usd_per_hour` to the lines beside the machines. `cluster_usd_per_hour` are the lines of what stands as
    long as the cluster does, `start_h` and `tail_h` the billed hours of the nodes before and after the job: runs that
    share a cluster share these. `list_usd_per_hour` is what all nodes cost on demand, None where that is not known.
    """

    prepaid_usd: Decimal | None = None
    beside_usd_per_hour: Decimal = Decimal(0)
    cluster_usd_per_hour: Decimal = Decimal(0)
    start_h: float = 0.0
    tail_h: float = 0.0
    list_usd_per_hour: Decimal | None = None


NO_RATES = RunRates()
"""Of a quote that does not say how its lines grow: those beside the machines stay as quoted."""


@record
class RunCost:
    """A quote's middle estimate: `usd` for `hours` of the job, `usd_per_hour` for all nodes."""

    usd: Decimal
    hours: float
    usd_per_hour: Decimal
    rates: RunRates = NO_RATES

    def beside(self, hours: float) -> Decimal:
        """Every line but the machines' job hours: start-up, tail, head node, storage, network."""
        machines = self._machines(self.hours) if self.rates.prepaid_usd is None else self.rates.prepaid_usd
        more = self.rates.beside_usd_per_hour * (_exact(hours) - _exact(self.hours))
        return max(Decimal(0), self.usd - machines + more)

    def used(self, hours: float) -> Decimal:
        """What a run of so many job hours bears: of a prepaid fee its hours' share, and the lines beside it."""
        return (self._machines(hours) + self.beside(hours)).quantize(PLACES)

    def spent(self, hours: float) -> Decimal:
        """What a job that still runs has cost after so many hours: its start-up, and all hourly lines until now.

        Still to come, and in `used`: the idle tail, and the lines that are due at the end, such as storage.
        """
        begun = hours + self.rates.start_h
        machines = self._machines(hours if self.rates.prepaid_usd is not None else begun)
        spent = machines + self.rates.beside_usd_per_hour * _exact(begun)
        return min(spent, self.used(hours)).quantize(PLACES)

    def unused(self, hours: float) -> Decimal:
        """What such a run leaves of a prepaid fee."""
        fee = self.rates.prepaid_usd
        return Decimal(0) if fee is None else max(Decimal(0), fee - self._machines(hours)).quantize(PLACES)

    def paid(self, hours: float) -> Decimal:
        """What such a run costs when no other one uses the rest of a prepaid fee: at the quoted hours, the quote."""
        return self.used(hours) + self.unused(hours)

    @property
    def an_hour_more(self) -> Decimal:
        """By how much `paid` grows with each hour of the job."""
        machines = self.usd_per_hour if self.rates.prepaid_usd is None else Decimal(0)
        return machines + self.rates.beside_usd_per_hour

    def _machines(self, hours: float) -> Decimal:
        return self.usd_per_hour * _exact(hours)


def _exact(hours: float) -> Decimal:
    return Decimal(repr(hours))


def run_cost(usd: Decimal | None, hours: float, usd_per_hour: Decimal | None, rates: RunRates) -> RunCost | None:
    """The cost of a run by its quote; None where the quote has no total."""
    if usd is None or usd_per_hour is None:
        return None
    return RunCost(usd=usd, hours=hours, usd_per_hour=usd_per_hour, rates=rates)
