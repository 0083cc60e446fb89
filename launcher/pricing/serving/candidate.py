"""One candidate of a serving plan with the middle case of its month: enough to rank candidates."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date
from decimal import Decimal
from functools import cached_property

from launcher.catalog.quotas import load_quotas
from launcher.model.bedrock import BedrockTerms
from launcher.model.enums import COMMITTED, Level, PurchaseOption
from launcher.model.finding import Finding, error
from launcher.model.fleet import ONE_EACH, Fleet, Hosting
from launcher.model.money import CostComponent, Price, Unpriced, sum_usd
from launcher.model.plan import Place, Plan
from launcher.model.record import record
from launcher.model.serving import UNTIL_DEPLOYED, ServingEstimate, ServingFacts
from launcher.model.serving_image import ServingImages
from launcher.model.units import HOURS_PER_MONTH, number_of
from launcher.model.workload import ServingWorkload
from launcher.planning.endpoint import ServingDeployment
from launcher.planning.endpoint_checks import quoted_findings
from launcher.planning.quotas import account_findings, quota_needs
from launcher.pricing.bill_lines import component
from launcher.pricing.context import PricingContext
from launcher.pricing.hazard import Hazard
from launcher.pricing.offers import Offer, offer
from launcher.pricing.serving.other_costs import other_costs, request_storage
from launcher.pricing.serving.training_plan import PlanMonth, plan_findings, plan_month
from launcher.targets.registry import billed_name

RESTART_H = 1 / 3
"""Hours that a replaced spot instance costs before it serves: 20 minutes to start and load; assumed, as AWAKE_H."""


def refusals(serve: ServingWorkload, load: Fleet | None) -> Iterator[Finding]:
    """Refusals if the load needs more instances than the maximum or the schedule allows; Bedrock has none."""
    most = serve.max_instances
    if load is not None and most is not None and load.instances.most > most:
        message = f"the busiest hour needs {number_of(load.instances.most, 'instance')}, max_instances is {most}"
        yield error("max-instances", "workload.serve.max_instances", message, f"raise it to {load.instances.most}")
    if load is not None and load.short is not None:
        hour, needed, allowed = load.short
        message = f"at {hour:02d}:00 the load needs {number_of(needed, 'instance')}, the schedule allows {allowed}"
        hint = f"raise the range to {needed}, to 0-0 for no service, or ask for fewer requests in that hour"
        yield error("schedule-short", "workload.serve.schedule", message, hint)


@record(slots=False)
class ServingCandidate:
    """A month of serving, a `Candidate`: instances with the throughput of each and their number, or Bedrock.

    `images` and `facts` are used to check the deployment.
    """

    place: Place
    offer: Offer
    hazard: Hazard | None
    context: PricingContext
    serve: ServingWorkload
    estimate: ServingEstimate | None
    fleet: Fleet | None
    bedrock: BedrockTerms | None
    weights_gb: float
    images: ServingImages
    facts: ServingFacts
    hosting: Hosting = ONE_EACH
    watching: tuple[CostComponent, ...] = ()
    """The monitoring lines, which no load changes."""
    lines: tuple[CostComponent, ...] = ()
    """The complete bill of a Bedrock candidate."""

    @property
    def accelerator(self) -> str:
        """The name of the chip; "" on Bedrock."""
        types = self.context.catalog.instance_types
        return types[self.place.instance_type].accelerator or "" if self.fleet is not None else ""

    @property
    def hours(self) -> float:
        """The hours of a month, for which the candidate is priced."""
        return HOURS_PER_MONTH

    @cached_property
    def components(self) -> tuple[CostComponent, ...]:
        """Every line of the month."""
        if self.fleet is None:
            return self.lines
        return (*self.instance_lines(self.fleet), *self.other_lines(self.fleet))

    @property
    def unknown_fees(self) -> tuple[str, ...]:
        """Empty: no service of an endpoint charges an unpublished fee."""
        return ()

    @property
    def digest(self) -> str:
        """The digest of that plan."""
        return self.plan.digest

    @property
    def line_dates(self) -> Sequence[tuple[date, str]]:
        """The dates of the non-compute prices, with the names of their lines, the oldest first."""
        return sorted(
            {
                (cost_component.as_of, cost_component.name)
                for cost_component in self.components
                if cost_component.as_of and cost_component.group != "compute"
            }
        )

    def other_lines(self, load: Fleet) -> tuple[CostComponent, ...]:
        """The non-compute lines."""
        return (
            *other_costs(self.place, self.serve, load, self.weights_gb, self.context),
            *request_storage(self.place, self.serve, self.hosting.mode, self.context),
            *self.watching,
        )

    @cached_property
    def usd(self) -> Decimal | None:
        """The total of a month in the middle case; None when the compute is unpriced."""
        if isinstance(self.offer.price, Unpriced):
            return None
        return sum_usd(component.usd for component in self.components)

    @cached_property
    def plan(self) -> Plan:
        """The plan with its layout and maximum instances decided, so that Slipway deploys exactly the quoted plan."""
        serve = self.serve
        if self.estimate is not None and self.fleet is not None:
            layout = self.estimate.layout
            serve = replace(
                serve,
                tensor_parallel=layout.tensor_parallel,
                batch_size=layout.batch,
                sequence_length=layout.sequence,
                max_instances=serve.max_instances or max(1, self.fleet.instances.most),
            )
        return self.context.base_serving(serve).at(self.place)

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """All findings on the deployment, warnings included; Bedrock has no deployment findings."""
        refused = (*refusals(self.serve, self.fleet), *plan_findings(self.place, self.context))
        if self.context.quotas and self.bedrock is None:
            needs = quota_needs(self.plan, self.context.catalog.instance_types, load_quotas())
            refused += tuple(account_findings(needs, self.place.region, self.context.quotas))
        if self.estimate is None:
            return refused
        codes = {finding.code for finding in refused}
        served = ServingDeployment(plan=self.plan, catalog=self.context.catalog, images=self.images)
        against = quoted_findings(served, self.facts)
        return (*refused, *(finding for finding in against if finding.code not in codes))

    @cached_property
    def refusals(self) -> tuple[Finding, ...]:
        """The findings that make the candidate impossible at any cost."""
        return tuple(finding for finding in self.findings if finding.level is Level.ERROR)

    @property
    def unnamed(self) -> tuple[Finding, ...]:
        """The weights, or the training plan, that a deployment needs and the plan does not name."""
        return tuple(finding for finding in self.findings if finding.code in UNTIL_DEPLOYED)

    @cached_property
    def plan_month(self) -> PlanMonth | None:
        """The part of the training plan in a month; None for another purchase option."""
        return plan_month(self.place, self.context)

    @property
    def share_of_month(self) -> float:
        """The share of the month in which the endpoint answers: less than 1 on a short training plan."""
        return 1.0 if self.plan_month is None else self.plan_month.share

    def paid_hours(self, load: Fleet) -> float:
        """Billed instance-hours a month: of running instances, or of prepaid and committed ones, used or not."""
        return paid_hours(self.place.option, load) if self.plan_month is None else self.plan_month.instance_hours

    def used_hours(self, load: Fleet) -> float:
        """Hours of full instances that the requests need in the answered part of the month."""
        return load.used_hours * self.share_of_month

    def instance_lines(self, load: Fleet) -> tuple[CostComponent, ...]:
        """The lines of the instances: the busy share, the idle share, deployments, and replaced spot instances."""
        return tuple(self._instance_lines(load))

    def _instance_lines(self, load: Fleet) -> Iterator[CostComponent]:
        name = f"{billed_name(self.place)} {self.place.option.value}"
        paid = self.paid_hours(load)
        price = self.offer.price
        if isinstance(price, Unpriced):
            yield component(name, "compute", "instance-hour", paid, price)
            return
        busy = min(self.used_hours(load), paid)
        yield component(f"{name}, busy", "compute", "instance-hour", busy, price)
        yield component(f"{name}, idle", "compute", "instance-hour", paid - busy, price)
        if self.plan_month is not None:
            # A new version runs in the plan's own instances.
            return
        extra = self._on_demand_price()
        yield component("old and new version together", "compute", "instance-hour", load.deployment_hours, extra)
        if self.hazard is not None:
            lost = self.hazard.mid * HOURS_PER_MONTH * RESTART_H
            yield component("starting what spot took back", "compute", "instance-hour", lost, price)

    def _on_demand_price(self) -> Price | Unpriced:
        """The price of instances that run for an hour in addition to a commitment: on demand."""
        if self.place.option not in COMMITTED:
            return self.offer.price
        price = offer(self.place.on_demand, self.context.request, self.context.catalog, self.context.rules.today).price
        return price if isinstance(price, Price) else self.offer.price


def layout_requests_per_s(candidate: ServingCandidate) -> float:
    """Requests a second of one full instance of a candidate; 0 on Bedrock."""
    return candidate.estimate.requests_per_s if candidate.estimate is not None else 0.0


def paid_hours(option: PurchaseOption, load: Fleet) -> float:
    """Billed instance-hours a month: of running instances, or of the maximum under a commitment, used or not."""
    return load.instances.most * HOURS_PER_MONTH if option in COMMITTED else load.hours
