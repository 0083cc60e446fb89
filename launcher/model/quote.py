"""The cost of one plan, with everything that a reader needs to trust it."""

from datetime import datetime
from decimal import Decimal

from launcher.model.announced_end import AnnouncedEnd
from launcher.model.budget_stop import stops_at
from launcher.model.enums import Availability
from launcher.model.finding import Finding
from launcher.model.money import Assumption, CostComponent, Price, Range, Unpriced, UsdRange
from launcher.model.plan import Plan
from launcher.model.record import record
from launcher.model.run_cost import RunRates
from launcher.model.serving import ServingOutlook
from launcher.model.work import Work


@record
class SpotOutlook:
    """What interruptions do to a job: how many, how often it saves, what that costs, and when spot stops paying.

    `checkpoint_interval_s` is None for a job that never saves. `usd_p90` is the whole bill at the 90th percentile.
    `break_even_interruptions_per_hour` is None only when no priced candidate is bought another way.
    """

    interruptions_expected: float
    interruptions_per_hour: float
    checkpoint_interval_s: float | None
    overhead_fraction: float
    usd_p90: Decimal
    break_even_interruptions_per_hour: float | None


@record
class Commitment:
    """What a Savings Plan or a Reserved Instance ties up.

    `break_even_utilisation` is the share of its hours that has to be used for it to cost what on demand does;
    `utilisation` the share that the runs of this plan use. `stranded_usd` is what the rest of the term costs more than
    the same commitment does when prices fall by `price_cut` (a fraction) halfway through, `new_generation_usd` what is
    left to pay for nothing when the job moves to a new generation of machines then.
    """

    break_even_utilisation: float
    utilisation: float | None
    price_cut: float
    stranded_usd: Decimal
    new_generation_usd: Decimal
    assumptions: tuple[Assumption, ...]


@record
class Policy:
    """One safety policy, whether it is on, and what it is set to. The ones that are off are shown too."""

    name: str
    value: str
    on: bool


@record
class Gate:
    """What the gate says of a quote: allow or refuse, with the exit code and the reason of a refusal."""

    allowed: bool
    exit_code: int
    reason: str
    hint: str = ""

    @property
    def verdict(self) -> str:
        """The same in a word."""
        return "allow" if self.allowed else "refuse"


@record
class Quote:
    """The money for one Plan.

    `price` is one instance's. `usd` is None when the compute is unpriced; `incomplete` says that lines have none.
    `hours` is the job's wall time; `billed_hours` what an instance is paid for. `commitment_usd` is the whole cash of a
    commitment that is not owned. `total` sums the components, which are middle estimates. `cash_usd` is what the job
    makes somebody pay now: less for what is owned, more for a new commitment. `work` is None for a month of serving;
    `accelerator` is the chip, "" on Bedrock; `price_range`, on spot, what an instance-hour may cost meanwhile.
    `left_up_usd_per_hour` is what stays billed after the job until `slipway down`, None where that is not known.
    `ends` are the announced ends of what the plan rests on, those within a year, the nearest first.
    `overrun_probability` is the chance that the job does not fit into an offering that is still to be bought; None
    where nothing such is bought.
    `retries` is how often a failed job is tried again; `rates` say what a run of other hours costs, None in a row of a
    table, which does not show it.
    """

    plan: Plan
    work: Work | None
    availability: Availability
    price: Price | Unpriced
    usd_per_hour: Decimal | None
    hours: Range
    billed_hours: float
    usd: UsdRange | None
    components: tuple[CostComponent, ...]
    commitment_usd: Decimal | None
    spot: SpotOutlook | None
    checkpoint_interval_s: float | None
    assumptions: tuple[Assumption, ...]
    policies: tuple[Policy, ...]
    cash_after_credits_usd: Decimal | None
    findings: tuple[Finding, ...]
    as_of: datetime
    expires_at: datetime | None
    gate: Gate
    note: str = ""
    commitment: Commitment | None = None
    cash_usd: Decimal | None = None
    serving: ServingOutlook | None = None
    accelerator: str = ""
    price_range: UsdRange | None = None
    left_up_usd_per_hour: Decimal | None = None
    retries: int = 0
    rates: RunRates | None = None
    ends: tuple[AnnouncedEnd, ...] = ()
    overrun_probability: float | None = None

    @property
    def digest(self) -> str:
        """The digest of the plan the quote was made for."""
        return self.plan.digest

    @property
    def incomplete(self) -> bool:
        """Whether a line beside the compute has no price, so that the true total is higher."""
        return any(component.unpriced is not None and component.group != "compute" for component in self.components)

    @property
    def missing_usd(self) -> Decimal:
        """What those lines come to at the dearest prices that are known of other regions; it is in no total."""
        return sum(
            (component.elsewhere_usd for component in self.components if component.elsewhere_usd is not None),
            Decimal(0),
        )

    @property
    def usd_per_hour_beside(self) -> Decimal:
        """What the quote has beside the machines, spread over the hours that they are billed for, one at least."""
        beside = (
            component.usd for component in self.components if component.usd is not None and component.group != "compute"
        )
        hours = Decimal(repr(max(self.billed_hours, 1.0)))
        return (sum(beside, Decimal(0)) / hours).quantize(Decimal("0.0001"))

    def amounts(self, max_usd: Decimal | None) -> dict[str, Decimal]:
        """The money that the stacks are made with: rates of the quote, and a lower limit than the plan's, if any.

        What costs beside the machines is told where a sum is counted up to.
        """
        stops = stops_at(self.plan.request, self.plan.place.option) is not None
        beside = self.usd_per_hour_beside if stops else None
        given = {"usd_per_hour": self.usd_per_hour, "usd_per_hour_beside": beside, "max_usd": max_usd}
        return {name: usd for name, usd in given.items() if usd is not None}

    @property
    def unpriced(self) -> str | None:
        """Why the compute has no price, or None."""
        return self.price.reason if isinstance(self.price, Unpriced) else None
