"""The first screen of `slipway compare` for training: the verdict, both sides by option, the port over the runs."""

import re
from collections.abc import Iterator, Sequence
from decimal import Decimal

from launcher.answers import words
from launcher.answers.lines import fold
from launcher.model.money import Price
from launcher.model.quote import Quote
from launcher.model.units import number_of
from launcher.pricing.ages import age, rests_on
from launcher.pricing.pairs import Pair
from launcher.pricing.port import Port, weeks_text
from launcher.pricing.verdict import Choice
from launcher.workflow.quote.commands import command
from launcher.workflow.quote.compare import Comparison

RUNS = (1, 12, 24, 100)
"""Numbers of runs that are shown beside the plan's own."""
MAX_FLIPS, MAX_LINES = 2, 15
SMALLER = (
    (MAX_FLIPS, 9, False),
    (MAX_FLIPS, 9, True),
    (1, 9, True),
    (1, 3, True),
    (1, 2, True),
    (0, 2, True),
    (0, 1, True),
)
"""Number of flips and of purchase options, and whether flips are brief: the first that has at most MAX_LINES lines."""
TITLES = ("GPU", "Trainium")
SHORT_NAMES = {"capacity block": "block", "managed spot": "managed", "savings plan": "plan", "training plan": "plan"}
"""Names of options where a row would be longer than the terminal."""


def page(comparison: Comparison, width: int, *, called: bool = False) -> list[str]:
    """The screen: at most MAX_LINES lines of `width` columns, unless the verdict alone takes them."""
    lines: list[str] = []
    for flips, options, brief in SMALLER:
        lines = _page(comparison, width, flips, options, brief=brief, called=called)
        if sum(-(-max(1, len(line)) // width) for line in lines[1:]) <= MAX_LINES:
            break
    return lines


def _page(comparison: Comparison, width: int, flips: int, options: int, *, brief: bool, called: bool) -> list[str]:
    """The screen with at most some flips, without their explanations if `brief`, and some purchase options."""
    verdict, name = comparison.verdict, comparison.request.name
    text = verdict.text[0].lower() + verdict.text[1:] if verdict.text else ""
    lines = ["", *fold(f"  {name}: {text}", width)]
    if options > 1:
        lines.append("")
    lines += _pairs(named_pairs(comparison)[:options], width)
    if comparison.port is not None:
        lines += _port(comparison.port, width)
    if verdict.flips and flips:
        shown = "; ".join(_short(flip, brief=brief) for flip in _flips(comparison)[:flips])
        lines += fold(f"  would change it: {shown}", width)
    lines += [piece for note in _notes(comparison, called=called) for piece in fold(f"  {note}", width)]
    return [*lines, "", *next_lines(comparison)]


def next_lines(comparison: Comparison) -> list[str]:
    """The next commands: what to measure, or the quote of the chosen side."""
    if comparison.verdict.choice is Choice.MEASURE_FIRST and comparison.unmeasured_types:
        return [
            f"  next: {command(comparison.priced, 'spike', '--type', name)}" for name in comparison.unmeasured_types
        ]
    ported = comparison.verdict.choice in (Choice.TRAINIUM, Choice.GPU_WHILE_PORTING)
    side = comparison.trainium if ported else comparison.gpu
    if side is None:
        return [f"  next: {command(comparison.priced, 'plan')}"]
    return [f"  next: {command(comparison.priced, 'quote', '--pick', side.short_id)}"]


def _notes(comparison: Comparison, *, called: bool) -> Iterator[str]:
    # Both sides often lack the same: the finding of the other side is below the long page.
    by_code = {finding.code: finding for finding in reversed(comparison.shortfalls)}
    yield from (f"{finding.level}: {finding.message}" for finding in by_code.values())
    if comparison.verdict.choice is Choice.MEASURE_FIRST and comparison.simulated_types:
        types = " and ".join(comparison.simulated_types)
        yield f"What the sandbox measured on {types} is of this computer, and decides nothing."
    counted = [(len(comparison.verdict.reasons), "reason"), (len(comparison.priced.blocking), "warning")]
    more = ", ".join(number_of(count, name) for count, name in counted if count)
    read = " Prices were read from AWS, nothing was spent." if called else ""
    yield f"{more} and every type: -v.{read}" if more else f"Every type: -v.{read}"


def _flips(comparison: Comparison) -> list[str]:
    """The first flips: prices and runs, then another purchase option."""
    flips = comparison.verdict.flips
    options = [flip for flip in flips if " on both sides: " in flip]
    return [*[flip for flip in flips if flip not in options][: MAX_FLIPS - bool(options)], *options[:1]]


def _short(flip: str, *, brief: bool) -> str:
    """A flip without its full stop; `brief`: without what is in brackets."""
    return re.sub(r" \([^()]*\)", "", flip).removesuffix(".") if brief else flip.removesuffix(".")


def named_pairs(comparison: Comparison) -> list[Pair]:
    """The purchase options with a row of their own: the one that decides, then those that can be launched."""
    named = (pair for pair in comparison.pairs if pair.name != "")
    return sorted(named, key=lambda pair: (pair is not comparison.decisive_pair, not pair.allowed))


def _pairs(pairs: Sequence[Pair], width: int) -> list[str]:
    """A row for each purchase option, with both sides."""
    rows = _rows(pairs, short=False)
    if rows and max(map(len, _table(rows, width))) > width:
        rows = _rows(pairs, short=True)
    return _table(rows, width) if rows else []


def _rows(pairs: Sequence[Pair], *, short: bool) -> list[tuple[str, ...]]:
    return [(row_name(pair, short=short), *_side(pair.gpu), *_side(pair.trainium)) for pair in pairs]


def _table(rows: Sequence[Sequence[str]], width: int) -> list[str]:
    full = [max(len(row[column]) for row in rows) for column in range(7)]
    heads = (full[1] + 2 + full[2] + 1 + full[3], "Trainium")
    title = f"    {'':<{full[0]}}  {'GPU':<{heads[0]}}  {heads[1]}".rstrip()
    regions = len(title) <= width and max(len(_line(row, full, regions=True)) for row in rows) <= width
    lines = [_line(row, full, regions=regions) for row in rows]
    over = max(map(len, lines)) - width
    if over > 0:
        # The indentation and the gaps give way before a name does.
        lines = [f"  {line.strip()}" for line in (_line(row, full, regions=False, gap=1) for row in rows)]
    if not regions:
        title = (
            f"    {'':<{full[0]}}  {'GPU':<{full[1] + 2 + full[2]}}  Trainium"
            if over <= 0
            else (f"  {'':<{full[0]}} {'GPU':<{full[1] + 1 + full[2]}} Trainium")
        )
    return [title, *lines]


def _line(row: Sequence[str], full: Sequence[int], *, regions: bool, gap: int = 2) -> str:
    name, *sides = row
    texts = []
    for at in (0, 3):
        usd, instances, region = sides[at : at + 3]
        text = f"{usd:>{full[at + 1]}}{' ' * gap}{instances:<{full[at + 2]}}"
        texts.append(f"{text} {region:<{full[at + 3]}}" if regions else text)
    between = " " * gap
    return f"    {name:<{full[0]}}{between}{between.join(texts)}".rstrip()


def row_name(pair: Pair, *, short: bool) -> str:
    """The option, and whether its rows can be launched now."""
    name = SHORT_NAMES.get(pair.name, pair.name) if short else pair.name
    if pair.allowed:
        return f"{name}, {'to buy' if pair.to_buy else 'now'}"
    ages = []
    for quote in (pair.gpu, pair.trainium):
        if quote is not None and isinstance(quote.price, Price):
            option, today = rests_on(quote.plan.place), quote.as_of.date()
            days = age(quote.price, option, today)
            ages += [days.days] if days.too_old and not days.to_come else []
    if ages:
        span = f"{ages[0]}" if len(set(ages)) == 1 else f"{min(ages)} to {max(ages)}"
        return f"{name}, {span} {'d old' if short else 'days old'}"
    if pair.refused_sides:
        return f"{name}, refused"
    if pair.unlisted_sides:
        return f"{name}, {'unlisted' if short else 'not listed there'}"
    return f"{name}, {'quota' if short else 'beyond a quota'}"


def _side(quote: Quote | None) -> tuple[str, str, str]:
    if quote is None or quote.usd is None:
        return "–", "", ""
    place = quote.plan.place
    return words.total(quote), words.place_instances(place).replace(" × ", "×"), place.region


def _port(port: Port, width: int) -> list[str]:
    """The cost of the port, and both paths over some numbers of runs."""
    cost = f"port: ${port.usd:,.0f}, {weeks_text(port.weeks.mid)}, and"
    cost += f" ${port.maintenance_usd_per_month:,.0f} a month for the second stack (assumed)"
    counts = sorted({*RUNS, port.runs})
    each = port.maintenance_usd_per_month / Decimal(repr(port.runs_per_month))
    rows = [
        ("runs", [f"{count:,}" for count in counts]),
        ("GPU", [f"${count * port.gpu_run.mid:,.0f}" for count in counts]),
        ("port first", [f"${port.usd + count * (port.trainium_run.mid + each):,.0f}" for count in counts]),
    ]
    room = [max(len(values[at]) for _, values in rows) for at in range(len(counts))]
    table = [
        f"    {name:<11}{'  '.join(value.rjust(wide) for value, wide in zip(values, room, strict=True))}"
        for name, values in rows
    ]
    return [*fold(f"    {cost}", width), *table]
