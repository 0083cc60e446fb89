"""The page of `slipway plan` for a serving plan: the monthly cost of every way to serve it."""

from collections.abc import Sequence
from decimal import Decimal

from launcher.answers import words
from launcher.answers.headline import UNPRICED
from launcher.answers.lines import fold
from launcher.answers.plan_rows import note_of, unpriced_name, unpriced_reasons
from launcher.answers.plan_table import also_unpriced, footer, ranks_shown, refused_lines
from launcher.answers.table import Column, render
from launcher.model.enums import Level, PurchaseOption, ServingPrecision, ServingTask
from launcher.model.quote import Quote
from launcher.model.serving import ServingOutlook
from launcher.model.workload import ServingWorkload
from launcher.pricing.candidate import Candidate
from launcher.pricing.priced import Priced
from launcher.pricing.serving.traffic import requests_per_month, requests_text
from launcher.workflow.quote.commands import command

NARROW = 100
MAX_NAMED = 8


def page(priced: Priced, width: int, *, everything: bool, called: bool) -> list[str]:
    """The complete page for a terminal of `width` columns."""
    ranks, rest = ranks_shown(priced.candidates, everything=everything)
    shown = [(priced.short_id(rank), priced.quote(rank)) for rank in ranks]
    lines = ["", *fold(f"  {headline(priced)}", width), ""]
    lines += [piece for line in answer(priced) for piece in fold(f"  {line}", width)]
    lines += ["", *table(shown, width), *_refusal_lines(shown, width), *_reasons(shown, width)]
    lines += _also_unpriced(rest, width)
    return lines + footer(priced, ranks, width, called=called)


def _refusal_lines(rows: Sequence[tuple[str, Quote]], width: int) -> list[str]:
    """Why priced rows cannot be deployed: the notes show it if the table has room, and this list always shows it."""
    by_reason: dict[str, list[str]] = {}
    for short_id, quoted in rows:
        failure = next((finding for finding in quoted.findings if finding.level is Level.ERROR), None)
        if quoted.usd is not None and failure is not None:
            by_reason.setdefault(failure.message, []).append(short_id)
    return [
        piece for reason, ids in by_reason.items() for piece in fold(f"  {', '.join(ids)} refused: {reason}", width)
    ]


def _reasons(rows: Sequence[tuple[str, Quote]], width: int) -> list[str]:
    return unpriced_reasons(
        ((unpriced_name(quoted), note_of(quoted)) for _, quoted in rows if quoted.no_price_reason), width
    )


def _also_unpriced(candidates: Sequence[Candidate], width: int) -> list[str]:
    """The candidates without a price that get no row; if they are many, only their number."""
    if len({candidate.place.instance_type for candidate in candidates}) <= MAX_NAMED:
        return also_unpriced(candidates, width)
    types: dict[str, set[str]] = {}
    for candidate in candidates:
        types.setdefault(words.option(candidate.place).rstrip("0123456789y ").strip(), set()).add(
            candidate.place.instance_type
        )
    parts = [f"{option} of {len(names)} types" for option, names in types.items()]
    return fold(f"  Also unpriced: {', '.join(parts)}; --all names them.", width)


def headline(priced: Priced) -> str:
    """The request in one line."""
    serve = priced.request.workload.serve or ServingWorkload()
    model = serve.model if isinstance(serve.model, str) else "a model"
    format_ = "" if serve.weight_format is ServingPrecision.BF16 else f", {serve.weight_format}"
    size = f" ({priced.params_b:.4g} B{format_})" if priced.params_b else ""
    kind = "embeddings from" if serve.task is ServingTask.EMBEDDING else "serving"
    out = "" if serve.task is ServingTask.EMBEDDING else f", {serve.answer_tokens:,} out"
    most = max(serve.hourly)
    busiest = f", {most:g} a second at the busiest" if most > min(serve.hourly) else f", {most:g} a second"
    traffic = f"{requests_text(requests_per_month(serve))} requests a month{busiest}"
    return f"{priced.request.name} · {kind} {model}{size} · {serve.input_tokens:,} tokens in{out} · {traffic}"


def answer(priced: Priced, *, commands: bool = True) -> list[str]:
    """The cheapest candidate, and the cheapest of the other kind: instances, or Bedrock.

    `commands`: the command that shows why is named too; not for a page that others read.
    """
    best = priced.quote(1)
    if best.usd is None:
        return [f"{UNPRICED} The reasons are in the table."]
    lines = [f"Cheapest:  {_month(best)}"]
    hosted = best.plan.place.option is PurchaseOption.BEDROCK
    ranked = enumerate(priced.candidates, start=1)
    other = next((rank for rank, candidate in ranked if _is_other(candidate, hosted=hosted)), None)
    if other is not None:
        name = "Instances:" if hosted else "Bedrock:"
        why = f" {command(priced, 'compare')} shows why." if commands else ""
        lines.append(f"{name}  {_month(priced.quote(other))}{why}")
    return lines + refused_lines(
        priced,
        lambda quoted: f"{words.purchase(quoted.plan.place)}: {words.quoted_cost(quoted, 'a month')}",
    )


def _is_other(candidate: Candidate, *, hosted: bool) -> bool:
    """Whether a candidate is possible and priced, and of the other kind than the cheapest."""
    on_bedrock = candidate.place.option is PurchaseOption.BEDROCK
    return candidate.usd is not None and not candidate.refusals and on_bedrock is not hosted


def _month(quoted: Quote) -> str:
    place, usd, outlook = quoted.plan.place, quoted.usd, quoted.serving
    if usd is None or outlook is None:
        return ""
    text = f"{words.purchase(place)}: {words.quoted_cost(quoted, 'a month')}"
    if outlook.usd_per_million_output_tokens is not None:
        text += f", ${words.dollars(outlook.usd_per_million_output_tokens)} per million output tokens"
    elif outlook.usd_per_million_tokens is not None:
        text += f", ${words.dollars(outlook.usd_per_million_tokens)} per million tokens"
    if outlook.utilisation is not None and outlook.idle_usd_per_month is not None:
        text += f"; {outlook.utilisation:.0%} used, ${words.dollars(outlook.idle_usd_per_month)} of it idle"
    return f"{text}."


def table(rows: Sequence[tuple[str, Quote]], width: int) -> list[str]:
    """The candidates as a table; below NARROW columns plans are shown without their kind."""
    answers = any(quoted.serving is not None and quoted.serving.usd_per_million_output_tokens for *_, quoted in rows)
    short = width < NARROW
    columns: list[Column[tuple[str, Quote]]] = [
        Column("id", lambda row: row[0]),
        Column("instances", lambda row: words.place_instances(row[1].plan.place).replace(" ", "" if short else " ")),
        Column("", lambda row: row[1].accelerator, yields=1),
        Column("where", lambda row: row[1].plan.place.region),
        Column("how", lambda row: purchase_text(row[1], short=short)),
        Column("$ a month", lambda row: words.middle(row[1].usd, "unpriced"), "point"),
        Column("", lambda row: words.usd_bounds(row[1].usd), yields=0),
        Column(
            "$/M out" if answers or not any(quoted.usd for *_, quoted in rows) else "$/M",
            lambda row: words.dollars(per_million(row[1].serving), ""),
            "point",
        ),
        Column("used", lambda row: utilisation_text(row[1].serving), "right"),
        Column(
            "first ms", lambda row: _milliseconds(row[1].serving.ttft_ms if row[1].serving else None), "right", yields=2
        ),
        Column(
            "ms/token", lambda row: _milliseconds(row[1].serving.tpot_ms if row[1].serving else None), "point", yields=3
        ),
        Column("notes", lambda row: note_of(row[1]), yields=4, shrinks=True),
    ]
    return render(columns, rows, width)


def purchase_text(quoted: Quote, *, short: bool) -> str:
    """The purchase option, or the mode of Bedrock."""
    bedrock = quoted.serving.bedrock if quoted.serving else None
    return words.option(quoted.plan.place, short=short) if bedrock is None else bedrock.mode.value.replace("-", " ")


def per_million(outlook: ServingOutlook | None) -> Decimal | None:
    """Dollars per million tokens: of output, where the model answers with tokens."""
    return None if outlook is None else outlook.usd_per_million_output_tokens or outlook.usd_per_million_tokens


def utilisation_text(outlook: ServingOutlook | None) -> str:
    """The share of the instances' hours that is used."""
    return "" if outlook is None or outlook.utilisation is None else f"{outlook.utilisation:.0%}"


def _milliseconds(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"  # noqa: PLR2004 - below, the tenth counts


def million_title(priced: Priced) -> str:
    """The title of the dollars per million tokens."""
    serve = priced.request.workload.serve
    return "$/M" if serve is not None and serve.task is ServingTask.EMBEDDING else "$/M out"
