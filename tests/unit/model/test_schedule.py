"""Scheduled scaling: expressions that Application Auto Scaling accepts, and the range for each hour of the day."""

import pytest

from launcher.model.schedule import HOURS_A_DAY, hours_of_day, parse_schedule, timezones


def shares(*lines):
    """The share of the year that each range holds."""
    share_by_range = {}
    for hour in hours_of_day(lines):
        for share, least, most in hour:
            share_by_range[least, most] = share_by_range.get((least, most), 0) + share / HOURS_A_DAY
    return share_by_range


@pytest.mark.parametrize(
    "when",
    [
        "cron(0 7 ? * MON-FRI *)",
        "cron(0/15 8-17 ? * 2-6 2027)",
        "cron(0 8 1 * ? *)",
        "cron(0 8 L JAN,DEC ? *)",
        "cron(0 8 15W * ? *)",
        "cron(0 8 ? * 6#3 *)",
        "cron(0 8 ? * FRIL *)",
        "cron(0 8 ? * FRI-MON *)",
        "rate(1 hour)",
        "rate(30 minutes)",
        "at(2026-12-24T18:00:00)",
    ],
)
def test_times_accepted_by_aws_are_parsed(when):
    assert parse_schedule(f"{when} 1-2").when == when


@pytest.mark.parametrize(
    "when",
    [
        "cron(0 7 * * MON-FRI *)",
        "cron(0 7 ? * ? *)",
        "cron(0 7 ? * MON-FRI)",
        "cron(60 7 ? * MON *)",
        "cron(0 24 ? * MON *)",
        "cron(0 7 32 * ? *)",
        "cron(0 7 0W * ? *)",
        "cron(0 7 1 13 ? *)",
        "cron(0 7 ? * 8 *)",
        "cron(0 7 ? * MON 1066)",
        "cron(0/0 7 ? * MON *)",
        "rate(0 hours)",
        "rate(1 week)",
        "at(2026-12-24)",
    ],
)
def test_times_refused_by_aws_are_refused(when):
    assert parse_schedule(f"{when} 1-2") is None


def test_empty_schedule_gives_no_hours():
    assert hours_of_day(()) == ()


def test_day_and_night_ranges_share_the_day():
    assert shares("cron(0 8 * * ? *) 4-6", "cron(0 20 * * ? *) 1-2") == pytest.approx({(4, 6): 0.5, (1, 2): 0.5})


def test_weekday_schedule_leaves_weekend_to_last_range():
    share_by_range = shares("cron(0 8 ? * MON-FRI *) 4-6", "cron(0 18 ? * MON-FRI *) 0-0")
    assert share_by_range == pytest.approx({(4, 6): 50 / 168, (0, 0): 118 / 168})


def test_half_hour_start_splits_the_hour():
    eight = hours_of_day(("cron(30 8 * * ? *) 4-6", "cron(0 20 * * ? *) 1-2"))[8]
    assert [(slot.share, slot.least) for slot in eight] == [(0.5, 1), (0.5, 4)]


@pytest.mark.parametrize(
    "first, days",
    [
        ("cron(0 0 1 * ? *)", 12),
        ("cron(0 0 L * ? *)", 12),
        ("cron(0 0 ? * 2#1 *)", 12),
        ("cron(0 0 ? * 6L *)", 12),
        ("cron(0 0 15W * ? *)", 12),
        ("cron(0 0 24 DEC ? *)", 1),
        ("cron(0 0 ? * MON *)", 365 / 7),
    ],
)
def test_monthly_or_yearly_range_counts_days(first, days):
    """The other range comes back every day at midnight, and gives way to the larger of the same minute."""
    assert shares(f"{first} 9-9", "cron(0 0 * * ? *) 1-1")[9, 9] == pytest.approx(days / 365)


def test_last_one_time_range_holds():
    assert shares("at(2026-12-01T00:00:00) 1-2", "at(2026-12-24T00:00:00) 5-9") == pytest.approx({(5, 9): 1.0})
    assert shares("at(2026-12-24T00:00:00) 5-9", "rate(1 day) 1-2") == pytest.approx({(1, 2): 1.0})


def test_time_zones_are_listed_once():
    lines = ("cron(0 8 * * ? *) 4-6", "cron(0 9 * * ? *) 4-6 Europe/Berlin", "cron(0 20 * * ? *) 1-2")
    assert timezones(lines) == ("UTC", "Europe/Berlin")
