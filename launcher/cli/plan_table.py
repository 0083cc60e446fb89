"""The page of `slipway plan` for training: the answer, the table, the age of the numbers, the next command."""

from collections import Counter
from collections.abc import Sequence
from functools import cache

from launcher.cli import words
from launcher.cli.lines import finding_line, wrapped
from launcher.cli.price_ages import contradictions, price_ages
from launcher.cli.table import Column, align_points, render
from launcher.model.enums import Basis, Level, PurchaseOption
from launcher.model.money import Price, Range, Unpriced, UsdRange
from launcher.model.quote import Quote
from launcher.planning.work import cluster_hours
from launcher.pricing.alternatives import HYPERPOD
from launcher.pricing.candidate import Candidate
from launcher.pricing.compute import WHOLE
from launcher.pricing.gate import IMPOSSIBLE
from launcher.pricing.priced import NEURON, NVIDIA, Priced

MOST_PRICED, MOST_UNPRICED, MOST_OF_AN_OPTION = 10, 4, 2
NARROW = 100
MANY_HOURS = 100
INCOMPLETE = "total incomplete"


def page(priced: Priced, width: int, *, everything: bool, called: bool) -> list[str]:
    """The whole page for a terminal of `width` columns."""
    ranks, rest = ranks_shown(priced.candidates, everything=everything)
    shown = [(rank, priced.quote(rank)) for rank in ranks]
    lines = ["", *wrapped(f"  {headline(priced)}", width), ""]
    lines += [piece for line in answer(priced) for piece in wrapped(f"  {line}", width)]
    rows = table(shown, width)
    lines += [
        "",
        *rows,
        *_notes_below(shown, rows, width),
        *unpriced_reasons(shown, width),
        *also_unpriced(rest, width),
        *_not_deployed(priced, width),
    ]
    lines += footer(priced, shown, width, everything=everything, called=called)
    return lines


def ranks_shown(candidates: Sequence[Candidate], *, everything: bool) -> tuple[list[int], list[Candidate]]:
    """The ranks that get a row, and the candidates without a price that get none.

    Rows are the best that are priced, a few of each way of buying, and the first that are not.
    """
    priced = [rank for rank, each in enumerate(candidates, start=1) if each.usd is not None]
    unpriced = [rank for rank, each in enumerate(candidates, start=1) if each.usd is None]
    if everything:
        return priced + unpriced, []
    named = _first_of_each_type(candidates, unpriced)[:MOST_UNPRICED]
    return _varied(candidates, priced) + named, [candidates[rank - 1] for rank in unpriced if rank not in named]


def _varied(candidates: Sequence[Candidate], ranks: Sequence[int]) -> list[int]:
    """The best few of each way of buying, and the best of all up to the number of rows."""
    taken: Counter[PurchaseOption] = Counter()
    kept = set()
    for rank in ranks:
        option = candidates[rank - 1].place.option
        if taken[option] < MOST_OF_AN_OPTION:
            taken[option] += 1
            kept.add(rank)
    others = [rank for rank in ranks if rank not in kept]
    return sorted((*kept, *others[: max(0, MOST_PRICED - len(kept))]))


def _first_of_each_type(candidates: Sequence[Candidate], ranks: Sequence[int]) -> list[int]:
    """One rank for each type: the one whose price was seen and is not trusted, or else on demand, or the first."""
    best: dict[str, tuple[bool, bool, int]] = {}
    for rank in ranks:
        each = candidates[rank - 1]
        seen = each.offer.price.seen if isinstance(each.offer.price, Unpriced) else None
        untrusted = seen is not None and seen.basis is Basis.UNVERIFIED
        order = (not untrusted, each.place.option is not PurchaseOption.ON_DEMAND, rank)
        best[each.place.instance_type] = min(best.get(each.place.instance_type, order), order)
    return [rank for _, _, rank in sorted(best.values())]


def unpriced_reasons(rows: Sequence[tuple[int, Quote]], width: int) -> list[str]:
    """Why the rows without a price have none: the notes say it where there is room, and this does everywhere."""
    told: dict[str, dict[str, None]] = {}
    for _, quoted in rows:
        if quoted.unpriced is not None:
            place = quoted.plan.place
            told.setdefault(_note(quoted), {})[f"{place.instance_type} {words.option(place)}"] = None
    return [
        piece for reason, rows_of in told.items() for piece in wrapped(f"  – {', '.join(rows_of)}: {reason}", width)
    ]


def _notes_below(rows: Sequence[tuple[int, Quote]], lines: Sequence[str], width: int) -> list[str]:
    """What the table had no room for and nobody should miss: tails of blocks, commitments, what is impossible.

    A total without some of its lines is marked here too.
    """
    below: dict[str, list[str]] = {}

    @cache
    def has_room(note: str) -> bool:
        """Whether the table shows a note whole; many rows share one."""
        return any(line.endswith(note) for line in lines)

    for rank, quoted in rows:
        whole = quoted.plan.place.option in WHOLE
        grave = whole or quoted.commitment_usd is not None or quoted.gate.exit_code == IMPOSSIBLE
        note = _note(quoted)
        if quoted.usd is not None and note and not has_room(note):
            text = note if grave else INCOMPLETE if quoted.incomplete else ""
            below.setdefault(text, []).append(str(rank))
    below.pop("", None)
    return [piece for note, ranks in below.items() for piece in wrapped(f"  {', '.join(ranks)}: {note}", width)]


def also_unpriced(candidates: Sequence[Candidate], width: int) -> list[str]:
    """The candidates without a price that get no row: every type with its ways of buying."""
    options: dict[str, dict[str, None]] = {}
    for each in candidates:
        options.setdefault(each.place.instance_type, {})[each.place.option.value.replace("-", " ")] = None
    types: dict[str, list[str]] = {}
    for name, ways in options.items():
        types.setdefault(" and ".join(ways), []).append(name)
    if not types:
        return []
    parts = [f"{ways} of {', '.join(names)}" for ways, names in types.items()]
    return wrapped(f"  No price either: {'; '.join(parts)}.", width)


SERVICES = {
    "sagemaker-training-job": "as a SageMaker training job",
    "sagemaker-managed-spot": "on managed spot",
    HYPERPOD: "on HyperPod",
    "ultraserver": "as an UltraServer block",
}


def _not_deployed(priced: Priced, width: int) -> list[str]:
    """The alternatives in a sentence, and HyperPod, which a plan has to ask for, in one of its own."""
    parts: list[str] = []
    lines: list[str] = []
    for each in priced.alternatives:
        told = f"{each.nodes} × {each.instance_type} {SERVICES[each.service]} "
        told += f"${words.dollars(each.usd.mid)}" if each.usd is not None else "unpriced"
        if each.service == HYPERPOD:
            lines += wrapped(f"  With target.kind hyperpod-slurm: {told}.", width)
        else:
            parts.append(told)
    return lines + (wrapped(f"  Priced, not deployed: {'; '.join(parts)}.", width) if parts else [])


def headline(priced: Priced) -> str:
    """What is asked for, in one line."""
    request, train = priced.request, priced.request.workload.train
    if train is None:
        return f"{request.name} · a cluster without a job, priced for {cluster_hours(request):g} h"
    model = train.model if isinstance(train.model, str) else "a model"
    size = f" ({priced.params_b:.4g} B)" if priced.params_b else ""
    amount = f"{train.tokens_b:g} B tokens" if train.tokens_b is not None else f"{train.hours:g} h of progress"
    pace = "one a month" if train.runs_per_month == 1 else f"{train.runs_per_month:g} a month"
    runs = f" · {train.runs:,} runs, {pace}" if train.runs > 1 else ""
    what = f"{train.method.value} training of {model}{size}" if train.model else "a job"
    return f"{request.name} · {what} · {amount}{runs}"


def answer(priced: Priced) -> list[str]:
    """The verdict in a sentence or two."""
    best = priced.quote(1)
    if best.usd is None:
        return ["No candidate has a price: nothing can be launched. The reasons stand in the table."]
    place = best.plan.place
    usd, hours = best.usd, best.hours
    spread = words.between(words.dollars(usd.low), words.dollars(usd.high))
    what = f"{words.machines(place)}, {words.option(place)} in {place.region}"
    text = f"Cheapest:  {what}: ${words.dollars(usd.mid)} a run"
    text += f" ({spread})" if spread else ""
    text += f", done in {words.hours(hours.mid)} h."
    if best.commitment_usd is not None:
        text += f" It takes a commitment of ${words.dollars(best.commitment_usd)}."
    if best.incomplete:
        text += " Lines without a price are not in it."
    lines = [text, *_other_family(priced)]
    if not best.gate.allowed:
        lines.append(f"A launch would be refused: {best.gate.reason}.")
    return lines


def _other_family(priced: Priced) -> list[str]:
    """GPU against Trainium in a sentence, where the plan leaves both open."""
    from launcher.pricing.port import port, weeks_words

    train = priced.request.workload.train
    ranks = [priced.cheapest_of(family) for family in (NVIDIA, NEURON)]
    sides = [priced.candidates[rank - 1] for rank in ranks if rank is not None]
    if train is None or train.tokens_b is None or len(sides) != len(ranks):
        return []
    gpu, trainium = (UsdRange(low=usd, mid=usd, high=usd) for each in sides if (usd := each.usd) is not None)
    found = port(train, gpu, trainium, priced.now.date())
    runs = found.break_even_run
    back = "is never paid back" if runs is None else f"is paid back after {runs:,} run{'s' if runs > 1 else ''}"
    what = f"{sides[1].place.nodes} × {sides[1].place.instance_type}, {words.option(sides[1].place)}"
    text = f"Trainium: {what}: ${words.dollars(trainium.mid)} a run; the port of {weeks_words(found.weeks.mid)} {back}."
    return [f"{text} slipway compare {priced.path} says why."]


def table(rows: Sequence[tuple[int, Quote]], width: int) -> list[str]:
    """The candidates as a table.

    Below NARROW columns, and where there would be no room for regions, these go by their codes and plans without their
    kind.
    """
    narrow = width < NARROW
    columns = [
        Column(title="#", right=True),
        Column(title="machines"),
        Column(title="", yields=1),
        Column(title="where", yields=0),
        Column(title="zone", yields=2),
        Column(title="how"),
        Column(title="$/h", right=True),
        Column(title="hours", right=True),
        Column(title=""),
        Column(title="total $", right=True),
        Column(title=""),
        Column(title="notes", yields=3, shrinks=True),
    ]
    lines: list[str] = []
    for short in (False, True)[narrow:]:
        cells = [_cells(rank, quoted, short=short) for rank, quoted in rows]
        for index in (6, 7, 9):
            for row, text in zip(cells, align_points([row[index] for row in cells]), strict=True):
                row[index] = text
        lines = render(columns, cells, width)
        if " where " in lines[0]:
            break
    return lines


def _cells(rank: int, quoted: Quote, *, short: bool) -> list[str]:
    """One candidate's cells."""
    place, usd = quoted.plan.place, quoted.usd
    number = str(rank) if usd is not None else "–"
    hours = quoted.hours
    rate = words.dollars(quoted.price.usd * place.nodes) if isinstance(quoted.price, Price) else ""
    return [
        number,
        words.machines(place).replace(" × ", "×") if short else words.machines(place),
        quoted.accelerator,
        words.region_code(place.region) if short else place.region,
        place.az_id or "",
        words.option(place, short=short),
        rate or ("" if short else "unpriced"),
        words.hours(hours.mid),
        _spread(hours, short=short),
        words.dollars(usd.mid) if usd else "",
        words.between(words.dollars(usd.low), words.dollars(usd.high)) if usd else ("unpriced" if short else ""),
        _note(quoted),
    ]


def _spread(hours: Range, *, short: bool) -> str:
    """The range of hours; whole ones where room is short and they are many."""
    if short and hours.high >= MANY_HOURS:
        return words.between(f"{hours.low:,.0f}", f"{hours.high:,.0f}")
    return words.between(words.hours(hours.low), words.hours(hours.high))


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
        parts.append(INCOMPLETE)
    return "; ".join(parts)


def footer(
    priced: Priced,
    shown: Sequence[tuple[int, Quote]],
    width: int,
    *,
    everything: bool = False,
    called: bool = False,
) -> list[str]:
    """How many were looked at, how old the prices are, what was found, and what to type next."""
    rest = "; the model does not fit the others" if everything else "; --all for the rest"
    rest = "" if len(shown) == priced.considered else rest
    lines = [f"  {len(shown):,} of {priced.considered:,} considered{rest}. {price_ages(priced.candidates)}"]
    lines = [piece for line in lines for piece in wrapped(line, width)]
    lines += contradictions((priced.candidates[rank - 1] for rank, _ in shown), width)
    lines.append(
        "  Prices were read and nothing was spent." if called else "  Nothing was called and nothing was spent."
    )
    lines += [piece for each in priced.findings for piece in wrapped(f"  {finding_line(each)}", width)]
    lines += ["", f"  next: {priced.next_command}"]
    return lines
