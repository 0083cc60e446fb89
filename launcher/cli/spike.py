"""`slipway spike`: measure a job on its instance types before committing to them."""

import functools
from pathlib import Path
from typing import Annotated

import typer

from launcher.cli import completion, options, output
from launcher.cli.confirm import refuse_without_terminal


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("spike")(options.with_set(spike))


def spike(
    file: options.PlanPath,
    *,
    types: Annotated[
        list[str] | None,
        typer.Option(
            "--type",
            metavar="TYPE",
            help="Measure this type; repeatable. Default: the plan's types, or the best GPU and the best Trainium.",
            autocompletion=completion.accelerated_types,
        ),
    ] = None,
    steps: Annotated[int, typer.Option("--steps", min=1, help="Stop after this many steps.")] = 100,
    minutes: Annotated[float, typer.Option("--minutes", min=1, help="Stop after this many minutes at most.")] = 30,
    sandbox: options.InSandbox = False,
    yes: options.Yes = False,
    dry_run: options.DryRun = False,
    json: options.Json = False,
    region: options.Region = None,
    max_price_age: options.MaxPriceAge = None,
    max_usd: options.MaxUsd = None,
) -> None:
    """Measure the plan's own command in a short run on each instance type. Priced and gated like any launch.

    It uses the smallest number of nodes that the job fits on. The result goes into measurements.jsonl, and the next
    plan, quote and compare in this folder use it. A spike in the sandbox is marked, and no quote uses it.
    """
    from launcher.answers import spike as answer
    from launcher.cli.console import Console
    from launcher.workflow.quote.commands import command_with
    from launcher.workflow.run import spike as story
    from launcher.workflow.run.launch_options import LaunchOptions

    price_options = options.price_options(region=region, max_price_age=max_price_age, max_usd=max_usd, any_age=sandbox)
    if not sandbox and not dry_run:
        refuse_without_terminal("spike", yes=yes)
    console = Console(yes=yes)
    launch_options = LaunchOptions(
        root=Path.cwd(),
        sandbox=sandbox,
        dry_run=dry_run,
        notify=console.notify,
        progress=console.progress,
        meter=console.meter,
    )
    measure = functools.partial(story.spike, steps=steps, minutes=minutes, types=types or ())
    with console:
        result = measure(file, options.now, price_options, options=launch_options, console=console)
    output.answer(answer, result, json=json)
    for line in result.left:
        output.say(f"  {line}")
    if dry_run:
        output.say("", "  Nothing was deployed and nothing was measured.")
        return
    output.say("", f"  next: {command_with(str(file), 'compare', ())}")
