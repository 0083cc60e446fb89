"""From a candidate to its quote: the ranges, the assumptions, the policies and the gate's decision."""

import math
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from functools import lru_cache

from launcher.catalog.quotas import load_quotas
from launcher.model.enums import PREPAID, Basis
from launcher.model.finding import Finding
from launcher.model.money import Price, Range, Unpriced, UsdRange
from launcher.model.plan import Plan
from launcher.model.quote import Gate, Quote, SpotOutlook
from launcher.model.run_cost import RunRates
from launcher.model.work import Work
from launcher.planning.nat import egress
from launcher.planning.quotas import default_findings, quota_needs
from launcher.pricing.ages import expiry, rests_on
from launcher.pricing.announced_ends import end_findings, job_ends
from launcher.pricing.bill import bill_assumptions
from launcher.pricing.bill_lines import compute_usd
from launcher.pricing.blocks import MIN_CHANCE
from launcher.pricing.cash import cash
from launcher.pricing.commitments import commitment, commitment_assumptions
from launcher.pricing.compute import ComputeCost, boot_hours, compute_cost
from launcher.pricing.gate import NewCommitment, decide
from launcher.pricing.job_hours import FOREVER_H
from launcher.pricing.offers import price_key
from launcher.pricing.policies import policies
from launcher.pricing.spot_prices import spot_price
from launcher.pricing.stop_findings import stop_findings
from launcher.pricing.totals import price_of, total_usd
from launcher.pricing.training_candidate import FIRST_RATES, TrainingCandidate, candidate_charged
from launcher.pricing.training_findings import findings_of, left_up_usd_per_hour
from launcher.pricing.uncounted import uncounted_assumptions

TINY_USD = 1e-6
MAX_RATE = 1e9
SAME_RATE, CLOSE = 1e-6, 1e-5
"""Relative precision of a break-even; where the dollars are as close as this, one more straight line has it."""
STEPS, LINES = 60, 8
"""Rates that the search for a break-even tries at most, and those of them on straight lines through the last two: the
dollars grow almost evenly with the rate. At a jump of their median only halves end the search."""
MAX_INTERRUPTIONS = 1e9
"""A job with more interruptions never ends."""


def break_even(candidate: TrainingCandidate, rival_usd: Decimal | None) -> float | None:
    """Interruptions of the job per hour at which its total reaches the rival's; 0 if it costs more without any.

    None when there is no rival, or the candidate is not a priced one on spot.
    """
    price = candidate.offer.price
    if rival_usd is None or candidate.usd is None or candidate.hazard is None or not isinstance(price, Price):
        return None
    excess = _excess(candidate, max(float(rival_usd), TINY_USD))
    last, rate = FIRST_RATES
    if excess(last) >= 0.0:
        return last
    least, most = last, MAX_RATE
    for step in range(STEPS):
        value, before = excess(rate), excess(last)
        least, most = (max(least, rate), most) if value < 0.0 else (least, min(most, rate))
        last, rate = rate, rate - value * (rate - last) / (value - before) if value != before else most
        if (abs(value) < CLOSE and least <= rate <= most) or most - least <= SAME_RATE * most:
            break
        if step >= LINES or not least < rate < most:
            rate = (least + most) / 2 if most < MAX_RATE else min(MAX_RATE, 4.0 * last)
    return min(max(rate, least), most)


def _excess(candidate: TrainingCandidate, target: float) -> Callable[[float], float]:
    """How far the total exceeds the target, as a share of it, by the rate of interruptions and its best interval."""

    @lru_cache
    def excess(rate: float) -> float:
        usd = candidate.at_rate(rate).usd
        return math.inf if usd is None else float(usd) / target - 1.0

    return excess


def quote(candidate: TrainingCandidate, work: Work, rival_usd: Decimal | None) -> Quote:
    """The quote of a candidate.

    Args:
        candidate: the candidate.
        work: its work, with the calculation of every number.
        rival_usd: the lowest total without spot, for the break-even of a spot candidate.
    """
    context, place = candidate.context, candidate.place
    facts = context.catalog.instance_types.get(place.instance_type)
    egress_mode = egress(candidate.plan.request, place, context.catalog.instance_types)
    cost = _compute(candidate, work)
    outlined = _outline_quote(candidate, cost, rival_usd)
    paid = cash(candidate, cost)
    needs = quota_needs(candidate.plan, context.catalog.instance_types, load_quotas())
    limits = default_findings(needs, place.region, context.quotas)
    return replace(
        outlined,
        work=work,
        findings=(*outlined.findings, *limits),
        components=candidate.components,
        assumptions=(
            *work.assumptions,
            *(candidate.hazard.assumptions if cost and candidate.hazard is not None else ()),
            *(cost.explained() if cost else ()),
            *((candidate.overrun.line,) if candidate.overrun is not None and candidate.overrun.usd else ()),
            *bill_assumptions(
                context.request, context.catalog, place, facts, size=candidate.size, egress_mode=egress_mode
            ),
            *commitment_assumptions(candidate, cost),
            *paid.assumptions,
            *uncounted_assumptions(place, context.request, context.catalog, outlined.usd),
        ),
        policies=policies(context.request, candidate.interval_s, candidate.retries, place.target),
        cash_after_credits_usd=paid.after_credits_usd,
        cash_usd=paid.usd,
        rates=_rates(candidate),
    )


def outline(
    candidate: TrainingCandidate,
    rival_usd: Decimal | None,
    remarks: tuple[Finding, ...] = (),
    shown: Callable[[Gate], Gate] | None = None,
    *,
    plan: Plan | None = None,
) -> Quote:
    """The quote without the parts that a table row omits: priced lines, assumptions, policies, cash.

    A request has thousands of rows, and only a few quotes.

    Args:
        candidate: the candidate.
        rival_usd: the lowest total without spot, for the break-even of a spot candidate; None leaves it out.
        remarks: findings that the gate does not judge.
        shown: returns the gate's decision as the row shows it.
        plan: the candidate's plan, if the caller has it.
    """
    return _outline_quote(candidate, _compute(candidate, candidate.work), rival_usd, remarks, shown, plan=plan)


def _compute(candidate: TrainingCandidate, work: Work) -> ComputeCost | None:
    context, price, place = candidate.context, candidate.offer.price, candidate.place
    if candidate.charge is None or not isinstance(price, Price):
        return None
    spot = None
    if candidate.hazard is not None:
        spot = spot_price(place, price, price_of(candidate, price), candidate.forecast)
    return compute_cost(place, work, price, context.request, middle=candidate.charge, spot=spot)


def _outline_quote(
    candidate: TrainingCandidate,
    cost: ComputeCost | None,
    rival_usd: Decimal | None,
    remarks: tuple[Finding, ...] = (),
    shown: Callable[[Gate], Gate] | None = None,
    *,
    plan: Plan | None = None,
) -> Quote:
    """A quote with the candidate's cost, findings and gate decision."""
    context, price, place = candidate.context, candidate.offer.price, candidate.place
    plan, hours = plan or candidate.plan, _hours(candidate, cost)
    usd = None if cost is None else total_usd(candidate)
    per_hour = price.usd * place.nodes if isinstance(price, Price) else None
    ends, summary = job_ends(place, context), candidate.other_summary
    findings = (*findings_of(candidate, plan, hours), *end_findings(ends, context), *stop_findings(plan, usd, per_hour))
    bound, fees = _new(candidate, cost), candidate.unknown_fees
    gate = decide(plan, price, usd, per_hour, findings, rules=context.rules, commitment=bound, unknown_fees=fees)
    return Quote(
        plan=plan,
        work=candidate.work,
        availability=candidate.offer.availability,
        price=price,
        usd_per_hour=per_hour,
        hours=hours,
        billed_hours=candidate.charge.billed_hours if candidate.charge else hours.mid,
        usd=usd,
        components=summary.unpriced,
        commitment_usd=None if cost is None else cost.commitment_usd,
        spot=_outlook(candidate, usd, rival_usd),
        checkpoint_interval_s=candidate.interval_s,
        assumptions=(),
        policies=(),
        cash_after_credits_usd=None,
        findings=(*findings, *remarks),
        as_of=context.now,
        expires_at=expiry(price, rests_on(place), context.now, ends),
        gate=gate if shown is None else shown(gate),
        max_usd=context.rules.max_usd,
        note="; ".join(filter(None, (candidate.offered, cost.note if cost else "", _overrun_note(candidate)))),
        commitment=commitment(candidate, cost),
        accelerator=candidate.accelerator,
        price_range=cost.price_range if cost else None,
        left_up_usd_per_hour=left_up_usd_per_hour(candidate, per_hour),
        retries=candidate.retries,
        ends=ends,
        overrun_probability=candidate.charge.overrun_probability if candidate.charge else None,
        hours_to_first_step=_first_step_h(candidate),
        derived_lines=summary.derived + _is_derived(price),
        derived_share=_derived_share(candidate, usd),
    )


def _is_derived(price: Price | Unpriced) -> bool:
    return isinstance(price, Price) and price.basis is Basis.DERIVED


def _derived_share(candidate: TrainingCandidate, usd: UsdRange | None) -> float:
    """The part of the middle total that lines with derived prices are."""
    if usd is None or not usd.mid:
        return 0.0
    other, size = candidate.other_costs, candidate.size
    compute = float(usd.mid - other.total_usd(size)) if _is_derived(candidate.offer.price) else 0.0
    return (candidate.other_summary.derived_usd + compute) / float(usd.mid)


def _first_step_h(candidate: TrainingCandidate) -> float:
    """Start-up of the nodes and of the job: what the plan's own steps take is not in it."""
    start_h = candidate.charge.start_h if candidate.charge else boot_hours(candidate.place, candidate.work)
    return max(0.0, start_h - candidate.work.outside_command_h)


def _rates(candidate: TrainingCandidate) -> RunRates | None:
    """The growth of the lines with the job, to compute the run's actual cost; None without a price."""
    cost, size = candidate.charge, candidate.size
    if cost is None or not candidate.has_price:
        return None
    # A block is paid as a whole: its dollars do not grow with the hours.
    whole = candidate.place.option in PREPAID
    return RunRates(
        prepaid_usd=compute_usd(candidate.components) if whole else None,
        other_usd_per_hour=candidate.other_costs.usd_per_job_hour(size),
        cluster_usd_per_hour=candidate.other_costs.up_usd_per_hour(nodes=False),
        start_h=0.0 if whole else cost.start_h - candidate.work.outside_command_h,
        tail_h=cost.tail_h,
        list_usd_per_hour=_list_usd_per_hour(candidate),
    )


def _list_usd_per_hour(candidate: TrainingCandidate) -> Decimal | None:
    """The on-demand list price of all nodes; None if the catalog has no such price."""
    place, context = candidate.place, candidate.context
    key = price_key(place.on_demand, context.request.purchase.payment)
    price = key if isinstance(key, Unpriced) else context.catalog.price(key)
    return price.usd * place.nodes if isinstance(price, Price) else None


def _new(candidate: TrainingCandidate, cost: ComputeCost | None) -> NewCommitment | None:
    """The commitment that a launch would assume to exist, with the amount that AWS would bill without it."""
    if cost is None or cost.commitment_usd is None:
        return None
    place, context = candidate.place.on_demand, candidate.context
    known = context.on_demand_usd
    if place not in known:
        # The on-demand total of a place is that of all commitments there: it is computed once.
        charged = cost.charge.without_commitment
        known[place] = candidate_charged(place, candidate.work, context, charged, ()).usd
    return NewCommitment(cost.commitment_usd, known[place])


def _hours(candidate: TrainingCandidate, cost: ComputeCost | None) -> Range:
    """Wall hours of the job; an unpriced spot job takes as long as a priced one."""
    if cost is not None:
        return cost.hours
    estimate, middle = candidate.work.hours, min(candidate.hours, FOREVER_H)
    return Range(low=min(estimate.low, middle), mid=middle, high=min(max(estimate.high, middle), FOREVER_H))


def _outlook(candidate: TrainingCandidate, usd: UsdRange | None, rival_usd: Decimal | None) -> SpotOutlook | None:
    spot = candidate.charge.spot if candidate.charge else None
    if spot is None or usd is None:
        return None
    bare = candidate.work.hours.mid
    expected_h = min(spot.job.expected_hours, FOREVER_H)
    return SpotOutlook(
        interruptions_expected=min(spot.job.expected_interruptions, MAX_INTERRUPTIONS),
        interruptions_per_hour=spot.job.hazard,
        checkpoint_interval_s=spot.interval_s,
        overhead_fraction=expected_h / bare - 1 if bare > 0 else 0.0,
        usd_p90=usd.high,
        break_even_interruptions_per_hour=break_even(candidate, rival_usd),
    )


def _overrun_note(candidate: TrainingCandidate) -> str:
    """The chance that the job outlasts its offering, and how it finishes then."""
    charged = candidate.charge
    if charged is None or charged.outlasts < MIN_CHANCE:
        return ""
    more = candidate.overrun
    return "" if more is None else f"{charged.outlasts:.0%} risk of overrun, then {more.text}"
