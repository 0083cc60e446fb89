"""A checkpoint that all nodes finished but none stored is stored at the next start, or retained in case of doubt."""

import json
import os
import shutil

import pytest

from tests.sandbox.agent.kept import is_hashed, unsent
from tests.sandbox.agent.ranks import RANK, codes


class Pair:
    """A job of two nodes, of which a life that was killed has left step 2 finished on both, and nothing is in S3."""

    def __init__(self, node):
        self.node = node

    def start(self, restart):
        common = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_NODES": "2"}
        common |= {"SLURM_RESTART_COUNT": str(restart)}
        names = [("vn0", "0"), ("vn1", "1")]
        return [self.node.start(node=name, SLURM_NODEID=rank, SLURMD_NODENAME=name, **common) for name, rank in names]

    def again(self):
        """The next life: what each node went on from."""
        self.node.job(3, 0)
        assert codes(self.start(1)) == [0, 0]
        events = [self.node.events(attempt=2, part=part) for part in (0, 1)]
        return [
            [event["step"] for event in attempt_events if event["event"] == "restored"] for attempt_events in events
        ]

    def record(self, rank):
        (path,) = self.node.folder.glob(f"vn{rank}/*/*/finished.json")
        return path

    def finished(self, rank, step):
        (path,) = self.node.folder.glob(f"vn{rank}/*/*/checkpoints/step-{step}")
        return path


@pytest.fixture
def killed_pair(node, bucket, front):
    (node.folder / "train.py").write_text(RANK)
    front.rule = unsent
    pair = Pair(node)
    (node.folder / "shared").mkdir()
    (node.folder / "shared" / "stop-at").write_text("")
    node.job(command=("sh", "-c", '"$@"; sleep 60', "sh", "python3", str(node.folder / "train.py"), "2", "0"))
    agents = pair.start(0)
    for name, rank in (("vn0", 0), ("vn1", 1)):
        node.wait_until(lambda name=name: list(node.folder.glob(f"{name}/*/*/finished.json")))
        node.wait_until(lambda rank=rank: is_hashed(pair.record(rank), "step-2"))
    for agent in agents:
        agent.kill()
        agent.wait()
    node.end_commands()
    front.rule = lambda *_: None
    assert bucket.whole() == []
    return pair


def test_checkpoint_on_both_nodes_after_kill_is_stored_and_resumed(killed_pair, bucket):
    assert killed_pair.again() == [[2], [2]]
    assert bucket.whole()[0] == 2
    stored = bucket.manifest(2)
    assert (stored.attempt, stored.parts, len(stored.files)) == (2, 2, 6)
    for rank in (0, 1):
        expected = f"found base-0 base-1 same-name shard-0 shard-1 own {rank} step 2"
        assert expected in killed_pair.node.output(f"vn{rank}")
        (restored,) = killed_pair.node.events("restored", attempt=2, part=rank)
        assert restored["reused_bytes"] > 1000  # its own part it has from its disk
        assert killed_pair.node.events("checkpoint-kept", attempt=2, part=rank) == []


def lose(pair):
    shutil.rmtree(pair.finished(1, 2))


def spoilt(pair):
    path = pair.finished(1, 2) / "shard-1"
    before = path.stat()
    path.write_text("x" * before.st_size)

    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def write_other_attempt(pair):
    path = pair.record(1)
    entries = json.loads(path.read_text())
    path.write_text(json.dumps({name: entry | {"life": "r1.a0.7.0 on 2"} for name, entry in entries.items()}))


def write_unknown_attempt(pair):
    for rank in (0, 1):
        path = pair.record(rank)
        entries = json.loads(path.read_text())
        for entry in entries.values():
            del entry["life"]
        path.write_text(json.dumps(entries))


DOUBTS = [
    spoilt,
    write_other_attempt,
    pytest.param(lose, marks=pytest.mark.slow),
    pytest.param(write_unknown_attempt, marks=pytest.mark.slow),
]


@pytest.mark.parametrize("doubt", DOUBTS)
def test_backlog_with_doubtful_copy_is_not_stored_and_kept(killed_pair, bucket, doubt):
    doubt(killed_pair)
    assert killed_pair.again() == [[], []]
    assert all(bucket.manifest(step).attempt == 2 for step in bucket.whole())
    assert [event["step"] for event in killed_pair.node.events("checkpoint-kept", attempt=2)] == [2, 1]


@pytest.mark.slow
def test_kill_before_commit_loses_no_checkpoint(killed_pair, bucket, front):
    front.rule = lambda method, path: "before" if method == "PUT" and path.endswith("step-2/manifest.json") else None
    killed_pair.node.job(3, 0)
    agents = killed_pair.start(1)
    assert front.held.wait(60)
    for agent in agents:
        agent.kill()
        agent.wait()
    front.rule = lambda *_: None
    assert bucket.whole() == []
    killed_pair.node.job(3, 0)
    assert codes(killed_pair.start(2)) == [0, 0]
    assert [killed_pair.node.events("restored", attempt=3, part=part)[0]["step"] for part in (0, 1)] == [2, 2]
    assert bucket.whole()[-1] == 3
