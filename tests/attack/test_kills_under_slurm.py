"""A two-node job on a real Slurm that loses a node, a rank or its allocation at random moments.

As in `test_kills`: after every blow the bucket is looked at without the agent's help. Nothing that was committed is
torn or goes away, no life begins below the newest commit of the one before it, and the trainer refuses a state that is
not the one its steps lead to. No rank is killed twice without a newer commit between: the agent rightly gives such a
job up.
"""

import os
import random
import signal
import time
from collections import Counter

import pytest

from tests.attack.trainers import Bucket
from tests.waiting import until

pytestmark = [pytest.mark.slurm, pytest.mark.long, pytest.mark.xdist_group("slurm-job")]
BLOWS = 40
FAULTS = ("a node is lost", "a rank is killed", "put back by hand")


@pytest.mark.slow
def test_slurm_job_on_two_nodes_killed_at_random_loses_no_checkpoint(job, slurm_cluster, bucket, seed, capsys):
    rng, checkpoints, stored, faults = random.Random(seed), Bucket(bucket), {}, Counter()
    failed_at = -1
    job.prepare(steps=10**6, grace=2, retries=BLOWS)
    job.submit()
    for attempt in range(1, BLOWS + 1):
        for part in (0, 1):
            until(lambda number=attempt, part=part: job.events("command-started", number, part), job.describe)
        begun = [max([event["step"] for event in job.events("restored", attempt, part)], default=0) for part in (0, 1)]
        assert begun[0] == begun[1] >= max(stored, default=0)
        time.sleep(rng.uniform(0.0, 5.0))
        progress = max(checkpoints.whole(), default=0) > failed_at
        faults[fault := rng.choice([kind for kind in FAULTS if progress or kind != "a rank is killed"])] += 1
        if fault == "a node is lost":
            slurm_cluster.take(rng.choice(slurm_cluster.scheduler.nodes(job.id)), job.id)
        elif fault == "a rank is killed":
            os.kill(job.events("command-started", attempt, rng.choice((0, 1)))[0]["pid"], signal.SIGKILL)
        else:
            slurm_cluster.slurm.run("scontrol", "requeue", job.id)
        job.back(attempt + 1)
        before, stored = stored, checkpoints.whole()
        assert set(before) <= set(stored)
        if fault == "a rank is killed":
            failed_at = max(stored, default=0)
    until(checkpoints.whole, job.describe)  # blows may come before the first commit
    assert "torn" not in job.output()
    with capsys.disabled():
        print(f"\n{BLOWS} blows under Slurm, seed {seed}: {dict(faults)}")  # noqa: T201
