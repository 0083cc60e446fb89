"""`slipway runs`: what ran from this folder."""

import os
from operator import itemgetter
from pathlib import Path
from typing import Annotated

import typer

from launcher.answers.table import Column, render
from launcher.cli import options, output
from launcher.model.errors import UnreadableInputError
from launcher.model.units import number_of
from launcher.records.command_record import read_command
from launcher.records.recent_runs import FOUND, remembered_runs, state_folder
from launcher.records.run_folder import RunFolder, all_runs

Every = Annotated[bool, typer.Option("--all", help="Show your runs of every folder on this computer.")]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("runs")(runs)


def runs(*, every: Every = False, json: options.Json = False) -> None:
    """List the runs under .slipway in this folder, newest first."""
    here = all_runs(Path.cwd())
    known = ((name, RunFolder(path=path)) for name, path in remembered_runs(os.environ))
    elsewhere = [(name, folder) for name, folder in known if folder.root != Path.cwd()]
    # The name of a run's folder is its time.
    found = sorted([*here, *elsewhere] if every else here, key=lambda run: run[1].path.name, reverse=True)
    listed, unreadable = [], []
    for name, folder in found:
        try:
            status = _status(folder)
        except UnreadableInputError as problem:
            status = "unreadable"
            unreadable.append(problem.message)
        listed.append((name, folder.path.name, status, str(folder.root)))
    found_here = str(state_folder(os.environ) / FOUND)
    if json:
        from launcher.answers.runs import document

        output.document(document(listed))
        _refuse(unreadable)
        return
    if not listed:
        others = f": slipway runs --all lists {number_of(len(elsewhere), 'run')} of other folders" if elsewhere else ""
        output.say(f"no runs in this folder{others}", "", "  next: slipway plan FILE")
        return
    columns: list[Column[tuple[str, str, str, str]]] = [
        Column("name", itemgetter(0)),
        Column("started", itemgetter(1)),
        Column("status", itemgetter(2)),
        Column("folder", lambda row: "another computer" if row[3].startswith(found_here) else row[3], shrinks=True),
    ]
    columns = columns if every else columns[:-1]
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
