"""The page of `slipway compare --html`: the options' ranges, the port over its runs, serving against traffic."""

from collections.abc import Mapping, Sequence
from itertools import combinations, pairwise
from typing import TYPE_CHECKING

from launcher.answers import words
from launcher.answers.compare import sides
from launcher.answers.compare_screen import named_pairs, row_name
from launcher.answers.html import plan
from launcher.answers.html.page import SLIDER, bullets, cards, collapsible_section, document, paragraphs
from launcher.answers.html.svg import Plot, lines_plot
from launcher.answers.lines import finding_line
from launcher.answers.price_ages import price_dates
from launcher.answers.ranges import ends
from launcher.answers.serving_compare_screen import BEST_SIDES, priced_sides
from launcher.model.quote import Quote
from launcher.model.units import number_of
from launcher.pricing.port import Port, weeks_text
from launcher.workflow.quote.compare import Comparison

if TYPE_CHECKING:
    from launcher.workflow.quote.compare_serving import ServingComparison

OUTSIDE = "outside the plan: it pins another type or purchase option"
MAX_RUNS = 400
LOW, MID, HIGH = 1, 2, 3
DECISIONS = {
    "gpu": "train on GPUs",
    "trainium": "train on Trainium",
    "gpu-while-porting": "GPUs, then Trainium",
    "measure-first": "measure first",
}
DECISIONS_OF_SERVING = {
    "bedrock": "use Bedrock",
    "neuron": "deploy on Neuron",
    "gpu": "deploy on GPUs",
    "measure-first": "measure first",
}
Line = Sequence[tuple[float, float]]
Traffic = Sequence[tuple[str, str, Sequence[tuple[float, float, float, float]]]]


def page(comparison: "Comparison | ServingComparison", traffic: Traffic = ()) -> str:
    """The complete file; `traffic` holds a name, a class and requests per second with low, mid and high per month."""
    verdict, name = comparison.verdict, comparison.request.name
    priced = comparison.priced
    dated = f"quoted {priced.now:%Y-%m-%d} · {price_dates(priced.candidates)}"
    parts: list[str | Plot] = [paragraphs([dated], "soft")]
    parts.append(cards(_decision(comparison) if isinstance(comparison, Comparison) else _months(comparison)))
    parts.append(paragraphs([verdict.text], "lead"))
    if isinstance(comparison, Comparison):
        parts.append(paragraphs(sides(comparison)))
        parts.append(paragraphs([finding_line(finding) for finding in comparison.shortfalls]))
    parts.append(bullets("Reasons", verdict.reasons))
    parts.append(bullets("What would change this recommendation", verdict.flips))
    if isinstance(comparison, Comparison) and comparison.port is not None:
        parts.append(_port(comparison.port))
    if traffic:
        parts.append(_traffic(traffic))
    quotes: list[tuple[int, Quote]] = list(enumerate(comparison.priced.quotes, start=1))
    groups = _groups(comparison, {quoted.digest: rank for rank, quoted in quotes})
    serves = not isinstance(comparison, Comparison)
    if groups:
        parts += [SLIDER, plan.grouped_ranges(groups, "a month" if serves else "a run")]

    def note(quoted: Quote) -> str:
        outside = "" if comparison.pins(quoted.plan.place) else OUTSIDE
        return "; ".join(text for text in (outside, plan.note(quoted)) if text)

    parts.append(
        collapsible_section(
            f"All {number_of(len(quotes), 'candidate')}", plan.table_of(quotes, serves=serves, note_of=note)
        )
    )
    return document(f"{name}: comparison", parts)


def _groups(
    comparison: "Comparison | ServingComparison", ranks: Mapping[str, int]
) -> list[tuple[str, list[tuple[int, Quote]]]]:
    """The rows of the terminal's screen: both sides of each purchase option, or the best of each side of serving."""
    shown: list[tuple[str, tuple[Quote | None, ...]]]
    if isinstance(comparison, Comparison):
        shown = [(row_name(pair, short=False), (pair.gpu, pair.trainium)) for pair in named_pairs(comparison)]
    else:
        shown = [(BEST_SIDES, tuple(quoted for _, quoted in priced_sides(comparison)))]
    rows = [
        (title, [(ranks.get(quoted.digest, 0), quoted) for quoted in quotes if quoted is not None and quoted.usd])
        for title, quotes in shown
    ]
    return [(title, drawn) for title, drawn in rows if drawn]


def _decision(comparison: Comparison) -> list[tuple[str, str, str]]:
    """The cards: the choice, the total of each side, the port."""
    items = [("Decision", DECISIONS.get(str(comparison.verdict.choice), "none"), "the reasons are below")]
    for name, quoted in (("GPU", comparison.gpu), ("Trainium", comparison.trainium)):
        usd = None if quoted is None else quoted.usd
        if quoted is None or usd is None:
            items.append((name, "–", "nothing priced"))
        else:
            items.append((name, words.total(quoted), f"{plan.name_of(quoted)}; {ends(usd)}"))
    if (port := comparison.port) is not None:
        paid = port.break_even_run
        back = "never pays off" if paid is None else f"is paid back after {number_of(paid, 'run')}"
        items.append(("Port", f"${words.dollars(port.usd)}", f"{weeks_text(port.weeks.mid)}; it {back}"))
    return items


def _months(comparison: "ServingComparison") -> list[tuple[str, str, str]]:
    """The cards of serving: the choice, and a month of each side that has a price."""
    items = [("Decision", DECISIONS_OF_SERVING.get(str(comparison.verdict.choice), "none"), "the reasons are below")]
    for name, quoted in priced_sides(comparison):
        usd = quoted.usd
        if usd is not None:
            certain = usd.low == usd.high
            span = "" if certain else f"; {words.usd_bounds(usd)} by the estimate"
            items.append((name, f"${words.dollars(usd.mid)} a month", f"{plan.name_of(quoted)}{span}"))
    return items


def _port(port: Port) -> Plot:
    paid = port.break_even_run
    runs = min(MAX_RUNS, max(port.runs, 2 * paid if paid is not None else 0, 2))
    maintenance = float(port.maintenance_usd_per_month) / port.runs_per_month
    steps = range(0, runs + 1, max(1, runs // 40))

    def gpu(run: int) -> float:
        return run * float(port.gpu_run.mid)

    def port_usd(run: int) -> float:
        return float(port.usd) + run * (float(port.trainium_run.mid) + maintenance)

    marks = [(float(port.runs), "", f"the plan's {number_of(port.runs, 'run')}")]
    if paid is not None and paid <= runs:
        marks.append((float(paid), "bad", f"paid back after {paid:,}"))
    back = "never pays off" if paid is None else f"is paid back after {number_of(paid, 'run')}"
    after = number_of(runs, "run")
    band = [(float(run), run * float(port.gpu_run.low), run * float(port.gpu_run.high)) for run in steps]
    return lines_plot(
        "port",
        "The port to Trainium over its runs",
        [
            ("GPUs only", "a", [(float(run), gpu(run)) for run in steps]),
            ("port, then Trainium", "b", [(float(run), port_usd(run)) for run in steps]),
        ],
        x_title="runs",
        description=f"The port {back}. After {after}: GPUs ${gpu(runs):,.0f}, the port ${port_usd(runs):,.0f}",
        marks=marks,
        bands=[("a", band)],
        caption="The band is the range of the GPU run. The line of the port begins at the cost of the port.",
    )


def _traffic(traffic: Traffic) -> Plot:
    """Cost per month against requests per second, with the crossover of the cheaper side and its range."""
    texts = [f"{name}: " + ", ".join(f"{x:g}/s ${mid:,.0f}" for x, _, mid, _ in rows) for name, _, rows in traffic]
    marks = []
    for (name, _, first), (other, _, rows) in combinations(traffic, 2):
        for x in crossings(_part(first, MID), _part(rows, MID)):
            edges = [*crossings(_part(first, LOW), _part(rows, HIGH)), *crossings(_part(first, HIGH), _part(rows, LOW))]
            below, above = [edge for edge in edges if edge < x], [edge for edge in edges if edge > x]
            span = f" ({max(below):.3g} to {min(above):.3g})" if below and above else ""
            marks.append((x, "bad", f"{name} = {other} at {x:.3g}/s{span}"))
            texts.append(marks[-1][2])
    return lines_plot(
        "traffic",
        "A month against traffic",
        [(name, kind, [(x, mid) for x, _, mid, _ in rows]) for name, kind, rows in traffic],
        x_title="requests a second, mean over the day",
        description="; ".join(texts),
        marks=marks,
        bands=[(kind, [(x, low, high) for x, low, _, high in rows]) for _, kind, rows in traffic],
        caption="Bands are low to high. A red line is where two sides cost the same, in brackets where they may: "
        "one at its low, the other at its high estimate.",
    )


def crossings(line: Line, other: Line) -> list[float]:
    """The x values at which two lines cross, between the points that both have.

    >>> crossings([(0, 0.0), (2, 4.0)], [(0, 2.0), (2, 2.0)])
    [1.0]
    """
    known = dict(other)
    gaps = [(x, y - known[x]) for x, y in line if x in known]
    return [
        before + (after - before) * left / (left - right)
        for (before, left), (after, right) in pairwise(gaps)
        if (left < 0) != (right < 0)
    ]


def _part(rows: Sequence[tuple[float, float, float, float]], column: int) -> Line:
    return [(row[0], row[column]) for row in rows]
