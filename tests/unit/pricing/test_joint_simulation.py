"""Quotes against a simulation with separate code: percentiles of hours and dollars within 2 %, spot and not."""

import pytest

from benchmarks import joint_simulation


@pytest.fixture(scope="module")
def cases():
    return list(joint_simulation.cases(60, seed=7))


def test_percentiles_of_hours_and_dollars_agree_with_the_simulation(cases):
    result = joint_simulation.summary(cases)
    assert len(cases[0].usd) == 3
    assert 15 <= result["spot"] <= 50
    assert result["held"] >= 0.95
    assert result["p95_of_worst"] <= joint_simulation.TOLERANCE
    assert result["mean_within"] >= 0.97
    assert result["middles_within_3_percent"] >= 0.75


@pytest.mark.slow
def test_percentiles_agree_over_five_hundred_cases():
    result = joint_simulation.summary(list(joint_simulation.cases(500)))
    assert result["held"] >= 0.98
    assert result["p95_of_worst"] <= 0.01
