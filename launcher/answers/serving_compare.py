"""The options of an endpoint, the crossovers and the verdict: `slipway compare` of a serving plan."""

from decimal import Decimal

from launcher.answers import serving_compare_screen, words
from launcher.answers.compare import comparison_page
from launcher.answers.lines import fold
from launcher.answers.serving_table import headline, table
from launcher.answers.table import Column, render
from launcher.model.money import Price, Unpriced
from launcher.model.quote import Quote
from launcher.model.serving import ServingEstimate
from launcher.pricing.serving.crossover import usd_per_request
from launcher.workflow.quote.commands import command
from launcher.workflow.quote.compare_serving import Crossover, ServingComparison

MAX_ROWS = 10


def page(comparison: ServingComparison, width: int, *, verbose: bool = False) -> list[str]:
    """The first screen, or with every instance type and reason (`verbose`)."""
    if not verbose:
        return serving_compare_screen.page(comparison, width)
    body = (*table(_sides(comparison), width), *_crossovers(comparison, width))
    lines = comparison_page(comparison, headline(comparison.priced), body, width, "Nothing was called")
    return [*lines, "", f"  next: {command(comparison.priced, 'plan')}"]


def _sides(comparison: ServingComparison) -> list[tuple[str, Quote]]:
    known = [
        quote for quote in (comparison.sides.hosted, comparison.sides.neuron, comparison.sides.gpu) if quote is not None
    ]
    known.sort(key=lambda quote: (quote.usd is None, quote.usd.mid if quote.usd else Decimal(0)))
    return [(quote.short_id, quote) for quote in known]


def _crossovers(comparison: ServingComparison, width: int) -> list[str]:
    ordered = sorted(
        (crossover for crossover in comparison.crossovers if crossover.utilisation is not None), key=_share
    )
    pinned = [
        crossover
        for crossover in ordered
        if crossover.candidate.place.instance_type in (comparison.request.target.instance_type or ())
    ]
    ordered = sorted([*pinned, *(crossover for crossover in ordered if crossover not in pinned)][:MAX_ROWS], key=_share)
    rate = usd_per_request(comparison.hosted_candidate)
    if not ordered or rate is None:
        return []
    columns: list[Column[Crossover]] = [
        Column("instance", lambda crossover: words.place_instances(crossover.candidate.place).partition(" × ")[2]),
        Column("how", lambda crossover: words.option(crossover.candidate.place)),
        Column("where", lambda crossover: crossover.candidate.place.region, yields=1),
        Column("$/h", lambda crossover: _hourly(crossover.candidate.offer.price), "point"),
        Column("tokens/s", lambda crossover: _tokens(crossover.candidate.estimate), "right"),
        Column("break-even", lambda crossover: f"{_share(crossover):.0%}", "right"),
        Column("", lambda crossover: "never" if _share(crossover) > 1 else ""),
    ]
    title = (
        f"  Break-even utilization: the share of its hours for which an instance must be full to cost what Bedrock does"
        f" (${rate:.6f} a request):"
    )
    return ["", *fold(title, width), *render(columns, ordered, width)]


def _share(crossover: Crossover) -> float:
    return crossover.utilisation or 0.0


def _hourly(price: Price | Unpriced) -> str:
    return words.dollars(price.usd) if isinstance(price, Price) else ""


def _tokens(estimate: ServingEstimate | None) -> str:
    return "" if estimate is None else f"{estimate.tokens_per_s.mid:,.0f}"
