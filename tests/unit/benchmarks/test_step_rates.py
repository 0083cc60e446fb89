import pytest

from benchmarks.step_rates import rates


def test_warm_up_steps_and_gaps_between_repeats_are_left_out():
    rate, seconds = rates([[0, 50, 51, 52, 53], [900, 980, 981, 982, 984]], 1, 600)
    assert (rate.low, rate.mid, rate.high, seconds.mid) == pytest.approx((300, 600 * 6 / 7, 600, 7 / 6))
