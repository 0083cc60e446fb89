"""Capacity Blocks come in whole offerings."""

import pytest

from launcher.pricing.blocks import block_days


@pytest.mark.parametrize(
    "hours, days",
    [(0.1, 1), (23.5, 1), (23.51, 2), (24 * 14 - 0.5, 14), (24 * 14, 21), (24 * 182 - 0.5, 182), (24 * 182, None)],
)
def test_the_shortest_offering_that_holds_the_job(hours: float, days: int | None) -> None:
    assert block_days(hours) == days
