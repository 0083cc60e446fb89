"""`slipway quote`: one candidate, every line of its bill."""

import os
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from launcher.cli import options, output

if TYPE_CHECKING:
    from pathlib import Path

    from launcher.model.money import Assumption
    from launcher.model.quote import Quote
    from launcher.model.verification import Verification
    from launcher.pricing.priced import Priced
    from launcher.workflow.quote.options import PriceOptions


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("quote")(options.with_settings(quote))


def quote(
    file: options.PlanPath,
    *,
    selection: options.Pick = None,
    json: options.Json = False,
    everything: options.Everything = False,
    region: options.Region = None,
    prices_as_of: options.PricesAsOf = None,
    max_price_age: options.MaxPriceAge = None,
    max_usd: options.MaxUsd = None,
    verify: Annotated[
        bool, typer.Option("--verify-with-aws", help="Compare with AWS's calculator, with the account's discounts.")
    ] = False,
    credits_too: Annotated[
        bool, typer.Option("--credits", help="Subtract the credits that AWS reports for the account.")
    ] = False,
    explained: options.Explained = False,
    html: options.Html = None,
    show: options.Open = False,
) -> None:
    """Quote one candidate: cost lines, safety policies, gate result; --explain adds assumptions.

    --verify-with-aws creates a workload estimate of the same lines in AWS, compares it and deletes it. Exit 5 if the
    lines differ by more than 1 %.
    """
    from launcher.pricing.gate import IMPOSSIBLE
    from launcher.records.quote_document import quote_document
    from launcher.workflow.quote.price import price

    price_options = options.price_options(
        region=region,
        everything=everything,
        prices_as_of=prices_as_of,
        max_price_age=max_price_age,
        max_usd=max_usd,
        picked=selection,
    )
    priced = price(file, options.now(), price_options)
    rank, alone = _pick(priced, selection)
    given = _given_values(file)
    quoted = replace(_with_findings(file, priced, alone, price_options), assumptions=(*given, *alone.assumptions))
    quoted = _with_account(quoted, credits_too=credits_too, verify=verify)
    types = priced.catalog.instance_types
    verified = _verify(quote_document(quoted, rank, types)) if verify else None
    target = options.page_path(html, priced.request.name, "quote", show=show)
    if target is not None:
        _save(target, (priced, rank, quoted), price_options, show=show)
    if json:
        output.document(quote_document(quoted, rank, types, verified))
    elif target is None:
        lines = _lines(quoted, rank, priced, verified, explained=explained)
        output.page(lines if explained else [*lines[:-1], *_origin_lines(given), *lines[-1:]])
    if _is_impossible(priced, rank, quoted) or not (verified is None or verified.holds):
        raise typer.Exit(code=IMPOSSIBLE)


def _is_impossible(priced: "Priced", rank: int, quoted: "Quote") -> bool:
    """Whether the gate refuses the quote for what it is: what is to be bought is quoted before."""
    from launcher.pricing.gate import IMPOSSIBLE
    from launcher.pricing.standing import Standing

    return quoted.gate.exit_code == IMPOSSIBLE and priced.standing(rank) is not Standing.UNNAMED


def _pick(priced: "Priced", selection: str | None) -> "tuple[int, Quote]":
    """The rank and the quote that were picked; a number in place of an id is explained."""
    from launcher.workflow.quote.price import pick, rank_note

    rank, quoted = pick(priced, selection)
    for note in rank_note(priced, selection):
        output.say(note)
    return rank, quoted


def _with_findings(file: "Path", priced: "Priced", alone: "Quote", price_options: "PriceOptions") -> "Quote":
    """The quote with the findings on the whole plan, its fallback types, and the part of its total not the work."""
    from launcher.workflow.quote.fallback import fallback_findings, fallback_quotes, with_types
    from launcher.workflow.quote.overhead import overhead_findings

    overhead = overhead_findings(file, priced, alone, options.now(), price_options)
    others = fallback_quotes(file, priced, alone, options.now(), price_options)
    notes = (*priced.findings, *alone.findings, *fallback_findings(others), *overhead)
    return replace(with_types(alone, others), findings=notes)


def _given_values(file: "Path") -> "tuple[Assumption, ...]":
    """The values that are from defaults or options, and not from the plan file."""
    from launcher import plan_file
    from launcher.answers.config import origins

    return origins(plan_file.resolve(file, options.SETTINGS.get()))


def _origin_lines(given: "tuple[Assumption, ...]") -> list[str]:
    from launcher.answers.config import origin_lines

    return origin_lines(given, output.terminal_width())


def _save(target: "Path", quoting: "tuple[Priced, int, Quote]", price_options: "PriceOptions", *, show: bool) -> None:
    from launcher.answers.html import quote as quote_html
    from launcher.workflow.quote.spot_curve import spot_curve

    priced, rank, quoted = quoting
    curve = spot_curve(priced, quoted, price_options)
    output.save_html(target, quote_html.page(priced, rank, quoted, curve), show=show)


def _lines(
    quoted: "Quote", rank: int, priced: "Priced", verified: "Verification | None", *, explained: bool
) -> list[str]:
    """The candidate in lines of the terminal's width, followed by the result of AWS's calculator."""
    from launcher.answers.quote import page
    from launcher.answers.verification import verification_lines

    width = output.terminal_width()
    shown = page(quoted, rank, width, priced, explained=explained, verbose=output.verbose())
    return [*shown, *(() if verified is None else verification_lines(verified, width))]


def _with_account(quoted: "Quote", *, credits_too: bool, verify: bool) -> "Quote":
    """The quote with what the options read in the account."""
    if credits_too:
        quoted = _with_credits(quoted)
    if verify and quoted.work is not None and quoted.plan.request.target.cluster is None:
        quoted = _with_image(quoted)
    return quoted


def _with_image(quoted: "Quote") -> "Quote":
    """The quote with the id of AWS's image of its nodes, if a launch would pin one."""
    from launcher.aws.session import Session
    from launcher.targets.clusters import cluster_of

    place = quoted.plan.place
    session = Session(environment=dict(os.environ), region=place.region)
    image = cluster_of(quoted.plan).image(quoted.plan, session)
    if image is None:
        return quoted
    assumptions = tuple(
        replace(line, value=image.text) if line.source == image.parameter else line for line in quoted.assumptions
    )
    return replace(quoted, image=image, assumptions=assumptions)


def _with_credits(quoted: "Quote") -> "Quote":
    """The quote with the cash that is left after the credits of the account; the plan's own are not counted as well."""
    from launcher.model.money import Assumption
    from launcher.pricing.cash import after_credits
    from launcher.workflow.quote.verify import credits_of

    usable, left_out = credits_of(dict(os.environ), options.now())
    if quoted.cash_usd is None:
        return quoted
    remaining, lines = after_credits(quoted.cash_usd, usable, options.now())
    plan_assumptions = tuple(
        assumption for assumption in quoted.assumptions if not assumption.name.startswith("credit ")
    )
    bare = tuple(Assumption(name="credit not counted", value="0", unit="dollars", source=reason) for reason in left_out)
    return replace(quoted, cash_after_credits_usd=remaining, assumptions=(*plan_assumptions, *lines, *bare))


def _verify(document: Mapping[str, Any]) -> "Verification":
    """What AWS's calculator makes of the same lines."""
    from launcher.records.stored_quote import read_quote
    from launcher.workflow.quote.verify import verify

    return verify(read_quote(document), dict(os.environ), time.sleep, output.say)
