"""The cost of synthesised templates per hour and month: `slipway estimate`."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from decimal import Decimal
from typing import Literal

from launcher.answers import words
from launcher.answers.diff import safe
from launcher.answers.lines import fold
from launcher.answers.table import Column, dollars, render
from launcher.model.template_estimate import EstimateLine, TemplateEstimate, UncountedType
from launcher.model.units import number_of
from launcher.records.codec import Json, as_json
from launcher.records.document import fill_record, json_object

MARK = "<!-- slipway estimate -->"
"""The first line of the comment: the next comment finds the old one by this line and replaces it."""
MAX_ROWS = 12
SMALL = Decimal("0.01")
"""Dollars per hour; smaller lines are one row."""


@json_object(of=TemplateEstimate)
class EstimateDocument:
    """The estimate; `refusal` is why it exceeds `limit_usd_per_hour`, null if it does not."""

    schema: Literal["slipway.estimate/1"] = "slipway.estimate/1"
    as_of: datetime
    source: str
    stacks: tuple[str, ...]
    regions: tuple[str, ...]
    usd_per_hour: Decimal
    usd_per_month: Decimal
    max_usd_per_hour: Decimal
    max_usd_per_month: Decimal
    incomplete: bool
    limit_usd_per_hour: Decimal | None
    refusal: str | None
    lines: tuple[EstimateLine, ...]
    uncounted: tuple[UncountedType, ...]
    free: int


def document(found: TemplateEstimate, limit: Decimal | None, refusal: str | None) -> Json:
    """slipway.estimate/1."""
    return as_json(fill_record(EstimateDocument, found, limit_usd_per_hour=limit, refusal=refusal))


def page(found: TemplateEstimate, refusal: str | None, width: int, *, explained: bool) -> list[str]:
    """The estimate for a terminal; `explained` adds every line with its source."""
    stacks = number_of(len(found.stacks), "stack")
    lines = ["", *fold(f"  {found.source}: {stacks} in {', '.join(found.regions)}", width), ""]
    lines += _totals(found, width)
    priced = [line for line in found.lines if line.unpriced is None]
    shown = priced if explained else [line for line in priced if (line.max_usd_per_hour or 0) >= SMALL][:MAX_ROWS]
    if shown:
        lines += ["", *render(_columns(), shown, width)]
    rest = [line for line in priced if line not in shown]
    if rest:
        usd = sum((line.max_usd_per_hour or Decimal(0) for line in rest), Decimal(0))
        lines.append(f"  and {number_of(len(rest), 'smaller line')}, ${words.dollars(usd)} an hour: --explain")
    for text in _notes(found, priced, explained=explained):
        lines += fold(f"  {text}", width) if text else [""]
    if refusal is not None:
        lines += ["", *fold(f"  refused: {refusal}", width)]
    return lines


def comment(found: TemplateEstimate, refusal: str | None) -> list[str]:
    """The estimate as a comment on a pull request, in GitHub's Markdown."""
    least = "at least " if found.incomplete else ""
    most = found.max_usd_per_hour
    up_to = f", up to ${_rate(most)}/h" if most != found.usd_per_hour else ""
    title = f"{found.source}: {least}${_rate(found.usd_per_hour)}/h once deployed{up_to}"
    lines = [MARK, f"### {safe(title)}", ""]
    if refusal is not None:
        lines += [f"**Refused:** {safe(refusal)}", ""]
    priced = [line for line in found.lines if line.unpriced is None]
    lines += ["| resource | what | count | $/h | at most | price of |", "|:--|:--|--:|--:|--:|:--|"]
    for line in priced[:MAX_ROWS]:
        cells = (line.resource, line.name, _count(line))
        usd = f"{words.dollars(line.usd_per_hour)} | {words.dollars(line.max_usd_per_hour)}"
        lines.append(f"| {' | '.join(map(safe, cells))} | {usd} | {line.as_of} |")
    if len(priced) > MAX_ROWS:
        lines += ["", f"{number_of(len(priced) - MAX_ROWS, 'smaller line')} more: `slipway estimate --explain`."]
    return [*lines, "", *(safe(text) for text in _notes(found, priced, explained=False) if text)]


def _totals(found: TemplateEstimate, width: int) -> list[str]:
    least = "at least " if found.incomplete else ""
    rows = [("Deployed", found.usd_per_hour, found.usd_per_month, "")]
    if found.max_usd_per_hour != found.usd_per_hour:
        rows.append(
            ("At most", found.max_usd_per_hour, found.max_usd_per_month, "groups at their maximum, jobs running")
        )
    lines = []
    for name, hour, month, note in rows:
        line = f"  {name:<9} {least}${_rate(hour)}/h   ${words.dollars(month)} a month"
        fits = len(line) + 3 + len(note) <= width
        lines += [f"{line}   {note}".rstrip()] if fits else [line, f"  {'':<9} {note}"]
    return lines


def _rate(usd: Decimal) -> str:
    return words.cents(usd) if usd >= SMALL or not usd else words.dollars(usd)


def _columns() -> list[Column[EstimateLine]]:
    return [
        Column("resource", lambda line: line.resource, shrinks=True),
        Column("what", lambda line: line.name, shrinks=True),
        Column("count", _count, "right"),
        dollars("unit price", lambda line: line.unit_price_usd, yields=1),
        dollars("$/h", lambda line: line.usd_per_hour),
        dollars("at most", lambda line: line.max_usd_per_hour),
        Column("price of", lambda line: "" if line.as_of is None else line.as_of.isoformat(), yields=2),
    ]


def _count(line: EstimateLine) -> str:
    first, most = f"{line.quantity:g}", f"{line.max_quantity:g}"
    return first if first == most else f"{first} to {most}"


def _notes(found: TemplateEstimate, priced: list[EstimateLine], *, explained: bool) -> Iterator[str]:
    unpriced = [f"{line.resource}, {line.name} ({line.unpriced})" for line in found.unpriced_lines]
    unknown = [f"{_times(kind)} ({kind.reason})" for kind in found.uncounted if not kind.by_use]
    if unpriced or unknown:
        yield ""
        yield f"not priced: {'; '.join([*unpriced, *unknown])}."
    by_use = [f"{_times(kind)} ({kind.reason})" for kind in found.uncounted if kind.by_use]
    if by_use:
        kinds = [kind.type.removeprefix("AWS::").replace("::", " ") for kind in found.uncounted if kind.by_use]
        yield f"billed by use, not counted: {'; '.join(by_use) if explained else ', '.join(kinds)}; data transfer."
    days = sorted({line.as_of for line in priced if line.as_of is not None})
    if days:
        span = f"{days[0]} to {days[-1]}" if days[0] != days[-1] else f"{days[0]}"
        yield f"Prices of {span}, before discounts and free tiers. A month has 730 hours."
    if explained:
        yield ""
        yield from _sources(priced)


def _times(kind: UncountedType) -> str:
    return kind.type if kind.resources == 1 else f"{kind.resources} × {kind.type}"


def _sources(priced: Iterable[EstimateLine]) -> Iterator[str]:
    """The source, basis and date of each price, once."""
    texts: dict[str, None] = {}
    for line in priced:
        note = f"; {line.note}" if line.note else ""
        basis = line.basis.value if line.basis is not None else ""
        text = f"${line.unit_price_usd:f} per {line.unit}, {basis} {line.as_of}: {line.source}{note}"
        texts.setdefault(f"{line.name}: {text}", None)
    yield from texts
