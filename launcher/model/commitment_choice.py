"""Commitments for several plans: their demand by the hour, and the savings of each instrument."""

from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal

from launcher.model.enums import Basis, Payment, TargetKind
from launcher.model.finding import Finding
from launcher.model.record import record
from launcher.model.target import target_of
from launcher.model.units import MONTHS_A_YEAR

LISTED = (Basis.LISTED, Basis.USER)
"""Bases of rates that AWS publishes, or that the plan states."""


@record
class Load:
    """A part of a plan's demand: dollars an hour on demand while it runs, and the share of all hours that it does.

    `share` is between 0 and 1; 1 runs all the time. `months` is how long it goes on so, None without an end.
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
        """Dollars an hour of one of its nodes on demand."""
        return self.usd_per_hour / Decimal(repr(self.nodes))

    def share_over(self, years: int) -> float:
        """The share of a term's hours that it runs, begun today: a job whose runs are over leaves the rest unused."""
        whole = years * MONTHS_A_YEAR
        return self.share if self.months is None else self.share * min(1.0, self.months / whole)

    @property
    def managed(self) -> bool:
        """Whether SageMaker bills it."""
        return target_of(self.target).managed


@record
class CommitmentOption:
    """One commitment: an instrument at a term and a payment, for a level of demand.

    `usd_per_hour` is what is committed, every hour of the term; `covers_usd_per_hour` the demand on demand that it pays
    for. `level` is "floor", 75 % of what runs in every hour, or "most saving", the level at which a further dollar no
    longer pays. `saving_usd` is over the whole term against on demand, `utilisation` the share of it that is used,
    `break_even` the use at which it costs what on demand does. `marginal` are levels of commitment in dollars an hour
    with what one more dollar an hour there brings, dollars an hour. `source`, `basis` and `as_of` say where its rates
    come from: every source, the weakest basis, the oldest date.
    """

    instrument: str
    covers: str
    term_years: int
    payment: Payment
    level: str
    usd_per_hour: Decimal
    covers_usd_per_hour: Decimal
    commitment_usd: Decimal
    saving_usd: Decimal
    utilisation: float
    break_even: float
    risks: tuple[str, ...]
    command: str
    source: str
    basis: Basis
    as_of: date
    marginal: tuple[tuple[Decimal, Decimal], ...] = ()


@record
class CommitmentChoice:
    """The demand of several plans, every commitment to it, the best first, and the one to take.

    `left_out` are plans whose machines no commitment covers, with the reason. Rates that AWS did not list are derived:
    a commitment on them is chosen only with `accept_derived`. `findings` name what is doubtful about the rates.
    """

    as_of: datetime
    loads: tuple[Load, ...]
    floor_usd_per_hour: Decimal
    mean_usd_per_hour: Decimal
    options: tuple[CommitmentOption, ...]
    left_out: tuple[tuple[str, str], ...]
    accept_derived: bool = False
    findings: tuple[Finding, ...] = ()

    @property
    def choice(self) -> CommitmentOption | None:
        """The best at the floor that saves anything, on rates that count; None without one."""
        trusted = (option for option in self._saving if self.accept_derived or option.basis in LISTED)
        return next(trusted, None)

    @property
    def derived_choice(self) -> CommitmentOption | None:
        """The best at the floor on a derived rate, where nothing is chosen for that reason alone."""
        return next(self._saving, None) if self.choice is None else None

    @property
    def _saving(self) -> Iterator[CommitmentOption]:
        return (option for option in self.options if option.level == "floor" and option.saving_usd > 0)
