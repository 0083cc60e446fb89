"""The parts of a target, found by its kind and loaded on demand.

The folder of a kind has its name, with "_" for "-", and one module per part: `facts` (used by all other modules),
`rules` (refusals and remarks of planning), `render` (its files), `updates` (permitted changes of its cluster),
`deploy` (its deployed cluster) and `readback` (comparison of the deployed cluster with the plan). Each module holds
one value, named like the module in capitals.
"""

from importlib import import_module
from typing import TypeVar

T = TypeVar("T")


def folder(kind: str) -> str:
    """The name of a kind's folder, and of the module of its stacks in infra/stacks.

    >>> folder("hyperpod-eks")
    'hyperpod_eks'
    """
    return kind.replace("-", "_")


def part(kind: str, name: str, of: type[T]) -> T:
    """One part of a target.

    Raises:
        TypeError: the module holds something else.
    """
    value = getattr(import_module(f"launcher.targets.{folder(kind)}.{name}"), name.upper())
    if not isinstance(value, of):
        raise TypeError(f"launcher.targets.{folder(kind)}.{name} holds no {of.__name__}")
    return value
