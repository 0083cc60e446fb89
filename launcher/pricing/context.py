"""The common inputs of all quotes of one command."""

from dataclasses import field, replace
from datetime import datetime
from decimal import Decimal
from functools import cached_property
from typing import TypeAlias

from launcher.catalog.load import Catalog
from launcher.catalog.market import InterruptionBand
from launcher.model.announced_end import AnnouncedEnd
from launcher.model.document import PlanBase
from launcher.model.enums import PurchaseOption, TargetKind
from launcher.model.finding import Finding
from launcher.model.learned import Learned
from launcher.model.measurement import Measurement
from launcher.model.plan import Place
from launcher.model.record import record
from launcher.model.request import PlanRequest
from launcher.model.workload import ServingWorkload
from launcher.planning.job_command import JobCommand
from launcher.planning.quotas import AccountQuotas
from launcher.pricing.bill import Bill
from launcher.pricing.compute import Charge
from launcher.pricing.gate import GateRules
from launcher.pricing.hazard import SHARED, Hazard, assumed_rates, hazard
from launcher.pricing.idle_tail import learnable_hours
from launcher.pricing.offers import Offer
from launcher.pricing.spot_prices import SpotForecast

Ends: TypeAlias = tuple[AnnouncedEnd, ...]


@record(slots=False)
class PricingContext:
    """The request, the prices, the current time and the gate's rules."""

    request: PlanRequest
    catalog: Catalog
    now: datetime
    rules: GateRules
    measured: tuple[Measurement, ...] = ()
    """The user's own runs; those on spot measured how often EC2 interrupted instances."""
    job_command: JobCommand = JobCommand()
    """What the job's command starts, read with its scripts; without a program, nothing is known of it."""
    quotas: AccountQuotas = field(default_factory=dict)
    """The account's quotas as just read; without `--live` none is known."""
    flags: tuple[tuple[str, ...], ...] = ()
    """The command-line arguments that change the plan file, as typed; Slipway adds them to suggested commands."""
    on_demand_usd: dict[Place, Decimal | None] = field(default_factory=dict, compare=False, repr=False)
    """The job's total on demand, by place: every commitment in a place is compared with the same total."""
    charges: dict[tuple[object, ...], Charge | None] = field(default_factory=dict, compare=False, repr=False)
    """The charge of a job at a rate of interruptions by its inputs: it is the same in every region."""
    offers: dict[tuple[object, ...], tuple[Offer, SpotForecast | None]] = field(
        default_factory=dict, compare=False, repr=False
    )
    """The offers of places with the forecasts of their spot prices, by what they depend on: not on the nodes."""
    times: dict[tuple[object, ...], tuple[tuple[float, ...], ...]] = field(
        default_factory=dict, compare=False, repr=False
    )
    """The percentiles of a job's hours by its inputs: regions and terms share them."""
    choices: dict[tuple[object, ...], Finding] = field(default_factory=dict, compare=False, repr=False)
    """What is said of the chosen way to the internet, by its inputs: on demand and commitments share it."""
    of_places: dict[tuple[object, ...], tuple[Finding, ...]] = field(default_factory=dict, compare=False, repr=False)
    """Findings on a place by what they depend on: the terms of a commitment share them, or all purchase options."""
    ends: dict[tuple[TargetKind, str], tuple[AnnouncedEnd, ...]] = field(
        default_factory=dict, compare=False, repr=False
    )
    """The announced ends that concern a job, by target and instance type."""
    _rates: dict[tuple[str, str], Learned | None] = field(default_factory=dict, compare=False, repr=False)
    _tails: dict[tuple[TargetKind, PurchaseOption], Learned | None] = field(
        default_factory=dict, compare=False, repr=False
    )
    _hazards: dict[tuple[str, str, int], Hazard] = field(default_factory=dict, compare=False, repr=False)
    _bases: dict[ServingWorkload, PlanBase] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def base(self) -> PlanBase:
        """The request as the base of every candidate's plan."""
        return PlanBase(self.request)

    def base_serving(self, serve: ServingWorkload) -> PlanBase:
        """The same with the serving workload that a candidate decides, computed once for all places of a layout."""
        if serve not in self._bases:
            workload = replace(self.request.workload, serve=serve)
            self._bases[serve] = PlanBase(replace(self.request, workload=workload))
        return self._bases[serve]

    @cached_property
    def bill(self) -> Bill:
        """The request's non-compute bill; its lines are computed once for every region."""
        return Bill(self.request, self.catalog, self.rules.today)

    def hazard(self, place: Place) -> Hazard:
        """The spot hazard at a place; a rate in the plan takes precedence over the user's own runs."""
        key = (place.instance_type, place.region, place.nodes)
        if key not in self._hazards:
            # The same, worked out once for a region: the advisor's band is one's
            band = self.catalog.interruption_band(place.instance_type, place.region)
            plan_rate = self.request.purchase.interruptions_per_node_hour
            measured = self._measured_rates(place.instance_type, place.region, band) if plan_rate is None else None
            self._hazards[key] = hazard(place.nodes, band, plan_rate, measured)
        return self._hazards[key]

    def node_rate(self, instance_type: str, region: str) -> float:
        """The middle interruption rate per node-hour; places with the same rate charge a job the same."""
        plan_rate = self.request.purchase.interruptions_per_node_hour
        if plan_rate is not None:
            return plan_rate
        band = self.catalog.interruption_band(instance_type, region)
        observed = self._measured_rates(instance_type, region, band)
        return assumed_rates(band)[1] if observed is None else observed.mid

    def tail(self, place: Place) -> Learned | None:
        """How long idle nodes stay according to the user's own runs, computed once for each target and option."""
        if not self.measured:
            return None
        from launcher.planning.learned import learned_tail

        key = (place.target, place.option)
        if key not in self._tails:
            assumed_h = learnable_hours(*key, self.request)
            self._tails[key] = None if assumed_h is None else learned_tail(key[0].value, assumed_h, self.measured)
        return self._tails[key]

    def _measured_rates(self, instance_type: str, region: str, band: InterruptionBand | None) -> Learned | None:
        """The interruption rate that the user's runs on a type measured for a region, computed once."""
        if not self.measured:
            return None
        from launcher.pricing.seen_interruptions import interruption_counts, learned_rate

        key = (instance_type, region)
        if key not in self._rates:
            observed = interruption_counts(instance_type, region, self.measured, 1 - SHARED)
            self._rates[key] = learned_rate(*assumed_rates(band), observed)
        return self._rates[key]
