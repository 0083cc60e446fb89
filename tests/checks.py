"""Assertions that several tests share."""

from collections.abc import Iterable
from typing import TypeVar

Item = TypeVar("Item")


def some(items: Iterable[Item]) -> list[Item]:
    """The items, at least one: a loop of assertions over an empty list proves nothing."""
    listed = list(items)
    assert listed, "there is nothing to check"
    return listed
