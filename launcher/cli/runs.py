"""`slipway runs`: what ran from this folder."""

from pathlib import Path

import typer

from launcher.cli import options, output
from launcher.cli.table import Column, render, terminal_width
from launcher.records.run_folder import all_runs, runs_document


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("runs")(runs)


def runs(*, json: options.Json = False) -> None:
    """List the runs under .slipway in this folder, newest first."""
    found = []
    for name, folder in all_runs(Path.cwd()):
        report = folder.read_json("report.json") if (folder.path / "report.json").is_file() else {}
        found.append((name, folder.path.name, str(report.get("status", "not submitted")), folder.path))
    if json:
        output.document(runs_document([row[:3] for row in found]))
        return
    if not found:
        output.say("no runs in this folder\n\n  next: slipway plan FILE")
        return
    columns = [Column(title="name"), Column(title="started"), Column(title="status")]
    output.result(render(columns, [row[:3] for row in found], terminal_width()))
