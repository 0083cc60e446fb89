"""`slipway approve`: a person's approval of one launch, deployment or removal, for a program to use once."""

import os
import sys
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from launcher.cli import completion, options, output, places
from launcher.cli.option_values import dollars
from launcher.model.errors import ImpossibleError, UnreadableInputError
from launcher.records.approval import Action

if TYPE_CHECKING:
    from launcher.records.approval import Approval


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("approve")(options.with_settings(approve))


def approve(
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="FILE|NAME",
            help="The plan file; for --action down, the cluster's or endpoint's name. Default: list.",
            autocompletion=completion.clusters_and_files,
        ),
    ] = None,
    *,
    max_usd: Annotated[
        Decimal | None,
        typer.Option("--max-usd", parser=dollars, metavar="X", help="The most that 1 run in 10 may cost."),
    ] = None,
    lasts: Annotated[str, typer.Option("--for", metavar="TIME", help="How long the approval holds: 30m, 2h.")] = "2h",
    action: Annotated[Action, typer.Option("--action", help="What is approved.")] = Action.LAUNCH,
    selection: options.Pick = None,
    region: options.Region = None,
    sandbox: Annotated[bool, typer.Option("--sandbox", help="Approve the action in the sandbox, not on AWS.")] = False,
    revoked: Annotated[str | None, typer.Option("--revoke", metavar="ID", help="Take an approval back.")] = None,
    json: options.Json = False,
) -> None:
    """Approve one launch, deployment or removal that an agent or a script then does once (--approval ID).

    An approval is for one quote: another plan, candidate or setting needs another approval. The command that uses it
    prices the plan again and refuses above --max-usd. On AWS the plan needs budget.stop_at_usd, so that the guard in
    the account stops the job at that sum too.

    Only a person can approve: the command needs a terminal, and no flag answers its question.
    """
    from launcher.answers import approve as answer
    from launcher.records.approval import open_approvals, revoke, write_approval
    from launcher.workflow.quote.approval import duration

    if revoked is not None:
        output.say(f"taken back: {answer.sentence(revoke(revoked, os.environ, options.now()))}")
        return
    if what is None:
        output.answer(answer, open_approvals(os.environ, options.now()), json=json)
        return
    length = duration(lasts)
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UnreadableInputError(
            "only a person can approve: no terminal", hint="run slipway approve in a terminal; no flag answers it"
        )
    if action is Action.DOWN:
        approval = _removal(what, max_usd, length, region=region, sandbox=sandbox)
    else:
        approval = _launch(Path(what), action, max_usd, length, selection=selection, region=region, sandbox=sandbox)
    _ask(approval)
    write_approval(approval, os.environ)
    if json:
        output.document(answer.document([approval]))
    else:
        output.say("", f"  {answer.sentence(approval)}")
        output.say(f"  next: {command_of(approval)}")


def command_of(approval: "Approval") -> str:
    """The command that uses an approval."""
    import shlex

    flag = " --sandbox" if approval.sandbox else ""
    return f"slipway {approval.action.value} {shlex.quote(approval.file)}{flag} --approval {approval.id}"


def _ask(approval: "Approval") -> None:
    from launcher.answers.approve import sentence
    from launcher.cli.confirm import confirm_by_name

    output.say("", f"  {sentence(approval)}", "")
    confirm_by_name(f"approve this {approval.action.value}", approval.name, given=None)


def _removal(name: str, max_usd: Decimal | None, lasts: timedelta, *, region: str | None, sandbox: bool) -> "Approval":
    from launcher.workflow.quote.approval import removal_approval

    if max_usd is not None:
        raise UnreadableInputError("--max-usd is for a launch or a deployment: a removal costs nothing", hint="drop it")
    named = places.plan_name(name)
    return removal_approval(named, region=region, sandbox=sandbox, now=options.now(), lasts=lasts)


def _launch(
    file: Path,
    action: Action,
    max_usd: Decimal | None,
    lasts: timedelta,
    *,
    selection: str | None,
    region: str | None,
    sandbox: bool,
) -> "Approval":
    from launcher.answers.quote_brief import page
    from launcher.records.saved_plan import read_saved
    from launcher.workflow.quote.approval import approval_of, quoted_for_approval

    if max_usd is None:
        raise UnreadableInputError("--max-usd is missing: an approval has a limit", hint="--max-usd 500")
    if read_saved(file) is not None:
        raise ImpossibleError(f"{file} is a saved plan", hint="approve the plan file that it was saved from")
    price_options = options.price_options(region=region, max_usd=max_usd)
    now = options.now()
    picked = quoted_for_approval(file, now, price_options, selection=selection, sandbox=sandbox)
    for line in page(picked.quoted, picked.rank, output.terminal_width(), picked.priced):
        output.say(line)
    return approval_of(picked, action, price_options, file=file, sandbox=sandbox, now=now, lasts=lasts)
