"""The page of `slipway compare --html`: the options' ranges, the port over its runs, serving against traffic."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from launcher.cli.html import plan
from launcher.cli.html.page import SLIDER, document, paragraphs
from launcher.cli.html.svg import Plot, lines_plot
from launcher.model.quote import Quote
from launcher.pricing.port import Port
from launcher.workflow.quote.compare import Comparison

if TYPE_CHECKING:
    from launcher.workflow.quote.compare_serving import ServingComparison

MOST_ROWS = 16
MOST_RUNS = 400
Traffic = Sequence[tuple[str, str, Sequence[tuple[float, float, float, float]]]]


def page(found: "Comparison | ServingComparison", traffic: Traffic = ()) -> str:
    """The whole file; `traffic` holds a name, a class and requests a second with low, middle and high a month."""
    verdict, name = found.verdict, found.request.name
    parts: list[str | Plot] = [paragraphs([verdict.text], "lead")]
    for title, sentences in (("Because", verdict.reasons), ("It would change with", verdict.flips)):
        if sentences:
            parts.append(f"<h2>{title}</h2>{paragraphs(sentences)}")
    if isinstance(found, Comparison) and found.port is not None:
        parts.append(_port(found.port))
    if traffic:
        parts.append(_traffic(traffic))
    quotes: list[tuple[int, Quote]] = list(enumerate(found.priced.quotes, start=1))
    known = [(rank, each) for rank, each in quotes if each.usd is not None]
    serves = not isinstance(found, Comparison)
    if known:
        parts += [SLIDER, plan.ranges(known[:MOST_ROWS], "a month" if serves else "a run")]
    parts.append(plan.table_of(quotes, serves=serves))
    return document(f"{name}: what to run it on", parts)


def _port(told: Port) -> Plot:
    """All dollars over the runs, on GPUs and after the port, with the run at which it is paid back."""
    paid = told.break_even_run
    runs = min(MOST_RUNS, max(told.runs, 2 * paid if paid is not None else 0, 2))
    upkeep = float(told.upkeep_usd_per_month) / told.runs_per_month
    steps = range(0, runs + 1, max(1, runs // 40))

    def gpu(run: int) -> float:
        return run * float(told.gpu_run.mid)

    def ported(run: int) -> float:
        return float(told.usd) + run * (float(told.trainium_run.mid) + upkeep)

    marks = [(float(told.runs), "", f"the plan's {told.runs:,} run{'s' if told.runs > 1 else ''}")]
    if paid is not None and paid <= runs:
        marks.append((float(paid), "bad", f"paid back after {paid:,}"))
    back = "is never paid back" if paid is None else f"is paid back after {paid:,} runs"
    band = [(float(run), run * float(told.gpu_run.low), run * float(told.gpu_run.high)) for run in steps]
    return lines_plot(
        "port",
        "The port to Trainium over its runs",
        [
            ("GPUs alone", "a", [(float(run), gpu(run)) for run in steps]),
            ("port, then Trainium", "b", [(float(run), ported(run)) for run in steps]),
        ],
        x_title="runs",
        words=f"The port {back}. After {runs:,} runs: GPUs ${gpu(runs):,.0f}, the port ${ported(runs):,.0f}",
        marks=marks,
        bands=[("a", band)],
        caption="The band is the GPU run's low to high. The port's line begins at what the port costs.",
    )


def _traffic(traffic: Traffic) -> Plot:
    """A month against requests a second."""
    told = "; ".join(
        f"{name}: " + ", ".join(f"{x:g}/s ${mid:,.0f}" for x, _, mid, _ in rows) for name, _, rows in traffic
    )
    return lines_plot(
        "traffic",
        "A month against traffic",
        [(name, kind, [(x, mid) for x, _, mid, _ in rows]) for name, kind, rows in traffic],
        x_title="requests a second, mean over the day",
        words=told,
        bands=[(kind, [(x, low, high) for x, low, _, high in rows]) for _, kind, rows in traffic],
        caption="Bands are low to high; where lines cross, the cheaper side changes.",
    )
