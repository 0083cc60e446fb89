"""From a draft to its quote: the ranges, what the numbers rest on, policies, findings and the gate's word."""

from collections.abc import Iterator
from decimal import Decimal

from launcher.model.document import resolve
from launcher.model.enums import Market, TargetKind
from launcher.model.finding import Finding, warning
from launcher.model.money import Price, Range, UsdRange
from launcher.model.quote import Quote, SpotOutlook
from launcher.model.work import Work
from launcher.pricing.ages import expiry
from launcher.pricing.bill import bill_assumptions
from launcher.pricing.bill_lines import CENT_FRACTION, JobSize, total_usd
from launcher.pricing.break_even import break_even
from launcher.pricing.cash import cash
from launcher.pricing.commitments import commitment
from launcher.pricing.compute import ComputeCost, compute_cost
from launcher.pricing.drafts import Draft
from launcher.pricing.gate import age_findings, judge
from launcher.pricing.hyperpod import surcharge
from launcher.pricing.policies import policies
from launcher.pricing.refusals import may_be_late

MOST_INTERRUPTIONS = 1e9
"""What is more is a job that never ends."""


def quote(drawn: Draft, work: Work, rival_usd: Decimal | None) -> Quote:
    """The quote of a draft.

    Args:
        drawn: the draft.
        work: its work with the arithmetic of every number.
        rival_usd: the cheapest total that is not on spot, for the break-even of one that is.
    """
    desk, price, place = drawn.desk, drawn.offer.price, drawn.place
    plan = resolve(desk.request, place, desk.document)
    cost = None
    if drawn.charge is not None and isinstance(price, Price):
        cost = compute_cost(place, work, price, desk.request, middle=drawn.charge, hazard=drawn.hazard)
    hours = _hours(drawn, cost)
    usd = None if cost is None else _total(drawn, cost, hours)
    per_hour = price.usd * place.nodes if isinstance(price, Price) else None
    findings = _findings(drawn, hours)
    tied = commitment(drawn, cost)
    paid = cash(drawn, cost)
    return Quote(
        plan=plan,
        work=work,
        availability=drawn.offer.availability,
        price=price,
        usd_per_hour=per_hour,
        hours=hours,
        billed_hours=drawn.charge.billed_hours if drawn.charge else hours.mid,
        usd=usd,
        components=drawn.components,
        commitment_usd=None if cost is None else cost.commitment_usd,
        spot=_outlook(drawn, usd, rival_usd),
        checkpoint_interval_s=drawn.interval_s,
        assumptions=(
            *work.assumptions,
            *(cost.assumptions if cost else ()),
            *bill_assumptions(desk.request, place.target),
            *(tied.assumptions if tied else ()),
            *paid.assumptions,
        ),
        policies=policies(desk.request, drawn.interval_s),
        cash_after_credits_usd=paid.after_credits_usd,
        findings=findings,
        as_of=desk.now,
        expires_at=expiry(price, place.option, desk.now) if isinstance(price, Price) else None,
        gate=judge(plan, price, usd, per_hour, findings, rules=desk.rules),
        note=cost.note if cost else "",
        commitment=tied,
        cash_usd=paid.usd,
    )


def _hours(drawn: Draft, cost: ComputeCost | None) -> Range:
    """Wall hours of the job; an unpriced one on spot takes as long as a priced one."""
    if cost is not None:
        return cost.hours
    own, middle = drawn.work.hours, drawn.hours
    return Range(low=min(own.low, middle), mid=middle, high=max(own.high, middle))


def _total(drawn: Draft, cost: ComputeCost, hours: Range) -> UsdRange:
    """The whole bill, low, middle and high; the middle is the sum of the lines."""
    mid = drawn.usd or Decimal(0)
    low = (cost.usd.low + _rest_usd(drawn, hours.low)).quantize(CENT_FRACTION)
    high = (cost.usd.high + _rest_usd(drawn, hours.high)).quantize(CENT_FRACTION)
    return UsdRange(low=min(mid, low), mid=mid, high=max(mid, high))


def _rest_usd(drawn: Draft, hours: float) -> Decimal:
    """The priced part of the rest of the bill when the job takes `hours`."""
    return total_usd(drawn.rest, JobSize(hours=hours, checkpoint_interval_s=drawn.interval_s))


def _outlook(drawn: Draft, usd: UsdRange | None, rival_usd: Decimal | None) -> SpotOutlook | None:
    """What spot does to the job."""
    told = drawn.charge.spot if drawn.charge else None
    if told is None or usd is None:
        return None
    bare = drawn.work.hours.mid
    return SpotOutlook(
        interruptions_expected=min(told.job.expected_interruptions, MOST_INTERRUPTIONS),
        interruptions_per_hour=told.job.hazard,
        checkpoint_interval_s=told.interval_s,
        overhead_fraction=drawn.hours / bare - 1 if bare > 0 else 0.0,
        usd_p90=usd.high,
        break_even_interruptions_per_hour=break_even(drawn, rival_usd),
    )


def _findings(drawn: Draft, hours: Range) -> tuple[Finding, ...]:
    """What is to be said of one candidate."""
    price, place, desk = drawn.offer.price, drawn.place, drawn.desk
    found = list(drawn.refusals)
    if isinstance(price, Price) and price.market is not Market.OPEN:
        where = place.az_id or place.region
        message = f"{where} shows no spot market for {place.instance_type}"
        found.append(warning("no-spot-market", "purchase.option", message))
    facts = desk.catalog.instance_types[place.instance_type]
    if place.nodes > 1 and not facts.efa_interfaces and "efa_interfaces" not in facts.unknown:
        message = f"{place.instance_type} has no EFA: {place.nodes} of them are joined by plain TCP"
        found.append(warning("no-efa", "target.nodes", message, "one node, or a type with EFA"))
    if isinstance(price, Price) and price.usd == 0:
        message = f"the machines are priced at $0 an hour ({price.source}): the total is without them"
        found.append(warning("zero-price", "purchase", message))
    if place.target is TargetKind.HYPERPOD_SLURM and isinstance(price, Price):
        more = surcharge(place, drawn.work, price, hours.mid, desk.catalog)
        found += [] if more is None else [more]
    found.extend(warning(*each) for each in may_be_late(hours.high, hours.mid, place, desk))
    found.extend(age_findings(price, place.option, desk.rules))
    found.extend(_unpriced(drawn))
    return tuple(found)


def _unpriced(drawn: Draft) -> Iterator[Finding]:
    """One warning for all lines beside the compute that have no price; the bill gives the reason of each."""
    missing = [each for each in drawn.components if each.unpriced is not None and each.group != "compute"]
    if len(missing) == 1:
        yield warning("unpriced-line", "", f"{missing[0].name}: {missing[0].unpriced}; the total is incomplete")
    elif missing:
        names = ", ".join(each.name for each in missing)
        yield warning("unpriced-line", "", f"{len(missing)} lines have no price, the total is incomplete: {names}")
