"""Slipway for Python programs and CDK apps: see docs/python.md and docs/constructs.md.

Nothing is loaded before a name is used. The names of `__all__` are promised; modules and other names are not.
"""

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from launcher import (
        Options,
        SlipwayError,
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
    from slipway_aws.budget import BudgetGate
    from slipway_aws.cluster import SlipwayCluster, SlipwayEndpoint
    from slipway_aws.network import Network, NodeSecurityGroup
    from slipway_aws.store import CheckpointStore

__all__ = [
    "BudgetGate",
    "CheckpointStore",
    "Network",
    "NodeSecurityGroup",
    "Options",
    "SlipwayCluster",
    "SlipwayEndpoint",
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

_CONSTRUCTS = {
    "BudgetGate": "slipway_aws.budget",
    "CheckpointStore": "slipway_aws.store",
    "Network": "slipway_aws.network",
    "NodeSecurityGroup": "slipway_aws.network",
    "SlipwayCluster": "slipway_aws.cluster",
    "SlipwayEndpoint": "slipway_aws.cluster",
}
"""The module of each construct; the other names are those of `launcher`."""


def _refuse_shadows() -> None:
    """Continue only if Python finds Slipway's own packages, and not others with their names.

    Raises:
        ImportError: a package or module of the user has the name of one of Slipway's.
    """
    here = Path(__file__).resolve().parent
    # Beside this package in a wheel; in a checkout it lies in infra/public.
    root = here.parent if (here.parent / "launcher").is_dir() else here.parents[2]
    for name in ("launcher", "infra"):
        found = find_spec(name)
        origin = None if found is None or found.origin is None else Path(found.origin).resolve()
        if origin != root / name / "__init__.py":
            where = origin or next(iter(found.submodule_search_locations or ["no folder"]), "") if found else "nothing"
            raise ImportError(
                f"slipway_aws needs its own package {name}, but Python finds {where}: rename that file or folder"
                f" (and its imports), or start the app where it is not on Python's path"
            )


_refuse_shadows()


def __getattr__(name: str) -> Any:
    """A promised name, loaded when it is used."""
    if name not in __all__:
        raise AttributeError(f"module 'slipway_aws' has no attribute {name!r}")
    return getattr(import_module(_CONSTRUCTS.get(name, "launcher")), name)


def __dir__() -> list[str]:
    return sorted(__all__)
