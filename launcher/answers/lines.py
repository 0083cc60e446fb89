"""Lines of text: a finding in one line, a line wrapped to a width, a bar."""

from collections.abc import Iterable, Sequence
from textwrap import wrap

from launcher.model.finding import Finding

BAR = 20


def bar(share: float) -> str:
    """A progress bar for a share.

    >>> bar(0.25), bar(1.5)
    ('▰▰▰▰▰▱▱▱▱▱▱▱▱▱▱▱▱▱▱▱', '▰▰▰▰▰▰▰▰▰▰▰▰▰▰▰▰▰▰▰▰')
    """
    full = round(min(1.0, max(0.0, share)) * BAR)
    return "▰" * full + "▱" * (BAR - full)


def finding_line(finding: Finding) -> str:
    """A finding as one line: level, place, message, fix."""
    spot = f" (line {finding.line}, column {finding.column})" if finding.line is not None else ""
    where = f"{finding.path}{spot}: " if finding.path else ""
    hint = f" ({finding.hint})" if finding.hint else ""
    return f"{finding.level.value}: {where}{finding.message}{hint}"


def fold(line: str, width: int, hanging: int = 0) -> list[str]:
    """A line wrapped at blanks to a width; continuation lines are indented by `hanging` columns more than the first.

    >>> fold("  on: one, two", 12, 4)
    ['  on: one,', '      two']
    """
    indent, plain = " " * (len(line) - len(line.lstrip())), " ".join(line.split())
    pieces = wrap(
        plain,
        width,
        initial_indent=indent,
        subsequent_indent=indent + " " * hanging,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return pieces or [indent]


def sections(titled: Iterable[tuple[str, Sequence[str]]], width: int) -> list[str]:
    """Sentences under their titles; titles without sentences are omitted."""
    return [
        line
        for title, sentences in titled
        if sentences
        for line in (
            "",
            f"  {title}",
            *(piece for sentence in sentences for piece in fold(f"    {sentence}", width)),
        )
    ]
