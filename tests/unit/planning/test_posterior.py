"""Own measurements in the estimate: they narrow it, contradictions widen it, and distant jobs weigh less."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.model.enums import Precision, Stack
from launcher.planning import throughput
from launcher.planning.posterior import FARTHEST, discount, posterior
from launcher.planning.utilisation import log_scale
from tests.unit.planning.measurements import FACTS, SHAPE, measured


def learn(*measurements, shape=SHAPE):
    return posterior(shape, replace(FACTS, measured=measurements), log_scale(shape, FACTS))


class TestPosterior:
    def test_measurement_moves_and_narrows_estimate(self):
        prior = throughput.rate(SHAPE, FACTS)
        after = throughput.rate(SHAPE, replace(FACTS, measured=(measured(0.8),)))
        assert after.tokens_mid / prior.tokens_mid == pytest.approx(0.8, abs=0.02)
        assert after.tokens_high / after.tokens_low < 0.6 * prior.tokens_high / prior.tokens_low

    @given(
        st.floats(0.3, 3.0), st.floats(0.0, 0.5), st.integers(1, 8), st.sampled_from([1, 2, 4, 16]), st.integers(0, 3)
    )
    def test_equal_measurements_never_widen_estimate(self, times, run_spread, nodes, count, others):
        base = tuple(measured(times, spread_of=0.1, nodes=2**number, run=f"other/{number}") for number in range(others))
        runs = [measured(times, spread_of=run_spread, nodes=nodes, run=f"a/{number}") for number in range(count + 1)]
        fewer, more = learn(*base, *runs[:-1]), learn(*base, *runs)
        assert more.scale <= fewer.scale * (1 + 1e-9) <= log_scale(SHAPE, FACTS) * (1 + 1e-6)
        assert not more.contradiction

    @given(st.floats(0.5, 2.0), st.floats(-0.05, 0.05))
    def test_ordinary_difference_of_two_runs_is_no_contradiction(self, times, apart):
        one, two = measured(times), measured(times * math.exp(apart), run="b/20261121T100000Z")
        assert not learn(one, two).contradiction
        assert learn(one, two).scale <= learn(one).scale * (1 + 1e-9)

    def test_contradicting_measurement_widens_estimate_and_is_reported(self):
        agreeing = [measured(0.8, run=f"a/{number}") for number in range(5)]
        odd = measured(0.4, run="b/1")
        before, after = learn(*agreeing), learn(*agreeing, odd)
        assert after.contradiction
        assert after.scale > 2 * before.scale
        elsewhere = measured(0.4, nodes=1, run="b/1")
        assert learn(*agreeing, elsewhere).contradiction
        assert learn(*agreeing, elsewhere).scale > before.scale

    def test_dissimilar_measurements_weigh_less_and_foreign_ones_are_ignored(self):
        near = learn(measured(0.5))
        longer = learn(measured(0.5, sequence_length=2048))
        other = learn(measured(0.5, precision=Precision.FP8, stack=Stack.TUNED))
        assert near.scale < longer.scale < other.scale < log_scale(SHAPE, FACTS)
        assert learn(measured(0.5, params_b=0.0002, active_params_b=0.0002)) is None
        assert learn(measured(0.5, accelerator="A100")) is None
        assert learn(measured(0.5, simulated=True)) is None

    @given(st.integers(1, 9), st.integers(512, 65536))
    def test_measurement_discount_is_symmetric(self, doublings, length):
        other = replace(SHAPE, chips=8 * 2**doublings, sequence_length=length)
        assert discount(SHAPE, other) == pytest.approx(discount(other, SHAPE))
        assert (discount(SHAPE, SHAPE), FARTHEST > 0) == (0.0, True)

    @given(st.floats(0.4, 2.5), st.sampled_from([1, 2, 8]))
    def test_more_nodes_are_never_slower(self, times, nodes):
        facts = replace(FACTS, measured=(measured(times, nodes=nodes),))
        rates = [throughput.rate(replace(SHAPE, chips=8 * 2**exponent), facts).tokens_mid for exponent in range(7)]
        assert rates == sorted(rates)

    def test_planned_throughput_overrides_measurements(self):
        shape = replace(SHAPE, measured_tokens_per_s=50_000.0)
        facts = replace(FACTS, measured=(measured(0.5),))
        assert throughput.rate(shape, facts) == throughput.rate(shape, FACTS)


def test_layout_that_a_measured_run_reports_is_compared_with_that_of_the_plan():
    cut = replace(SHAPE, tensor_parallel=8)
    alike, other = (learn(measured(1.0, parallelism=(("tensor", degree),)), shape=cut) for degree in (8, 1))
    assert alike.cells[0].error - other.cells[0].error == pytest.approx(math.log(1.4))
    named, unnamed = (learn(measured(1.0, parallelism=layout)) for layout in ((("tensor", 8),), None))
    assert named.shift == unnamed.shift
