"""The parts of a target, found by its kind and loaded when they are needed.

The folder of a kind bears its name, with "_" for "-", and has one module for each part: `facts` (what everything asks),
`rules` (what planning refuses and remarks), `render` (its files), `updates` (how its cluster can be changed), `deploy`
(its cluster, once it is there) and `readback` (what it is held against). Each module holds one value, named like the
module in capitals.
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
