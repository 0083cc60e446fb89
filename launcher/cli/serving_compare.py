"""The page of `slipway compare` for a serving plan."""

from decimal import Decimal

from launcher.cli import words
from launcher.cli.lines import finding_line, wrapped
from launcher.cli.price_ages import ages_lines
from launcher.cli.serving_table import headline, table
from launcher.cli.table import Column, align_points, render
from launcher.model.money import Price
from launcher.model.quote import Quote
from launcher.pricing.reasoning import SOURCE
from launcher.pricing.serving.crossover import usd_per_request
from launcher.workflow.quote.compare_serving import Crossover, ServingComparison

MOST_ROWS = 10


def page(found: ServingComparison, width: int) -> list[str]:
    """The whole page."""
    lines = ["", *wrapped(f"  {headline(found.priced)}", width), "", *wrapped(f"  {found.verdict.text}", width), ""]
    lines += table(_sides(found), width)
    lines += _crossovers(found, width)
    for title, sentences in (("because", found.verdict.reasons), ("it would change with", found.verdict.flips)):
        if sentences:
            lines += ["", f"  {title}", *(piece for each in sentences for piece in wrapped(f"    {each}", width))]
    lines += ["", *ages_lines(found.priced.candidates, width)]
    lines += wrapped(f"  The rules are those of {SOURCE}. Nothing was called and nothing was spent.", width)
    lines += [piece for each in found.findings for piece in wrapped(f"  {finding_line(each)}", width)]
    return [*lines, "", f"  next: {found.priced.command('plan')}"]


def _sides(found: ServingComparison) -> list[tuple[int, Quote]]:
    """Bedrock, Neuron and GPU, the cheapest first."""
    known = [each for each in (found.sides.hosted, found.sides.neuron, found.sides.gpu) if each is not None]
    known.sort(key=lambda each: (each.usd is None, each.usd.mid if each.usd else Decimal(0)))
    return list(enumerate(known, start=1))


def _crossovers(found: ServingComparison, width: int) -> list[str]:
    """The utilisation at which each machine costs what Bedrock does."""
    told = sorted((each for each in found.crossovers if each.utilisation is not None), key=_share)
    pinned = [each for each in told if each.candidate.place.instance_type in (found.request.target.instance_type or ())]
    told = sorted([*pinned, *(each for each in told if each not in pinned)][:MOST_ROWS], key=_share)
    rate = usd_per_request(found.hosted)
    if not told or rate is None:
        return []
    columns = [
        Column(title="machine"),
        Column(title="how"),
        Column(title="where", yields=1),
        Column(title="$/h", right=True),
        Column(title="tokens/s", right=True),
        Column(title="even at", right=True),
        Column(title=""),
    ]
    rows = [_row(each) for each in told]
    for row, text in zip(rows, align_points([row[3] for row in rows]), strict=True):
        row[3] = text
    title = (
        f"  The share of its hours an instance has to be full for, to cost what Bedrock does (${rate:.6f} a request):"
    )
    return ["", *wrapped(title, width), *render(columns, rows, width)]


def _share(each: Crossover) -> float:
    return each.utilisation or 0.0


def _row(each: Crossover) -> list[str]:
    place, price, estimate = each.candidate.place, each.candidate.offer.price, each.candidate.estimate
    share = each.utilisation or 0.0
    return [
        words.machines(place).partition(" × ")[2],
        words.option(place),
        place.region,
        words.dollars(price.usd) if isinstance(price, Price) else "",
        f"{estimate.tokens_per_s.mid:,.0f}" if estimate is not None else "",
        f"{share:.0%}",
        "never" if share > 1 else "",
    ]
