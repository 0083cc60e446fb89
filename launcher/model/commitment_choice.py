"""Commitments for several plans: their hourly demand, and the savings of each instrument."""

from collections.abc import Iterator
from dataclasses import field
from datetime import date, datetime
from decimal import Decimal

from launcher.model.enums import Basis, Payment, TargetKind
from launcher.model.finding import Finding
from launcher.model.record import INTERNAL, record
from launcher.model.units import MONTHS_A_YEAR

LISTED = (Basis.LISTED, Basis.USER)
"""Bases of rates that AWS publishes, or that the plan states."""


@record
class Load:
    """A part of a plan's demand: its on-demand dollars an hour, and the share of all hours in which it runs.

    `share` is between 0 and 1; 1 means all the time. `months` is its duration, None without an end.
    """

    plan: str
    instance_type: str
    family: str
    region: str
    target: TargetKind
    nodes: float
    usd_per_hour: Decimal
    share: float
    months: float | None = None

    @property
    def usd_per_node_hour(self) -> Decimal:
        """Dollars an hour of one node on demand."""
        return self.usd_per_hour / Decimal(repr(self.nodes))

    def share_over(self, years: int) -> float:
        """The share of a term's hours in which the load runs, from today; a load that ends leaves the rest unused."""
        whole = years * MONTHS_A_YEAR
        return self.share if self.months is None else self.share * min(1.0, self.months / whole)


@record(described=False)
class Marginal:
    """The return of one more dollar an hour where so much is committed already."""

    usd_per_hour: Decimal
    value: Decimal


@record(described=False)
class CommitmentOption:
    """One commitment: an instrument at a term and a payment, for a level of demand."""

    instrument: str
    covers: str
    term_years: int
    payment: Payment
    # "floor", 75 % of the constant demand, or "most saving", the level at which a further dollar no longer pays.
    level: str
    # The committed amount for every hour of the term, and the on-demand cost that it covers.
    usd_per_hour: Decimal
    covers_usd_per_hour: Decimal = field(metadata=INTERNAL)
    # The whole payment of the term.
    commitment_usd: Decimal
    # Over the whole term, against on demand.
    saving_usd: Decimal
    # The used share of the commitment.
    utilisation: float
    # The utilisation at which it costs as much as on demand.
    break_even: float
    risks: tuple[str, ...]
    command: str
    # Of the rates: every source, the weakest basis, the oldest date.
    source: str
    basis: Basis
    as_of: date
    # Levels in dollars an hour, each with the return of one more dollar an hour.
    marginal: tuple[Marginal, ...] = ()


@record
class CommitmentChoice:
    """The demand of several plans, all commitments for it, the best first, and the recommended one."""

    as_of: datetime
    loads: tuple[Load, ...]
    floor_usd_per_hour: Decimal
    mean_usd_per_hour: Decimal
    options: tuple[CommitmentOption, ...]
    # Plans whose instances no commitment covers, with the reason.
    left_out: tuple[tuple[str, str], ...]
    # Whether a commitment on derived rates, which AWS did not list, may be recommended.
    accept_derived: bool = False
    # Doubts about the rates.
    findings: tuple[Finding, ...] = ()

    @property
    def choice(self) -> CommitmentOption | None:
        """The best saving option at the floor, on accepted rates; None without one."""
        trusted = (option for option in self._saving if self.accept_derived or option.basis in LISTED)
        return next(trusted, None)

    @property
    def derived_choice(self) -> CommitmentOption | None:
        """The best saving option at the floor on a derived rate, if this is the only reason for no choice."""
        return next(self._saving, None) if self.choice is None else None

    @property
    def _saving(self) -> Iterator[CommitmentOption]:
        return (option for option in self.options if option.level == "floor" and option.saving_usd > 0)
