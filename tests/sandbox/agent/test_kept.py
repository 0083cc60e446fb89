"""A finished checkpoint that is not in the store is the only copy: it is retained until it is committed."""

import json
import os
import signal

import pytest

from tests.sandbox.agent.kept import is_hashed, unsent


def finish(node):
    return list(node.folder.glob("node/*/tiny/finished.json"))


def kill(node, agent):
    agent.kill()
    agent.wait()
    node.end_commands()


@pytest.fixture
def killed_node(node, bucket, front):
    """A killed agent has left step 2 finished on the node, and nothing is in the store."""
    front.rule = unsent
    trainer = ("python3", str(node.folder / "train.py"), "2", "0", "1000")
    node.job(command=("sh", "-c", '"$@"; sleep 60', "sh", *trainer))
    agent = node.start()
    node.wait_until(lambda: [path for path in finish(node) if is_hashed(path, "step-2")])
    kill(node, agent)
    assert bucket.whole() == []
    return node


def test_second_kill_before_upload_resumes_from_node(killed_node, bucket, front):
    killed_node.job(command=("sleep", "60"))
    agent = killed_node.start(attempt=2)
    killed_node.wait_for("command-started", attempt=2)
    kill(killed_node, agent)
    front.rule = lambda *_: None
    killed_node.job(3, 0, 1000)
    assert killed_node.run(attempt=3) == 0
    assert killed_node.restored(3) == 2
    assert bucket.whole()[-1] == 3


def test_kill_during_store_outage_resumes_from_node(killed_node, bucket, front):
    front.rule = lambda *_: 503
    agent = killed_node.start(attempt=2)
    killed_node.wait_for("restore-retry", attempt=2)
    kill(killed_node, agent)
    front.rule = lambda *_: None
    killed_node.job(3, 0, 1000)
    assert killed_node.run(attempt=3) == 0
    assert killed_node.restored(3) == 2


def test_notice_before_restore_keeps_copy_on_node(killed_node, bucket, front):
    front.rule = lambda *_: 503
    agent = killed_node.start(attempt=2)
    killed_node.wait_for("restore-retry", attempt=2)
    agent.send_signal(signal.SIGUSR1)
    assert agent.wait() == 75
    front.rule = lambda *_: None
    killed_node.job(3, 0, 1000)
    assert killed_node.run(attempt=3) == 0
    assert killed_node.restored(3) == 2


def test_changed_copy_on_node_is_not_resumed(killed_node, bucket, front):
    """Of the same size, inode and time: what a neighbour, or a disk, has changed behind the agent's back."""
    (data,) = killed_node.folder.glob("node/*/tiny/checkpoints/step-2/data")
    before = data.stat()
    with data.open("r+b") as file:
        file.write(b"another")
    os.utime(data, ns=(before.st_atime_ns, before.st_mtime_ns))
    front.rule = lambda *_: None
    killed_node.job(3, 0, 1000)
    assert killed_node.run(attempt=2) == 0
    assert killed_node.restored(2) == 0
    assert "data changed after it was finished" in killed_node.events("restore-skipped", 2)[0]["reason"]


def test_copy_without_hashes_is_kept_and_not_resumed(killed_node, bucket, front):
    (path,) = finish(killed_node)
    entries = json.loads(path.read_text())
    path.write_text(json.dumps({name: entry | {"hashes": {}} for name, entry in entries.items()}))
    front.rule = lambda *_: None
    killed_node.job(command=("true",))
    assert killed_node.run(attempt=2) == 0
    assert killed_node.restored(2) == 0
    assert [event["step"] for event in killed_node.events("checkpoint-kept", 2)] == [2, 1]


def test_resubmission_after_exit_74_resumes_from_node(node, bucket, front):
    front.rule = unsent
    node.job(2, 0, 1000, final_upload_s=1.0)
    assert node.run() == 74
    front.rule = lambda *_: None
    node.job(3, 0, 1000, run="r2")
    assert node.run() == 0
    (restored,) = [event for event in node.events("restored") if event["run"] == "r2"]
    assert (restored["step"], restored["source"]) == (2, "node")
    assert bucket.whole()[-1] == 3


def test_copy_on_node_survives_start_of_other_job(killed_node, bucket, front):
    front.rule = lambda *_: None
    killed_node.job(name="other", run="r9", uri="s3://checkpoints/a/run/another", command=("true",))
    assert killed_node.run() == 0
    events = killed_node.events("checkpoint-kept")
    assert [event["step"] for event in events] == [2, 1]
    assert "step 2 of run r1 in" in events[0]["reason"]
    killed_node.job(3, 0, 1000)
    assert killed_node.run(attempt=2) == 0
    assert killed_node.restored(2) == 2
    killed_node.job(name="other", run="r10", uri="s3://checkpoints/a/run/another", command=("true",))
    assert killed_node.run() == 0
    assert not [event for event in killed_node.events("checkpoint-kept") if event["run"] == "r10"]


def test_committed_checkpoint_removed_from_records_of_every_node(node, bucket):
    make = "mkdir tmp; echo $SLURM_NODEID >tmp/$SLURM_NODEID; mv tmp step-1"
    node.job(command=("sh", "-c", f'cd "$SLIPWAY_CHECKPOINT_DIR"; {make}'))
    common = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_NODES": "2"}
    agents = [node.start(node=f"vn{rank}", SLURM_NODEID=str(rank), **common) for rank in (0, 1)]
    assert [agent.wait(timeout=90) for agent in agents] == [0, 0]
    records = [path.read_text() for path in node.folder.glob("vn*/*/*/finished.json")]
    assert (records, bucket.whole()) == (["{}", "{}"], [1])


LIGHTNING = """
cd "$SLIPWAY_CHECKPOINT_DIR"
echo "found $(ls | tr '\\n' ' ')"
echo "$SLIPWAY_ATTEMPT" >"other=$SLIPWAY_ATTEMPT.bin"
exit 3
"""
"""A framework whose names nobody knows: it resumes from what it finds, and crashes."""


def test_unrecognised_files_on_node_survive_retry(node, bucket):
    node.job(command=("sh", "-c", LIGHTNING))
    for attempt in (1, 2):
        assert node.run(attempt=attempt) == 3
    assert node.output() == ["found ", "found other=1.bin "]
    (event,) = node.events("checkpoint-kept", 2)
    assert event["path"].endswith("/tiny/checkpoints/other=1.bin")
    assert event["reason"].startswith("not known to be in the store; not removed while the disk has room: ")
    node.job(name="other", run="r9", uri="s3://checkpoints/a/run/another", command=("true",))
    assert node.run() == 0
    node.job(command=("sh", "-c", LIGHTNING))
    assert node.run(attempt=3) == 3
    assert node.output()[-1] == "found other=1.bin other=2.bin "
    assert not node.events("checkpoint-removed")
