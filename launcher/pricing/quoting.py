"""From a candidate to its quote: price, time, every line of the bill, policies, findings and the gate's word."""

from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from functools import cached_property

from launcher.catalog.load import Catalog
from launcher.model.document import resolve
from launcher.model.enums import Market, PurchaseOption
from launcher.model.finding import Finding, error, warning
from launcher.model.money import Assumption, CostComponent, Price, Range, Unpriced, UsdRange
from launcher.model.plan import Place
from launcher.model.quote import Quote, SpotOutlook
from launcher.model.request import PlanRequest
from launcher.model.work import Work
from launcher.pricing.ages import expiry
from launcher.pricing.bill import JobSize, bill_assumptions, component, rest_of_bill
from launcher.pricing.compute import BOOT_H, ComputeCost, compute_cost
from launcher.pricing.gate import GateRules, age_findings, judge
from launcher.pricing.hazard import Hazard, hazard
from launcher.pricing.offers import Offer, offer
from launcher.pricing.policies import policies

CENT_FRACTION = Decimal("0.0001")


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """What every quote of one command has in common: the request, the prices, the moment and the gate's rules."""

    request: PlanRequest
    catalog: Catalog
    now: datetime
    rules: GateRules


@dataclass(frozen=True, kw_only=True)
class Outline:
    """A candidate in plain numbers: enough to rank and fold thousands before a quote is built of the few that stay."""

    place: Place
    work: Work
    offer: Offer
    cost: ComputeCost | None
    hazard: Hazard | None

    @cached_property
    def usd(self) -> Decimal | None:
        """Dollars of the compute, middle estimate; None when it is unpriced."""
        return None if self.cost is None else self.cost.usd.mid


def outline(place: Place, work: Work, desk: Desk) -> Outline:
    """The outline of a candidate."""
    found = offer(place, desk.request, desk.catalog, desk.rules.today)
    danger = _hazard(place, desk) if place.option is PurchaseOption.SPOT else None
    cost = None
    if isinstance(found.price, Price):
        cost = compute_cost(place, work, found.price, desk.request, danger)
        if cost is None:
            reason = f"no offering is long enough for {work.hours.mid:.0f} hours"
            found = replace(found, price=Unpriced(reason=reason, seen=found.price))
    return Outline(place=place, work=work, offer=found, cost=cost, hazard=danger)


def _hazard(place: Place, desk: Desk) -> Hazard:
    """The spot hazard at a place."""
    band = desk.catalog.interruption_band(place.instance_type, place.region)
    return hazard(place.nodes, band, desk.request.purchase.interruptions_per_node_hour)


def quote(drawn: Outline, desk: Desk) -> Quote:
    """The quote of an outlined candidate; the spot break-even is filled in by `ranking`, which sees the others."""
    plan = resolve(desk.request, drawn.place)
    cost, price = drawn.cost, drawn.offer.price
    hours = cost.hours if cost else drawn.work.hours
    size = JobSize(hours=hours.mid, checkpoint_interval_s=_interval_s(drawn))
    rest = rest_of_bill(drawn.place, desk.request, drawn.work, size, desk.catalog)
    components = tuple(_rounded(each) for each in (*_compute_lines(drawn), *rest))
    usd = _total(drawn, desk, components)
    per_hour = price.usd * drawn.place.nodes if isinstance(price, Price) else None
    findings = _findings(drawn, components, desk)
    return Quote(
        plan=plan,
        work=drawn.work,
        availability=drawn.offer.availability,
        price=price,
        usd_per_hour=per_hour,
        hours=hours,
        billed_hours=cost.billed_hours if cost else hours.mid,
        usd=usd,
        components=components,
        commitment_usd=None if cost is None else cost.commitment_usd,
        spot=_outlook(cost, drawn.work),
        checkpoint_interval_s=size.checkpoint_interval_s,
        assumptions=_assumptions(drawn, desk),
        policies=policies(desk.request, size.checkpoint_interval_s),
        cash_after_credits_usd=_after_credits(usd, desk),
        findings=findings,
        as_of=desk.now,
        expires_at=expiry(price, drawn.place.option, desk.now) if isinstance(price, Price) else None,
        gate=judge(plan, price, usd, per_hour, findings, rules=desk.rules),
        note=cost.note if cost else "",
    )


def _interval_s(drawn: Outline) -> float | None:
    """Seconds between checkpoints: the plan's, the one spot is priced at, or the one failures call for."""
    if drawn.cost is not None and drawn.cost.spot is not None:
        return drawn.cost.spot.job.interval * 3600
    return drawn.work.checkpoint_interval_s


def _compute_lines(drawn: Outline) -> tuple[CostComponent, ...]:
    """The machines: their job hours and their start-up, or whole offerings."""
    place, price, cost = drawn.place, drawn.offer.price, drawn.cost
    name = f"{place.nodes} x {place.instance_type} {place.option.value}"
    if cost is None or isinstance(price, Unpriced):
        missing = price if isinstance(price, Unpriced) else Unpriced(reason="no offering fits")
        return (component(name, "compute", "instance-hour", drawn.work.hours.mid * place.nodes, missing),)
    if place.option is PurchaseOption.CAPACITY_BLOCK:
        line = component(name, "compute", "instance-hour", cost.billed_hours * place.nodes, price)
        return (replace(line, usd=cost.usd.mid),)
    return (
        component(name, "compute", "instance-hour", cost.hours.mid * place.nodes, price),
        component("start-up of the machines", "compute", "instance-hour", BOOT_H * place.nodes, price),
    )


def _rounded(line: CostComponent) -> CostComponent:
    """A line to the hundredth of a cent, so that the lines add up to the total exactly."""
    return line if line.usd is None else replace(line, usd=line.usd.quantize(CENT_FRACTION))


def _total(drawn: Outline, desk: Desk, components: tuple[CostComponent, ...]) -> UsdRange | None:
    """The whole bill, low, middle and high; the middle is the sum of the lines."""
    if drawn.cost is None:
        return None
    mid = sum((each.usd for each in components if each.usd is not None), Decimal(0))
    low = drawn.cost.usd.low + _rest_usd(drawn, desk, drawn.cost.hours.low)
    high = drawn.cost.usd.high + _rest_usd(drawn, desk, drawn.cost.hours.high)
    return UsdRange(low=min(mid, low.quantize(CENT_FRACTION)), mid=mid, high=max(mid, high.quantize(CENT_FRACTION)))


def _rest_usd(drawn: Outline, desk: Desk, hours: float) -> Decimal:
    """The priced part of the rest of the bill when the job takes `hours`."""
    size = JobSize(hours=hours, checkpoint_interval_s=_interval_s(drawn))
    lines = rest_of_bill(drawn.place, desk.request, drawn.work, size, desk.catalog)
    return sum((each.usd for each in lines if each.usd is not None), Decimal(0))


def _outlook(cost: ComputeCost | None, work: Work) -> SpotOutlook | None:
    """What spot does to the job; the break-even is not known here."""
    if cost is None or cost.spot is None:
        return None
    job = cost.spot.job
    extra = job.expected_hours / work.hours.mid - 1 if work.hours.mid > 0 else 0.0
    return SpotOutlook(
        interruptions_expected=job.expected_interruptions,
        interruptions_per_hour=job.hazard,
        checkpoint_interval_s=job.interval * 3600,
        overhead_fraction=extra,
        usd_p90=cost.spot.usd_p90,
        break_even_interruptions_per_hour=None,
    )


def _assumptions(drawn: Outline, desk: Desk) -> tuple[Assumption, ...]:
    """Everything the numbers rest on, in the order of the flow."""
    from_cost = drawn.cost.assumptions if drawn.cost else ()
    return (*drawn.work.assumptions, *from_cost, *bill_assumptions(desk.request))


def _after_credits(usd: UsdRange | None, desk: Desk) -> Decimal | None:
    """Cash left to pay after the credits that have not expired; None without credits."""
    pools = desk.request.purchase.credits
    if usd is None or not pools:
        return None
    good = sum((each.usd for each in pools if each.expires is None or each.expires > desk.now), Decimal(0))
    return max(Decimal(0), usd.mid - good)


def _findings(drawn: Outline, components: tuple[CostComponent, ...], desk: Desk) -> tuple[Finding, ...]:
    """What is to be said of one candidate."""
    found: list[Finding] = []
    price, place, deadline = drawn.offer.price, drawn.place, desk.request.purchase.deadline_h
    if isinstance(price, Price) and price.market is not Market.OPEN:
        found.append(
            warning(
                "no-spot-market",
                "purchase.option",
                f"{place.az_id or place.region} shows no spot market for {place.instance_type}",
            )
        )
    found.extend(age_findings(price, place.option, desk.rules))
    found.extend(
        warning("unpriced-line", "", f"{each.name}: {each.unpriced}; the total is incomplete")
        for each in components
        if each.unpriced is not None and each.group != "compute"
    )
    hours = drawn.cost.hours if drawn.cost else drawn.work.hours
    found.extend(_deadline(hours, deadline))
    return tuple(found)


def _deadline(hours: Range, deadline_h: float | None) -> tuple[Finding, ...]:
    """The deadline against the range of hours."""
    if deadline_h is None or hours.high <= deadline_h:
        return ()
    path = "purchase.deadline_h"
    if hours.mid > deadline_h:
        return (
            error(
                "past-deadline", path, f"takes {hours.mid:.1f} h, the deadline is {deadline_h:g} h", "allow more nodes"
            ),
        )
    return (warning("may-miss-deadline", path, f"may take {hours.high:.1f} h, the deadline is {deadline_h:g} h"),)
