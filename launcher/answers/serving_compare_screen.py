"""The first screen of `slipway compare` for serving: the verdict, the best of each side, what would change it."""

from decimal import Decimal

from launcher.answers import words
from launcher.answers.lines import finding_line, fold
from launcher.answers.row_sections import Cells, section_lines
from launcher.answers.serving_table import per_million, purchase_text, utilisation_text
from launcher.model.enums import Level, PurchaseOption
from launcher.model.quote import Quote
from launcher.model.units import number_of
from launcher.workflow.quote.commands import command
from launcher.workflow.quote.compare_serving import ServingComparison

MAX_LINES = 15
SMALLER = ((2, True), (1, True), (1, False), (0, False))
"""Number of flips, and whether assumed costs have a note: the first that has at most MAX_LINES lines."""
BEST_SIDES = "the best of each side"


def page(comparison: ServingComparison, width: int) -> list[str]:
    """The screen: at most MAX_LINES lines of `width` columns, unless verdict and errors alone take them."""
    lines: list[str] = []
    for flips, costs in SMALLER:
        lines = _page(comparison, width, flips, costs=costs)
        if len(lines) - 1 <= MAX_LINES:
            break
    return lines


def _page(comparison: ServingComparison, width: int, flips: int, *, costs: bool) -> list[str]:
    verdict, name = comparison.verdict, comparison.request.name
    text = verdict.text[0].lower() + verdict.text[1:]
    lines = ["", *fold(f"  {name}: {text}", width), "", *_sides(comparison, width)]
    notes = [*_costs(comparison)] if costs else []
    if verdict.flips and flips:
        notes.append(f"would change it: {'; '.join(flip.removesuffix('.') for flip in verdict.flips[:flips])}")
    notes += [finding_line(finding) for finding in comparison.findings if finding.level is Level.ERROR]
    more = number_of(len(verdict.reasons), "reason") if verdict.reasons else ""
    notes.append(f"{more} and every instance type: -v." if more else "Every instance type: -v.")
    lines += [piece for note in notes for piece in fold(f"  {note}", width)]
    return [*lines, "", f"  next: {command(comparison.priced, 'plan')}"]


def priced_sides(comparison: ServingComparison) -> list[tuple[str, Quote]]:
    """The best of each side that has a price, the cheapest first."""
    sides = comparison.sides
    named = (("Bedrock", sides.hosted), ("Trainium, Inferentia", sides.neuron), ("GPU", sides.gpu))
    return sorted([(name, quote) for name, quote in named if quote is not None and quote.usd is not None], key=_mid)


def _sides(comparison: ServingComparison, width: int) -> list[str]:
    """A row for the best of each side, the cheapest first."""
    rows = [_cells(name, quote) for name, quote in priced_sides(comparison)]
    titles = ("a month", "high", "$/M", "used")
    return section_lines([(BEST_SIDES, rows)], titles, width) if rows else []


def _mid(side: tuple[str, Quote]) -> Decimal:
    usd = side[1].usd
    return Decimal(0) if usd is None else usd.mid


def _cells(name: str, quote: Quote) -> Cells:
    place, usd, million = quote.plan.place, quote.usd, per_million(quote.serving)
    instances = words.place_instances(place) if place.option is not PurchaseOption.BEDROCK else name
    return (
        quote.short_id,
        instances,
        place.region,
        purchase_text(quote, short=True),
        "",
        words.total(quote),
        "" if usd is None or usd.high == usd.mid else f"${words.dollars(usd.high)}",
        "" if million is None else f"${words.dollars(million)}",
        utilisation_text(quote.serving),
    )


def _costs(comparison: ServingComparison) -> list[str]:
    """The costs beside the instances': their operations, and the port to Neuron."""
    sides = comparison.sides
    assumed = "" if sides.maintenance_given else " (assumed: workload.serve.operations_usd_per_month)"
    lines = []
    if sides.neuron is not None or sides.gpu is not None:
        lines.append(f"operations of instances: ${sides.maintenance_usd:,.0f} a month more{assumed}")
    return lines
