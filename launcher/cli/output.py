"""Where a command's words go: results on standard output, chatter and errors on standard error."""

import json
import sys
from collections.abc import Iterable, Mapping
from typing import Any

import typer

from launcher.cli.lines import finding_line
from launcher.model.errors import SlipwayError


def result(lines: Iterable[str]) -> None:
    """Print the result of a command."""
    for line in lines:
        typer.echo(line)


def document(data: Mapping[str, Any]) -> None:
    """Print the result of a command as JSON."""
    typer.echo(json.dumps(data, indent=2, ensure_ascii=False))


def say(text: str = "") -> None:
    """Print chatter."""
    typer.echo(text, err=True)


def refusal(problem: SlipwayError) -> None:
    """Print why a command stopped: as JSON on standard output when JSON was asked for."""
    if "--json" in sys.argv:
        from launcher.records.documents import error_document

        document(error_document(problem))
        return
    say(typer.style("error: ", fg="red", bold=True) + problem.message)
    for each in problem.findings:
        say(f"  {finding_line(each)}")
    if problem.hint:
        say(f"  fix: {problem.hint}")
