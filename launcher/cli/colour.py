"""Colour on a terminal; every page is complete without it."""

import os
import re
from collections.abc import Iterator
from typing import TextIO

RESET = "\033[0m"
BOLD, DIM, RED, GREEN, YELLOW, CYAN = (f"\033[{code}m" for code in (1, 2, "1;31", 32, 33, 36))
RULES: tuple[tuple[str, str], ...] = (
    (r"^\s*error:|^\s*gate: a launch is refused|^\s*Launch +refused|A launch would be refused|\b\w+_FAILED\b", RED),
    (r"^\s*warning:", YELLOW),
    (r"^\s*gate: a launch is allowed|^\s*Launch +allowed|\bas planned\b", GREEN),
    (r"^\s*(Cheapest|Total to finish|A month):|^\s*(Total) +[~$u]", BOLD),
    (r"^\s*(?:next|fix): (.+)", CYAN),
    (r"^\s*(─+)$|^\s*\[ *[0-9:]+\]", DIM),
)
"""Patterns to color: the first group of a match, or the whole match."""


def is_colored(stream: TextIO) -> bool:
    """Whether a stream shows colors: it is a terminal, and neither NO_COLOR nor TERM=dumb is set."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint(line: str, stream: TextIO) -> str:
    """A line as a stream shows it."""
    return "".join(_pieces(line)) if is_colored(stream) else line


def dim(line: str, stream: TextIO) -> str:
    """A line of less weight, as a stream shows it."""
    return f"{DIM}{line}{RESET}" if is_colored(stream) else line


def _pieces(line: str) -> Iterator[str]:
    """The line with matches of the rules colored; where two rules match the same text, the first one wins."""
    pieces: list[tuple[int, int, str]] = []
    for pattern, code in RULES:
        for match in re.finditer(pattern, line):
            start, end = match.span(match.lastindex or 0)
            if all(end <= other_start or start >= other_end for other_start, other_end, _ in pieces):
                pieces.append((start, end, code))
    at = 0
    for start, end, code in sorted(pieces):
        yield f"{line[at:start]}{code}{line[start:end]}{RESET}"
        at = end
    yield line[at:]
