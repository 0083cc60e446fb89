"""A finding of a check about a plan."""

from dataclasses import field

from launcher.model.enums import Level
from launcher.model.record import record


@record
class Finding:
    """One finding: its level, rule, path in the plan file, message, and fix.

    `code` is a stable lower-kebab name, `path` a dotted path in the plan file ("" for the whole plan). `line` and
    `column`, from 1, are the position of that path in the file; None if unknown.
    """

    level: Level
    code: str
    path: str
    message: str
    hint: str = ""
    line: int | None = field(default=None, compare=False)
    column: int | None = field(default=None, compare=False)


def error(code: str, path: str, message: str, hint: str = "") -> Finding:
    """A finding that stops the plan."""
    return Finding(level=Level.ERROR, code=code, path=path, message=message, hint=hint)


def warning(code: str, path: str, message: str, hint: str = "") -> Finding:
    """A finding that the user should read before continuing."""
    return Finding(level=Level.WARNING, code=code, path=path, message=message, hint=hint)


def info(code: str, path: str, message: str, hint: str = "") -> Finding:
    """A finding for information."""
    return Finding(level=Level.INFO, code=code, path=path, message=message, hint=hint)
