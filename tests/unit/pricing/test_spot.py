"""Time to completion under interruptions: limits, monotonicity, and an independent simulation."""

import itertools
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.spot_simulation import grid, simulate
from launcher.pricing.spot import Interruptible

LOSSY = Interruptible(work=10, interval=0.25, stall=0.01, write=0.1, hazard=0.3, notice=1 / 30, restart=0.2)
LOSSLESS = replace(LOSSY, write=0.02)


@pytest.mark.parametrize(
    "job",
    [
        LOSSY,
        LOSSLESS,
        replace(LOSSY, hazard=0.05),
        replace(LOSSY, work=4, interval=1, hazard=0.1),
        replace(LOSSY, work=30.5, interval=1, hazard=0.5),
        replace(LOSSY, work=2, interval=2, hazard=1),
        replace(LOSSY, work=1.2, interval=1, hazard=1),
        replace(LOSSY, work=0.4, interval=1, hazard=1, write=0.01, notice=0),
        replace(LOSSY, write=0.26, hazard=1),
        replace(LOSSY, write=0.2, hazard=0.15),
        replace(LOSSY, write=0.9, hazard=0.1),
        replace(LOSSY, work=1.1, interval=0.5, write=0.4, hazard=1),
        replace(LOSSY, work=0.3, write=0.2, hazard=2),
        replace(LOSSY, work=3, interval=0.01, stall=0, write=0.6, hazard=0.5),
    ],
)
def test_expectation_and_90th_percentile_agree_with_a_simulation(job: Interruptible) -> None:
    cell = simulate(job, seed=7, draws=60_000)
    assert cell.held, (cell.mean_error, cell.p90_error, cell.at_most, cell.below)


def test_benchmark_grid_covers_rare_and_constant_interruptions() -> None:
    jobs = list(grid())
    assert len(jobs) > 400
    assert min(job.expected_interruptions for job in jobs) < 0.001
    assert max(job.expected_interruptions for job in jobs) > 400


def test_slow_upload_delays_the_stored_checkpoint() -> None:
    quick, slow = replace(LOSSY, write=0.05), replace(LOSSY, write=0.24)
    assert quick.expected_interruptions < slow.expected_interruptions
    assert replace(LOSSY, write=0.05, work=0.2).expected_hours == replace(LOSSY, write=0.24, work=0.2).expected_hours


def test_without_interruptions_only_the_stalls_are_added() -> None:
    quiet = replace(LOSSY, hazard=0.0)
    assert quiet.expected_hours == quiet.quantile_hours(0.9) == pytest.approx(10.4)
    assert quiet.expected_interruptions == 0


def test_checkpoint_shorter_than_the_notice_is_lossless() -> None:
    assert LOSSLESS.lossless
    assert not LOSSY.lossless
    assert LOSSLESS.expected_hours < LOSSY.expected_hours


def test_job_without_checkpoints_is_one_segment_with_exploding_time() -> None:
    bare = replace(LOSSY, work=100, hazard=0.5, saves=False, write=0)
    assert not bare.lossless
    assert bare.running == 100
    assert bare.expected_hours > 1e20


def test_rarely_interrupted_job_finishes_in_the_running_time_at_the_90th_percentile() -> None:
    rare = replace(LOSSY, hazard=0.005)
    assert rare.quantile_hours(0.9) == rare.running


def test_the_percentile_moves_smoothly_from_exact_to_approximate() -> None:
    at = [replace(LOSSY, hazard=rate / 100).quantile_hours(0.9) for rate in range(5, 200)]
    steps = [b / a for a, b in itertools.pairwise(at)]
    assert min(steps) > 0.999
    assert max(steps) < 1.04


@pytest.mark.parametrize("lag", [1e-9, 0.02, 0.13, 0.25, 0.6, 5.1])
@pytest.mark.parametrize("work, hazard", [(0.17, 0.7), (2.05, 0.06), (10.4, 0.012), (10.4, 0.0102)])
def test_the_percentile_is_exact_where_only_one_interruption_matters(lag: float, work: float, hazard: float) -> None:
    job = Interruptible(work=work, interval=0.25, stall=0, write=lag, hazard=hazard, notice=0, restart=20)
    lost_hours = job.quantile_hours(0.9) - work - job.restart
    assert 0 < lost_hours < job.restart
    cells = 40_000
    inside = math.exp(-hazard * work)
    for cell in range(cells):
        struck = work * (cell + 0.5) / cells
        saved = max(0, math.floor((struck - lag) / 0.25)) * 0.25
        if struck - saved <= lost_hours:
            inside += hazard * math.exp(-hazard * (struck + work - saved)) * work / cells
    assert inside == pytest.approx(0.9, abs=2e-5)


def test_quantile_at_the_chance_of_no_interruption_is_the_running_time() -> None:
    rate = -math.log(0.9) / LOSSY.running
    assert replace(LOSSY, hazard=rate * (1 - 1e-6)).quantile_hours(0.9) == LOSSY.running
    beyond = replace(LOSSY, hazard=rate * (1 + 1e-6)).quantile_hours(0.9)
    assert LOSSY.running + LOSSY.restart <= beyond < LOSSY.running + LOSSY.restart + 0.001


def test_upload_lag_of_many_segments_keeps_precision() -> None:
    job = replace(LOSSY, work=3, interval=0.02, stall=0, write=0.31, notice=0, hazard=0.6)
    wide = replace(job, write=0.33)
    assert job.quantile_hours(0.9) < wide.quantile_hours(0.9) < job.quantile_hours(0.9) * 1.02


positive = st.floats(min_value=0.01, max_value=10)


@given(
    work=positive,
    hazard=positive,
    write=st.floats(min_value=0, max_value=0.5),
    more=st.floats(min_value=1, max_value=3),
)
def test_more_work_more_hazard_and_a_longer_write_never_take_less(
    work: float, hazard: float, write: float, more: float
) -> None:
    job = replace(LOSSY, work=work, hazard=hazard, write=write)
    for longer in (
        replace(job, work=work * more),
        replace(job, hazard=hazard * more),
        replace(job, write=write * more),
    ):
        assert longer.expected_hours >= job.expected_hours * (1 - 1e-9)
    assert job.expected_hours >= work
    assert math.isfinite(job.quantile_hours(0.9))


@given(
    work=positive,
    hazard=st.floats(min_value=0.001, max_value=1),
    write=st.floats(min_value=0, max_value=0.5),
    share=st.floats(min_value=0.5, max_value=1.5),
)
def test_quantile_with_a_lower_bound_is_the_larger_of_both(
    work: float, hazard: float, write: float, share: float
) -> None:
    job = replace(LOSSY, work=work, hazard=hazard, write=write)
    quantile = job.quantile_hours(0.9)
    assert job.quantile_hours(0.9, least=quantile * share) == max(quantile, quantile * share)
