"""Time to completion under interruptions: limits, monotonicity, and an independent simulation."""

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
def test_expectation_and_deviation_agree_with_a_simulation(job: Interruptible) -> None:
    cell = simulate(job, seed=7, draws=60_000)
    assert cell.held, (cell.mean_error, cell.deviation_error)


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
    assert quiet.expected_hours == pytest.approx(10.4)
    assert quiet.losses.mean == 0
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
    assert math.isfinite(job.losses.variance)
