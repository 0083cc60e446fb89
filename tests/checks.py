"""Assertions that several tests share."""

import re
import unicodedata
from collections.abc import Iterable
from typing import TypeVar

Item = TypeVar("Item")


def some(items: Iterable[Item]) -> list[Item]:
    """The items, at least one: a loop of assertions over an empty list proves nothing."""
    listed = list(items)
    assert listed, "there is nothing to check"
    return listed


def refuse_obeyed(text: str) -> None:
    """Fail if a terminal or a CI log would obey something in a command's output, or hide it."""
    hidden = {character for character in text if unicodedata.category(character) in {"Cc", "Cf", "Zl", "Zp", "Cs"}}
    assert hidden <= {"\n", "\t"}, text
    assert not re.search(r"(?m)^\s*::|##\[|##vso\[", text), text
