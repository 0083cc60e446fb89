"""The quotes of serving candidates: range, assumptions, policies, findings, the gate's decision."""

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal

from launcher.catalog.quotas import load_quotas
from launcher.model.announced_end import AnnouncedEnd
from launcher.model.endpoint import base_instances
from launcher.model.enums import COMMITTED, PREPAID, Basis, Level, PurchaseOption
from launcher.model.finding import Finding, warning
from launcher.model.money import Assumption, Price, Range, UsdRange, sum_usd
from launcher.model.quote import Policy, Quote
from launcher.model.record import record
from launcher.model.serving import ServedModel, ServingChoices, ServingFacts, ServingOutlook
from launcher.model.units import HOURS_A_YEAR, HOURS_PER_MONTH, number_of
from launcher.model.workload import ServingWorkload
from launcher.planning.endpoint import ServingDeployment
from launcher.planning.quotas import default_findings, quota_needs
from launcher.planning.serving.explanation import estimate_lines
from launcher.planning.serving.model import model_of
from launcher.pricing.ages import expiry
from launcher.pricing.announced_ends import end_findings, job_software, near_ends
from launcher.pricing.bill_lines import CENT_FRACTION, compute_usd
from launcher.pricing.blocks import bought_capacity
from launcher.pricing.cash import Cash, apply_credits
from launcher.pricing.compute import is_new_commitment
from launcher.pricing.gate import NewCommitment, decide
from launcher.pricing.offers import offer
from launcher.pricing.policies import budget_settings, policies_of
from launcher.pricing.priced import PricedRequest
from launcher.pricing.serving.bedrock_findings import bedrock_findings, cache_lines
from launcher.pricing.serving.candidate import ServingCandidate
from launcher.pricing.serving.compile_job import compile_lines
from launcher.pricing.serving.other_costs import other_cost_assumptions
from launcher.pricing.serving.totals import month_price, month_usd
from launcher.pricing.serving.traffic import fleet_lines, requests_per_month, rollout_text
from launcher.pricing.serving.training_plan import plan_lines
from launcher.pricing.standing import Standing, standing
from launcher.pricing.stop_findings import stop_findings
from launcher.pricing.trust import market_findings, trust_findings
from launcher.pricing.uncounted import uncounted_assumptions, unpriced_lines

MILLION = Decimal(1_000_000)
MONTH = Range(low=HOURS_PER_MONTH, mid=HOURS_PER_MONTH, high=HOURS_PER_MONTH)


def quote(candidate: ServingCandidate, explained: tuple[Assumption, ...]) -> Quote:
    """The quote of a serving candidate: one month.

    Args:
        candidate: the candidate.
        explained: the throughput of one instance, with its calculation.
    """
    price = candidate.offer.price
    plan = candidate.plan
    usd, span = month_usd(candidate), month_price(candidate)
    nodes = candidate.place.nodes if candidate.fleet is not None else 1
    per_hour = price.usd * nodes if isinstance(price, Price) else None
    stop = stop_findings(plan, usd, per_hour) if candidate.fleet is not None else ()
    ends = near_ends(_software(candidate), candidate.context)
    findings = (
        *candidate.refusals,
        *_findings(candidate),
        *(finding for finding in candidate.findings if finding.level is not Level.ERROR),
        *end_findings(ends, candidate.context),
        *stop,
        *_limits(candidate),
    )
    cash, due, lines = _cash(candidate)
    derived = [line.usd for line in candidate.components if line.basis is Basis.DERIVED]
    return Quote(
        plan=plan,
        work=None,
        availability=candidate.offer.availability,
        price=price,
        usd_per_hour=per_hour,
        hours=MONTH,
        billed_hours=HOURS_PER_MONTH if candidate.fleet is None else candidate.paid_hours(candidate.fleet) / nodes,
        usd=usd,
        components=candidate.components,
        commitment_usd=_commitment(candidate),
        spot=None,
        checkpoint_interval_s=None,
        assumptions=(*_assumptions(candidate, explained, usd), *(span.assumptions if span is not None else ()), *lines),
        policies=_policies(candidate),
        cash_after_credits_usd=due,
        findings=findings,
        as_of=candidate.context.now,
        expires_at=expiry(price, candidate.place.option, candidate.context.now, ends),
        gate=decide(plan, price, usd, per_hour, findings, rules=candidate.context.rules, commitment=_new(candidate)),
        max_usd=candidate.context.rules.max_usd,
        note=_note(candidate),
        cash_usd=cash,
        serving=_outlook(candidate, usd),
        accelerator=candidate.accelerator,
        price_range=span.usd if span is not None else None,
        left_up_usd_per_hour=None if usd is None else _left_up_usd_per_hour(candidate, usd.mid - _prepaid(candidate)),
        ends=ends,
        derived_lines=len(derived),
        derived_share=float(sum_usd(derived) / usd.mid) if usd is not None and usd.mid else 0.0,
    )


def _left_up_usd_per_hour(candidate: ServingCandidate, month_usd: Decimal) -> Decimal:
    """The hourly rate of an endpoint until its removal, from the middle of its month; 0 on Bedrock, billed by token."""
    if candidate.fleet is None:
        return Decimal(0)
    return (month_usd / Decimal(repr(HOURS_PER_MONTH))).quantize(CENT_FRACTION)


def _prepaid(candidate: ServingCandidate) -> Decimal:
    """The dollars of a month that a removal of the endpoint does not end: those of a purchased training plan."""
    purchased = bought_capacity(candidate.context.request.purchase, candidate.place.option)
    return Decimal(0) if purchased is None else compute_usd(candidate.components)


def _outlook(candidate: ServingCandidate, usd: UsdRange | None) -> ServingOutlook:
    requests = requests_per_month(candidate.serve) * candidate.share_of_month
    outputs = Decimal(repr(requests * candidate.serve.answer_tokens))
    whole = Decimal(repr(requests * (candidate.serve.input_tokens + candidate.serve.answer_tokens)))
    estimate, load, price = candidate.estimate, candidate.fleet, candidate.offer.price
    share, idle = None, None
    if load is not None:
        paid, used = candidate.paid_hours(load), candidate.used_hours(load)
        share = min(1.0, used / paid) if paid else 0.0
        if isinstance(price, Price):
            idle = (price.usd * Decimal(repr(max(0.0, paid - used)))).quantize(CENT_FRACTION)
    return ServingOutlook(
        tokens_per_s=None if estimate is None else estimate.tokens_per_s.mid,
        utilisation=share,
        usd_per_month=usd,
        usd_per_million_output_tokens=_per_million(usd, outputs),
        usd_per_million_tokens=_per_million(usd, whole),
        ttft_ms=None if estimate is None else estimate.ttft_ms,
        tpot_ms=None if estimate is None else estimate.tpot_ms,
        requests_per_month=requests,
        idle_usd_per_month=idle,
        estimate=estimate,
        instances=None if load is None else load.instances,
        bedrock=candidate.bedrock,
    )


def _per_million(usd: UsdRange | None, tokens: Decimal) -> Decimal | None:
    """Dollars per million tokens; None without a price or if a month has less than one token."""
    return None if usd is None or tokens < 1 else (usd.mid * MILLION / tokens).quantize(CENT_FRACTION)


def _commitment(candidate: ServingCandidate) -> Decimal | None:
    price, place = candidate.offer.price, candidate.place
    if not isinstance(price, Price) or not is_new_commitment(place, candidate.context.request):
        return None
    return price.usd * place.nodes * HOURS_A_YEAR * (place.term_years or 1)


def _new(candidate: ServingCandidate) -> NewCommitment | None:
    """The commitment that a deployment would assume to exist, with the amount AWS would bill a month without it."""
    tied = _commitment(candidate)
    if tied is None:
        return None
    place, context = candidate.place.on_demand, candidate.context
    priced = offer(place, context.request, context.catalog, context.rules.today)
    return NewCommitment(tied, replace(candidate, place=place, offer=priced).usd)


def _cash(candidate: ServingCandidate) -> Cash:
    """Cash of the first month."""
    usd, context = candidate.usd, candidate.context
    if usd is None:
        return Cash(None, None, ())
    if context.request.purchase.owned and candidate.place.option in COMMITTED:
        usd -= compute_usd(candidate.components)
    usd -= _prepaid(candidate)
    return apply_credits(usd, (), context)


def _assumptions(
    candidate: ServingCandidate, explained: tuple[Assumption, ...], usd: UsdRange | None
) -> tuple[Assumption, ...]:
    month = Assumption(name="a month", value=f"{HOURS_PER_MONTH:g}", unit="hours", source="8,760 hours a year over 12")
    left_out = uncounted_assumptions(candidate.place, candidate.context.request, candidate.context.catalog, usd)
    if candidate.estimate is None or candidate.fleet is None:
        return (month, *cache_lines(candidate.serve, candidate.bedrock), *left_out)
    return (
        *explained,
        *fleet_lines(candidate.serve, candidate.estimate, candidate.fleet, candidate.hosting),
        *plan_lines(candidate.place, candidate.context),
        *compile_lines(candidate.place, candidate.context.catalog),
        month,
        *(candidate.hazard.assumptions if candidate.hazard is not None else ()),
        *other_cost_assumptions(candidate.hosting.mode),
        *cache_lines(candidate.serve, None),
        *left_out,
    )


def _findings(candidate: ServingCandidate) -> Iterator[Finding]:
    place = candidate.place
    yield from market_findings(candidate)
    if place.option is PurchaseOption.SPOT:
        message = "EC2 ends spot instances with 2 minutes' notice, and their requests fail"
        yield warning("spot-serving", "purchase.option", message, "use 2 zones, or spot with on-demand instances")
    if candidate.bedrock is not None:
        yield from bedrock_findings(candidate.bedrock, candidate.serve, place.region)
    rails = candidate.context.request.guardrails
    ends = candidate.fleet is not None and place.option not in PREPAID
    if rails.ttl_h is not None and not rails.notify and ends:
        message = f"the endpoint is deleted {rails.ttl_h:g} h after its last deployment, without a notification before"
        yield warning("ttl-without-notice", "guardrails.ttl_h", message, "add a recipient to guardrails.notify")
    yield from trust_findings(candidate)
    other_components = [component for component in candidate.components if component.group != "compute"]
    yield from unpriced_lines([component for component in other_components if component.unpriced is not None])


def _limits(candidate: ServingCandidate) -> Iterator[Finding]:
    """The default quotas that are too small for the instances."""
    if candidate.bedrock is None:
        needs = quota_needs(candidate.plan, candidate.context.catalog.instance_types, load_quotas())
        yield from default_findings(needs, candidate.place.region, candidate.context.quotas)


def _software(candidate: ServingCandidate) -> Iterator[str | AnnouncedEnd]:
    """The components that a candidate needs, for announced ends: Bedrock's model, or instances with their images."""
    if candidate.bedrock is not None:
        yield from () if candidate.bedrock.end is None else (candidate.bedrock.end,)
        return
    yield from job_software(candidate.place, candidate.context)
    served = ServingDeployment(plan=candidate.plan, catalog=candidate.context.catalog, images=candidate.images)
    yield f"image/{(served.image or '').rpartition('/')[2]}"
    if served.is_managed and served.engine_image is not None:
        yield f"ami/{served.engine_image.ami}"


def _policies(candidate: ServingCandidate) -> tuple[Policy, ...]:
    request, serve, load = candidate.context.request, candidate.serve, candidate.fleet
    budget, ttl_h = request.budget, request.guardrails.ttl_h
    scaling = rollout = zones = None
    if load is not None:
        most = serve.max_instances or load.instances.most
        scaling = f"{base_instances(serve)} to {most} instances"
        rollout = f"{rollout_text(serve, candidate.hosting)}" + (
            ", with alarms and rollback" if candidate.hosting.mode else ""
        )
        zones = number_of(serve.zones, "zone") if serve.zones > 1 else None
    prepaid = candidate.place.option in PREPAID
    ended = "the guard sends a notification" if prepaid else "the endpoint is deleted"
    settings = {
        **budget_settings(budget, "the high estimate of a month"),
        "budget stop": None if budget.stop_at_usd is None else _stop_text(budget.stop_at_usd, serve),
        "TTL": None if ttl_h is None else f"{ttl_h:g} h after the last deployment {ended}",
        "autoscaling": scaling,
        "deployment": rollout,
        "redundancy": zones,
        "data capture": "requests and answers in S3" if serve.data_capture else None,
        "notifications": ", ".join(request.guardrails.notify) or None,
    }
    return policies_of(settings)


def _stop_text(usd: Decimal, serve: ServingWorkload) -> str:
    return f"${usd:,f}: the endpoint " + ("is deleted" if serve.min_instances else "goes to no instance")


def _note(candidate: ServingCandidate) -> str:
    """The note of a table row."""
    terms = candidate.bedrock
    if terms is not None:
        end = terms.end if terms.end is not None and terms.end.near(candidate.context.rules.today) else None
        until = "" if end is None else f"ends {end.ends}; "
        return f"{until}Bedrock {terms.mode.value.replace('-', ' ')}, {terms.inference_id}"
    if candidate.estimate is None:
        return ""
    layout = candidate.estimate.layout
    kind = "measured" if candidate.estimate.measured else "estimated"
    return f"{layout.copies} × TP{layout.tensor_parallel}, batch {layout.batch}, {kind}"


def standing_of(candidate: ServingCandidate) -> Standing:
    """What the gate says of a candidate."""
    return standing(candidate, lambda: quote(candidate, ()).gate)


@record(slots=False)
class ServingPriced(PricedRequest[ServingCandidate]):
    """A serving plan with its candidates, best first, and the inputs of their throughput estimate.

    `choices` holds the options that can serve the plan; `closed` means that only Bedrock has the model.
    """

    choices: ServingChoices
    closed: bool
    facts: ServingFacts

    @property
    def serve(self) -> ServingWorkload:
        """The workload."""
        return self.choices.serve

    @property
    def model(self) -> ServedModel | None:
        """The served model; None for a closed one."""
        return model_of(self.serve, self.catalog)

    @property
    def params_b(self) -> float | None:
        """Billions of parameters of the model; None if unknown."""
        return self.model.params_b if self.model is not None else None

    def _standing_of(self, candidate: ServingCandidate) -> Standing:
        return standing_of(candidate)

    def _quote(self, rank: int) -> Quote:
        candidate = self.candidates[rank - 1]
        estimate = candidate.estimate
        lines: tuple[Assumption, ...] = ()
        if estimate is not None and self.model is not None:
            facts = self.catalog.instance_types[candidate.place.instance_type]
            lines = estimate_lines(self.serve, self.model, estimate, facts, catalog=self.catalog, known=self.facts)
        return quote(candidate, lines)
