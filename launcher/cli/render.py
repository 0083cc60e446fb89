"""`slipway render`: the files a plan would deploy and submit."""

from pathlib import Path
from typing import Annotated

import typer

from launcher.cli import options, output
from launcher.model.errors import ImpossibleError
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import pick, price


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("render")(render)


def render(
    file: options.PlanPath,
    *,
    folder: Annotated[Path, typer.Option("-o", "--output", metavar="DIR", help="Where the files go.")],
    wanted: options.Pick = None,
    region: options.Region = None,
    prices_as_of: options.PricesAsOf = None,
) -> None:
    """Write the files a plan would deploy and submit, and execute nothing."""
    from launcher.records.run_folder import write_bundle
    from launcher.workflow.deploy.render import render_any

    priced = price(
        file,
        options.now(),
        PriceOptions(cache=options.price_cache(), runs=Path.cwd(), region=region, prices_as_of=prices_as_of),
    )
    _, quoted = pick(priced, wanted)
    bundle = render_any(quoted, priced.catalog)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_bundle(bundle, folder, shared=True)
    except OSError as problem:
        raise ImpossibleError(f"cannot write to {folder}: {problem.strerror}") from problem
    output.result([f"  {folder / each.path}" for each in bundle.files])
    count = len(bundle.files)
    output.say(f"\n  plan {quoted.digest[:12]}: {count} file{'s' if count > 1 else ''}, nothing was executed")
