"""Mode "own": the trainer manages its checkpoints, in S3 or in a folder; the agent only observes.

The command writes as Megatron does (iter_N, then the tracker) and resumes by itself, or files that no layout knows.
"""

import signal

import pytest

from launcher.agent.checkpoint.own_checkpoints import place_of
from launcher.agent.errors import JobSpecError
from tests.sandbox.agent.checkpoints import BUCKET, PREFIX

TRAINER = """
import os, signal, sys, time
from pathlib import Path
import boto3
from botocore.config import Config
name, steps, pause, tracked = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4] == "tracked"
stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
uri = os.environ["SLIPWAY_CHECKPOINT_URI"]
if uri.startswith("s3://"):
    s3 = boto3.client("s3", config=Config(s3={"addressing_style": "path"}))
    bucket, _, prefix = uri.removeprefix("s3://").partition("/")
    def write(path, text):
        s3.put_object(Bucket=bucket, Key=f"{prefix}/{path}", Body=text.encode())
    def read(path):
        return s3.get_object(Bucket=bucket, Key=f"{prefix}/{path}")["Body"].read().decode()
else:
    assert uri == os.environ["SLIPWAY_CHECKPOINT_DIR"]
    def write(path, text):
        (Path(uri) / path).parent.mkdir(parents=True, exist_ok=True)
        (Path(uri) / path).write_text(text)
    def read(path):
        return (Path(uri) / path).read_text()
try:
    step = int(read("latest_checkpointed_iteration.txt"))
except Exception:
    step = 0
print("start", step, flush=True)
while step < steps and not stop:
    step += 1
    write(f"{name}{step:07}/shard.pt", str(step))
    if tracked:
        write("latest_checkpointed_iteration.txt", str(step))
    print("step", step, flush=True)
    time.sleep(pause)
sys.exit(1 if stop else 0)
"""


@pytest.fixture(params=["s3", "folder"])
def place(request, tmp_path, bucket):
    return f"s3://{BUCKET}/{PREFIX}own" if request.param == "s3" else str(tmp_path / "fsx" / "run")


@pytest.fixture
def own_trainer(node, place):
    (node.folder / "train.py").write_text(TRAINER)

    def job(steps, pause=0.5, name="iter_", tracked="tracked", **changes):
        node.job(name, steps, pause, tracked, mode="own", uri=place, **changes)
        return node

    return job


def test_notice_to_own_checkpoint_trainer_resumes_from_tracker(own_trainer, place, node, bucket):
    own_trainer(600)
    agent = node.start()
    node.wait_for("checkpoint-uploaded")
    agent.send_signal(signal.SIGUSR1)
    assert agent.wait(timeout=90) == 75
    last = node.last_step()
    before = {*bucket.all_keys()}
    own_trainer(last + 2)
    assert node.run(attempt=2) == 0
    (event,) = node.events("restored", attempt=2)
    assert last - 1 <= event["step"] <= last
    assert node.output()[-3:] == [f"start {last}", f"step {last + 1}", f"step {last + 2}"]
    assert node.steps("checkpoint-uploaded")[-1] == last + 2
    assert {event.get("layout") for event in node.events("checkpoint-uploaded")} == {"megatron"}
    # Nothing is uploaded, tagged or removed.
    written = {f"own/iter_{step:07}/shard.pt" for step in range(1, last + 3)}
    there = {*bucket.all_keys()}
    assert before <= there
    assert there == ({*written, "own/latest_checkpointed_iteration.txt"} if place.startswith("s3://") else set())
    assert bucket.expiring() == set()


def test_unknown_own_files_reported_without_step_and_silence_reported(own_trainer, node):
    own_trainer(1, 8.0, name="epoch", tracked="")
    assert node.run() == 0
    assert node.events("checkpoint-uploaded") == []
    (written,) = node.events("checkpoint-written")
    assert written["files"] == 1
    *_, silent = node.events("no-checkpoint-yet")  # a slow machine is silent before it too
    assert "nothing was written" in silent["reason"]


def test_unmounted_own_checkpoint_folder_stops_start(node):
    node.job("iter_", 1, 0, "", mode="own", uri="/not-mounted-here/run")
    assert node.run() == 78
    assert "/not-mounted-here does not exist on this node" in node.events("failed")[0]["reason"]
    with pytest.raises(JobSpecError, match="cannot be made"):
        place_of("/proc/here", timeout_s=1)
