"""`slipway render`: the files a plan would deploy and submit."""

from collections.abc import Container
from pathlib import Path
from typing import Annotated

import typer

from launcher.cli import options, output
from launcher.cli.confirm import confirm
from launcher.model.errors import ImpossibleError
from launcher.model.units import number_of

SHOWN = 3


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("render")(options.with_settings(render))


def render(
    file: options.PlanPath,
    *,
    folder: Annotated[Path, typer.Option("-o", "--output", metavar="DIR", help="The folder for the files.")],
    selection: options.Pick = None,
    region: options.Region = None,
    prices_as_of: options.PricesAsOf = None,
    yes: options.Yes = False,
    json: options.Json = False,
) -> None:
    """Write the files that a plan would deploy and submit. Executes nothing."""
    from launcher.records.run_folder import write_bundle
    from launcher.workflow.deploy.render import render_any, show_bundle
    from launcher.workflow.quote.price import pick, price

    priced = price(
        file,
        options.now(),
        options.price_options(region=region, prices_as_of=prices_as_of, picked=selection),
    )
    _, quoted = pick(priced, selection)
    bundle = show_bundle(render_any(quoted, priced.catalog), quoted.plan)
    strange = _others(folder, {rendered_file.path.partition("/")[0] for rendered_file in bundle.files})
    if strange:
        others = ", ".join(strange[:SHOWN]) + (f" and {len(strange) - SHOWN} more" if len(strange) > SHOWN else "")
        confirm(f"write {number_of(len(bundle.files), 'file')} to {folder}, which holds others ({others})", yes=yes)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_bundle(bundle, folder, shared=True)
    except OSError as problem:
        hint = "-o FOLDER names a new or a writable folder"
        raise ImpossibleError(f"cannot write to {folder}: {problem.strerror}", hint=hint) from problem
    if json:
        from launcher.answers.render import RenderDocument
        from launcher.records.codec import as_json

        files = [str(folder / rendered_file.path) for rendered_file in bundle.files]
        name, digest = quoted.plan.name, quoted.digest
        output.document(as_json(RenderDocument(name=name, digest=digest, folder=str(folder), files=tuple(files))))
        return
    output.result([f"  {folder / rendered_file.path}" for rendered_file in bundle.files])
    count = len(bundle.files)
    output.say("", f"  plan {quoted.digest[:12]}: {number_of(count, 'file')}, nothing was executed")


def _others(folder: Path, rendered: Container[str]) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name not in rendered) if folder.is_dir() else []
