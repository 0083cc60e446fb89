"""The instance types among which EC2 chooses at each start and replacement: each priced, and gated as the first one."""

from dataclasses import replace
from datetime import datetime
from pathlib import Path

from launcher.model.errors import ImpossibleError
from launcher.model.finding import Finding, info, warning
from launcher.model.quote import Gate, Quote
from launcher.model.request import NodeRange, PlanRequest
from launcher.model.run_cost import NO_RATES
from launcher.pricing.priced import Priced
from launcher.targets.registry import target_of
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import price_request

FALLBACK_CODE, REFUSED_CODE, _PATH = "fallback-price", "fallback-refused", "target.fallback_types"


def fallback_quotes(
    path: Path, priced: Priced, quoted: Quote, now: datetime, options: PriceOptions
) -> tuple[Quote, ...]:
    """The whole job quoted on each fallback type, in the zone, number and option of the quote.

    Empty for targets whose fallback types are started by a job that names them.

    Raises:
        ImpossibleError: a job cannot run on a fallback type.
    """
    place = quoted.plan.place
    types = quoted.plan.request.target.fallback_types
    if not types or not target_of(place.target).service_chooses_type:
        return ()
    alone = replace(options, picked=None, everything=False)
    quotes = []
    for name in types:
        try:
            found = price_request(path, _pin_type(priced.request, quoted, name), priced.catalog, now, alone)
        except ImpossibleError as problem:
            message = f"fallback type {name}: {problem.message}"
            raise ImpossibleError(
                message, hint="remove it from target.fallback_types", findings=problem.findings
            ) from None
        quotes.append(found.quote(1))
    return tuple(quotes)


def fallback_findings(quotes: tuple[Quote, ...]) -> tuple[Finding, ...]:
    """One line for each fallback type: what the job would cost on it alone, and what the gate says."""
    return tuple(info(FALLBACK_CODE, _PATH, _text(quote), quote.gate.hint) for quote in quotes)


def with_refused_types(path: Path, priced: Priced, options: PriceOptions) -> Priced:
    """The plan with a warning for each fallback type for which a launch of its first row would be refused."""
    if priced.cheapest_allowed is None or not priced.request.target.fallback_types:
        return priced
    quoted = priced.quote(priced.cheapest_allowed)
    try:
        quotes = fallback_quotes(path, priced, quoted, priced.now, options)
    except ImpossibleError as problem:
        refused = [(problem.message, problem.hint or "")]
    else:
        refused = [
            (gate.reason, gate.hint) for gate in (_refusal(each) for each in quotes if not each.gate.allows_launch)
        ]
    warnings = (warning(REFUSED_CODE, _PATH, f"a launch is refused: {why}", hint) for why, hint in refused)
    return replace(priced, findings=(*priced.findings, *warnings))


def with_types(quoted: Quote, quotes: tuple[Quote, ...]) -> Quote:
    """The quote with the rate of each type; its gate refuses the job if the gate refuses it on one of them.

    Its guard counts each node at the rate of the dearest type, so that a limit holds for all of them; report, meter and
    ledger count each attempt at the rate of its own types.
    """
    every = (quoted, *quotes)
    known = {each.plan.place.instance_type: each.usd_per_hour for each in every if each.usd_per_hour is not None}
    if not quotes or not known:
        return quoted
    rates = replace(quoted.rates or NO_RATES, type_usd_per_hour=tuple(known.items()))
    gate = next((_refusal(each) for each in quotes if not each.gate.allows_launch), quoted.gate)
    gate = gate if quoted.gate.allows_launch else quoted.gate
    return replace(quoted, counted_usd_per_hour=max(known.values()), rates=rates, gate=gate)


def _refusal(quoted: Quote) -> Gate:
    """The gate's refusal of a fallback type, as that of the whole plan."""
    gate = quoted.gate
    hint = ", or ".join(filter(None, (gate.hint, "remove the type from target.fallback_types")))
    return replace(gate, reason=f"fallback type {quoted.plan.place.instance_type}: {gate.reason}", hint=hint)


def _pin_type(request: PlanRequest, quoted: Quote, name: str) -> PlanRequest:
    place = quoted.plan.place
    target = replace(
        request.target,
        kind=(place.target,),
        region=(place.region,),
        az_id=place.az_id,
        instance_type=(name,),
        fallback_types=(),
        nodes=NodeRange(minimum=place.nodes, maximum=place.nodes),
    )
    return replace(request, target=target, purchase=replace(request.purchase, option=(place.option,)))


def _text(quote: Quote) -> str:
    name = quote.plan.place.instance_type
    if quote.usd is None or quote.usd_per_hour is None:
        return f"fallback type {name}: {quote.gate.reason}"
    refused = "" if quote.gate.allows_launch else f"; refused: {quote.gate.reason}"
    return f"fallback type {name}: ${quote.usd_per_hour:,.2f} an hour, ${quote.usd.mid:,.2f} for the job{refused}"
