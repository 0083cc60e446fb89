"""`kill -9` on two nodes of a job, and on a job that writes PyTorch distributed checkpoints itself.

As in `test_kills`: after every kill the bucket is looked at without the agent's help. Nothing that was committed is
torn or goes away, and no life begins below the newest commit of the one before it.
"""

import random
import signal
import sys
import time

import pytest

from tests.attack.trainers import Bucket, beside_a_monitor
from tests.sandbox.agent.dcp import TRAINER as DCP_TRAINER

RANK = """
import hashlib, os, time
from pathlib import Path
rank = os.environ["SLURM_NODEID"]
folder, resume = Path(os.environ["SLIPWAY_CHECKPOINT_DIR"]), os.environ["SLIPWAY_RESUME_DIR"]
content = lambda rank, step: hashlib.shake_256(f"{rank} {step}".encode()).digest(100_000)
step = int(resume.rpartition("-")[2]) if resume else 0
for each in ("0", "1") if resume else ():
    assert Path(resume, f"shard-{each}").read_bytes() == content(each, step), "torn"
while True:
    time.sleep(0.3)
    step += 1
    partial = folder / f"tmp-{step}"
    partial.mkdir()
    (partial / f"shard-{rank}").write_bytes(content(rank, step))
    partial.rename(folder / f"step-{step}")
"""


@pytest.mark.parametrize("kills", [4, pytest.param(50, marks=pytest.mark.slow)])
def test_on_two_nodes(node, bucket, kills, seed):
    (node.folder / "train.py").write_text(RANK)
    rng, checkpoints, stored = random.Random(seed), Bucket(bucket), {}
    command = (sys.executable, str(node.folder / "train.py"))
    common = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_NODES": "2"}
    for attempt in range(1, kills + 1):
        node.job(command=beside_a_monitor(command, rng))
        agents = [
            node.start(node=f"vn{rank}", SLURM_NODEID=str(rank), SLURM_RESTART_COUNT=str(attempt - 1), **common)
            for rank in (0, 1)
        ]
        for part in (0, 1):
            node.wait_for("command-started", attempt, part=part)
        begun = [max([e["step"] for e in node.events("restored", attempt, part)], default=0) for part in (0, 1)]
        assert begun[0] == begun[1] >= max(stored, default=0)
        time.sleep(rng.uniform(0.0, 4.0))
        rng.shuffle(agents)
        for agent in agents:
            agent.kill()
            assert agent.wait() == -signal.SIGKILL
            time.sleep(rng.uniform(0.0, 0.5))
        time.sleep(0.2)  # what was on its way to S3 gets there
        before, stored = stored, checkpoints.whole()
        assert set(before) <= set(stored)
        for rank in (0, 1):
            if rng.random() < 0.5:
                node.lose(f"vn{rank}")
    for rank in (0, 1):
        assert "torn" not in "".join(node.output(f"vn{rank}"))
    assert stored


@pytest.mark.torch
@pytest.mark.parametrize("kills", [3, pytest.param(150, marks=pytest.mark.slow)])
def test_of_a_trainer_that_writes_to_the_store_itself(node, bucket, kills, seed, sample):
    (node.folder / "train.py").write_text(DCP_TRAINER)
    rng, newest = random.Random(seed), 0
    sizes = {path.name: path.stat().st_size for path in sample.iterdir()}
    for attempt in range(1, kills + 1):
        node.job(100_000, 0.02, sample, mode="dcp")
        agent = node.start(attempt)
        node.wait_for("command-started", attempt)
        assert node.restored(attempt) == newest
        lines = len(node.output())
        node.wait_until(lambda lines=lines: len(node.output()) > lines)
        time.sleep(rng.uniform(0.0, 1.0))
        agent.kill()
        assert agent.wait() == -signal.SIGKILL
        node.end_commands()
        time.sleep(0.2)
        there = bucket.sizes()
        steps = {int(key.partition("/")[0].removeprefix("step-")) for key in there}
        whole = [
            step for step in steps if all(there.get(f"step-{step}/{name}") == size for name, size in sizes.items())
        ]
        assert max(whole, default=0) >= newest
        newest = max(whole, default=0)
    node.job(newest, 0, sample, mode="dcp")
    assert node.run(attempt=kills + 1) == 0
    assert node.restored(kills + 1) == newest > 0
