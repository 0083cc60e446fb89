"""One joint distribution: its percentiles agree with a simulation, and move the right way."""

import math
from statistics import NormalDist

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from launcher.pricing.joint import (
    HIGH,
    LOW,
    LOWEST_SHIFT,
    MIDDLE,
    NO_LOSSES,
    JobHours,
    Losses,
    Points,
    RandomPrice,
    Smooth,
    Spread,
    add_start,
    at_ends,
    median_shift,
    normal_points,
    total_at,
    wall_hours,
)

ENDS = (LOW, MIDDLE, HIGH)
NARROW = Spread(0.1, 0.1)


def ends(outcomes):
    return [outcomes.at(chance) for chance in ENDS]


def lossy(hours: float, rate: float, one: float) -> Losses:
    """Events of `one` hour each, at `rate` an hour."""
    return Losses(hours * rate, one, 0.2 * one * one, one / 2)


def test_percentiles_without_losses_are_the_percentiles_of_the_speed():
    wall = wall_hours(JobHours(10.0, Spread(math.log(2), math.log(3))))
    assert ends(wall) == pytest.approx([5.0, 10.0, 30.0], rel=1e-6)
    assert wall.chance_above(30.0) == pytest.approx(0.1, abs=1e-6)
    assert wall.mean > 10.0


def test_rare_failures_leave_the_median_hours_unchanged():
    wall = wall_hours(JobHours(10.0, failures=lossy(10.0, 0.003, 0.5)))
    assert ends(wall) == [10.0, 10.0, 10.0]
    assert wall.mean == pytest.approx(10.015, rel=1e-6)
    often = wall_hours(JobHours(10.0, failures=lossy(10.0, 0.03, 0.5)))
    assert often.at(MIDDLE) == 10.0 < often.at(HIGH)


def test_minor_losses_move_the_median_by_the_mean_loss():
    wall = wall_hours(JobHours(100.0, Spread(0.3, 0.3), failures=lossy(100.0, 0.02, 0.4)))
    assert wall.at(MIDDLE) == pytest.approx(100.0 + 0.8, rel=0.002)


@pytest.mark.parametrize(
    "mid, speed, start_h, start",
    [
        (0.4, Spread(0.2, 0.3), 1.2, Spread(0.9, 1.1)),
        (0.1, Spread(0.2, 0.2), 1.0, Spread(1.2, 1.2)),
        (3.2, Spread(0.4, 0.5), 1.2, Spread(0.9, 1.1)),
    ],
)
def test_percentiles_of_hours_after_a_start_up_agree_with_a_fine_sum(mid, speed, start_h, start):
    fine = [NormalDist().inv_cdf((index + 0.5) / 300) for index in range(300)]
    sums = sorted(mid * speed.at(one) + start_h * start.at(other) for one in fine for other in fine)
    expected = [sums[round(chance * len(sums))] for chance in ENDS]
    assert ends(add_start(wall_hours(JobHours(mid, speed)), start_h, start)) == pytest.approx(expected, rel=0.03)


def lognormal(down: float, up: float) -> Smooth:
    """Hours around 1 with these distances to the ends."""
    return Smooth(1.0, Spread(down, up), 1.0)


speeds = st.builds(Spread, st.floats(0.0, 1.0), st.floats(0.0, 1.0))


@settings(max_examples=150)
@given(
    hours=st.floats(0.1, 1e4),
    speed=speeds,
    rate=st.floats(0.0, 0.5),
    one=st.floats(0.05, 1.0),
    more=st.floats(1.0, 4.0),
)
def test_percentiles_are_in_order_and_more_losses_never_shorten(hours, speed, rate, one, more):
    fewer = wall_hours(JobHours(hours, speed, lossy(hours, rate, one)))
    greater = wall_hours(JobHours(hours, speed, lossy(hours, rate * more, one)))
    assert ends(fewer) == pytest.approx(sorted(ends(fewer)), rel=1e-4)
    for before, after in zip(ends(fewer), ends(greater), strict=True):
        assert after >= before * 0.985
    assert greater.mean >= fewer.mean * (1 - 1e-9)


@settings(max_examples=100)
@given(scale=st.floats(0.01, 0.6), more=st.floats(1.0, 3.0), speed=speeds)
def test_a_wider_price_never_narrows_the_total(scale, more, speed):
    bills = [(hours, 5.0) for hours in at_ends(wall_hours(JobHours(10.0, speed)), 24)]
    narrow, wide = RandomPrice(20.0, scale), RandomPrice(20.0, scale * more)
    assert total_at(wide, bills, HIGH) >= total_at(narrow, bills, HIGH) * 0.999
    assert total_at(wide, bills, LOW) <= total_at(narrow, bills, LOW) * 1.001


@settings(max_examples=50)
@given(usd=st.floats(1.0, 90.0), more=st.floats(1.0, 3.0))
def test_a_dearer_price_costs_more_at_every_percentile(usd, more):
    bills = [(hours, 5.0) for hours in at_ends(wall_hours(JobHours(10.0, NARROW)), 24)]
    for chance in ENDS:
        less = total_at(RandomPrice(usd, 0.3), bills, chance)
        assert total_at(RandomPrice(usd * more, 0.3), bills, chance) >= less * (1 - 1e-12)


def test_product_of_two_symmetric_factors_has_the_product_of_the_medians():
    assert abs(median_shift(lognormal(0.4, 0.4), RandomPrice(20.0, 0.3))) < 0.001
    assert median_shift(lognormal(0.1, 0.8), RandomPrice(20.0, 0.3)) > 0.02
    assert median_shift(lognormal(0.4, 0.4), RandomPrice(20.0, 0.4, 2.0, 24.0)) < -0.02


@given(down=st.floats(0.0, 2.0), more=st.floats(0.0, 2.0), scale=st.floats(0.01, 1.0), ceiling=st.floats(1.0, 2.0))
def test_median_of_a_product_is_at_least_the_lowest_shift(down, more, scale, ceiling):
    price = RandomPrice(20.0, scale, 1.0, 20.0 * ceiling)
    assert median_shift(lognormal(down, down + more), price) >= LOWEST_SHIFT


@given(
    speed=st.tuples(st.floats(0.05, 1.0), st.floats(0.05, 1.0)),
    events=st.floats(0.0, 3.0),
    scale=st.floats(0.1, 0.7),
    ceilings=st.tuples(st.floats(1.0, 3.0), st.floats(1.0, 2.0)),
)
def test_losses_and_a_higher_ceiling_do_not_lower_the_median_of_a_product(speed, events, scale, ceilings):
    spread, (ceiling, more) = Spread(*speed), ceilings
    lossy = wall_hours(JobHours(10.0, spread, interruptions=Losses(events, 1.0, 0.1, 0.2) if events else NO_LOSSES))
    least = median_shift(Smooth(10.0, spread, 10.0), RandomPrice(1.0, scale, 0.0, ceiling))
    shift = median_shift(lossy, RandomPrice(1.0, scale, 0.2, ceiling * more))
    assert lossy.at(0.5) * math.exp(shift) >= 10.0 * math.exp(least) * 0.99


def test_start_up_adds_spread_to_a_short_job_and_not_to_a_long_one():
    start = Spread(0.54, 0.54)
    short, long = (wall_hours(JobHours(hours, NARROW)) for hours in (0.2, 50.0))
    after = add_start(short, 0.15, start)
    assert after.at(HIGH) / after.at(LOW) > 1.3 * short.at(HIGH) / short.at(LOW) * 0.9
    assert ends(add_start(long, 0.15, start)) == pytest.approx([end + 0.16 for end in ends(long)], abs=0.02)


@pytest.mark.parametrize("none", [0.8, 0.86, 0.93, 0.97])
def test_rare_loss_keeps_its_chance_where_a_start_up_comes_before_the_job(none):
    lost, spread = [0.505 + index / 100 for index in range(100)], Spread(0.3, 0.6)
    hours = Points([(none, 1.5, 0.0), (1 - none, 2.5, 0.5)], 1.6)
    starts = [0.1 * spread.at(z) for z in normal_points(400)]
    exact = sorted(
        [(1.5 + start, none / 400) for start in starts]
        + [(1.5 + more + start, (1 - none) / 100 / 400) for more in lost for start in starts]
    )
    for chance in ENDS:
        reached, total = exact[0][0], 0.0
        for value, weight in exact:
            reached, total = value, total + weight
            if total >= chance:
                break
        assert add_start(hours, 0.1, spread).at(chance) == pytest.approx(reached, rel=0.03)


def poisson_quantile(mean: float, chance: float) -> int:
    """The lowest number that a Poisson variable does not exceed with this chance."""
    number, term = 0, math.exp(-mean)
    total = term
    while total < chance:
        number += 1
        term *= mean / number
        total += term
    return number


@pytest.mark.parametrize("events", [0.04, 0.12, 0.6, 2.45, 9.0])
def test_job_of_certain_hours_ends_after_a_whole_number_of_equal_losses(events):
    """Between none and one loss, and between two numbers of losses, lies nothing."""
    wall = wall_hours(JobHours(2.5, interruptions=Losses(events, 0.26, 0.0, 0.26)))
    assert ends(wall) == pytest.approx([2.5 + 0.26 * poisson_quantile(events, chance) for chance in ENDS], rel=1e-3)


@pytest.mark.parametrize("events", [0.5, 2.0, 6.0])
def test_job_that_never_saves_starts_again_a_geometric_number_of_times(events):
    wall = wall_hours(JobHours(3.0, interruptions=Losses(events, 1.0, 0.0, 1.0, parts=1.0, repeated=True)))
    passes = math.exp(-events)
    numbers = [max(0, math.ceil(math.log1p(-chance) / math.log1p(-passes) - 1.0)) for chance in ENDS]
    assert ends(wall) == pytest.approx([3.0 + number for number in numbers], rel=0.03)
    assert wall.mean == pytest.approx(3.0 + math.expm1(events), rel=1e-9)


def test_job_that_hardly_ever_passes_has_percentiles_in_order():
    never = Losses(12.0, 1.0, 0.1, 0.5, parts=1.0, repeated=True)
    low, middle, high = ends(wall_hours(JobHours(3.0, Spread(3.0, 3.0), interruptions=never)))
    assert 0.0 < low < middle < high
    assert math.isfinite(middle)


def test_losses_of_a_job_shorter_than_its_checkpoint_interval_shrink_with_it():
    whole = Losses(0.2, 0.6, 0.03, 0.2, parts=2.0)
    assert whole.times(0.75).one == 0.6
    assert whole.times(0.25).one == pytest.approx(0.4)
    assert whole.times(0.25).events == pytest.approx(0.05)


@pytest.mark.parametrize("events", [0.02, 0.05, 0.12])
@pytest.mark.parametrize("width", [0.05, 0.3, 0.7])
def test_rare_losses_at_random_speed_agree_with_a_fine_sum(events, width):
    """The 90th percentile of a short job is the first loss or none."""
    speed, losses = Spread(width, width), Losses(events, 0.5, 0.01, 0.3)
    half, weights = math.sqrt(0.03), {}
    for z in [NormalDist().inv_cdf((index + 0.5) / 2000) for index in range(2000)]:
        factor = speed.at(z)
        for number in range(4):
            chance = math.exp(-events * factor) * (events * factor) ** number / math.factorial(number) / 2000
            for part in (-0.75, -0.25, 0.25, 0.75) if number else (0.0,):
                hours = round(factor + number * 0.5 + part * half * math.sqrt(number), 4)
                weights[hours] = weights.get(hours, 0.0) + chance / (4 if number else 1)
    expected = []
    for chance in ENDS:
        total = 0.0
        for hours in sorted(weights):
            total += weights[hours]
            if total >= chance:
                expected.append(hours)
                break
    assert ends(wall_hours(JobHours(1.0, speed, losses))) == pytest.approx(expected, rel=0.012)
