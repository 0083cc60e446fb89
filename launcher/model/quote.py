"""The cost of one plan, with everything that a reader needs to verify it."""

from dataclasses import field
from datetime import datetime
from decimal import Decimal

from launcher.model.announced_end import AnnouncedEnd
from launcher.model.budget_stop import stops_at
from launcher.model.enums import Availability, PurchaseOption
from launcher.model.finding import Finding
from launcher.model.machine_image import MachineImage
from launcher.model.money import Assumption, CostComponent, Price, Range, Unpriced, UsdRange
from launcher.model.overhead import OverheadCost, overhead_of
from launcher.model.plan import SHORT_ID, Plan
from launcher.model.range_causes import RangeCauses
from launcher.model.record import INTERNAL, record
from launcher.model.run_cost import RunRates
from launcher.model.serving import ServingOutlook
from launcher.model.work import Work

DERIVED_SHARE = 0.01
"""The part of a total from which derived prices are named beside it."""


@record
class SpotOutlook:
    """The effect of interruptions on a job: their number, the save interval, the cost, and the break-even of spot.

    `checkpoint_interval_s` is None for a job that never saves. `usd_p90` is the total at the 90th percentile.
    `break_even_interruptions_per_hour` is None only when no priced candidate uses another purchase option.
    """

    interruptions_expected: float
    interruptions_per_hour: float = field(metadata=INTERNAL)
    checkpoint_interval_s: float | None
    overhead_fraction: float
    break_even_interruptions_per_hour: float | None
    usd_p90: Decimal


@record
class Commitment:
    """The binding cost of a Savings Plan or a Reserved Instance.

    `break_even_utilisation` is the share of its hours that must be used for it to cost as much as on demand;
    `utilisation` the share that the runs of this plan use. `stranded_usd` is the extra cost of the remaining term over
    the same commitment after a price drop of `price_cut` (a fraction) halfway through. `new_generation_usd` is the
    remaining payment without use if the job then moves to a new instance generation.
    """

    break_even_utilisation: float
    utilisation: float | None
    price_cut: float
    stranded_usd: Decimal
    new_generation_usd: Decimal


@record
class Policy:
    """One safety policy, whether it is on, and its setting. Disabled policies are shown too."""

    name: str
    value: str
    on: bool


@record
class Gate:
    """The gate's decision on a quote: allow or refuse, with the exit code and the reason of a refusal."""

    # "allow" or "refuse".
    verdict: str
    exit_code: int = 0
    reason: str = ""
    hint: str = ""

    @property
    def allows_launch(self) -> bool:
        """Whether a launch may go on."""
        return self.verdict == "allow"


@record
class Quote:
    """The cost of one Plan."""

    plan: Plan
    # None for a month of serving.
    work: Work | None
    availability: Availability
    # Of one instance.
    price: Price | Unpriced
    usd_per_hour: Decimal | None
    # The job's wall time, and the billed time of an instance.
    hours: Range
    billed_hours: float
    # None when the compute is unpriced.
    usd: UsdRange | None
    # The lines of the bill: middle estimates.
    components: tuple[CostComponent, ...]
    # The full cash of a commitment that is not owned.
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
    # The limit of the command that priced the plan (--max-usd), None without one.
    max_usd: Decimal | None = None
    note: str = ""
    commitment: Commitment | None = None
    # The cash due now for the job: less for owned capacity, more for a new commitment.
    cash_usd: Decimal | None = None
    serving: ServingOutlook | None = None
    # The chip, "" on Bedrock.
    accelerator: str = ""
    # On spot, the range of an instance-hour's price meanwhile.
    price_range: UsdRange | None = None
    # Billed after the job until `slipway down`, None if unknown.
    left_up_usd_per_hour: Decimal | None = None
    # The number of retries of a failed job.
    retries: int = 0
    # The cost of a run of other hours, None in a table row, which does not show it.
    rates: RunRates | None = None
    # The announced ends of the plan's components within a year, the nearest first.
    ends: tuple[AnnouncedEnd, ...] = ()
    # The chance that the job does not fit into an offering that is still to be bought; None without such an
    # offering.
    overrun_probability: float | None = None
    # None in a table row, and without a total.
    range_causes: RangeCauses | None = None
    hours_to_first_step: float | None = None
    """Hours from the start of the nodes to the first step of the job; None for serving."""

    @property
    def running_usd_per_hour(self) -> Decimal | None:
        """What an hour costs while all nodes run: the nodes, and what stays billed until `slipway down`."""
        if self.usd_per_hour is None or not self.left_up_usd_per_hour:
            return self.usd_per_hour
        cluster = self.rates.cluster_usd_per_hour if self.rates is not None else Decimal(0)
        # Nodes that nothing stops are in both.
        return max(self.left_up_usd_per_hour, self.usd_per_hour + cluster)

    # The hourly rate at which the guard counts, where EC2 may choose a dearer type than the plan's first.
    counted_usd_per_hour: Decimal | None = None
    # AWS's image of the nodes, None where it was not read from the account.
    image: MachineImage | None = None
    derived_lines: int = 0
    """Lines, the compute among them, whose price was derived from others; they are in the total."""
    derived_share: float = 0.0
    """The part of the total that these lines are."""

    id_length: int = SHORT_ID
    """Letters of the short id: more where two candidates would have the same one."""

    @property
    def short_id(self) -> str:
        """The first letters of the digest, by which a candidate is picked."""
        return self.digest[: self.id_length]

    @property
    def is_derived(self) -> bool:
        """Whether the total rests on derived prices; a few cents of them do not change a decision."""
        return self.derived_share >= DERIVED_SHARE

    @property
    def digest(self) -> str:
        """The digest of the plan the quote was made for."""
        return self.plan.digest

    @property
    def incomplete(self) -> bool:
        """Whether a non-compute line has no price, so that the true total is higher."""
        return any(component.unpriced is not None and component.group != "compute" for component in self.components)

    @property
    def overhead(self) -> OverheadCost | None:
        """The part of the total that is not the job's work; None for serving, and without a total."""
        if self.usd is None or self.work is None or self.plan.request.workload.train is None:
            return None
        return overhead_of(self.components)

    @property
    def overhead_usd(self) -> Decimal | None:
        """Dollars of the overhead."""
        return None if self.overhead is None else self.overhead.usd

    @property
    def other_usd_per_hour(self) -> Decimal:
        """The non-compute cost of the quote, spread over the billed hours, at least one hour."""
        other_usd = (
            component.usd for component in self.components if component.usd is not None and component.group != "compute"
        )
        hours = Decimal(repr(max(self.billed_hours, 1.0)))
        return (sum(other_usd, Decimal(0)) / hours).quantize(Decimal("0.0001"))

    @property
    def guard_usd_per_hour(self) -> Decimal | None:
        """The hourly rate of all nodes at which the guard counts."""
        return self.usd_per_hour if self.counted_usd_per_hour is None else self.counted_usd_per_hour

    def amounts(self, max_usd: Decimal | None) -> dict[str, Decimal]:
        """The amounts passed to the stacks: rates and hours of the quote, and a lower limit than the plan's, if any.

        The hourly non-compute cost is included only if the guard stops at a spending limit, or on spot, where the guard
        may price the rest of the job; the hours only on spot.
        """
        spot = self.plan.place.option is PurchaseOption.SPOT
        stops = stops_at(self.plan.request, self.plan.place.option) is not None
        given = {
            "usd_per_hour": self.guard_usd_per_hour,
            "other_usd_per_hour": self.other_usd_per_hour if stops or spot else None,
            "job_hours": Decimal(f"{self.hours.high:.4f}") if spot and self.hours.high > 0 else None,
            "max_usd": max_usd,
        }
        return {name: usd for name, usd in given.items() if usd is not None}

    @property
    def no_price_reason(self) -> str | None:
        """Why the compute has no price, or None."""
        return self.price.reason if isinstance(self.price, Unpriced) else None
