"""Where a command's words go: results on standard output, chatter and errors on standard error."""

import json
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any, Protocol, TypeVar

import typer

from launcher.answers.lines import finding_line, wrapped
from launcher.cli.colour import painted
from launcher.cli.live import SCREEN, LiveNotifier
from launcher.model.errors import ImpossibleError, SlipwayError

Shown_contra = TypeVar("Shown_contra", contravariant=True)
VERBOSE, PAGER = "SLIPWAY_VERBOSE", "PAGER"
"""Variables of the environment: one says more, -v sets it; the other names the pager, and --no-pager that none is."""
WRITTEN = Event()
"""A JSON document, or the beginning of one, is on standard output: nothing else may follow it there."""
NEXT = "  next: "
"""How the line of a page begins that says what to type next."""


def verbose() -> bool:
    """Whether more is to be said than usual."""
    return bool(os.environ.get(VERBOSE))


class ReaderGoneError(Exception):
    """Nobody reads the result any more (`| head`), which is no failure; typer would end with 1 of its own."""


@contextmanager
def _read_by_somebody() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError as problem:
        raise ReaderGoneError from problem


def result(lines: Iterable[str]) -> None:
    """Print the result of a command."""
    with SCREEN.aside(), _read_by_somebody():
        for line in lines:
            typer.echo(painted(line, sys.stdout))


def page(lines: Sequence[str]) -> None:
    """Print a page, through a pager where it is longer than the terminal that it goes to; the next command is chatter.

    $PAGER names the pager, as everywhere; `PAGER=cat` is none, and so is --no-pager.
    """
    shown = [line for line in lines if not line.startswith(NEXT)]
    while shown and not shown[-1]:
        shown.pop()
    _paged(shown)
    if following := [line for line in lines if line.startswith(NEXT)]:
        say("\n".join(["", *following]))


def save_html(path: Path, text: str, *, show: bool) -> None:
    """Write a page of HTML, and show it in the user's browser where that is asked for.

    Raises:
        ImpossibleError: it cannot be written, or would replace a file that is no such page.
    """
    from launcher.answers.html.page import BEGIN
    from launcher.records.run_folder import write_whole

    try:
        if path.is_dir():
            raise ImpossibleError(f"cannot write {path}: it is a folder", hint="name a file in it")
        if path.is_file() and path.stat().st_size and not path.read_bytes().startswith(BEGIN.encode()):
            hint = "name another file, or remove this one"
            raise ImpossibleError(f"{path} exists and is not a Slipway page: it is not replaced", hint=hint)
        if show:
            path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text, shared=True)
    except OSError as problem:
        hint = "name a file in a folder that exists and is writable"
        raise ImpossibleError(f"cannot write {path}: {problem.strerror}", hint=hint) from problem
    if show:
        import webbrowser

        webbrowser.open(path.resolve().as_uri())
    say(f"wrote {path}")


def _paged(lines: Sequence[str]) -> None:
    """Print the lines, a screen at a time where they are more than one."""
    # Two lines are left for the command that was typed and the next prompt.
    if not (sys.stdin.isatty() and sys.stdout.isatty()) or len(lines) <= shutil.get_terminal_size().lines - 2:
        result(lines)
        return
    from pydoc import pager

    # As git has it: what fits is not waited for, colours come through, the screen stays.
    os.environ.setdefault("LESS", "FRX")
    pager("\n".join(painted(line, sys.stdout) for line in lines) + "\n")


def terminal_width() -> int:
    """Columns of the terminal, or of COLUMNS, at least 60."""
    return max(60, shutil.get_terminal_size((100, 24)).columns)


class Answer(Protocol[Shown_contra]):
    """A module of the answers: what it shows of a value, as JSON and as text for a terminal of some columns."""

    def document(self, value: Shown_contra, /) -> Mapping[str, Any]:
        """The JSON of the contract."""

    def page(self, found: Shown_contra, width: int, /) -> Sequence[str]:
        """The lines of text."""


def answer(shown: Answer[Shown_contra], value: Shown_contra, *, json: bool) -> None:
    """Print the result of a command, as JSON or as a page."""
    if json:
        document(shown.document(value))
    else:
        page(shown.page(value, terminal_width()))


def document(data: Mapping[str, Any]) -> None:
    """Print the result of a command as JSON."""
    # Encoded before the first byte is written, so that a value without JSON leaves nothing half printed.
    text = json.dumps(data, indent=2, ensure_ascii=False)
    WRITTEN.set()
    with _read_by_somebody():
        typer.echo(text)


def long_document(data: Mapping[str, Any], key: str, rows: Iterable[Mapping[str, Any]]) -> None:
    """Print the result of a command as JSON, with a list of thousands of rows, one a line and each forgotten again.

    Args:
        data: the document, with an empty list under `key`.
        key: of the list.
        rows: its objects.
    """
    place = f'"{key}": []'
    head, _, tail = json.dumps(data, indent=2, ensure_ascii=False).partition(place)
    encode = json.JSONEncoder(ensure_ascii=False).encode
    WRITTEN.set()
    with _read_by_somebody():
        # Not by typer, which looks for colours in each of them, and JSON has none.
        sys.stdout.write(head + place.removesuffix("]"))
        for number, row in enumerate(rows):
            sys.stdout.write(("," if number else "") + "\n    " + encode(row))
        sys.stdout.write("\n  ]" + tail + "\n")


def say(text: str = "") -> None:
    """Print chatter; a terminal gets it broken at blanks, but for commands to copy."""
    if sys.stderr.isatty():
        width = terminal_width()
        whole = {line for line in text.split("\n") if len(line) <= width or line.startswith(NEXT)}
        text = "\n".join(
            piece for line in text.split("\n") for piece in ([line] if line in whole else wrapped(line, width))
        )
    with SCREEN.aside():
        typer.echo(painted(text, sys.stderr), err=True)


def talking() -> LiveNotifier:
    """A listener that prints chatter, and shows what is in progress."""
    return LiveNotifier(say, details=verbose())


def wants_json() -> bool:
    """Whether the command line asks for JSON: `--json` before any `--`."""
    words = sys.argv[1:]
    return "--json" in (words[: words.index("--")] if "--" in words else words)


def refusal(problem: SlipwayError, *, sign: str = "error: ") -> None:
    """Print why a command stopped: as JSON on standard output when JSON was asked for and nothing is there yet."""
    if wants_json() and not WRITTEN.is_set():
        from launcher.records.documents import error_document

        document(error_document(problem))
        return
    say(f"{sign}{problem.message}")
    for finding in problem.findings:
        say(f"  {finding_line(finding)}")
    if problem.hint:
        say(f"  fix: {problem.hint}")
