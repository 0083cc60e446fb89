"""The instance types among which EC2 chooses at each start and replacement: each priced, and gated as the first one."""

from dataclasses import replace
from datetime import datetime
from pathlib import Path

from launcher.model.errors import ImpossibleError
from launcher.model.finding import Finding, info
from launcher.model.quote import Quote
from launcher.model.request import NodeRange, PlanRequest
from launcher.pricing.priced import Priced
from launcher.targets.registry import target_of
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import price_request


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
    return tuple(info("fallback-price", "target.fallback_types", _text(quote), quote.gate.hint) for quote in quotes)


def with_dearest_rate(quoted: Quote, quotes: tuple[Quote, ...]) -> Quote:
    """The quote whose guard counts each node at the rate of the dearest type, so that a limit holds for all of them."""
    rates = [quote.usd_per_hour for quote in (quoted, *quotes) if quote.usd_per_hour is not None]
    return replace(quoted, counted_usd_per_hour=max(rates)) if quotes and rates else quoted


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
    refused = "" if quote.gate.allowed else f"; refused: {quote.gate.reason}"
    return f"fallback type {name}: ${quote.usd_per_hour:,.2f} an hour, ${quote.usd.mid:,.2f} for the job{refused}"
