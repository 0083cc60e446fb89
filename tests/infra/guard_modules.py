"""The guards' code, imported as in Lambda."""

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from launcher.catalog.assets import asset


@contextmanager
def guard_module(name: str) -> Iterator[ModuleType]:
    """A target's guard, imported next to guard.py as in Lambda; its modules are unloaded at the end."""
    folder = str(asset("templates/guard"))
    sys.path.insert(0, folder)
    try:
        module = importlib.import_module(name)
    finally:
        sys.path.remove(folder)
    try:
        yield module
    finally:
        for module_name in (*(path.stem for path in Path(folder).glob("*.py")), name):
            sys.modules.pop(module_name, None)
