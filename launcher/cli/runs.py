"""`slipway runs`: what ran from this folder."""

from operator import itemgetter
from pathlib import Path

import typer

from launcher.answers.table import Column, render
from launcher.cli import options, output
from launcher.model.errors import UnreadableInputError
from launcher.records.command_record import read_command
from launcher.records.run_folder import RunFolder, all_runs


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("runs")(runs)


def runs(*, json: options.Json = False) -> None:
    """List the runs under .slipway in this folder, newest first."""
    listed, unreadable = [], []
    for name, folder in all_runs(Path.cwd()):
        try:
            status = _status(folder)
        except UnreadableInputError as problem:
            status = "unreadable"
            unreadable.append(problem.message)
        listed.append((name, folder.path.name, status, folder.path))
    if json:
        from launcher.answers.runs import document

        output.document(document([row[:3] for row in listed]))
        _refuse(unreadable)
        return
    if not listed:
        output.say("no runs in this folder", "", "  next: slipway plan FILE")
        return
    columns: list[Column[tuple[str, str, str, Path]]] = [
        Column("name", itemgetter(0)),
        Column("started", itemgetter(1)),
        Column("status", itemgetter(2)),
    ]
    output.result(render(columns, listed, output.terminal_width()))
    _refuse(unreadable)


def _refuse(unreadable: list[str]) -> None:
    if unreadable:
        raise UnreadableInputError("; ".join(unreadable), hint="restore the file, or remove the folder of its run")


def _status(folder: RunFolder) -> str:
    """The status of a run, from its report or from the command that created it."""
    from launcher.records.report_document import stored_report
    from launcher.workflow.run.status import NOT_SUBMITTED, status_of

    if (folder.path / "report.json").is_file():
        return status_of(folder, stored_report(folder)).replace("-", " ")
    command = read_command(folder)
    if command is None:
        return NOT_SUBMITTED.replace("-", " ")
    return command.state if command.state not in ("running", "failed") else f"{command.command} {command.state}"
