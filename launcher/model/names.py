"""Nearest names, for messages."""

import difflib
from collections.abc import Iterable


def nearest_name(word: str, known: Iterable[str]) -> str:
    """A hint that names the closest known word, or nothing when none is close.

    >>> nearest_name("p5.48xlage", ["p5.48xlarge", "trn2.48xlarge"])
    'did you mean p5.48xlarge?'
    """
    close = difflib.get_close_matches(word.lower(), list(known), n=1, cutoff=0.6)
    return f"did you mean {close[0]}?" if close else ""
