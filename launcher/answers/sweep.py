"""One plan at several points, each with its best candidate: `slipway plan --sweep`, slipway.sweep/1."""

from collections.abc import Mapping
from datetime import datetime
from functools import partial
from operator import itemgetter
from typing import Any, Literal

from launcher.answers import words
from launcher.answers.headline import headline_of
from launcher.answers.lines import fold
from launcher.answers.table import Column, render
from launcher.records.codec import Json, as_json
from launcher.records.document import json_object
from launcher.records.quote_document import CandidateObject
from launcher.workflow.quote.sweep import Point, Sweep, point_text

BAR_COLUMNS = 20
AMOUNTS = (
    *("tokens_b", "examples", "epochs", "tokens_per_example", "tokens_per_parameter", "hours"),
    *("requests_per_s", "hourly_requests_per_s", "input_tokens", "output_tokens"),
)
"""Keys for the amount of work: the smallest amount always costs least, which is no answer."""
EIGHTHS = " ▏▎▍▌▋▊▉█"


@json_object
class PointObject:
    """One point with its best candidate; null at an impossible point, with the reason."""

    values: Mapping[str, Any]
    candidate: CandidateObject | None
    reason: str | None


@json_object
class SweepDocument:
    """One plan at several points."""

    schema: Literal["slipway.sweep/1"] = "slipway.sweep/1"
    name: str
    as_of: datetime
    keys: tuple[str, ...]
    points: tuple[PointObject, ...]


def document(sweep: Sweep) -> Json:
    """slipway.sweep/1."""
    types = next((point.priced.catalog.instance_types for point in sweep.points if point.priced is not None), {})
    return as_json(
        SweepDocument(
            name=sweep.request.name,
            as_of=sweep.now,
            keys=tuple(sweep.axes),
            points=tuple(
                PointObject(
                    values=dict(point.values),
                    candidate=None if point.best is None else CandidateObject.of(point.best, 1, types),
                    reason=point.reason or None,
                )
                for point in sweep.points
            ),
        )
    )


def page(sweep: Sweep, width: int) -> list[str]:
    """The complete page."""
    known = next((point.priced for point in sweep.points if point.priced is not None), None)
    title = sweep.request.name
    if known is not None:
        # Of the plan as it was written: the points differ from it.
        same = known.request.workload.train is not None and not any("model" in key for key in sweep.axes)
        title = headline_of(sweep.request, known.params_b if same else None)
    lines = ["", *fold(f"  {title}", width), ""]
    lines += fold(f"  {cheapest_line(sweep)}", width)
    lines += ["", *_table(sweep, width), *_reasons(sweep, width)]
    return [*lines, *fold("  Nothing was called and nothing was spent.", width)]


def cheapest_line(sweep: Sweep) -> str:
    """The answer: the point with the lowest total; points with different amounts of work are not compared."""
    best = sweep.cheapest
    if best is None or best.best is None or best.best.usd is None:
        return "No point has a total: the reasons are in the table."
    if any(key.rpartition(".")[2] in AMOUNTS for key in sweep.axes):
        totals = [(point.best.usd.mid, point) for point in sweep.points if point.best is not None and point.best.usd]
        (least, first), (most, last) = (pick(totals, key=itemgetter(0)) for pick in (min, max))
        low, high = words.dollars(least), words.dollars(most)
        return f"From ${low} ({point_text(first.values)}) to ${high} ({point_text(last.values)})."
    serves = sweep.request.workload.serve is not None
    text = (
        f"Cheapest:  {point_text(best.values)}: ${words.dollars(best.best.usd.mid)} {'a month' if serves else 'a run'}"
    )
    done = "" if serves else f", done in {words.hours(best.best.hours.mid)} h"
    return f"{text}, {_pick(best)}{done}."


def _table(sweep: Sweep, width: int) -> list[str]:
    most = max((float(point.best.usd.mid) for point in sweep.points if point.best and point.best.usd), default=0.0)
    columns: list[Column[Point]] = [
        Column(key.rpartition(".")[2], partial(value_of, key), "right") for key in sweep.axes
    ]
    columns += [
        Column("instances", lambda point: words.place_instances(point.best.plan.place) if point.best else "impossible"),
        Column("where", lambda point: point.best.plan.place.region if point.best else "", yields=2),
        Column("how", lambda point: words.option(point.best.plan.place, short=True) if point.best else ""),
        Column(
            "hours",
            lambda point: words.hours(point.best.hours.mid) if point.best and point.best.serving is None else "",
            "point",
        ),
        Column("total $", lambda point: words.middle(point.best.usd, "unpriced") if point.best else "", "point"),
        Column("", lambda point: words.usd_bounds(point.best.usd) if point.best else "", yields=0),
        Column(
            "",
            lambda point: bar(float(point.best.usd.mid) / most) if point.best and point.best.usd and most else "",
            yields=3,
        ),
    ]
    return render(columns, sweep.points, width)


def value_of(key: str, point: Point) -> str:
    """The value of a key at a point."""
    return str(point.values[key])


def _pick(point: Point) -> str:
    return "" if point.best is None else words.purchase(point.best.plan.place)


def _reasons(sweep: Sweep, width: int) -> list[str]:
    texts = [f"  {point_text(point.values)}: {point.reason}" for point in sweep.points if point.reason]
    return [piece for line in texts for piece in fold(line, width)]


def bar(share: float) -> str:
    """A share as a bar of at most twenty columns.

    >>> bar(0.5), bar(0.0), bar(0.03)
    ('██████████', '', '▋')
    """
    eighths = round(share * BAR_COLUMNS * 8)
    return (EIGHTHS[8] * (eighths // 8) + EIGHTHS[eighths % 8]).strip()
