import pytest

from benchmarks.step_rates import rates


def test_steps_of_the_warm_up_and_between_repeats_do_not_count():
    rate, seconds = rates([[0, 50, 51, 52, 53], [900, 980, 981, 982, 984]], 1, 600)
    assert (rate.low, rate.mid, rate.high, seconds.mid) == pytest.approx((300, 600 * 6 / 7, 600, 7 / 6))
