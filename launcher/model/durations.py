"""Spans of time as a person says them, one way everywhere."""

MINUTE_S, HOUR_S = 60, 3600
_SECONDS_UP_TO, _MINUTES_UP_TO = 2 * MINUTE_S, 2 * HOUR_S


def spoken(seconds: float) -> str:
    """Seconds below two minutes, minutes below two hours, then hours to the tenth.

    >>> [spoken(each) for each in (0.26, 36.4, 3103, 7200, 5e6)]
    ['0.3 s', '36 s', '52 min', '2 h', '1,388.9 h']
    """
    if seconds < 1:
        return f"{seconds:.1g} s"
    if seconds < _SECONDS_UP_TO:
        return f"{seconds:.0f} s"
    if seconds < _MINUTES_UP_TO:
        return f"{seconds / MINUTE_S:.0f} min"
    return f"{seconds / HOUR_S:,.1f}".removesuffix(".0") + " h"


def clock(seconds: float) -> str:
    """Time since a start, as a clock shows it.

    >>> clock(5), clock(61.4), clock(7325)
    ('0:05', '1:01', '2:02:05')
    """
    minutes, rest = divmod(int(seconds), MINUTE_S)
    hours, minutes = divmod(minutes, MINUTE_S)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
