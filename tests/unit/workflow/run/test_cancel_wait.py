"""The wait of `slipway cancel` for the end of a job: short waits are silent, longer ones say what they wait for."""

import pytest

from launcher.workflow.run.cancel import PATIENCE_S, wait_until_none


@pytest.mark.parametrize("ends_after,lines", [(0, 0), (2, 0), (90, 1), (10 * PATIENCE_S, 1)])
def test_wait_for_cancelled_job_is_reported_once_after_3_seconds(ends_after, lines):
    said, now = [], [0.0]

    def sleep(duration):
        now[0] += duration

    still = wait_until_none(
        lambda: "running" if now[0] < ends_after else None, "job-7", said.append, sleep=sleep, clock=lambda: now[0]
    )
    assert len(said) == lines
    assert all("job-7 is cancelled" in text for text in said)
    assert still == ("running" if ends_after > PATIENCE_S else None)
    assert now[0] <= PATIENCE_S + 2
