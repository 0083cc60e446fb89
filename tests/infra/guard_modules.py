"""The guards' code, imported as in Lambda."""

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

from launcher.catalog.assets import asset

LOADED: dict[str, ModuleType] = {}
"""The modules of the guards that were imported: kept, as Lambda keeps them from one call to the next."""


@contextmanager
def guard_module(name: str) -> Iterator[ModuleType]:
    """A target's guard, imported next to guard.py as in Lambda; its modules cannot be imported after the end."""
    folder = asset("templates/guard")
    names = {*(path.stem for path in folder.glob("*.py")), name}
    sys.modules.update(LOADED)
    sys.path.insert(0, str(folder))
    try:
        module = importlib.import_module(name)
    finally:
        sys.path.remove(str(folder))
    LOADED.update((loaded, sys.modules[loaded]) for loaded in names if loaded in sys.modules)
    try:
        yield module
    finally:
        for loaded in names:
            sys.modules.pop(loaded, None)
