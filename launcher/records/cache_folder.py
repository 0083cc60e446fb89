"""Where refreshed prices are kept."""

from collections.abc import Mapping
from pathlib import Path


def cache_folder(environment: Mapping[str, str]) -> Path:
    """Where the cache of an environment is: $XDG_CACHE_HOME or ~/.cache, then slipway/prices; it need not exist.

    >>> str(cache_folder({"XDG_CACHE_HOME": "/var/cache/me"})), str(cache_folder({"HOME": "/home/me"}))
    ('/var/cache/me/slipway/prices', '/home/me/.cache/slipway/prices')
    """
    stated = Path(environment.get("XDG_CACHE_HOME", ""))
    # A relative path is to be ignored (XDG base directory specification).
    home = Path(environment["HOME"]) if environment.get("HOME") else Path.home()
    return (stated if stated.is_absolute() else home / ".cache") / "slipway" / "prices"
