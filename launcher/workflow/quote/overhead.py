"""The finding on a quote of which more than a third is not the work: the target and network with the least of it."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from launcher.model.errors import ImpossibleError
from launcher.model.finding import Finding, info
from launcher.model.overhead import HIGH_SHARE, SHARE_CODE
from launcher.model.quote import Quote
from launcher.model.request import NodeRange, PlanRequest
from launcher.pricing.priced import Priced
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import price_request


def overhead_findings(
    path: Path, priced: Priced, quoted: Quote, now: datetime, options: PriceOptions
) -> Iterator[Finding]:
    """An info where the overhead of a training quote is above a third; its hint is the way with the lowest share.

    Args:
        path: the plan file.
        priced: the candidates of the plan.
        quoted: the candidate that is quoted.
        now: the time of the prices.
        options: the options of the pricing.
    """
    overhead = quoted.overhead
    if overhead is None or overhead.share <= HIGH_SHARE:
        return
    hint = ""
    best = _lowest(path, priced, quoted, now, options)
    if best is not None and best.overhead is not None and best.usd is not None:
        share = f"{best.overhead.share:.0%}".replace("%", " %")
        hint = f"{_changes(priced.request, quoted, best)} has {share} (${best.usd.mid:,.2f} in all)"
    yield info(SHARE_CODE, "target.kind", overhead.text, hint)


def _changes(request: PlanRequest, quoted: Quote, best: Quote) -> str:
    """The keys of the plan file that lead to the better quote."""
    kind = best.plan.place.target
    keys = [] if kind is quoted.plan.place.target else [f"target.kind: {kind}"]
    if request.network.nat not in (None, best.plan.request.network.nat) or not keys:
        keys.append("network.nat: auto")
    return " with ".join(keys)


def _lowest(path: Path, priced: Priced, quoted: Quote, now: datetime, options: PriceOptions) -> Quote | None:
    """The launchable quote of the same instances, for less, with the lowest share of overhead; None without one."""
    alike = replace(options, picked=None, everything=True)
    try:
        others = price_request(path, _open(priced.request, quoted), priced.catalog, now, alike)
    except ImpossibleError:
        # No other target takes the plan's further keys.
        return None
    # Of equal whole percents, the lowest total; the rank of a candidate decides last.
    known = [
        (round(candidate.overhead.share, 2), candidate.usd.mid, rank, candidate)
        for rank, candidate in enumerate(others.quotes, start=1)
        if candidate.gate.allows_launch and candidate.overhead is not None and candidate.plan.place.nodes
        if candidate.usd is not None and quoted.usd is not None and candidate.usd.mid < quoted.usd.mid
    ]
    if not known or quoted.overhead is None:
        return None
    *_, best = min(known)
    return best if best.overhead is not None and best.overhead.share < quoted.overhead.share else None


def _open(request: PlanRequest, quoted: Quote) -> PlanRequest:
    """The request with the quote's instances pinned, and target and way to the internet open."""
    place = quoted.plan.place
    target = replace(
        request.target,
        kind=None,
        region=(place.region,),
        instance_type=(place.instance_type,),
        nodes=NodeRange(minimum=place.nodes, maximum=place.nodes),
    )
    purchase = replace(request.purchase, option=(place.option,))
    return replace(request, target=target, purchase=purchase, network=replace(request.network, nat=None))
