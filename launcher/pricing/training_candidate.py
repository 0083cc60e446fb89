"""A way to buy a training job, or a cluster without one, with its lines at the median: enough to rank it."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date
from decimal import Decimal

from launcher.catalog.quotas import load_quotas
from launcher.model.enums import PREPAID, Basis, NatMode, PurchaseOption
from launcher.model.finding import Finding
from launcher.model.money import CostComponent, Price, Unpriced, sum_usd
from launcher.model.overhead import IDLE_TAIL, START_UP
from launcher.model.plan import Place, Plan
from launcher.model.record import record, unlocked_property
from launcher.model.work import Work
from launcher.planning.quotas import account_findings, quota_needs
from launcher.planning.targets import unnamed_capacity
from launcher.pricing.bill_lines import UNITS, JobSize, component, components, line_usd, sum_units
from launcher.pricing.chances import needed_retries
from launcher.pricing.compute import Charge, boot_hours, charge
from launcher.pricing.context import PricingContext
from launcher.pricing.hazard import Hazard
from launcher.pricing.joint import MIDDLE, NO_LOSSES, RandomPrice, wall_hours
from launcher.pricing.offers import Offer, offer, with_fee
from launcher.pricing.other_costs import OtherCosts, OtherCostsSummary
from launcher.pricing.overrun import Overrun, overrun
from launcher.pricing.refusals import refusals
from launcher.pricing.spot_prices import SpotForecast, forecast_at, random_price
from launcher.targets.registry import billed_name

FIRST_RATES = (0.0, 0.5)
"""Interruptions an hour with which the search for each break-even begins."""
UNUSED = "the rest of the commitment"
"""The line of a new commitment's hours that no job uses."""


@record(slots=False)
class TrainingCandidate:
    """Nodes for a job: a `Candidate`."""

    place: Place
    work: Work
    offer: Offer
    # None if no offering is long enough.
    charge: Charge | None
    hazard: Hazard | None
    context: PricingContext
    # That of EC2's spot price, for spot only.
    forecast: SpotForecast | None = None
    # The findings of planning against the place.
    against: tuple[Finding, ...] = ()
    # The current offer or reservation of AWS in words, if Slipway queried it.
    offered: str = ""
    # Whether that offer is still unpaid.
    to_buy: bool = False

    @property
    def accelerator(self) -> str:
        """The name of the chip; "" for a type without one."""
        return self.work.accelerator or ""

    @property
    def hours(self) -> float:
        """The median of the job's wall hours."""
        return self.charge.hours if self.charge else self.work.hours.mid

    @property
    def has_price(self) -> bool:
        """Whether the compute has a price."""
        return isinstance(self.offer.price, Price)

    @unlocked_property
    def size(self) -> JobSize:
        """The inputs of the non-compute lines."""
        cost = self.charge
        start_and_tail_h = cost.line_start_h + cost.tail_h if cost else boot_hours(self.place, self.work)
        hours = cost.line_h if cost else self.hours
        return JobSize(
            hours=hours,
            checkpoint_interval_s=self.interval_s,
            start_and_tail_h=start_and_tail_h,
            losses=self.losses_per_h * hours,
        )

    @property
    def losses_per_h(self) -> float:
        """Nodes lost and replaced per hour of the job, by spot interruptions and by node failures."""
        taken = self.charge.spot.job.hazard if self.charge is not None and self.charge.spot is not None else 0.0
        return taken + self.work.node_failures_per_h

    @property
    def plan(self) -> Plan:
        """The plan with this place decided."""
        return plan_of(self.place, self.work, self.context)

    @property
    def digest(self) -> str:
        """The digest of that plan, without its request."""
        return self.context.base.digest(self.place, _nat(self.place, self.work))

    @property
    def interval_s(self) -> float | None:
        """Seconds between checkpoints: the plan's, the one used for the spot price, or the best for the failures."""
        if self.charge is not None and self.charge.spot is not None:
            return self.charge.spot.interval_s
        return self.work.checkpoint_interval_s

    @property
    def failures(self) -> float:
        """Expected failures of the program; lost nodes are excluded, because retries do not count them."""
        return (self.work.failures_per_h - self.work.node_failures_per_h) * self.hours

    @property
    def retries(self) -> int:
        """The number of retries: the plan's, or the number that a job of these hours needs."""
        planned = self.context.request.run.retries
        return needed_retries(self.failures) if planned is None else planned

    @unlocked_property
    def other_costs(self) -> OtherCosts:
        """The non-compute lines, for a job of any size."""
        return self.context.bill.other_costs(self.place, self.work)

    @unlocked_property
    def other_summary(self) -> OtherCostsSummary:
        """The properties of these lines other than their dollars."""
        return self.other_costs.summary(self.size)

    @unlocked_property
    def components(self) -> tuple[CostComponent, ...]:
        """Every line of the bill."""
        return (*_compute_lines(self), *components(self.other_costs.lines, self.size))

    @unlocked_property
    def usd(self) -> Decimal | None:
        """The median of the total of the bill, the sum of its lines; None when the compute is unpriced."""
        price = self.offer.price
        if not isinstance(price, Price) or self.charge is None:
            return None
        quantities = _quantities(self, self.charge, price)
        compute = sum_units([float(rate.usd) * UNITS * quantity for _, rate, quantity in quantities])
        if compute is None:
            compute = sum_usd(line_usd(rate, quantity) for _, rate, quantity in quantities)
        return compute + self.other_costs.total_usd(self.size)

    @property
    def unknown_fees(self) -> tuple[str, ...]:
        """The keys of the service's fees that have no price."""
        return self.other_costs.unknown_fees

    @property
    def line_dates(self) -> Sequence[tuple[date, str]]:
        """The dates of the non-compute prices, with the names of their lines, the oldest first."""
        return self.other_summary.dates

    def under(self, hazard: Hazard) -> "TrainingCandidate":
        """The same candidate under another hazard."""
        return self._with_charge(self._charge(hazard), hazard)

    def _charge(self, hazard: Hazard) -> Charge | None:
        context = self.context
        return charge(self.place, self.work, context.request, hazard, context.now, tail=context.tail(self.place))

    def _with_charge(self, cost: Charge | None, hazard: Hazard) -> "TrainingCandidate":
        price = self.offer.price
        if cost is not None and isinstance(price, Price):
            cost = cost.at_price(self.random_price(price, cost.hours))
        return TrainingCandidate(
            place=self.place,
            work=self.work,
            offer=self.offer,
            charge=cost,
            hazard=hazard,
            context=self.context,
            forecast=self.forecast,
            against=self.against,
            offered=self.offered,
            to_buy=self.to_buy,
        )

    def random_price(self, price: Price, hours: float) -> RandomPrice:
        """The distribution of the spot price of an instance-hour while the job runs for so long."""
        sure = price.basis is Basis.USER
        return random_price(self.place, float(price.usd), self.forecast, hours, sure=sure)

    def at_rate(self, per_h: float) -> "TrainingCandidate":
        """The same candidate at a rate of interruptions of the whole job an hour."""
        hazard = Hazard(per_h, per_h, per_h, self.place.nodes, per_h, None, from_plan=True)
        if per_h not in FIRST_RATES:
            return self.under(hazard)
        known, place, work = self.context.charges, self.place, self.work
        key = (place.target, place.instance_type, place.nodes, work.hours.mid, work.egress(place), per_h)
        if key not in known:
            known[key] = self._charge(hazard)
        return self._with_charge(known[key], hazard)

    @unlocked_property
    def overrun(self) -> Overrun | None:
        """How a job that exceeds its offering finishes.

        None without an offering or a price, and for an offering that is assumed to be long enough.
        """
        price, context = self.offer.price, self.context
        if self.charge is None or isinstance(price, Unpriced) or math.isinf(self.charge.usable_h):
            return None
        on_demand = offer(self.place.on_demand, context.request, context.catalog, context.rules.today).price
        return overrun(self.place, self.work, context.request, cost=self.charge, price=price, on_demand=on_demand)

    @unlocked_property
    def refusals(self) -> tuple[Finding, ...]:
        """The findings that make the candidate impossible at any cost."""
        found = (*refusals(self.place, self.work, self.charge, self.context), *self.against)
        return (*found, *self._small_quotas()) if self.context.quotas else found

    @property
    def unnamed(self) -> tuple[Finding, ...]:
        """The capacity that the user is to buy, and that the plan does not name."""
        return tuple(unnamed_capacity(self.context.request, self.place))

    def _small_quotas(self) -> Iterator[Finding]:
        """The account's quotas that do not allow the plan."""
        needs = quota_needs(self.plan, self.context.catalog.instance_types, load_quotas())
        return account_findings(needs, self.place.region, self.context.quotas)


def plan_of(place: Place, work: Work, context: PricingContext, known_digest: str = "") -> Plan:
    """The plan with a place decided, and the way to the internet of its network."""
    return context.base.at(place, _nat(place, work), known_digest)


def _nat(place: Place, work: Work) -> NatMode | None:
    """The way to the internet that the place decides; None where the plan does."""
    return None if work.egress_choice is None else work.egress_choice.mode(place.target, place.option)


def chosen_before(place: Place, work: Work, context: PricingContext, digest: str) -> Work | None:
    """The work of the plan whose digest begins so: with the way to the internet that it has; None if it has none."""
    works = [work]
    if work.egress_choice is not None and len(work.egress_choice.able(place.target)) > 1:
        options = (work.egress_choice.with_choice(place.target, place.option, nat) for nat in (None, *NatMode))
        works += [replace(work, egress_choice=choice) for choice in options]
    return next((each for each in works if plan_of(place, each, context).digest.startswith(digest)), None)


def training_candidate(
    place: Place, work: Work, context: PricingContext, against: tuple[Finding, ...] = ()
) -> TrainingCandidate:
    """The candidate of one place; `against` holds the findings that prevent a cluster there."""
    hazard = context.hazard(place) if place.option is PurchaseOption.SPOT else None
    cost = charge(place, work, context.request, hazard, context.now, tail=context.tail(place))
    return candidate_charged(place, work, context, cost, against)


def candidate_charged(
    place: Place, work: Work, context: PricingContext, cost: Charge | None, against: tuple[Finding, ...]
) -> TrainingCandidate:
    """The candidate of a place whose compute is known; a `cost` of None: no offering is long enough."""
    priced, forecast = _offer(place, context)
    spot_hazard = context.hazard(place) if place.option is PurchaseOption.SPOT else None
    if cost is None and isinstance(priced.price, Price):
        reason = f"no offering is long enough for {work.hours.mid:.0f} hours"
        priced = priced._replace(price=Unpriced(reason=reason, unverified=priced.price))
    if cost is not None:
        hours = cost.billed_hours * cost.instances
        priced = with_fee(priced, place, context.request, hours, context.rules.today)
    if spot_hazard is None or not isinstance(priced.price, Price):
        forecast = None
    elif cost is not None:
        usd, sure = float(priced.price.usd), priced.price.basis is Basis.USER
        cost = cost.at_price(random_price(place, usd, forecast, cost.hours, sure=sure))
    return TrainingCandidate(
        place=place,
        work=work,
        offer=priced,
        charge=cost,
        hazard=spot_hazard,
        context=context,
        forecast=forecast,
        against=against,
    )


def _offer(place: Place, context: PricingContext) -> tuple[Offer, SpotForecast | None]:
    """The offer at a place and the forecast of its spot price, computed once for all numbers of nodes."""
    sold, known = (place.option, place.plan_kind, place.term_years), context.offers
    key = (place.target, place.instance_type, place.region, place.az_id, *sold)
    if key not in known:
        today = context.rules.today
        forecast = forecast_at(place, context.catalog, today) if place.option is PurchaseOption.SPOT else None
        known[key] = offer(place, context.request, context.catalog, today), forecast
    return known[key]


def _compute_lines(candidate: TrainingCandidate) -> tuple[CostComponent, ...]:
    """The compute lines: job hours and start-up, or complete offerings."""
    place, price, cost = candidate.place, candidate.offer.price, candidate.charge
    if cost is None or isinstance(price, Unpriced):
        count = place.nodes if cost is None else cost.instances
        name = f"{count} x {billed_name(place)} {place.option.value}"
        missing = price if isinstance(price, Unpriced) else Unpriced(reason="no offering fits")
        return (component(name, "compute", "instance-hour", candidate.hours * place.nodes, missing),)
    return tuple(
        component(part, "compute", "instance-hour", quantity, rate)
        for part, rate, quantity in _quantities(candidate, cost, price)
    )


def _quantities(candidate: TrainingCandidate, cost: Charge, price: Price) -> list[tuple[str, Price, float]]:
    place, nodes = candidate.place, candidate.place.nodes
    name = f"{cost.instances} x {billed_name(place)} {place.option.value}"
    if place.option in PREPAID:
        paid = [(name, price, float(cost.billed_hours * cost.instances))]
        more = candidate.overrun
        if more is not None and (more_h := (option := more.cheaper_at(cost.hours)).hours_at(cost.hours)):
            paid.append((option.name, option.price, more_h))
        return paid
    failed_h = 0.0
    if candidate.work.training is None:
        # Hours that the plan gives have a line for failures; interruptions are in the job's own.
        failed_h = wall_hours(cost.job._replace(interruptions=NO_LOSSES)).at(MIDDLE) - cost.job.running
    quantities = [(name, (cost.line_h - failed_h) * nodes)]
    if failed_h:
        quantities.append(("failures and restarts", failed_h * nodes))
    steps_h = candidate.work.outside_command_h
    quantities.append((START_UP, (cost.line_start_h - steps_h) * nodes))
    if steps_h:
        quantities.append(("data, steps and outputs", steps_h * nodes))
    if cost.tail_h:
        quantities.append((IDLE_TAIL, cost.tail_h * nodes))
    if cost.unused_h:
        quantities.append((UNUSED, cost.unused_h * nodes))
    return [(part, price, quantity) for part, quantity in quantities]
