"""Price a job on AWS accelerators from Python: see docs/python.md. Nothing is loaded before a name is used.

>>> import launcher
>>> found = launcher.plan("examples/p5-spot.yaml")
>>> found["schema"], found["candidates"][0]["instance_type"]
('slipway.plan/1', 'p5.48xlarge')
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from launcher.interface import (
        Options,
        cancel,
        compare,
        diff,
        down,
        launch,
        plan,
        quote,
        rows,
        status,
        sweep,
        wait,
    )
    from launcher.model.errors import SlipwayError

__all__ = [
    "Options",
    "SlipwayError",
    "cancel",
    "compare",
    "diff",
    "down",
    "launch",
    "plan",
    "quote",
    "rows",
    "status",
    "sweep",
    "wait",
]


def __getattr__(name: str) -> Any:
    """A name of the interface, loaded when it is used."""
    if name not in __all__:
        raise AttributeError(f"module 'launcher' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module("launcher.model.errors" if name == "SlipwayError" else "launcher.interface"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
