"""The page of `slipway plan` for training: the answer, the table, the age of the prices, the next command."""

from collections import Counter
from collections.abc import Callable, Sequence

from launcher.answers import words
from launcher.answers.headline import UNPRICED, compares_families, headline
from launcher.answers.lines import finding_line, fold
from launcher.answers.plan_rows import counted_notes, notes_below, table, table_row
from launcher.answers.price_ages import contradictions, price_ages
from launcher.model.enums import COMMITTED, Basis, PurchaseOption
from launcher.model.money import Unpriced, UsdRange
from launcher.model.quote import Quote
from launcher.model.units import number_of
from launcher.pricing.candidate import Candidate
from launcher.pricing.priced import NEURON, NVIDIA, Priced
from launcher.workflow.quote.commands import command, next_command

MAX_PRICED, MAX_UNPRICED, MAX_OF_AN_OPTION = 10, 4, 2
MAX_NOTED = 200
"""Number of rows above which the notes below the table are only counted."""
MAX_TIMES = 20
"""A term commitment above this multiple of the cheapest total gets a row only on request."""


def page(priced: Priced, width: int, *, everything: bool, called: bool) -> list[str]:
    """The complete page for a terminal of `width` columns."""
    ranks, rest = ranks_shown(priced.candidates, everything=everything)
    large = [] if everything or priced.request.purchase.option else _large_commitments(priced.candidates, ranks)
    ranks = [rank for rank in ranks if rank not in large]
    named = [priced.cheapest_of(NEURON) if compares_families(priced) else None]
    named.append(None if priced.quote(1).gate.allows_launch else priced.cheapest_allowed)
    for rank_named in named:
        if rank_named is not None and rank_named not in ranks:
            # What has a price comes before what has none, so that the row falls among the priced ones.
            after = (i for i, rank in enumerate(ranks) if rank > rank_named or priced.candidates[rank - 1].usd is None)
            ranks.insert(next(after, len(ranks)), rank_named)
    shown = [table_row(priced.short_id(rank), priced.row(rank)) for rank in ranks]
    lines = ["", *fold(f"  {headline(priced)}", width), ""]
    lines += [piece for line in answer(priced) for piece in fold(f"  {line}", width)]
    rows = table(shown, width)
    lines += [
        "",
        *rows,
        *(counted_notes(shown, width) if len(shown) > MAX_NOTED else notes_below(shown, rows, width)),
        *_commitments(priced, large, width),
        *also_unpriced(rest, width),
        *_not_deployed(priced, width),
    ]
    lines += footer(priced, ranks, width, everything=everything, called=called)
    return lines


def ranks_shown(candidates: Sequence[Candidate], *, everything: bool) -> tuple[list[int], list[Candidate]]:
    """The ranks that get a row, and the unpriced candidates that get none.

    Rows are the best priced candidates, a few of each purchase option, and the first unpriced ones.
    """
    priced = [rank for rank, quoted in enumerate(candidates, start=1) if quoted.usd is not None]
    unpriced = [rank for rank, quoted in enumerate(candidates, start=1) if quoted.usd is None]
    if everything:
        return priced + unpriced, []
    named = _first_of_each_type(candidates, unpriced)[:MAX_UNPRICED]
    return _varied_ranks(candidates, priced) + named, [candidates[rank - 1] for rank in unpriced if rank not in named]


def _large_commitments(candidates: Sequence[Candidate], ranks: Sequence[int]) -> list[int]:
    """The ranks of term commitments that far exceed the cost of the job."""
    least = candidates[0].usd
    ranked = [(rank, candidates[rank - 1]) for rank in ranks]
    return [
        rank
        for rank, quoted in ranked
        if least is not None and quoted.place.option in COMMITTED and (quoted.usd or 0) > MAX_TIMES * least
    ]


def _commitments(priced: Priced, ranks: Sequence[int], width: int) -> list[str]:
    if not ranks:
        return []
    least = priced.candidates[ranks[0] - 1]
    usd = words.dollars(least.usd) if least.usd is not None else ""
    text = f"Term commitments cost ${usd} or more a run: see --all, and {command(priced, 'commit')}."
    return fold(f"  {text}", width)


def _varied_ranks(candidates: Sequence[Candidate], ranks: Sequence[int]) -> list[int]:
    """The best few of each purchase option, and the best of all up to the number of rows."""
    taken: Counter[PurchaseOption] = Counter()
    shown = set()
    for rank in ranks:
        option = candidates[rank - 1].place.option
        if taken[option] < MAX_OF_AN_OPTION:
            taken[option] += 1
            shown.add(rank)
    others = [rank for rank in ranks if rank not in shown]
    return sorted((*shown, *others[: max(0, MAX_PRICED - len(shown))]))


def _first_of_each_type(candidates: Sequence[Candidate], ranks: Sequence[int]) -> list[int]:
    best: dict[str, tuple[bool, bool, int, int]] = {}
    for rank in ranks:
        candidate = candidates[rank - 1]
        listed = candidate.offer.price.unverified if isinstance(candidate.offer.price, Unpriced) else None
        untrusted = listed is not None and listed.basis is Basis.UNVERIFIED
        order = (not untrusted, candidate.place.option is not PurchaseOption.ON_DEMAND, candidate.place.nodes, rank)
        best[candidate.place.instance_type] = min(best.get(candidate.place.instance_type, order), order)
    return [rank for *_, rank in sorted(best.values())]


def also_unpriced(candidates: Sequence[Candidate], width: int) -> list[str]:
    """The candidates without a price that get no row: every type with its purchase options."""
    options: dict[str, dict[str, None]] = {}
    for candidate in candidates:
        options.setdefault(candidate.place.instance_type, {})[candidate.place.option.value.replace("-", " ")] = None
    types: dict[str, list[str]] = {}
    for name, names_of_options in options.items():
        types.setdefault(" and ".join(names_of_options), []).append(name)
    if not types:
        return []
    parts = [f"{names_of_options} of {', '.join(names)}" for names_of_options, names in types.items()]
    return fold(f"  Also unpriced: {'; '.join(parts)}.", width)


def _not_deployed(priced: Priced, width: int) -> list[str]:
    """Hardware that would run the job and that Slipway cannot deploy."""
    parts = [
        f"{alternative.nodes} × {alternative.instance_type} as an UltraServer block "
        + (f"${words.dollars(alternative.usd.mid)}" if alternative.usd is not None else "unpriced")
        for alternative in priced.alternatives
    ]
    return fold(f"  Priced, but not deployable: {'; '.join(parts)}.", width) if parts else []


def answer(priced: Priced) -> list[str]:
    """The verdict in a sentence or two."""
    best = priced.quote(1)
    if best.usd is None:
        return [f"{UNPRICED} The reasons are in the table."]
    text = f"Cheapest:  {_run(best)}."
    if best.commitment_usd is not None:
        text += f" It needs a commitment of ${words.dollars(best.commitment_usd)}."
    if best.incomplete:
        text += f" {missing_text(best)}"
    return [text, *_other_family(priced), *refused_lines(priced, _run)]


def _run(quoted: Quote) -> str:
    place, done = quoted.plan.place, words.hours(quoted.hours.mid)
    return f"{words.purchase(place)}: {words.quoted_cost(quoted, 'a run')}, done in {done} h"


def refused_lines(priced: Priced, summary: Callable[[Quote], str]) -> list[str]:
    """Why a launch of the cheapest candidate would be refused, and the cheapest candidate that can be launched."""
    best, rank = priced.quote(1), priced.cheapest_allowed
    if best.gate.allows_launch:
        return []
    other = "No candidate can be launched with this plan and these prices."
    if rank is not None and (quoted := priced.row(rank)).usd is not None:
        other = f"Cheapest that can be launched: {priced.short_id(rank)}, {summary(quoted)}."
    return [f"A launch would be refused: {best.gate.reason}.", other]


def missing_text(quoted: Quote) -> str:
    """The estimated amount of the lines without a price, for a total that excludes them."""
    count = sum(component.unpriced is not None and component.group != "compute" for component in quoted.components)
    some, out = ("1 line has", "is") if count == 1 else (f"{count} lines have", "are")
    return f"{some} no price there and {out} not included."


def _other_family(priced: Priced) -> list[str]:
    from launcher.pricing.port import port, weeks_text

    train, rank = priced.request.workload.train, priced.cheapest_of(NEURON)
    other = priced.cheapest_of(NVIDIA)
    if train is None or rank is None or other is None or not compares_families(priced):
        return []
    sides = [priced.candidates[other - 1], priced.candidates[rank - 1]]
    gpu, trainium = (UsdRange(low=usd, mid=usd, high=usd) for side in sides if (usd := side.usd) is not None)
    ported = port(train, gpu, trainium, priced.now.date())
    runs = ported.break_even_run
    back = "never pays off" if runs is None else f"is paid back after {number_of(runs, 'run')}"
    instances = f"{words.place_instances(sides[1].place)}, {words.option(sides[1].place)}"
    text = f"Trainium: {priced.short_id(rank)}, {instances}: {words.total(priced.quote(rank))} a run"
    text += f"; the port of {weeks_text(ported.weeks.mid)} {back}."
    return [f"{text} {command(priced, 'compare')} shows why."]


def footer(
    priced: Priced, ranks: Sequence[int], width: int, *, everything: bool = False, called: bool = False
) -> list[str]:
    """The number of candidates, the age of the prices, the findings, and the next command."""
    rest = "; the others do not fit the model" if everything else "; --all ranks every one"
    rest = "" if len(ranks) == priced.considered else rest
    many = "1 candidate" if priced.considered == 1 else f"{len(ranks):,} of {priced.considered:,} candidates"
    lines = [f"  {many}{rest}. {price_ages(priced.candidates)}"]
    lines = [piece for line in lines for piece in fold(line, width)]
    lines += contradictions((priced.candidates[rank - 1] for rank in ranks), width)
    lines.append(
        "  Prices were read and nothing was spent." if called else "  Nothing was called and nothing was spent."
    )
    lines += [
        piece
        for finding in (*priced.findings, *priced.shortfalls, *priced.limits)
        for piece in fold(f"  {finding_line(finding)}", width)
    ]
    lines += ["", f"  next: {next_command(priced)}"]
    return lines
