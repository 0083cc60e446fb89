"""From a candidate to its quote: the ranges, what the numbers rest on, policies, findings and the gate's word."""

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal

from launcher.model.enums import CheckpointMode, Market, PurchaseOption
from launcher.model.finding import Finding, warning
from launcher.model.money import Price, Range, UsdRange
from launcher.model.quote import Quote, SpotOutlook
from launcher.model.target import target_of
from launcher.model.work import Work
from launcher.pricing.ages import expiry
from launcher.pricing.bill import bill_assumptions
from launcher.pricing.bill_lines import CENT_FRACTION, JobSize
from launcher.pricing.break_even import break_even
from launcher.pricing.cash import cash
from launcher.pricing.commitments import commitment
from launcher.pricing.compute import ComputeCost, compute_cost
from launcher.pricing.gate import NewCommitment, judge
from launcher.pricing.hyperpod import surcharge
from launcher.pricing.policies import policies
from launcher.pricing.refusals import may_be_late
from launcher.pricing.spot_prices import spot_price
from launcher.pricing.stop_findings import stop_findings
from launcher.pricing.training_candidate import TrainingCandidate, training_candidate
from launcher.pricing.trust import trust_findings
from launcher.pricing.uncounted import uncounted_assumptions

NODES_OF_A_WHOLE_RESTORE = 32
"""Up to which the agent's way, every file to every node, is a way to restore: a choice of this project."""

MOST_INTERRUPTIONS = 1e9
"""What is more is a job that never ends."""


def quote(candidate: TrainingCandidate, work: Work, rival_usd: Decimal | None) -> Quote:
    """The quote of a candidate.

    Args:
        candidate: the candidate.
        work: its work with the arithmetic of every number.
        rival_usd: the cheapest total that is not on spot, for the break-even of one that is.
    """
    context, place = candidate.context, candidate.place
    cost = _compute(candidate, work)
    made = _outlined(candidate, cost, rival_usd)
    paid = cash(candidate, cost)
    return replace(
        made,
        work=work,
        components=candidate.components,
        assumptions=(
            *work.assumptions,
            *(cost.explained() if cost else ()),
            *bill_assumptions(context.request, place.target),
            *(made.commitment.assumptions if made.commitment else ()),
            *paid.assumptions,
            *uncounted_assumptions(place, context.request, context.catalog, made.usd),
        ),
        policies=policies(context.request, candidate.interval_s),
        cash_after_credits_usd=paid.after_credits_usd,
        cash_usd=paid.usd,
    )


def outline(candidate: TrainingCandidate, rival_usd: Decimal | None) -> Quote:
    """The same without what a row of a table does not show: lines that have a price, assumptions, policies, cash.

    There are thousands of rows, and a few quotes.
    """
    return _outlined(candidate, _compute(candidate, candidate.work), rival_usd)


def _compute(candidate: TrainingCandidate, work: Work) -> ComputeCost | None:
    """The compute of a candidate with its range; None without a price."""
    context, price, place = candidate.context, candidate.offer.price, candidate.place
    if candidate.charge is None or not isinstance(price, Price):
        return None
    spot = None
    if candidate.hazard is not None:
        spot = spot_price(place, price, context.catalog, context.rules.today)
    return compute_cost(
        place, work, price, context.request, middle=candidate.charge, hazard=candidate.hazard, spot=spot
    )


def _outlined(candidate: TrainingCandidate, cost: ComputeCost | None, rival_usd: Decimal | None) -> Quote:
    """The money of a candidate, what is to be said of it, and the gate's word."""
    context, price, place = candidate.context, candidate.offer.price, candidate.place
    plan, hours = candidate.plan, _hours(candidate, cost)
    usd = None if cost is None else _total(candidate, cost, hours)
    per_hour = price.usd * place.nodes if isinstance(price, Price) else None
    findings = (*_findings(candidate, hours), *stop_findings(plan, usd, per_hour))
    return Quote(
        plan=plan,
        work=candidate.work,
        availability=candidate.offer.availability,
        price=price,
        usd_per_hour=per_hour,
        hours=hours,
        billed_hours=candidate.charge.billed_hours if candidate.charge else hours.mid,
        usd=usd,
        components=candidate.rest.summary(candidate.size).unpriced,
        commitment_usd=None if cost is None else cost.commitment_usd,
        spot=_outlook(candidate, usd, rival_usd),
        checkpoint_interval_s=candidate.interval_s,
        assumptions=(),
        policies=(),
        cash_after_credits_usd=None,
        findings=findings,
        as_of=context.now,
        expires_at=expiry(price, place.option, context.now) if isinstance(price, Price) else None,
        gate=judge(plan, price, usd, per_hour, findings, rules=context.rules, commitment=_new(candidate, cost)),
        note="; ".join(each for each in (candidate.offered, cost.note if cost else "") if each),
        commitment=commitment(candidate, cost),
        accelerator=candidate.accelerator,
        price_range=cost.price_range if cost else None,
    )


def _new(candidate: TrainingCandidate, cost: ComputeCost | None) -> NewCommitment | None:
    """The commitment that a launch would take for granted, with what AWS would bill in its place."""
    if cost is None or cost.commitment_usd is None:
        return None
    place = replace(candidate.place, option=PurchaseOption.ON_DEMAND, plan_kind=None, term_years=None)
    known = candidate.context.on_demand_usd
    if place not in known:
        known[place] = training_candidate(place, candidate.work, candidate.context).usd
    return NewCommitment(cost.commitment_usd, known[place])


def _hours(candidate: TrainingCandidate, cost: ComputeCost | None) -> Range:
    """Wall hours of the job; an unpriced one on spot takes as long as a priced one."""
    if cost is not None:
        return cost.hours
    own, middle = candidate.work.hours, candidate.hours
    return Range(low=min(own.low, middle), mid=middle, high=max(own.high, middle))


def _total(candidate: TrainingCandidate, cost: ComputeCost, hours: Range) -> UsdRange:
    """The whole bill, low, middle and high; the middle is the sum of the lines."""
    mid = candidate.usd or Decimal(0)
    low = (cost.usd.low + _rest_usd(candidate, hours.low)).quantize(CENT_FRACTION)
    high = (cost.usd.high + _rest_usd(candidate, hours.high)).quantize(CENT_FRACTION)
    return UsdRange(low=min(mid, low), mid=mid, high=max(mid, high))


def _rest_usd(candidate: TrainingCandidate, hours: float) -> Decimal:
    """The priced part of the rest of the bill when the job takes `hours`."""
    return candidate.rest.total_usd(JobSize(hours=hours, checkpoint_interval_s=candidate.interval_s))


def _outlook(candidate: TrainingCandidate, usd: UsdRange | None, rival_usd: Decimal | None) -> SpotOutlook | None:
    """What spot does to the job."""
    told = candidate.charge.spot if candidate.charge else None
    if told is None or usd is None:
        return None
    bare = candidate.work.hours.mid
    return SpotOutlook(
        interruptions_expected=min(told.job.expected_interruptions, MOST_INTERRUPTIONS),
        interruptions_per_hour=told.job.hazard,
        checkpoint_interval_s=told.interval_s,
        overhead_fraction=candidate.hours / bare - 1 if bare > 0 else 0.0,
        usd_p90=usd.high,
        break_even_interruptions_per_hour=break_even(candidate, rival_usd),
    )


def _findings(candidate: TrainingCandidate, hours: Range) -> tuple[Finding, ...]:
    """What is to be said of one candidate."""
    price, place, context = candidate.offer.price, candidate.place, candidate.context
    found = list(candidate.refusals)
    if isinstance(price, Price) and price.market is not Market.OPEN:
        where = place.az_id or place.region
        message = f"{where} shows no spot market for {place.instance_type}"
        found.append(warning("no-spot-market", "purchase.option", message))
    facts = context.catalog.instance_types[place.instance_type]
    if place.nodes > 1 and not facts.efa_interfaces and "efa_interfaces" not in facts.unknown:
        message = f"{place.instance_type} has no EFA: {place.nodes} of them are joined by plain TCP"
        found.append(warning("no-efa", "target.nodes", message, "one node, or a type with EFA"))
    found.extend(_restore_by_all(candidate))
    if isinstance(price, Price) and price.usd == 0:
        message = f"the machines are priced at $0 an hour ({price.source}): the total is without them"
        found.append(warning("zero-price", "purchase", message))
    if target_of(place.target).managed and isinstance(price, Price):
        more = surcharge(place, candidate.work, price, hours.mid, context.catalog)
        found += [] if more is None else [more]
    found.extend(warning(*each) for each in may_be_late(hours.high, hours.mid, place, context))
    found.extend(trust_findings(candidate))
    found.extend(_unpriced(candidate))
    return tuple(found)


def _restore_by_all(candidate: TrainingCandidate) -> Iterator[Finding]:
    """A warning where many nodes each get the files of all at a restore."""
    nodes, gigabytes = candidate.place.nodes, candidate.work.checkpoint_gb
    if candidate.context.request.checkpoint.mode is not CheckpointMode.AGENT or nodes <= NODES_OF_A_WHOLE_RESTORE:
        return
    each = "" if gigabytes is None else f", {gigabytes:,.0f} GB and {nodes * gigabytes / 1000:,.0f} TB together"
    message = f"at a restore each of the {nodes} nodes reads the files of all{each}"
    fix = "checkpoint.mode: dcp has each rank read its own shards"
    yield warning("restore-by-all", "checkpoint.mode", message, fix)


def _unpriced(candidate: TrainingCandidate) -> Iterator[Finding]:
    """One warning for all lines beside the compute that have no price; the bill gives the reason of each."""
    missing = candidate.rest.summary(candidate.size).unpriced
    if len(missing) == 1:
        yield warning("unpriced-line", "", f"{missing[0].name}: {missing[0].unpriced}; the total is incomplete")
    elif missing:
        names = ", ".join(each.name for each in missing)
        yield warning("unpriced-line", "", f"{len(missing)} lines have no price, the total is incomplete: {names}")
