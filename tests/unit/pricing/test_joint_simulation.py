"""Quotes against a simulation with separate code: percentiles of hours and dollars within 2 %, spot and not."""

import pytest

from launcher.pricing.joint import Smooth, Spread, add_start
from launcher.pricing.normal import Z_OF_THE_ENDS


@pytest.fixture(scope="module")
def joint_simulation():
    """It loads numpy: where the tests run, not where they are collected."""
    from benchmarks import joint_simulation

    return joint_simulation


@pytest.fixture(scope="module")
def cases(joint_simulation):
    return list(joint_simulation.cases(60, seed=7))


def test_percentiles_of_hours_and_dollars_agree_with_the_simulation(joint_simulation, cases):
    result = joint_simulation.summary(cases)
    assert len(cases[0].usd) == 3
    assert 15 <= result["spot"] <= 50
    assert result["held"] == 1.0
    assert result["p95_of_worst"] <= joint_simulation.TOLERANCE / 4
    assert result["mean_within"] >= 0.95
    assert result["middles_within_3_percent"] >= 0.75


@pytest.mark.slow
def test_percentiles_agree_over_five_hundred_cases(joint_simulation):
    result = joint_simulation.summary(list(joint_simulation.cases(500)))
    assert result["held"] == 1.0
    assert result["p95_of_worst"] <= joint_simulation.TOLERANCE / 4


@pytest.mark.parametrize("start_h", [0.1, 0.3, 0.48, 1.0])
def test_start_up_before_hours_of_a_wide_range_is_in_their_low_end(start_h):
    """Beside the low end of a wide range, a start-up that is short beside the median is not."""
    import numpy as np

    hours = Smooth(1.266, Spread(1.19, 1.0), 1.6)
    dice = np.random.default_rng(3)
    z, other = dice.standard_normal((2, 400_000)) / Z_OF_THE_ENDS
    start = Spread(0.69, 0.69)
    drawn = hours.mid * np.exp(np.where(z < 0, 1.19, 1.0) * z) + start_h * np.exp(0.69 * other)
    together = add_start(hours, start_h, start)
    for chance in (0.1, 0.5, 0.9):
        assert together.at(chance) == pytest.approx(np.quantile(drawn, chance), rel=0.025)
