"""The template engine: strict about names, with one quoting filter for each language it writes."""

import json
import shlex
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from launcher.catalog.assets import asset

_PRINTABLE = range(0x20, 0x7F)


def yaml_scalar(value: object) -> str:
    r"""A value as a YAML flow scalar that reads back to the same value and type.

    Text is double-quoted and everything outside printable ASCII escaped, so that no text can end the scalar, begin a
    key, or turn into another type.

    Raises:
        TypeError: the value is no text, number, flag or null.

    >>> print(yaml_scalar("on: {x}"), yaml_scalar(True), yaml_scalar(4800), yaml_scalar('say "\n"'))
    "on: {x}" true 4800 "say \"\x0a\""
    """
    if value is None or isinstance(value, bool | int | float):
        return json.dumps(value)
    if not isinstance(value, str):
        message = f"a YAML scalar must be text, a number, a flag or null, got {type(value).__name__} {value}"
        raise TypeError(message)
    return f'"{"".join(_yaml_character(character) for character in value)}"'


def _yaml_character(character: str) -> str:
    code = ord(character)
    if character in '"\\':
        return "\\" + character
    if code in _PRINTABLE:
        return character
    if code <= 0xFF:  # noqa: PLR2004 - the widths of YAML's three escapes
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"  # noqa: PLR2004 - see above


def shell_word(value: object) -> str:
    """A value as one word of a POSIX shell command.

    Raises:
        TypeError: the value is neither text nor a whole number.

    >>> print(shell_word("it's $(here)"), shell_word(8))
    'it'"'"'s $(here)' 8
    """
    if isinstance(value, bool) or not isinstance(value, str | int):
        message = f"a shell word must be text or a whole number, got {type(value).__name__} {value}"
        raise TypeError(message)
    return shlex.quote(str(value))


def indent_lines(text: str, width: int) -> str:
    r"""A text with every non-empty line indented, for inclusion in a nested block of another file.

    >>> indent_lines("a:\n  b\n\nc", 2)
    '  a:\n    b\n\n  c'
    """
    return "\n".join(f"{' ' * width}{line}" if line else line for line in text.split("\n"))


@cache
def template_environment(folder: Path) -> Environment:
    """The engine for a folder of templates; it escapes nothing unless a template names the language."""
    engine = Environment(
        loader=FileSystemLoader(folder),
        undefined=StrictUndefined,
        autoescape=False,  # noqa: S701 - shell and YAML, not HTML; see the filters
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    engine.filters = {"indented": indent_lines, "shell": shell_word, "yaml": yaml_scalar}
    engine.globals = {}
    return engine


def render_template(template: str, view: Any = None, /, **values: Any) -> str:
    """The text of a template; the template's first line names the values that it reads.

    `template` is a path below templates/; the fields of the dataclass instance `view` are values too.

    Raises:
        jinja2.UndefinedError: the template uses a value that is not given.
    """
    view_values = {} if view is None else {field.name: getattr(view, field.name) for field in fields(view)}
    return template_environment(asset("templates")).get_template(template).render({**view_values, **values})
