"""The first screen of `slipway plan` for training: what can be launched now, what is cheaper, and the next command."""

from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from itertools import groupby
from typing import TypeAlias

from launcher.answers import ranges, words
from launcher.answers.headline import compares_families, headline, unpriced_answer
from launcher.answers.lines import finding_line, fold
from launcher.answers.price_ages import price_dates
from launcher.answers.row_sections import WIDE, Cells, section_lines
from launcher.model.budget_stop import spending_limit
from launcher.model.finding import Finding
from launcher.model.money import Price
from launcher.model.training_job import LONGEST_H
from launcher.model.units import HOUR_S, duration_text, number_of
from launcher.planning.checks import NOT_OFFERED
from launcher.planning.optimizers import LEANER_CODE
from launcher.planning.own_prices import SEVERAL_SERVICES
from launcher.pricing.ages import Age, age, rests_on
from launcher.pricing.candidate import Candidate, order
from launcher.pricing.first_rows import purchase_of
from launcher.pricing.port import port, weeks_text
from launcher.pricing.priced import NEURON, NVIDIA, Priced
from launcher.pricing.standing import AT_RISK, COMPLETE, Standing
from launcher.pricing.stop_findings import longest_run_h
from launcher.targets.registry import target_of
from launcher.workflow.quote.commands import command, next_command, refresh_command
from launcher.workflow.quote.fallback import REFUSED_CODE

MAX_LINES, MAX_ROWS = 15, 12
MIN_ROWS = 5
"""Rows that stay while a note can be left out instead: the cheapest three of what can be launched, and two others."""
MIN_ALLOWED = 3
MAX_NOTES = 3
TERMINAL = 80
"""Columns of a terminal; the page in a browser shows the rows of a screen of that width."""
SMALLER = ((2, MIN_ROWS), (2, 4), (1, MIN_ROWS), (1, 4), (1, 3), (1, 2), (0, 2))
"""Numbers of notes and of rows of a screen that would be longer than MAX_LINES: the last note goes first."""
STOP = "No spending limit is set: budget.stop_at_usd stops the job at a sum."
NUMBERS: Cells = ("done in", "total", "1 in 10 above")
"""The titles of the last columns of a row."""
FIRST_STEP, WIDEST = "1st step", 120
"""The title of a further column, and the columns from which a screen of several targets has it."""
Group: TypeAlias = tuple[str, list[int]]
"""A heading, and the ranks of the rows below it."""


def page(priced: Priced, width: int, *, called: bool = False) -> list[str]:
    """The screen: at most MAX_LINES lines of `width` columns, unless warnings alone take them."""
    return _fitting(priced, width, called=called)[0]


def first_groups(priced: Priced) -> list[Group]:
    """The rows of the screen under their headings, for a page that leads with the same ones."""
    return _fitting(priced, TERMINAL, called=False)[1]


def _fitting(priced: Priced, width: int, *, called: bool) -> tuple[list[str], list[Group]]:
    title = fold(f"  {headline(priced)}", width)
    refusals, notes = _notes(priced)
    notes = notes[: max(0, MAX_NOTES - len(refusals))]
    allowed, others = shown_ranks(priced)
    cells: dict[int, Cells] = {}
    lines: list[str] = []
    groups: list[Group] = []
    most = max(MIN_ROWS, min(MAX_ROWS, len(allowed) + len(others)))
    sizes = (*((len(notes), rows) for rows in range(most, MIN_ROWS - 1, -1)), *SMALLER)
    for number, (count, rows) in enumerate(sizes, 1):
        groups = _groups(priced, allowed, others, rows)
        last = _last(priced, width, [rank for _, ranks in groups for rank in ranks], called=called)
        shown = [piece for note in (*refusals, *notes[:count]) for piece in fold(f"  {note}", width)]
        # A row is priced only for a screen that has room for it.
        room = MAX_LINES - _height([*title, "", *shown, *last], width)
        if number < len(sizes) and sum(1 + len(ranks) for _, ranks in groups) > room:
            continue
        lines = ["", *title, "", *_sections(priced, groups, cells, width), *shown, *last]
        if _height(lines[1:], width) <= MAX_LINES:
            break
    return lines, groups


def _height(lines: Iterable[str], width: int) -> int:
    """The rows of a terminal that the lines take."""
    return sum(-(-max(1, len(line)) // width) for line in lines)


def _groups(priced: Priced, allowed: Sequence[int], others: Sequence[int], rows: int) -> list[Group]:
    """At most `rows` rows: what can be launched, and a few of the others, which are cheaper or all there is."""
    few = min(len(others), max(2 if rows >= MIN_ROWS else 1, rows - max(len(allowed), MIN_ALLOWED)))
    few = min(few, rows) if allowed else min(len(others), rows)
    many = min(len(allowed), rows - few)
    title = "can be launched once the warning is mended" if priced.blocking else "can be launched now"
    groups = _by_capacity(priced, title, sorted(allowed[:many]))
    return [*groups, *other_groups(priced, others[:few], cheaper=bool(allowed))]


def _by_capacity(priced: Priced, title: str, ranks: Sequence[int]) -> list[Group]:
    """The rows that a launch accepts, and those whose capacity is to be bought before it."""
    by_standing = {kind: list(rows) for kind, rows in groupby(ranks, key=priced.standing)}
    titles = {Standing.ALLOWED: title, Standing.UNNAMED: "once it is bought (slipway capacity FILE)"}
    return [(titles[kind], rows) for kind, rows in by_standing.items()]


def other_groups(priced: Priced, ranks: Sequence[int], *, cheaper: bool) -> Iterator[Group]:
    """The rows other than those that can be launched now, under a heading for each standing."""
    for _, found in groupby(sorted(ranks), key=priced.standing):
        kind = list(found)
        yield refused_title(priced, kind, cheaper=cheaper), kind


def _sections(priced: Priced, groups: Sequence[Group], cells: dict[int, Cells], width: int) -> list[str]:
    """The rows under their headings; `cells` keeps the cells of rows that were made before."""
    if not groups:
        return fold(f"  {unpriced_answer(priced)}", width)
    for rank in (rank for _, ranks in groups for rank in ranks if rank not in cells):
        cells[rank] = _cells(priced, rank, width)
    titles = (FIRST_STEP, *NUMBERS) if width >= WIDEST and _has_several_targets(priced) else NUMBERS
    return section_lines([(title, [cells[rank] for rank in ranks]) for title, ranks in groups], titles, width)


def _has_several_targets(priced: Priced) -> bool:
    return len({candidate.place.target for candidate in priced.candidates}) > 1


def shown_ranks(priced: Priced) -> tuple[list[int], list[int]]:
    """The ranks that differ in kind: those that can be launched, and those of the others that are cheaper.

    Those that can be launched once the plan names what was bought are among the first ones.
    The others are those that a quota may stop before their end, those that no source lists there, and the refused ones
    of the first reason.

    Of each section first the cheapest of all, then the cheapest of each purchase option and of each family of
    accelerators, then the next ones.
    """
    ranks = range(1, len(priced.candidates) + 1)
    allowed = [rank for rank in ranks if priced.standing(rank) in COMPLETE]
    allowed.sort(key=lambda rank: order(priced.candidates[rank - 1]))
    most = priced.candidates[allowed[0] - 1].usd if allowed else None
    others = (rank for rank in ranks if priced.standing(rank) not in COMPLETE)
    refused = [rank for rank in others if _is_cheaper(priced.candidates[rank - 1], most)]
    if not allowed and not refused:
        return [], []
    by_standing = {kind: list(ranks) for kind, ranks in groupby(refused, key=priced.standing)}
    first = next((kind for kind in by_standing if kind not in AT_RISK), None)
    sections = [_varied_ranks(priced, ranks) for kind, ranks in by_standing.items() if kind in (*AT_RISK, first)]
    # The cheapest of each section comes first.
    sections.sort(key=lambda ranks: priced.candidates[ranks[0] - 1].usd or 0)
    return _varied_ranks(priced, allowed), [*(ranks[0] for ranks in sections), *(r for s in sections for r in s[1:])]


def _is_cheaper(candidate: Candidate, most: object) -> bool:
    return candidate.usd is not None and (most is None or candidate.usd < most)  # type: ignore[operator]


def _varied_ranks(priced: Priced, ranks: Sequence[int]) -> list[int]:
    """At most MAX_ROWS ranks, those that differ in kind first: the best of each option and family, then the rest.

    A plan is shown once: a longer block of the same plan has the same id.
    """
    ranks = list({priced.digest(rank): rank for rank in reversed(ranks)}.values())[::-1]
    seen: set[object] = set()
    first = []
    for rank in ranks:
        candidate = priced.candidates[rank - 1]
        kinds = {purchase_of(candidate.place), priced.family(candidate)}
        if not kinds <= seen:
            first.append(rank)
            seen |= kinds
    return (first + [rank for rank in ranks if rank not in first])[:MAX_ROWS]


def refused_title(priced: Priced, ranks: Sequence[int], *, cheaper: bool) -> str:
    """The heading of the other rows: what makes them possible, or why they are refused."""
    standing, prefix = priced.standing(ranks[0]), "cheaper, " if cheaper else ""
    if standing is Standing.OLD_PRICE:
        return f"{prefix}once prices are refreshed ({_ages([priced.candidates[rank - 1] for rank in ranks])})"
    if standing is Standing.UNLISTED:
        return f"{prefix}{'but ' if cheaper else ''}no source says that SageMaker sells these types there"
    if standing is Standing.STOPPED:
        longest_h = longest_run_h(priced.candidates[ranks[0] - 1].place, priced.request, priced.context.quotas)
        more = "a higher quota" if priced.context.quotas else "run.time_limit_h"
        quota = "no quota allows more" if longest_h == LONGEST_H else f"more: {more}"
        subject = "cheaper, but SageMaker stops a job" if cheaper else "SageMaker stops these jobs"
        return f"{subject} after {longest_h:g} h ({quota})"
    gate = priced.row(ranks[0]).gate
    # Without a row that can be launched, the change that allows one is the answer.
    change = f" ({gate.hint})" if gate.hint and not cheaper else ""
    return f"{prefix}{'but ' if cheaper else ''}refused: {gate.reason}{change}"


def _ages(candidates: Sequence[Candidate]) -> str:
    """The ages of the prices of each purchase option, and the allowed age."""
    by_option: dict[str, list[Age]] = {}
    for candidate in candidates:
        price, rules, option = candidate.offer.price, candidate.context.rules, rests_on(candidate.place)
        if isinstance(price, Price):
            found = age(price, option, rules.today, rules.max_age_days)
            by_option.setdefault(option.value.replace("-", " "), []).append(found)
    parts = []
    for option_name, ages in by_option.items():
        days = sorted({one.days for one in ages})
        span = f"{days[0]}" if len(days) == 1 else f"{days[0]} to {days[-1]}"
        parts.append(f"{option_name}: {span} days old, {ages[0].allowed} allowed")
    return "; ".join(parts)


def _cells(priced: Priced, rank: int, width: int) -> Cells:
    """A row: on the left its id, instances, place and option, and on the right the hours and the two totals."""
    quoted = priced.row(rank)
    place, usd = quoted.plan.place, quoted.usd
    several = _has_several_targets(priced)
    target = (place.target.value if width >= WIDE else target_of(place.target).short) if several else ""
    step, rate = quoted.hours_to_first_step, f"${words.dollars(quoted.usd_per_hour)}/h"
    wide = (quoted.accelerator, rate) if width >= WIDE else ()
    if several and width >= WIDEST:
        wide = (rate, "" if step is None else duration_text(step * HOUR_S))
    return (
        priced.short_id(rank),
        words.place_instances(place),
        place.az_id or place.region if width >= WIDE else place.region,
        words.option(place, short=width < WIDE),
        target,
        *wide,
        f"{words.hours(quoted.hours.mid)} h",
        words.total(quoted),
        "" if usd is None else f"${words.dollars(usd.high)}",
    )


def _notes(priced: Priced) -> tuple[list[str], list[str]]:
    """What is refused or wasted; and, the most important first, why the range is wide, the port, the limit."""
    wasted = [f"{finding.level}: {finding.message}" for finding in priced.shortfalls]
    refusals, notes = [*_refusals(priced)], []
    if priced.blocking:
        # A trainer that is not there yet is to be mended before a command that wastes chips.
        notes = wasted
    else:
        refusals += wasted
    if len(priced.candidates) <= 1:
        return refusals, [*notes, *_range(priced)]
    notes += [f"{finding.message}." for finding in priced.findings if finding.code == LEANER_CODE]
    if wasted:
        # A command that wastes chips needs the room.
        return refusals, [*notes, *_range(priced), *_port(priced)]
    unlimited = priced.cheapest_allowed is not None and priced.request.budget.stop_at_usd is None
    return refusals, [*notes, *_range(priced), *_port(priced), *([STOP] if unlimited else [])]


def _refusals(priced: Priced) -> Iterator[str]:
    """The findings of the plan for which a launch is refused, or finds no instances, whichever row it takes."""
    yield from map(finding_line, _grave(priced))
    limit = spending_limit(priced.request.budget, priced.context.rules.max_usd)
    least = _least_high(priced) if limit is not None and priced.cheapest_allowed is None else None
    if limit is not None and least is not None and least > limit[0]:
        least_text = f"the least is 1 run in 10 above ${words.dollars(least)}"
        yield f"warning: every row exceeds {limit[1]}, ${words.dollars(limit[0])}: {least_text}"


def _grave(priced: Priced) -> tuple[Finding, ...]:
    """The findings with which no job starts, and of a price of the user's that stands for several."""
    codes = (NOT_OFFERED, REFUSED_CODE, SEVERAL_SERVICES)
    return (*priced.blocking, *(finding for finding in priced.findings if finding.code in codes))


def _least_high(priced: Priced) -> Decimal | None:
    rows = (priced.row(rank) for rank in range(1, len(priced.candidates) + 1))
    return min((row.usd.high for row in rows if row.usd is not None), default=None)


def _range(priced: Priced) -> Iterator[str]:
    """The range of the first row, and what makes it wide."""
    usd = priced.row(1).usd
    if usd is None or usd.low == usd.high:
        return
    span = f"${words.dollars(usd.low)} to ${words.dollars(usd.high)}"
    why = "; ".join(ranges.causes(priced.range_causes(1), "spike"))
    yield f"{priced.short_id(1)}: {span}{f' {why}' if why else ''}."


def _port(priced: Priced) -> Iterator[str]:
    train = priced.request.workload.train
    ranks = (priced.cheapest_of(NVIDIA), priced.cheapest_of(NEURON))
    if train is None or not compares_families(priced) or None in ranks:
        return
    gpu, trainium = (priced.row(rank).usd for rank in ranks if rank is not None)
    if gpu is None or trainium is None:
        return
    ported = port(train, gpu, trainium, priced.now.date())
    runs = ported.break_even_run
    back = "never pays off" if runs is None else f"is paid back after {number_of(runs, 'run')}"
    within = f" in {number_of(train.runs, 'run')}" if runs is None else f", the plan has {train.runs:,}"
    cost = f"{weeks_text(ported.weeks.mid)}, ${ported.usd:,.0f}"
    text = f"Trainium: a port ({cost}) {back}{within}"
    whole = f"{text}: {command(priced, 'compare')}"
    yield whole if len(whole) + 2 <= TERMINAL else text


def more_rows(priced: Priced, shown: int) -> str:
    """How many rows a screen of `shown` ones leaves out, with the unpriced ones; empty if it shows all."""
    hidden = priced.considered - shown
    if priced.considered <= 1 or hidden <= 0:
        return ""
    unpriced = sum(priced.standing(rank) is Standing.UNPRICED for rank in range(1, len(priced.candidates) + 1))
    # A candidate with the best number of nodes stands for those with others, which are not counted here.
    complete = len(priced.candidates) == priced.considered
    which = f", {unpriced:,} of them unpriced" if complete else ", some unpriced"
    which = ", all unpriced" if unpriced == len(priced.candidates) else which if unpriced else ""
    return f"{hidden:,} {'more' if shown else 'rows'}{which}: --all."


def _last(priced: Priced, width: int, shown: Sequence[int], *, called: bool) -> list[str]:
    """The number of rows other than the `shown` ranks and of warnings, the dates of their prices, the next commands."""
    grave = _grave(priced)
    others = [finding for finding in priced.findings if finding not in grave and finding.code != LEANER_CODE]
    counted = f"{number_of(len(others), 'note')}: -v." if others else ""
    dates = price_dates(priced.candidates[rank - 1] for rank in shown)
    texts = (more_rows(priced, len(shown)), counted, dates)
    said = [text for text in texts if text]
    lines = fold(f"  {' '.join(said)}", width)
    commands = [next_command(priced)]
    if any(priced.standing(rank) is Standing.OLD_PRICE for rank in shown):
        commands.insert(0, refresh_command(priced))
    text = f"  next: {'; '.join(commands)}"
    nexts = [text] if len(text) <= width else [f"  next: {one}" for one in commands]
    read = ["  Prices were read from AWS, nothing was spent."] if called else []
    return [*lines, *read, "", *nexts]
