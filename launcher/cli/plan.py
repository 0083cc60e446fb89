"""`slipway plan`: every way to buy the job, with the total dollars to finish."""

import gc
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from launcher.cli import options, output
from launcher.model.errors import UnreadableInputError

if TYPE_CHECKING:
    from launcher.pricing.priced import Priced
    from launcher.workflow.quote.options import PriceOptions

MAX_WHOLE = 500
"""Combinations that a page prices whole."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("plan")(options.with_settings(plan))


def plan(
    file: options.PlanPath,
    *,
    json: options.Json = False,
    everything: options.Everything = False,
    explained: options.Explain = None,
    saved: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="SAVED", help="Save a candidate, for slipway deploy SAVED."),
    ] = None,
    selection: options.Pick = None,
    region: options.Region = None,
    prices_as_of: options.PricesAsOf = None,
    max_price_age: options.MaxPriceAge = None,
    max_usd: options.MaxUsd = None,
    swept: options.Sweep = None,
    live: options.Live = False,
    html: options.Html = None,
    show: options.Open = False,
) -> None:
    """Show the total dollars to finish a job with every purchase option. Makes no AWS call; spends nothing.

    With --live and credentials, each current offer of AWS has a row too, and the account's quotas decide what can
    be launched; nothing is bought.
    -o saves one candidate with its stacks; slipway deploy and slipway launch of that file deploy exactly these.
    """
    from launcher.pricing.gate import IMPOSSIBLE
    from launcher.workflow.quote.price import price

    price_options = options.price_options(
        region=region,
        **_rows(json, explained, saved, swept, live, html, show, everything=everything),
        prices_as_of=prices_as_of,
        max_price_age=max_price_age,
        max_usd=max_usd,
        picked=selection or explained,
    )
    _refuse_mixed(saved, selection, swept, live=live)
    _refuse_explained(explained, swept, json=json)
    if swept:
        _sweep(file, swept, price_options, json=json, html=html, show=show)
        return
    priced = _with_fallback_types(file, price(file, options.now(), price_options), price_options)
    priced = _with_live(priced, price_options) if live else priced
    lines = _save_plan(saved, priced, selection) if saved is not None else []
    if (target := options.page_path(html, priced.request.name, "plan", show=show)) is not None:
        _page(priced, target, price_options, show=show, live=live)
    if explained is not None:
        _explain(priced, explained)
    elif json:
        _document(priced, everything=everything)
    elif target is None:
        _table(priced, everything=everything, live=live)
    _print(lines)
    if priced.impossible:
        raise typer.Exit(code=IMPOSSIBLE)


def _rows(*others: object, everything: bool) -> dict[str, Any]:
    """The fields of the pricing options for every row, or for the first screen where nothing else is asked for."""
    from launcher.answers.plan_screen import MAX_ROWS

    first = not everything and not any(others) and not output.verbose()
    return {"everything": everything, "first_rows": MAX_ROWS if first else None}


def _print(lines: Sequence[str]) -> None:
    for line in lines:
        output.say(line)


def _table(priced: "Priced", *, everything: bool, live: bool) -> None:
    from launcher.answers.plan import page

    output.page(page(priced, output.terminal_width(), everything=everything, called=live, verbose=output.verbose()))


def _explain(priced: "Priced", selection: str) -> None:
    from launcher.answers import explain
    from launcher.workflow.quote.price import pick

    output.page(explain.page(priced, pick(priced, selection)[0], output.terminal_width()))


def _sweep(
    file: Path, swept: Sequence[str], price_options: "PriceOptions", *, json: bool, html: Path | None, show: bool
) -> None:
    from launcher.answers import sweep as answer
    from launcher.pricing.gate import IMPOSSIBLE
    from launcher.workflow.quote.sweep import sweep

    swept_plans = sweep(file, swept, options.now(), price_options)
    if (target := options.page_path(html, swept_plans.request.name, "sweep", show=show)) is not None:
        from launcher.answers.html.sweep import page as sweep_html

        output.save_html(target, sweep_html(swept_plans), show=show)
    if json:
        output.document(answer.document(swept_plans))
    elif target is None:
        output.page(answer.page(swept_plans, output.terminal_width()))
    if all(point.priced is None for point in swept_plans.points):
        raise typer.Exit(code=IMPOSSIBLE)


def _refuse_mixed(saved: Path | None, selection: str | None, swept: Sequence[str] | None, *, live: bool) -> None:
    if selection is not None and saved is None:
        raise UnreadableInputError(
            "--pick needs -o: it selects the candidate to save",
            hint="add -o SAVED, or use slipway quote FILE --pick RANK",
        )
    if live and saved is not None:
        raise UnreadableInputError(
            "--live and -o exclude each other: buy the offer before you save a plan for it", hint="drop -o or --live"
        )
    if swept and (saved is not None or live):
        raise UnreadableInputError("--sweep does not work with -o or --live", hint="remove -o and --live, or --sweep")


def _refuse_explained(explained: str | None, swept: Sequence[str] | None, *, json: bool) -> None:
    if explained is not None and (json or swept):
        raise UnreadableInputError(
            "--explain does not work with --json or --sweep",
            hint="remove --json and --sweep, or use slipway quote FILE --pick RANK --json",
        )


def _with_live(priced: "Priced", price_options: "PriceOptions") -> "Priced":
    import os

    from launcher.workflow.doctor.live_offers import with_live_offers

    return with_live_offers(priced, price_options, environment=dict(os.environ), notify=output.talking())


def _with_fallback_types(file: Path, priced: "Priced", price_options: "PriceOptions") -> "Priced":
    if not priced.request.target.fallback_types:
        return priced
    from launcher.workflow.quote.fallback import with_refused_types

    return with_refused_types(file, priced, price_options)


def _save_plan(path: Path, priced: "Priced", selection: str | None) -> list[str]:
    import os

    from launcher.answers.quote import gate_lines
    from launcher.workflow.deploy.saved_plan import save_plan
    from launcher.workflow.quote.price import pick

    rank, quoted = pick(priced, selection)
    saved = save_plan(path, priced, rank, quoted, os.environ)
    verb = "launch" if priced.request.workload.train is not None else "deploy"
    line = f"saved: candidate {rank}, plan {saved.digest[:12]}, at most ${saved.usd_high:,.2f}, in {path}"
    if not quoted.gate.allows_launch or priced.blocking:
        return ["", f"  {line}", *gate_lines(quoted, priced, output.terminal_width())]
    return ["", f"  {line}", f"  next: slipway {verb} {shlex.quote(str(path))}"]


def _document(priced: "Priced", *, everything: bool) -> None:
    """Print the plan as JSON, row by row: all candidates together would need too much memory."""
    from launcher.answers import plan_document as answer

    if everything:
        # Candidates live until the end: garbage collection need not look through them after every few thousand rows.
        gc.freeze()
        output.long_document(answer.document(priced, rows=()), "candidates", answer.candidates(priced))
    else:
        output.document(answer.document(priced))


def _page(priced: "Priced", target: Path, price_options: "PriceOptions", *, show: bool, live: bool) -> None:
    """The page to look at, with every size and place where they are few enough to be priced whole."""
    from launcher.answers.html import plan as plan_page
    from launcher.workflow.quote.price import price

    few = not live and priced.request.workload.serve is None and priced.considered <= MAX_WHOLE
    every = price(Path(priced.path), priced.now, replace(price_options, everything=True)) if few else None
    output.save_html(target, plan_page.page(priced, every), show=show)
