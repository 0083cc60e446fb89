"""The page of `slipway plan --sweep`: a row a point, its total as a bar beside it."""

from launcher.cli import words
from launcher.cli.lines import wrapped
from launcher.cli.plan_table import headline
from launcher.cli.table import Column, align_points, render
from launcher.workflow.quote.sweep import Point, Sweep
from launcher.workflow.quote.sweep import words as point_words

BAR_COLUMNS = 20
EIGHTHS = " ▏▎▍▌▋▊▉█"


def page(found: Sweep, width: int) -> list[str]:
    """The whole page."""
    known = next((each.priced for each in found.points if each.priced is not None), None)
    lines = ["", *wrapped(f"  {headline(known) if known is not None else found.request.name}", width), ""]
    lines += wrapped(f"  {cheapest_line(found)}", width)
    lines += ["", *_table(found, width), *_reasons(found, width)]
    return [*lines, *wrapped("  Nothing was called and nothing was spent.", width)]


def cheapest_line(found: Sweep) -> str:
    """The answer: the point with the least total."""
    best = found.cheapest
    if best is None or best.best is None or best.best.usd is None:
        return "No point has a total: the reasons are in the table."
    serves = found.request.workload.serve is not None
    text = (
        f"Cheapest:  {point_words(best.values)}: ${words.dollars(best.best.usd.mid)} {'a month' if serves else 'a run'}"
    )
    done = "" if serves else f", done in {words.hours(best.best.hours.mid)} h"
    return f"{text}, {_pick(best)}{done}."


def _table(found: Sweep, width: int) -> list[str]:
    """A row a point."""
    columns = [Column(title=each.key.rpartition(".")[2], right=True) for each in found.axes]
    columns += [
        Column(title="machines"),
        Column(title="where", yields=2),
        Column(title="how"),
        Column(title="hours", right=True),
        Column(title="total $", right=True),
        Column(title="", yields=0),
        Column(title="", yields=3),
    ]
    most = max((float(each.best.usd.mid) for each in found.points if each.best and each.best.usd), default=0.0)
    rows = [_row(each, most) for each in found.points]
    for index in (len(found.axes) + 3, len(found.axes) + 4):
        for row, text in zip(rows, align_points([row[index] for row in rows]), strict=True):
            row[index] = text
    return render(columns, rows, width)


def _row(point: Point, most: float) -> list[str]:
    """One point; without a candidate its values alone."""
    values = [str(each) for each in point.values.values()]
    best = point.best
    if best is None:
        return [*values, "impossible", "", "", "", "", "", ""]
    place, usd = best.plan.place, best.usd
    total = words.dollars(usd.mid) if usd else "unpriced"
    span = words.between(words.dollars(usd.low), words.dollars(usd.high)) if usd else ""
    mark = bar(float(usd.mid) / most) if usd and most else ""
    hours = words.hours(best.hours.mid) if best.serving is None else ""
    return [*values, words.machines(place), place.region, words.option(place, short=True), hours, total, span, mark]


def _pick(point: Point) -> str:
    """The machines of a point."""
    if point.best is None:
        return ""
    place = point.best.plan.place
    return f"{words.machines(place)}, {words.option(place)} in {place.region}"


def _reasons(found: Sweep, width: int) -> list[str]:
    """Why points have no candidate."""
    told = [f"  {point_words(each.values)}: {each.reason}" for each in found.points if each.reason]
    return [piece for line in told for piece in wrapped(line, width)]


def bar(share: float) -> str:
    """A share as a bar of at most twenty columns.

    >>> bar(0.5), bar(0.0), bar(0.03)
    ('██████████', '', '▋')
    """
    eighths = round(share * BAR_COLUMNS * 8)
    return (EIGHTHS[8] * (eighths // 8) + EIGHTHS[eighths % 8]).strip()
