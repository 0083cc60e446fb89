"""Output of commands: results on standard output, progress and errors on standard error.

Everything that commands print passes here, and other people's words in it are shown rather than obeyed
(launcher/model/visible_text.py). Only a job's own output (`logs`, `attach`, `exec`) has filters of its own.
"""

import json
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from threading import Event, Timer
from typing import Any, Protocol, TypeVar

import typer

from launcher.answers.lines import finding_line, fold
from launcher.cli.colour import paint
from launcher.cli.live import SCREEN, LiveNotifier
from launcher.model.errors import ImpossibleError, SlipwayError
from launcher.model.stages import Stage
from launcher.model.visible_text import output_line, visible, visible_json

Shown_contra = TypeVar("Shown_contra", contravariant=True)
VERBOSE, PAGER = "SLIPWAY_VERBOSE", "PAGER"
"""Environment variables: the first makes output verbose (-v sets it); the second names the pager (see --no-pager)."""
WRITTEN = Event()
"""A JSON document, or the beginning of one, is on standard output: nothing else may follow it there."""
SUBJECT: ContextVar[str] = ContextVar("subject", default="")
"""The name of the plan that this command is about, for the fixes of its errors."""
SLOW_S = 2.0
"""Seconds after which a command that only reads says what it waits for."""
NEXT = "  next: "
"""The prefix of a page's line with the next command."""


def verbose() -> bool:
    """Whether output is verbose."""
    return bool(os.environ.get(VERBOSE))


class OutputClosedError(Exception):
    """The reader of the result has gone (`| head`). No failure; typer would exit with 1."""


@contextmanager
def _read_by_somebody() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError as problem:
        raise OutputClosedError from problem


def result(lines: Iterable[str], *, keep: str = "\t") -> None:
    """Print the result of a command; `keep` are characters of Slipway's own that nobody sees."""
    with SCREEN.aside(), _read_by_somebody():
        for line in lines:
            typer.echo(paint(output_line(line, keep=keep), sys.stdout))


@contextmanager
def comment_of_failure(mark: str, *, wanted: bool) -> Iterator[None]:
    """A block whose error is also printed as a comment on a pull request, if one is `wanted`: none stays outdated."""
    try:
        yield
    except SlipwayError as problem:
        if wanted:
            from launcher.answers.diff import NO_LINK, failure_comment

            result(failure_comment(mark, problem), keep=NO_LINK)
        raise


def job_output(pieces: Iterable[tuple[str, bool]]) -> None:
    """Print the output of a job: without what steers a terminal, if it is one.

    `pieces` are texts, and whether a line ends with each of them.
    """
    from launcher.cli.terminal_text import plain_text

    steered, ended = sys.stdout.isatty(), True
    with SCREEN.aside(), _read_by_somebody():
        for text, ended in pieces:
            typer.echo(plain_text(text) if steered else text, nl=ended)
        if not ended:
            typer.echo()


def page(lines: Sequence[str]) -> None:
    """Print a page, through a pager if it is longer than the terminal; the next command goes to standard error.

    $PAGER names the pager; `PAGER=cat` and --no-pager use none.
    """
    shown = [line for line in lines if not line.startswith(NEXT)]
    while shown and not shown[-1]:
        shown.pop()
    _print_paged(shown)
    if following := [line for line in lines if line.startswith(NEXT)]:
        say("", *following)


def save_html(path: Path, text: str, *, show: bool) -> None:
    """Write an HTML page, and open it in the browser if `show` is set.

    Raises:
        ImpossibleError: the file cannot be written, or exists and is no such page.
    """
    from launcher.answers.html.page import BEGIN
    from launcher.records.run_folder import write_whole

    try:
        if path.is_dir():
            raise ImpossibleError(f"cannot write {path}: it is a folder", hint="name a file in it")
        if path.is_file() and path.stat().st_size and not _begins(path, BEGIN.encode()):
            hint = "name another file, or remove this one"
            raise ImpossibleError(f"{path} exists and is not a Slipway page: it is not replaced", hint=hint)
        if show:
            path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, visible(text, keep="\t\n"), shared=True)
    except OSError as problem:
        hint = "name a file in a folder that exists and is writable"
        raise ImpossibleError(f"cannot write {path}: {problem.strerror}", hint=hint) from problem
    if show:
        import webbrowser

        webbrowser.open(path.resolve().as_uri())
    say(f"wrote {path}")


def _begins(path: Path, text: bytes) -> bool:
    """Whether a file begins with a text; the rest may be of any size."""
    with path.open("rb") as stream:
        return stream.read(len(text)) == text


def _print_paged(lines: Sequence[str]) -> None:
    """Print the lines, a screen at a time where they are more than one."""
    # Two lines are left for the command that was typed and the next prompt.
    if not (sys.stdin.isatty() and sys.stdout.isatty()) or len(lines) <= shutil.get_terminal_size().lines - 2:
        result(lines)
        return
    from pydoc import pager

    # As git has it: what fits is not waited for, colours come through, the screen stays.
    os.environ.setdefault("LESS", "FRX")
    pager("\n".join(paint(output_line(line), sys.stdout) for line in lines) + "\n")


def terminal_width() -> int:
    """Columns of the terminal, or of COLUMNS, at least 60."""
    return max(60, shutil.get_terminal_size((100, 24)).columns)


class AnswerModule(Protocol[Shown_contra]):
    """A module of the answers: what it shows of a value, as JSON and as text for a terminal of some columns."""

    def document(self, value: Shown_contra, /) -> Mapping[str, Any]:
        """The JSON of the contract."""

    def page(self, found: Shown_contra, width: int, /) -> Sequence[str]:
        """The lines of text."""


def answer(shown: AnswerModule[Shown_contra], value: Shown_contra, *, json: bool) -> None:
    """Print the result of a command, as JSON or as a page."""
    if json:
        document(shown.document(value))
    else:
        page(shown.page(value, terminal_width()))


def document(data: Mapping[str, Any]) -> None:
    """Print the result of a command as JSON."""
    # Encoded before the first byte is written, so that a value without JSON leaves nothing half printed.
    text = visible_json(json.dumps(data, indent=2, ensure_ascii=False))
    WRITTEN.set()
    with _read_by_somebody():
        typer.echo(text)


def long_document(data: Mapping[str, Any], key: str, rows: Iterable[str]) -> None:
    """Print the result of a command as JSON, with a list of thousands of rows, one a line and each forgotten again.

    Args:
        data: the document, with an empty list under `key`.
        key: of the list.
        rows: its objects as JSON text.
    """
    place = f'"{key}": []'
    head, _, tail = visible_json(json.dumps(data, indent=2, ensure_ascii=False)).partition(place)
    WRITTEN.set()
    with _read_by_somebody():
        # Not by typer, which looks for colours in each of them, and JSON has none.
        sys.stdout.write(head + place.removesuffix("]"))
        for number, row in enumerate(rows):
            sys.stdout.write(("," if number else "") + "\n    " + visible_json(row))
        sys.stdout.write("\n  ]" + tail + "\n")


def say(*lines: str) -> None:
    """Print lines of chatter; a terminal gets them broken at blanks, but for commands to copy."""
    shown = [output_line(line) for line in lines]
    if sys.stderr.isatty():
        width = terminal_width()
        shown = [
            piece
            for line in shown
            for piece in ([line] if len(line) <= width or line.startswith(NEXT) else fold(line, width))
        ]
    with SCREEN.aside():
        typer.echo(paint("\n".join(shown), sys.stderr), err=True)


def talking() -> LiveNotifier:
    """A notifier that prints progress and shows work in progress."""
    return LiveNotifier(say, details=verbose())


@contextmanager
def stage_if_slow(description: str) -> Iterator[None]:
    """Begin a stage with this description if the block takes longer than SLOW_S."""
    begun: list[Stage] = []
    timer = Timer(SLOW_S, lambda: begun.append(talking().stage(description)))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        for stage in begun:
            stage.end()


def wants_json() -> bool:
    """Whether the command line requests JSON: `--json` before any `--`."""
    arguments = sys.argv[1:]
    return "--json" in (arguments[: arguments.index("--")] if "--" in arguments else arguments)


def refusal(problem: SlipwayError, *, sign: str = "error: ") -> None:
    """Print why a command stopped: as JSON on standard output if JSON was requested and nothing was printed yet."""
    if name := SUBJECT.get():
        problem.name_subject(name)
    if wants_json() and not WRITTEN.is_set():
        from launcher.answers.error import error_document

        document(error_document(problem))
        return
    # Some messages of Slipway's end with the lines of a program that failed.
    say(*f"{sign}{problem.message}".split("\n"))
    for finding in problem.findings:
        say(f"  {finding_line(finding)}")
    if problem.hint:
        say(f"  fix: {problem.hint}")
