"""The page of `slipway plan --sweep --html`: the total at each value, and the table of points."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from launcher.answers import words
from launcher.answers.headline import headline
from launcher.answers.html.page import SLIDER, document, paragraphs, table
from launcher.answers.html.plan import TOTAL, ranges, totals
from launcher.answers.html.svg import Plot, lines_plot
from launcher.answers.sweep import cheapest_line, value_of
from launcher.answers.table import Column, hours
from launcher.model.money import UsdRange
from launcher.model.quote import Quote
from launcher.workflow.quote.sweep import Point, Sweep, point_text

COLOURS = ("a", "b", "c", "d")


def page(sweep: Sweep) -> str:
    """The complete file."""
    serves = sweep.request.workload.serve is not None
    unit = "a month" if serves else "a run"
    known = [
        (number, point, point.best) for number, point in enumerate(sweep.points, start=1) if point.best is not None
    ]
    priced = next((point.priced for point in sweep.points if point.priced is not None), None)
    lead = [headline(priced)] if priced is not None and not serves else [sweep.request.name]
    parts: list[str | Plot] = [paragraphs(lead, "soft"), paragraphs([cheapest_line(sweep)], "lead")]
    parts += _lines(sweep, unit, times=not serves)
    rows = [(number, best) for number, _, best in known if best.usd is not None]
    if rows:
        names = {number: point_text(point.values) for number, point, _ in known}
        parts += [SLIDER, ranges(rows, unit, names)]
    parts.append(_table(sweep, times=not serves))
    parts.append(paragraphs([f"{point_text(point.values)}: {point.reason}" for point in sweep.points if point.reason]))
    parts.append(paragraphs(["Nothing was called and nothing was spent."], "soft"))
    return document(f"{sweep.request.name}: the sweep", parts)


def _lines(sweep: Sweep, unit: str, *, times: bool) -> list[Plot]:
    """Dollars, and hours, over the first key whose values are numbers; one line for each value of the others."""
    axis = next((key for key, values in sweep.axes.items() if _numbers(values)), None)
    if axis is None:
        return []
    rest = [key for key in sweep.axes if key != axis]
    series: dict[str, list[tuple[float, Quote]]] = {}
    for point in sweep.points:
        if point.best is not None and point.best.usd is not None:
            others = {key: point.values[key] for key in rest}
            series.setdefault(point_text(others) or "total, middle", []).append((float(point.values[axis]), point.best))
    shown = [(name, sorted(points, key=lambda pair: pair[0])) for name, points in series.items() if len(points) > 1]
    if not shown or len(shown) > len(COLOURS):
        return []
    named = [(name, kind, points) for (name, points), kind in zip(shown, COLOURS, strict=False)]
    title = axis.rpartition(".")[2].replace("_", " ")
    bands = [(kind, [_span(x, at_point) for x, at_point in points]) for _, kind, points in named]
    dollars = [
        (name, kind, [(x, float(at_point.usd.mid) if at_point.usd is not None else 0.0) for x, at_point in points])
        for name, kind, points in named
    ]
    texts = "; ".join(f"{name}: " + ", ".join(f"{x:g} ${usd:,.2f}" for x, usd in points) for name, _, points in dollars)
    caption = "Bands are low to high."
    total = f"Total dollars {unit}"
    plots = [lines_plot("swept", total, dollars, x_title=title, description=texts, bands=bands, caption=caption)]
    if times:
        lines = [(name, kind, [(x, at_point.hours.mid) for x, at_point in points]) for name, kind, points in named]
        hours_words = "; ".join(
            f"{name}: " + ", ".join(f"{x:g} {h:,.1f} h" for x, h in points) for name, _, points in lines
        )
        plots.append(
            lines_plot("swept-hours", "Hours to finish", lines, x_title=title, description=hours_words, unit="")
        )
    return plots


def _numbers(values: Sequence[Any]) -> bool:
    return len(values) > 1 and all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def _span(x: float, quoted: Quote) -> tuple[float, float, float]:
    usd = quoted.usd
    return (x, float(usd.low), float(usd.high)) if usd is not None else (x, 0.0, 0.0)


def _table(sweep: Sweep, *, times: bool) -> str:
    columns: list[Column[Point]] = [
        Column(key.rpartition(".")[2], partial(value_of, key), "right" if _numbers(values) else "left")
        for key, values in sweep.axes.items()
    ]
    columns += [
        Column("instances", lambda point: words.place_instances(point.best.plan.place) if point.best else "impossible"),
        Column("where", lambda point: point.best.plan.place.region if point.best else ""),
        Column("how", lambda point: words.option(point.best.plan.place) if point.best else ""),
    ]
    if times:
        columns.append(hours("hours", lambda point: point.best.hours.mid if point.best else None))
    columns += totals(_usd)
    caption = "Every point; click a column title to sort"
    return table(caption, columns, sweep.points, key="points", spans={TOTAL: _usd}, below=_note)


def _usd(point: Point) -> UsdRange | None:
    return point.best.usd if point.best else None


def _note(point: Point) -> str:
    best = point.best
    if best is None:
        return point.reason
    if best.usd is None:
        return best.no_price_reason or "unpriced"
    return "" if best.gate.allows_launch else f"refused: {best.gate.reason}"
