"""`slipway doctor`: what an account lacks for a plan, before money is spent."""

from pathlib import Path
from typing import Annotated

import typer

from launcher.answers.doctor import document, page
from launcher.cli import completion, options, output, places
from launcher.model.errors import UnreadableInputError

REFUSED = 5


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("doctor")(options.with_settings(doctor))


def doctor(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE", help="The plan file. Default: check only the account.", autocompletion=completion.plan_files
        ),
    ] = None,
    *,
    selection: options.Pick = None,
    json: options.Json = False,
    region: options.Region = None,
    sandbox: options.AttachSandbox = False,
    billing: Annotated[bool, typer.Option("--billing", help="Also run the checks of the paying account.")] = False,
) -> None:
    """Check the account for a launch: permissions, quotas, capacity, names. Creates nothing and spends nothing.

    Each check ends in a tick, a cross, advice or a question mark (AWS did not answer).
    """
    from launcher.catalog.load import load
    from launcher.workflow.doctor.diagnosis import diagnose, subject_of
    from launcher.workflow.quote.price import pick, price

    now, environment = options.now(), places.environment(sandbox=sandbox)
    plan, rate, catalog = None, None, load(overlay=options.price_cache(), today=now.date())
    if file is not None:
        # The candidate that a launch would take: in the sandbox prices of any age are allowed.
        priced = price(file, now, options.price_options(region=region, any_age=sandbox, picked=selection))
        quoted = pick(priced, selection)[1]
        plan, rate, catalog = quoted.plan, quoted.left_up_usd_per_hour, priced.catalog
    known = region or environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")
    if plan is None and known is None:
        raise UnreadableInputError("no region is given", hint="add --region, or name a plan file")
    subject = subject_of(plan, known or "", catalog=catalog, environment=environment, now=now, up_usd_per_hour=rate)
    diagnosis = diagnose(subject, billing=billing)
    if json:
        output.document(document(diagnosis))
    else:
        output.result(page(diagnosis, subject.region, output.terminal_width()))
    if diagnosis.failures:
        raise typer.Exit(code=REFUSED)
