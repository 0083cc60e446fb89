"""Time to completion under interruptions: limits, monotonicity, and an independent simulation."""

import math
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.pricing.spot import Interruptible

LOSSY = Interruptible(work=10, interval=0.25, stall=0.01, write=0.1, hazard=0.3, notice=1 / 30, restart=0.2)
LOSSLESS = replace(LOSSY, write=0.02)


def simulated(job: Interruptible, runs: int, seed: int) -> list[float]:
    """Hours to completion by playing the process out, sorted."""
    dice = random.Random(seed)
    whole = int(job.segments)
    segments = [job.segment] * whole + [(job.segments - whole) * job.segment]
    pieces = [job.running] if job.lossless else segments
    results = []
    for _ in range(runs):
        hours = 0.0
        for piece in pieces:
            left = piece
            while (gap := dice.expovariate(job.hazard)) < left:
                hours += gap + job.pause
                left = left - gap if job.lossless else piece
            hours += left
        results.append(hours)
    return sorted(results)


@pytest.mark.parametrize(
    "job",
    [
        LOSSY,
        LOSSLESS,
        replace(LOSSY, hazard=0.05),
        replace(LOSSY, work=4, interval=1, hazard=0.1),
        replace(LOSSY, work=30.5, interval=1, hazard=0.5),
        replace(LOSSY, work=2, interval=2, hazard=1),
    ],
)
def test_expectation_and_90th_percentile_agree_with_a_simulation(job: Interruptible) -> None:
    runs = simulated(job, 20_000, seed=7)
    assert job.expected_hours == pytest.approx(sum(runs) / len(runs), rel=0.02)
    assert job.quantile_hours(0.9) == pytest.approx(runs[int(0.9 * len(runs))], rel=0.05)


def test_without_interruptions_only_the_stalls_are_added() -> None:
    quiet = replace(LOSSY, hazard=0.0)
    assert quiet.expected_hours == quiet.quantile_hours(0.9) == pytest.approx(10.4)
    assert quiet.expected_interruptions == 0


def test_a_checkpoint_shorter_than_the_notice_loses_no_segment() -> None:
    assert LOSSLESS.lossless
    assert not LOSSY.lossless
    assert LOSSLESS.expected_hours < LOSSY.expected_hours


def test_without_checkpoints_the_time_explodes() -> None:
    bare = replace(LOSSY, work=100, interval=100, stall=0, hazard=0.5)
    assert bare.expected_hours > 1e20


def test_most_jobs_that_are_rarely_interrupted_finish_in_their_running_time() -> None:
    rare = replace(LOSSY, hazard=0.005)
    assert rare.quantile_hours(0.9) == rare.running


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
