"""`slipway logs`: the output of a run's attempts."""

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated

import typer

from launcher.cli import options, output, places
from launcher.cli.terminal_text import TerminalText
from launcher.model.errors import UnreadableInputError
from launcher.records.command_record import goes_on
from launcher.records.submission import with_job


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("logs")(places.with_place(logs))


def logs(
    run: options.RunName,
    *,
    attempt: Annotated[
        int | None, typer.Option("--attempt", min=1, help="Print only this attempt. Default: all.")
    ] = None,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Follow the output until the job ends.")] = False,
) -> None:
    """Print the logs of a plan's newest run, attempt by attempt."""
    name = places.plan_name(run)
    folder = with_job(name, Path.cwd(), output.say)
    if (folder.path / "submission.json").is_file() or (follow and goes_on(folder)):
        from launcher.cli.console import StepPrinter
        from launcher.workflow.run.status_logs import follow_logs, refresh_logs

        if follow:
            filtered = TerminalText() if sys.stdout.isatty() else None
            write = _write if filtered is None else lambda data: _write(filtered.visible(data))
            follow_logs(name, folder, os.environ, write=write, notify=output.say, on_meter=StepPrinter().meter)
            _write(filtered.remainder() if filtered is not None else b"")
            return
        refresh_logs(name, folder, os.environ, output.say)
    elif follow:
        raise UnreadableInputError(f"{name} has no job on a cluster to follow", hint=f"slipway logs {name}")
    logs_here = folder.attempt_logs
    selected = [path for number, path in logs_here if attempt in (None, number)]
    if not logs_here and (folder.path / "report.json").is_file():
        _refuse_endpoint(name, folder.read_json("report.json").get("endpoint"))
    if not logs_here:
        raise UnreadableInputError(
            f"{name} has no log: no attempt has started here", hint=f"slipway status {name} shows its state"
        )
    if not selected:
        have = ", ".join(path.stem for _, path in logs_here)
        raise UnreadableInputError(f"{name} has no log of attempt {attempt}", hint=f"logs here: {have}")
    for path in selected:
        output.job_output(_pieces(path))


def _pieces(path: Path) -> Iterator[tuple[str, bool]]:
    from launcher.workflow.run.growing_lines import GrowingLines

    lines = GrowingLines(path)
    yield from lines.pieces()
    if rest := lines.rest():
        yield rest, True


def _refuse_endpoint(name: str, endpoint: Mapping[str, str] | None) -> None:
    if endpoint is not None:
        kind = "InferenceComponents" if endpoint["mode"] == "components" else "Endpoints"
        tail = f"aws logs tail /aws/sagemaker/{kind}/{endpoint['name']} --region {endpoint['region']} --follow"
        raise UnreadableInputError(f"{name} is an endpoint: its containers log to CloudWatch", hint=tail)


def _write(data: bytes) -> None:
    """Write job output unchanged: a chunk may end within a character."""
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
