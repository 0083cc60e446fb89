"""Time zones by name, from this computer's IANA database."""

from functools import cache
from zoneinfo import ZoneInfo

_SURELY = "Europe/Berlin"


@cache
def is_timezone(name: str) -> bool:
    """Whether a time zone has this name; without a local time zone database any name is accepted.

    >>> is_timezone("America/New_York"), is_timezone("Nowhere/City")
    (True, False)
    """
    return _is_there(name) or not _is_there(_SURELY)


def _is_there(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (LookupError, OSError, ValueError):
        return False
    return True
