"""Scheduled scaling: the lines of `serve.schedule`, and the range of instances in each hour of the day.

Times are those of Application Auto Scaling: `at(...)` once, `rate(...)`, and `cron(...)` of six fields, minutes, hours,
day of the month, month, day of the week and year, one of the two days being `?` (Amazon EventBridge User Guide, cron
expressions reference; Application Auto Scaling User Guide, scheduled scaling). An action sets the range, and the range
holds until the next action.
"""

import re
from calendar import monthrange
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import date, datetime, timedelta
from functools import cache
from typing import NamedTuple

from launcher.model.record import record

SCHEDULE = re.compile(
    r"(?P<when>(?:cron|rate|at)\([^()]+\)) (?P<least>\d{1,4})-(?P<most>\d{1,4})(?: (?P<timezone>[A-Za-z0-9_+/-]+))?"
)
SCHEDULE_FORM = "cron(0 7 ? * MON-FRI *) 2-6 Europe/Berlin"
"""A time in the format of Application Auto Scaling, a range of instances, and a time zone or nothing for UTC."""
HOURS_A_DAY, MINUTES_AN_HOUR = 24, 60
MINUTES_A_DAY = HOURS_A_DAY * MINUTES_AN_HOUR
FIRST_DAY = date(2029, 1, 1)
"""A Monday at the start of a year of 365 days: the calendar for the layout of schedules, regardless of their year."""
WEEK, YEAR = 7, 365
_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_DAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_EVERY = ("*", "?")
_AT = re.compile(r"at\((\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2})\)")
_RATE = re.compile(r"rate\(([1-9]\d{0,5}) (minute|hour|day)s?\)")
_DAY = re.compile(r"\?|L|([1-9]|[12]\d|3[01])W")
_WEEKDAY = re.compile(r"\?|[1-7]?L|[1-7]#[1-5]")
_UNIT = {"minute": 1, "hour": MINUTES_AN_HOUR, "day": MINUTES_A_DAY}
_FIELDS = 6


@record
class ScheduledRange:
    """A range of instances from a time on: `when` in Application Auto Scaling's format, `timezone` None is UTC."""

    when: str
    least: int
    most: int
    timezone: str | None


class Slot(NamedTuple):
    """A share of an hour of the day, averaged over the year, with its range of instances."""

    share: float
    least: int
    most: int


class _Cron(NamedTuple):
    """A cron expression: the minutes of a day at which it fires, and its day fields."""

    minutes: tuple[int, ...]
    days: str
    months: frozenset[int]
    weekdays: str

    @property
    def weekly(self) -> bool:
        plain = not re.search(r"[L#]", self.weekdays)
        return self.days in _EVERY and len(self.months) == len(_MONTHS) and plain


def parse_schedule(line: str) -> ScheduledRange | None:
    """One line of `schedule`; None if the line is invalid.

    >>> parse_schedule("cron(0 19 * * ? *) 0-2").most, parse_schedule("at night: 2")
    (2, None)
    """
    match = SCHEDULE.fullmatch(line.strip())
    if match is None or _is_refused(match["when"]):
        return None
    return ScheduledRange(
        when=match["when"], least=int(match["least"]), most=int(match["most"]), timezone=match["timezone"]
    )


def timezones(lines: Sequence[str]) -> tuple[str, ...]:
    """The time zones that a schedule names, in its order, UTC for lines without one."""
    ranges = (parse_schedule(line) for line in lines)
    return tuple(dict.fromkeys(range_.timezone or "UTC" for range_ in ranges if range_ is not None))


@cache
def hours_of_day(lines: tuple[str, ...]) -> tuple[tuple[Slot, ...], ...]:
    """The ranges of every hour of the day, each with its share of the year's days; empty without a schedule.

    Hours are those of the schedule's own time zone. In a schedule with only `at(...)`, the last range always holds,
    because nothing ends it; next to recurring times, one-time entries are ignored. Of ranges that are set in the
    same minute the larger one holds.

    >>> hours_of_day(("cron(30 7 ? * MON-FRI *) 2-6", "cron(0 19 ? * MON-FRI *) 0-0"))[7][0]
    Slot(share=0.6428571428571429, least=0, most=0)
    """
    ranges = [range_ for range_ in map(parse_schedule, lines) if range_ is not None]
    again = [range_ for range_ in ranges if not _AT.fullmatch(range_.when)]
    if not again:
        once = max(ranges, key=lambda range_: range_.when, default=None)
        return ((Slot(1.0, once.least, once.most),),) * HOURS_A_DAY if once is not None else ()
    crons = [_cron(range_.when) for range_ in again]
    days = WEEK if all(cron is None or cron.weekly for cron in crons) else YEAR
    events = sorted(
        (minute, runs.least, runs.most)
        for runs, cron in zip(again, crons, strict=True)
        for minute in (_fires(cron, days) if cron is not None else _beats(runs.when, days))
    )
    return _fold_ranges(events, days) if events else ()


def moment_of(when: str) -> datetime | None:
    """The moment of a one-time entry, in the schedule's own zone; None for a recurring entry or an invalid date.

    >>> moment_of("at(2027-02-28T07:00:00)").day, moment_of("at(2027-02-29T07:00:00)")
    (28, None)
    """
    match = _AT.fullmatch(when)
    try:
        return datetime.fromisoformat(match[1]) if match else None
    except ValueError:
        return None


def _is_refused(when: str) -> bool:
    """Whether Application Auto Scaling refuses the time."""
    if when.startswith("at("):
        return moment_of(when) is None
    return _RATE.fullmatch(when) is None if when.startswith("rate(") else _cron(when) is None


def _cron(when: str) -> _Cron | None:
    fields = when.removeprefix("cron(").removesuffix(")").upper().split()
    if not when.startswith("cron(") or len(fields) != _FIELDS or (fields[2] == "?") is (fields[4] == "?"):
        return None
    minutes, hours = _numbers(fields[0], 0, 59), _numbers(fields[1], 0, 23)
    months = _numbers(fields[3], 1, 12, _MONTHS)
    named = _named_field(fields[4], _DAYS)
    days = _DAY.fullmatch(fields[2]) is not None or bool(_numbers(fields[2], 1, 31))
    weekdays = _WEEKDAY.fullmatch(named) is not None or bool(_numbers(named, 1, 7))
    if not (minutes and hours and months and days and weekdays and _numbers(fields[5], 1970, 2199)):
        return None
    moments = tuple(hour * MINUTES_AN_HOUR + minute for hour in sorted(hours) for minute in sorted(minutes))
    return _Cron(moments, fields[2], frozenset(months), named)


def _named_field(field: str, names: Sequence[str]) -> str:
    for index, name in enumerate(names, start=1):
        field = field.replace(name, str(index))
    return field


def _numbers(field: str, first: int, last: int, names: Sequence[str] = ()) -> set[int]:
    """The numbers of a field: `*`, lists, ranges and steps; empty if it is invalid or out of bounds."""
    numbers: set[int] = set()
    for piece in _named_field(field, names).split(","):
        parts = re.fullmatch(r"(?:(\*)|(\d{1,4})(?:-(\d{1,4}))?)(?:/([1-9]\d{0,3}))?", piece)
        if parts is None:
            return set()
        start = first if parts[1] else int(parts[2])
        end = last if parts[1] or (parts[4] and not parts[3]) else int(parts[3] or parts[2])
        if not (first <= start <= last and first <= end <= last):
            return set()
        # A range that ends before it begins wraps around: FRI-MON.
        span = range(start, end + 1) if start <= end else [*range(start, last + 1), *range(first, end + 1)]
        numbers.update(span[:: int(parts[4] or 1)])
    return numbers


def _fires(cron: _Cron, days: int) -> Iterator[int]:
    for index in range(days):
        if _is_on(cron, FIRST_DAY + timedelta(days=index)):
            yield from (index * MINUTES_A_DAY + minute for minute in cron.minutes)


def _is_on(cron: _Cron, day: date) -> bool:
    return day.month in cron.months and (_is_day(cron.days, day) if cron.weekdays == "?" else _is_weekday(cron, day))


def _is_day(field: str, day: date) -> bool:
    last = monthrange(day.year, day.month)[1]
    if field == "L":
        return day.day == last
    if field.endswith("W"):
        return day.day == _working_day(day, int(field[:-1]), last)
    return day.day in _numbers(field, 1, 31)


def _is_weekday(cron: _Cron, day: date) -> bool:
    field, weekday = cron.weekdays, day.isoweekday() % 7 + 1
    if field.endswith("L"):
        last = monthrange(day.year, day.month)[1]
        return weekday == int(field[:-1] or 7) and (field == "L" or day.day + WEEK > last)
    if "#" in field:
        number, nth = field.split("#")
        return weekday == int(number) and (day.day - 1) // WEEK + 1 == int(nth)
    return weekday in _numbers(field, 1, 7)


def _working_day(day: date, day_of_month: int, last: int) -> int:
    """The weekday (Monday to Friday) of a month nearest to a wanted day."""
    near = day.replace(day=min(day_of_month, last))
    if near.isoweekday() == 6:  # noqa: PLR2004 - Saturday
        return near.day - 1 if near.day > 1 else near.day + 2
    if near.isoweekday() == 7:  # noqa: PLR2004 - Sunday
        return near.day + 1 if near.day < last else near.day - 2
    return near.day


def _beats(when: str, days: int) -> range:
    """The minutes at which a rate fires, counted from midnight; AWS counts from the creation of the action."""
    match = _RATE.fullmatch(when)
    assert match is not None  # noqa: S101 - `parse_schedule` has let it through
    return range(0, days * MINUTES_A_DAY, int(match[1]) * _UNIT[match[2]])


def _fold_ranges(events: Sequence[tuple[int, int, int]], days: int) -> tuple[tuple[Slot, ...], ...]:
    """Ranges from their start times, by the hours of the day that they fill; the last wraps around to the beginning."""
    totals: list[dict[tuple[int, int], int]] = [defaultdict(int) for _ in range(HOURS_A_DAY)]
    ends = [*(event[0] for event in events[1:]), events[0][0] + days * MINUTES_A_DAY]
    for (start, *limits), end in zip(events, ends, strict=True):
        key = (limits[0], limits[1])
        whole, minutes_left = divmod(end - start, MINUTES_A_DAY)
        for hour in totals if whole else ():
            hour[key] += whole * MINUTES_AN_HOUR
        minute = start
        while minutes_left:
            step = min(MINUTES_AN_HOUR - minute % MINUTES_AN_HOUR, minutes_left)
            totals[minute // MINUTES_AN_HOUR % HOURS_A_DAY][key] += step
            minute, minutes_left = minute + step, minutes_left - step
    whole_hour = days * MINUTES_AN_HOUR
    return tuple(
        tuple(Slot(minutes / whole_hour, *key) for key, minutes in sorted(hour.items()) if minutes) for hour in totals
    )
