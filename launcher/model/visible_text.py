"""Other people's words as one line: shown, and never obeyed by a terminal, a CI log or a spreadsheet.

Names in a bucket, a cluster's answers, a branch's plan: any of them may hold escape sequences, marks that turn the
direction of writing, a line that a CI system takes for a command, or a formula.
"""

import json
import re
import unicodedata
from decimal import Decimal, InvalidOperation

_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Categories of Unicode: controls (C0, C1), formats (zero width, direction), halves of pairs, line separators."""
_COMMAND = re.compile(r"^(\s*)(?=::)|(?<=##)(?=\[|vso\[)")
"""Lines that GitHub Actions and Azure Pipelines obey: `::error::` after blanks, `##[error]` and `##vso[` anywhere
(actions/runner, src/Runner.Common/ActionCommand.cs, TryParseV2 and TryParse)."""
_COMMAND_ANYWHERE = re.compile(r"##(?=\[|vso\[)")
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")  # noqa: RUF001 - full-width forms
"""First characters that spreadsheets take for a formula's (OWASP, CSV Injection; ASVS 5.0, 1.2.10)."""


def visible(text: str, *, keep: str = "\t") -> str:
    r"""A text with every character that is not seen written as its escape; those in `keep` stay.

    >>> visible("k\x1b]0;title\x07 \u202egpj.\u200b ü漢 \U000e0041"), visible("a\nb")
    ('k\\x1b]0;title\\x07 \\u202egpj.\\u200b ü漢 \\U000e0041', 'a\\nb')
    """
    if text.isprintable():
        return text
    return "".join(
        character.encode("unicode_escape").decode()
        if character not in keep and unicodedata.category(character) in _UNSEEN
        else character
        for character in text
    )


def output_line(text: str, *, keep: str = "\t") -> str:
    r"""A text as one line of output, which no CI system takes for a command; `keep` as for `visible`.

    >>> output_line("  ::add-mask::1"), output_line("a ##[error]b"), output_line("std::vector")
    ('  \\::add-mask::1', 'a ##\\[error]b', 'std::vector')
    """
    shown = visible(text, keep=keep)
    return _COMMAND.sub(lambda match: f"{match.group(1) or ''}\\", shown) if ":" in shown or "#" in shown else shown


def visible_json(text: str) -> str:
    r"""A JSON text with the unseen characters in its strings as JSON's escapes; JSON itself has none but line feeds.

    The values stay the same, and no CI system takes one for a command.

    >>> visible_json('{"a": "\x9b\u202e\U000e0041", "b": "##vso[task.x]"}')
    '{"a": "\\u009b\\u202e\\udb40\\udc41", "b": "#\\u0023vso[task.x]"}'
    """
    if "##" in text:
        text = _COMMAND_ANYWHERE.sub(r"#\\u0023", text)
    # JSON escapes the controls below a blank itself.
    if (text.isascii() and "\x7f" not in text) or text.replace("\n", "").isprintable():
        return text
    return "".join(
        json.dumps(character)[1:-1] if character != "\n" and unicodedata.category(character) in _UNSEEN else character
        for character in text
    )


def csv_cell(text: str) -> str:
    r"""A cell of a CSV file that no spreadsheet computes and no CI system obeys; numbers stay numbers.

    >>> csv_cell("=cmd|' /C calc'!A0"), csv_cell("@SUM(A1)"), csv_cell("-5.25"), csv_cell("a-b"), csv_cell("\tx")
    ("'=cmd|' /C calc'!A0", "'@SUM(A1)", '-5.25', 'a-b', "'\tx")
    """
    if not text.startswith(_FORMULA) or _is_number(text):
        return output_line(text)
    return f"'{output_line(text)}"


def _is_number(text: str) -> bool:
    try:
        return Decimal(text).is_finite()
    except InvalidOperation:
        return False
