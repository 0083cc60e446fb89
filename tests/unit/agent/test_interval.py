import math

import pytest

from launcher.agent.interval import daly_interval_s, overhead_fraction

HOUR_S = 3600.0


class TestDaly:
    @pytest.mark.parametrize(
        "mtbf_s,minutes",
        [(24 * HOUR_S, 117), (6 * HOUR_S, 57), (HOUR_S / 4, 9.1)],
        ids=["figure 3", "figure 4", "figure 5"],
    )
    def test_daly_interval_equals_the_optima_of_the_paper(self, mtbf_s, minutes):
        """Daly 2006, captions of figures 3 to 5: checkpoints of 5 minutes."""
        digits = 1 if minutes < 10 else 0
        assert round(daly_interval_s(checkpoint_s=300, mtbf_s=mtbf_s) / 60, digits) == minutes

    def test_daly_interval_is_the_mtbf_for_checkpoints_twice_as_long(self):
        assert daly_interval_s(checkpoint_s=2000, mtbf_s=1000) == 1000

    def test_daly_interval_is_infinite_without_interruptions(self):
        assert daly_interval_s(checkpoint_s=30, mtbf_s=math.inf) == math.inf

    @pytest.mark.parametrize("checkpoint_s", [5, 60, 600])
    @pytest.mark.parametrize("mtbf_s", [HOUR_S, 24 * HOUR_S])
    def test_daly_interval_costs_less_than_intervals_a_fifth_away(self, checkpoint_s, mtbf_s):
        best = daly_interval_s(checkpoint_s=checkpoint_s, mtbf_s=mtbf_s)
        costs = [
            overhead_fraction(checkpoint_s=checkpoint_s, interval_s=best * factor, mtbf_s=mtbf_s, restart_s=120)
            for factor in (0.8, 1.0, 1.2)
        ]
        assert min(costs) == costs[1]


class TestOverhead:
    def test_overhead_without_failures_is_the_share_of_the_checkpoints(self):
        assert overhead_fraction(checkpoint_s=12, interval_s=600, mtbf_s=math.inf) == pytest.approx(0.02)
        assert overhead_fraction(checkpoint_s=12, interval_s=600, mtbf_s=1e9) == pytest.approx(0.02, rel=1e-3)

    def test_overhead_of_rare_failures_agrees_with_the_first_order_sum(self):
        """For rare failures: checkpoints, half an interval lost, and a restart, per failure."""
        tau, checkpoint, mtbf, restart = 600.0, 10.0, 1e6, 200.0
        parts = checkpoint / tau + (restart + (tau + checkpoint) / 2) / mtbf
        fraction = overhead_fraction(checkpoint_s=checkpoint, interval_s=tau, mtbf_s=mtbf, restart_s=restart)
        assert fraction == pytest.approx(parts, rel=0.02)

    def test_overhead_grows_with_every_cost(self):
        base = {"checkpoint_s": 30.0, "interval_s": 900.0, "mtbf_s": 4 * HOUR_S, "restart_s": 60.0}
        cost = overhead_fraction(**base)
        assert overhead_fraction(**base | {"checkpoint_s": 60.0}) > cost
        assert overhead_fraction(**base | {"restart_s": 600.0}) > cost
        assert overhead_fraction(**base | {"mtbf_s": HOUR_S}) > cost

    def test_overhead_is_infinite_where_no_interval_is_ever_finished(self):
        assert overhead_fraction(checkpoint_s=1, interval_s=1e6, mtbf_s=1) == math.inf


@pytest.mark.parametrize("value", [0, -1, math.nan])
def test_non_positive_arguments_are_refused(value):
    with pytest.raises(ValueError, match="checkpoint_s is"):
        daly_interval_s(checkpoint_s=value, mtbf_s=1)
    with pytest.raises(ValueError, match="mtbf_s is"):
        daly_interval_s(checkpoint_s=1, mtbf_s=value)
    with pytest.raises(ValueError, match="interval_s is"):
        overhead_fraction(checkpoint_s=1, interval_s=value, mtbf_s=1)


def test_a_restart_does_not_take_less_than_no_time():
    with pytest.raises(ValueError, match="restart_s is -1"):
        overhead_fraction(checkpoint_s=1, interval_s=1, mtbf_s=1, restart_s=-1)
