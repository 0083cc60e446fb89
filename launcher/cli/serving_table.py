"""The page of `slipway plan` for a serving plan: a month of every way to serve it."""

from collections.abc import Sequence

from launcher.cli import words
from launcher.cli.lines import wrapped
from launcher.cli.plan_rows import incomplete_note, note_of, unpriced_name, unpriced_reasons
from launcher.cli.plan_table import also_unpriced, footer, ranks_shown
from launcher.cli.table import Column, align_points, render
from launcher.model.enums import Level, PurchaseOption, ServingTask
from launcher.model.quote import Quote
from launcher.model.workload import ServingWorkload
from launcher.pricing.candidate import Candidate
from launcher.pricing.priced import Priced
from launcher.pricing.serving.traffic import requests_per_month

NARROW = 100
MOST_NAMED = 8


def page(priced: Priced, width: int, *, everything: bool, called: bool) -> list[str]:
    """The whole page for a terminal of `width` columns."""
    ranks, rest = ranks_shown(priced.candidates, everything=everything)
    shown = [(rank, priced.quote(rank)) for rank in ranks]
    lines = ["", *wrapped(f"  {headline(priced)}", width), ""]
    lines += [piece for line in answer(priced) for piece in wrapped(f"  {line}", width)]
    lines += ["", *table(shown, width), *_refused(shown, width), *_reasons(shown, width)]
    lines += _also_unpriced(rest, width)
    return lines + footer(priced, ranks, width, called=called)


def _refused(rows: Sequence[tuple[int, Quote]], width: int) -> list[str]:
    """Why priced rows cannot be deployed: the notes say it where there is room, and this does everywhere."""
    told: dict[str, list[str]] = {}
    for rank, quoted in rows:
        found = next((each for each in quoted.findings if each.level is Level.ERROR), None)
        if quoted.usd is not None and found is not None:
            told.setdefault(found.message, []).append(str(rank))
    return [
        piece for reason, ranks in told.items() for piece in wrapped(f"  {', '.join(ranks)} refused: {reason}", width)
    ]


def _reasons(rows: Sequence[tuple[int, Quote]], width: int) -> list[str]:
    """Why rows without a price have none."""
    return unpriced_reasons(((unpriced_name(each), note_of(each)) for _, each in rows if each.unpriced), width)


def _also_unpriced(candidates: Sequence[Candidate], width: int) -> list[str]:
    """The candidates without a price that get no row; many of them by their number."""
    if len({each.place.instance_type for each in candidates}) <= MOST_NAMED:
        return also_unpriced(candidates, width)
    types: dict[str, set[str]] = {}
    for each in candidates:
        types.setdefault(words.option(each.place).rstrip("0123456789y ").strip(), set()).add(each.place.instance_type)
    parts = [f"{option} of {len(names)} types" for option, names in types.items()]
    return wrapped(f"  No price either: {', '.join(parts)}; --all names them.", width)


def headline(priced: Priced) -> str:
    """What is asked for, in one line."""
    serve = priced.request.workload.serve or ServingWorkload()
    model = serve.model if isinstance(serve.model, str) else "a model"
    size = f" ({priced.params_b:.4g} B)" if priced.params_b else ""
    kind = "embeddings from" if serve.task is ServingTask.EMBEDDING else "serving"
    out = "" if serve.task is ServingTask.EMBEDDING else f", {serve.answer_tokens:,} out"
    most = max(serve.hourly)
    busiest = f", {most:g} a second at the busiest" if most > min(serve.hourly) else f", {most:g} a second"
    traffic = f"{requests(requests_per_month(serve))} requests a month{busiest}"
    return f"{priced.request.name} · {kind} {model}{size} · {serve.input_tokens:,} tokens in{out} · {traffic}"


def requests(count: float) -> str:
    """A number of requests as a person says it.

    >>> requests(17_520_000.0), requests(1_234.0), requests(2.5e9)
    ('17.5 million', '1,234', '2.5 billion')
    """
    if count >= 1e9:  # noqa: PLR2004 - a billion
        return f"{count / 1e9:.3g} billion"
    return f"{count / 1e6:.3g} million" if count >= 1e6 else f"{count:,.0f}"  # noqa: PLR2004 - a million


def answer(priced: Priced) -> list[str]:
    """The cheapest, and the cheapest of the other kind: machines, or Bedrock."""
    best = priced.quote(1)
    if best.usd is None:
        return ["No candidate has a price: nothing can be launched. The reasons are in the table."]
    lines = [f"Cheapest:  {_month(best)}"]
    hosted = best.plan.place.option is PurchaseOption.BEDROCK
    other = next((rank for rank, each in enumerate(priced.candidates, 1) if _is_other(each, hosted=hosted)), None)
    if other is not None:
        name = "Machines:" if hosted else "Bedrock:"
        lines.append(f"{name}  {_month(priced.quote(other))} {priced.command('compare')} says why.")
    if not best.gate.allowed:
        lines.append(f"A launch would be refused: {best.gate.reason}.")
    return lines


def _is_other(each: object, *, hosted: bool) -> bool:
    """Whether a candidate is of the other kind than the cheapest, possible and priced."""
    place, usd = getattr(each, "place", None), getattr(each, "usd", None)
    on_bedrock = place is not None and place.option is PurchaseOption.BEDROCK
    return usd is not None and not getattr(each, "refusals", ()) and on_bedrock is not hosted


def _month(quoted: Quote) -> str:
    """One candidate's month in a sentence."""
    place, usd, told = quoted.plan.place, quoted.usd, quoted.serving
    if usd is None or told is None:
        return ""
    spread = words.between(words.dollars(usd.low), words.dollars(usd.high))
    how = "" if place.option is PurchaseOption.BEDROCK else f", {words.option(place)}"
    text = f"{words.machines(place)}{how} in {place.region}: ${words.dollars(usd.mid)} a month"
    text += f" ({spread})" if spread else ""
    if told.usd_per_million_output_tokens is not None:
        text += f", ${words.dollars(told.usd_per_million_output_tokens)} per million output tokens"
    elif told.usd_per_million_tokens is not None:
        text += f", ${words.dollars(told.usd_per_million_tokens)} per million tokens"
    if told.utilisation is not None and told.idle_usd_per_month is not None:
        text += f"; {told.utilisation:.0%} used, ${words.dollars(told.idle_usd_per_month)} of it idle"
    return f"{text}."


def table(rows: Sequence[tuple[int, Quote]], width: int) -> list[str]:
    """The candidates as a table; below NARROW columns regions go by their codes and plans without their kind."""
    answers = any(each.serving is not None and each.serving.usd_per_million_output_tokens for _, each in rows)
    columns = [
        Column(title="#", right=True),
        Column(title="machines"),
        Column(title="", yields=1),
        Column(title="where", yields=0),
        Column(title="how"),
        Column(title="$ a month", right=True),
        Column(title=""),
        Column(title="$/M out" if answers or not any(each.usd for _, each in rows) else "$/M", right=True),
        Column(title="used", right=True),
        Column(title="first ms", right=True, yields=2),
        Column(title="ms/token", right=True, yields=3),
        Column(title="notes", yields=4, shrinks=True),
    ]
    cells = [_cells(rank, quoted, short=width < NARROW) for rank, quoted in rows]
    for index in (5, 7, 10):
        for row, text in zip(cells, align_points([row[index] for row in cells]), strict=True):
            row[index] = text
    return render(columns, cells, width)


def _cells(rank: int, quoted: Quote, *, short: bool) -> list[str]:
    """One candidate's cells."""
    place, usd, told = quoted.plan.place, quoted.usd, quoted.serving
    machines = words.machines(place)
    per_million = None if told is None else told.usd_per_million_output_tokens or told.usd_per_million_tokens
    used = None if told is None else told.utilisation
    bedrock = told.bedrock if told is not None else None
    return [
        str(rank) if usd is not None else "–",
        machines.replace(" ", "") if short else machines,
        quoted.accelerator,
        words.region_code(place.region) if short else place.region,
        bedrock.mode.value.replace("-", " ") if bedrock is not None else words.option(place, short=short),
        words.dollars(usd.mid) if usd else "unpriced",
        words.between(words.dollars(usd.low), words.dollars(usd.high)) if usd else "",
        words.dollars(per_million) if per_million is not None else "",
        f"{used:.0%}" if used is not None else "",
        _milliseconds(told.ttft_ms if told else None),
        _milliseconds(told.tpot_ms if told else None),
        _note(quoted),
    ]


def _milliseconds(value: float | None) -> str:
    """Milliseconds to three digits."""
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"  # noqa: PLR2004 - below, the tenth counts


def _note(quoted: Quote) -> str:
    """The one thing worth saying of a row."""
    if quoted.unpriced is not None:
        return quoted.unpriced
    error = next((each for each in quoted.findings if each.level is Level.ERROR), None)
    if error is not None:
        return error.message
    parts = [quoted.note] if quoted.note else []
    if quoted.commitment_usd is not None:
        parts.append(f"a commitment of ${words.dollars(quoted.commitment_usd)}")
    if quoted.incomplete:
        parts.append(incomplete_note(quoted))
    return "; ".join(parts)
