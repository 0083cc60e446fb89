"""The page of `slipway plan`: the answer, the table, the age of the numbers, the next command."""

from collections.abc import Sequence
from datetime import date

from launcher.cli import words
from launcher.cli.table import Column, align_points, render
from launcher.model.enums import Level, PurchaseOption
from launcher.model.finding import Finding
from launcher.model.money import Price
from launcher.model.quote import Quote
from launcher.workflow.price import Priced

MOST_PRICED, MOST_UNPRICED = 10, 4
NARROW = 100


def page(priced: Priced, width: int, *, everything: bool) -> list[str]:
    """The whole page for a terminal of `width` columns."""
    shown = list(enumerate(priced.quotes, start=1)) if everything else _shown(priced.quotes)
    lines = ["", f"  {headline(priced)}", ""]
    lines += [f"  {line}" for line in answer(priced)]
    lines += ["", *table(shown, width), *_footer(priced, shown, width)]
    return lines


def _shown(quotes: Sequence[Quote]) -> list[tuple[int, Quote]]:
    """The rows a person reads first: the best that are priced, and a few that are not."""
    numbered = list(enumerate(quotes, start=1))
    priced = [row for row in numbered if row[1].usd is not None][:MOST_PRICED]
    return priced + [row for row in numbered if row[1].usd is None][:MOST_UNPRICED]


def headline(priced: Priced) -> str:
    """What is asked for, in one line."""
    request, train = priced.request, priced.request.workload.train
    if train is None:
        return f"{request.name} · a cluster without a job, priced for {priced.cluster_hours:g} h"
    model = train.model if isinstance(train.model, str) else "a model"
    size = f" ({priced.params_b:.4g} B)" if priced.params_b else ""
    amount = f"{train.tokens_b:g} B tokens" if train.tokens_b is not None else f"{train.hours:g} h of progress"
    runs = f" · {train.runs} runs" if train.runs > 1 else ""
    what = f"{train.method.value} training of {model}{size}" if train.model else "a job"
    return f"{request.name} · {what} · {amount}{runs}"


def answer(priced: Priced) -> list[str]:
    """The verdict in a sentence or two."""
    best = next((each for each in priced.quotes if each.usd is not None), None)
    if best is None or best.usd is None:
        return ["No candidate has a price: nothing can be launched. The reasons stand in the table."]
    place = best.plan.place
    usd, hours = best.usd, best.hours
    spread = words.between(words.dollars(usd.low), words.dollars(usd.high))
    what = f"{place.nodes} × {place.instance_type}, {words.option(place)} in {place.region}"
    text = f"Cheapest:  {what}: ${words.dollars(usd.mid)} a run"
    text += f" ({spread})" if spread else ""
    lines = [f"{text}, done in {words.hours(hours.mid)} h."]
    if not best.gate.allowed:
        lines.append(f"A launch would be refused: {best.gate.reason}.")
    return lines


def table(rows: Sequence[tuple[int, Quote]], width: int) -> list[str]:
    """The candidates as a table."""
    narrow = width < NARROW
    columns = [
        Column(title="#", right=True),
        Column(title="machines"),
        Column(title="", yields=1),
        Column(title="where"),
        Column(title="zone", yields=2),
        Column(title="how"),
        Column(title="$/h", right=True),
        Column(title="hours", right=True),
        Column(title=""),
        Column(title="total $", right=True),
        Column(title=""),
        Column(title="notes", yields=3, shrinks=True),
    ]
    cells = [_cells(rank, quoted, short=narrow) for rank, quoted in rows]
    for index in (6, 7, 9):
        for row, text in zip(cells, align_points([row[index] for row in cells]), strict=True):
            row[index] = text
    return render(columns, cells, width)


def _cells(rank: int, quoted: Quote, *, short: bool) -> list[str]:
    """One candidate's cells."""
    place, usd = quoted.plan.place, quoted.usd
    number = str(rank) if usd is not None else "–"
    hours = quoted.hours
    return [
        number,
        f"{place.nodes} × {place.instance_type}",
        quoted.work.accelerator or "",
        place.region,
        place.az_id or "",
        words.option(place, short=short),
        words.dollars(quoted.price.usd * place.nodes) if isinstance(quoted.price, Price) else "unpriced",
        words.hours(hours.mid),
        words.between(words.hours(hours.low), words.hours(hours.high)),
        words.dollars(usd.mid) if usd else "",
        words.between(words.dollars(usd.low), words.dollars(usd.high)) if usd else "",
        _note(quoted),
    ]


def _note(quoted: Quote) -> str:
    """The one thing worth saying of a row."""
    if quoted.unpriced is not None:
        seen = getattr(quoted.price, "seen", None)
        unverified = (
            f" (unverified: {words.dollars(seen.usd)})" if seen is not None and seen.basis == "unverified" else ""
        )
        return quoted.unpriced + unverified
    error = next((each for each in quoted.findings if each.level is Level.ERROR), None)
    if error is not None:
        return error.message
    parts = [quoted.note] if quoted.note else []
    if quoted.commitment_usd is not None and quoted.plan.place.term_years:
        parts.append(f"a commitment of ${words.dollars(quoted.commitment_usd)}")
    if quoted.incomplete:
        parts.append("total incomplete")
    return "; ".join(parts)


def _footer(priced: Priced, shown: Sequence[tuple[int, Quote]], width: int) -> list[str]:
    """How many were looked at, how old the prices are, what was found, and what to type next."""
    rest = "" if len(shown) == len(priced.quotes) and priced.folded == len(priced.quotes) else "; --all for the rest"
    lines = [f"  {len(shown)} of {priced.resolution.considered:,} considered{rest}. {_ages(priced)}"]
    lines = [piece for line in lines for piece in wrapped(line, width)]
    lines.append("  Nothing was called and nothing was spent.")
    lines += [piece for each in priced.findings for piece in wrapped(f"  {finding_line(each)}", width)]
    lines += ["", f"  next: {priced.next_command}"]
    return lines


def _ages(priced: Priced) -> str:
    """The ages of the prices shown, by purchase option."""
    oldest: dict[PurchaseOption, date] = {}
    for quoted in priced.quotes:
        if isinstance(quoted.price, Price):
            option, as_of = quoted.plan.place.option, quoted.price.as_of
            oldest[option] = min(as_of, oldest.get(option, as_of))
    if not oldest:
        return ""
    parts = [
        f"{option.value.replace('-', ' ')} {words.age(as_of, priced.now.date())}" for option, as_of in oldest.items()
    ]
    return f"Prices: {', '.join(parts)}."


def finding_line(each: Finding) -> str:
    """A finding as one line: level, place, message, fix."""
    where = f"{each.path}: " if each.path else ""
    hint = f" ({each.hint})" if each.hint else ""
    return f"{each.level.value}: {where}{each.message}{hint}"


def wrapped(line: str, width: int) -> list[str]:
    """A line broken at blanks to a width, the following pieces indented as the first."""
    indent = " " * (len(line) - len(line.lstrip()))
    pieces, current = [], ""
    for word in line.split():
        joined = f"{current} {word}" if current else word
        if current and len(indent) + len(joined) > width:
            pieces.append(indent + current)
            current = word
        else:
            current = joined
    return [*pieces, indent + current]
