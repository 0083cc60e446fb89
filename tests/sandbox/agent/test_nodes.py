"""A checkpoint of several nodes: each uploads its part, one commit makes it whole."""

from concurrent.futures import ThreadPoolExecutor

import pytest

RANK = """
import os, sys
from pathlib import Path
rank, steps = os.environ["SLURM_NODEID"], int(sys.argv[1])
folder, resume = Path(os.environ["SLIPWAY_CHECKPOINT_DIR"]), os.environ["SLIPWAY_RESUME_DIR"]
if resume:
    names = sorted(path.name for path in Path(resume).iterdir())
    print("found", *names, "own", Path(resume, "same-name").read_text(), flush=True)
for step in range(1, steps + 1):
    partial = folder / f"tmp-{step}"
    partial.mkdir()
    (partial / f"shard-{rank}").write_text(f"{rank} {step}")
    (partial / "same-name").write_text(rank)
    partial.rename(folder / f"step-{step}")
"""


@pytest.fixture
def pair(node, bucket):
    """Starts the agents of a step on two nodes and returns their exit codes."""
    (node.folder / "train.py").write_text(RANK)

    def run(*, ranks=(0, 1), restart=0, second_waits=False):
        common = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_NODES": "2"}
        common |= {"SLURM_RESTART_COUNT": str(restart)}
        agents = []
        for rank in ranks:
            if rank and second_waits:
                node.wait_for("command-ended", restart + 1)
            agents.append(node.start(node=f"vn{rank}", SLURM_NODEID=str(rank), **common))
        with ThreadPoolExecutor() as pool:
            return list(pool.map(lambda agent: agent.wait(timeout=60), agents))

    return run


def test_is_whole_when_every_part_is_there(node, bucket, pair):
    node.job(1)
    assert pair(second_waits=True) == [0, 0]
    whole = bucket.manifest(1)
    assert (whole.part, whole.parts, whole.attempt) == (None, 2, 1)
    assert [(file.path, file.part) for file in whole.files] == [
        ("same-name", 0),
        ("shard-0", 0),
        ("same-name", 1),
        ("shard-1", 1),
    ]
    assert node.steps("checkpoint-uploaded") == [1]
    assert (node.folder / "shared" / "events-part1.jsonl").read_text().count("checkpoint-part-uploaded") == 1


def test_every_node_gets_all_shards_and_its_own_of_doubles(node, bucket, pair):
    node.job(2)
    assert pair() == [0, 0]
    for rank in (0, 1):
        node.lose(f"vn{rank}")
    node.job(0)
    assert pair(restart=1) == [0, 0]
    assert node.output("vn0")[-1] == "found same-name shard-0 shard-1 own 0"
    assert node.output("vn1")[-1] == "found same-name shard-0 shard-1 own 1"


def test_is_invisible_while_a_part_is_missing(node, bucket, pair):
    node.job(1, final_upload_s=1.5)
    assert pair(ranks=[0]) == [74]
    assert "step-1/manifest.json" not in [*bucket.keys()]
    # The other node's part of a later life of the job does not make the old one whole.
    assert pair(ranks=[1], restart=1) == [0]
    node.job(0)
    assert pair(restart=2) == [0, 0]
    assert [event["reason"] for event in node.events("restore-skipped", attempt=3)] == [
        "it has no manifest: its upload was not finished",
    ]


def test_one_writer_for_all(node, bucket, pair):
    node.job(1, writers="first-node")
    assert pair() == [0, 0]
    assert [file.path for file in bucket.manifest(1).files] == ["same-name", "shard-0"]
    node.job(0, writers="first-node")
    assert pair(restart=1) == [0, 0]
    assert node.output("vn1")[-1] == "found same-name shard-0 own 0"
