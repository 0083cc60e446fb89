"""`kill -9` on two nodes of a job, and on a job that writes PyTorch distributed checkpoints itself.

As in `test_kills`: after every kill the bucket is looked at without the agent's help. Nothing that was committed is
torn or goes away, and no life begins below the newest commit of the one before it.
"""

import random
import signal
import sys
import time

import pytest

from tests.attack.disks import fill
from tests.attack.trainers import Bucket, beside_a_monitor
from tests.sandbox.agent.dcp import TRAINER as DCP_TRAINER

RANK = """
import hashlib, os, sys, time
from pathlib import Path
rank = os.environ["SLURM_NODEID"]
folder, resume = Path(os.environ["SLIPWAY_CHECKPOINT_DIR"]), os.environ["SLIPWAY_RESUME_DIR"]
content = lambda rank, step: hashlib.shake_256(f"{rank} {step}".encode()).digest(100_000)
step = int(resume.rpartition("-")[2]) if resume else 0
for each in ("0", "1") if resume else ():
    assert Path(resume, f"shard-{each}").read_bytes() == content(each, step), "torn"
while step < int(sys.argv[1]):
    time.sleep(0.3)
    step += 1
    partial = folder / f"tmp-{step}"
    partial.mkdir()
    (partial / f"shard-{rank}").write_bytes(content(rank, step))
    partial.rename(folder / f"step-{step}")
print("finished", step, flush=True)
"""
FILLED, FINISHED = 0.15, 0.25


def wait_for_end(node, checkpoints, agents, attempt, *, filled):
    """Two trainers that no one kills come to their last step: the run is done, and the step is stored whole.

    One that found the disk full may have failed: false.
    """
    codes = [agent.wait(timeout=120) for agent in agents]
    ends = [[line for line in node.output(f"vn{rank}") if line.startswith("finished")][-1:] for rank in (0, 1)]
    if filled and codes != [0, 0]:
        return False
    events = [node.events(attempt=attempt, part=part) for part in (0, 1)]
    assert codes == [0, 0], f"falsely failed: {events}"
    last = checkpoints.whole()
    assert ends[0] == ends[1] == [f"finished {max(last)}"], f"falsely done: {events}"
    assert {file.path for file in last[max(last)].files} == {"shard-0", "shard-1"}
    return True


@pytest.mark.usefixtures("own_disk")
@pytest.mark.parametrize(
    "attempts,full", [(4, False), pytest.param(60, True, marks=pytest.mark.slow)], ids=["small", "full"]
)
def test_agents_of_two_nodes_killed_at_random_lose_no_checkpoint(  # noqa: PLR0917
    node, bucket, attempts, full, seed, capsys
):
    (node.folder / "train.py").write_text(RANK)
    rng, checkpoints, stored, ended = random.Random(seed), Bucket(bucket), {}, []
    common = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_NODES": "2"}
    for attempt in range(1, attempts + 1):
        ends = attempt == attempts or (full and rng.random() < FINISHED)
        steps = max(stored, default=0) + rng.randint(1, 8) if ends else 100_000
        command = (sys.executable, str(node.folder / "train.py"), str(steps))
        node.job(command=command if ends else beside_a_monitor(command, rng))
        agents = [
            node.start(node=f"vn{rank}", SLURM_NODEID=str(rank), SLURM_RESTART_COUNT=str(attempt - 1), **common)
            for rank in (0, 1)
        ]
        for part in (0, 1):
            node.wait_for("command-started", attempt, part=part)
        begun = [max([e["step"] for e in node.events("restored", attempt, part)], default=0) for part in (0, 1)]
        assert begun[0] == begun[1] >= max(stored, default=0)
        filled = full and rng.random() < FILLED
        if filled:
            time.sleep(rng.uniform(0.0, 2.0))
            fill(node.place / "junk")
        if ends:
            ended.append(wait_for_end(node, checkpoints, agents, attempt, filled=filled))
        else:
            time.sleep(rng.uniform(0.0, 4.0))
            rng.shuffle(agents)
            for agent in agents:
                agent.kill()
                assert filled or agent.wait() == -signal.SIGKILL
                time.sleep(rng.uniform(0.0, 0.5))
        time.sleep(0.2)  # what was on its way to S3 gets there
        (node.place / "junk").unlink(missing_ok=True)
        before, stored = stored, checkpoints.whole()
        assert set(before) <= set(stored)
        for rank in (0, 1):
            if rng.random() < 0.5:
                node.lose(f"vn{rank}")
    with capsys.disabled():
        print(f"\n{len(ended)} ends, {sum(ended)} of them done, and {attempts - len(ended)} kills")  # noqa: T201
    for rank in (0, 1):
        assert "torn" not in "".join(node.output(f"vn{rank}"))
    assert stored


@pytest.mark.torch
@pytest.mark.parametrize("kills", [3, pytest.param(150, marks=pytest.mark.slow)])
def test_dcp_trainer_killed_at_random_loses_no_checkpoint(node, bucket, kills, seed, sample):
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
