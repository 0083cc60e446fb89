"""Mode "dcp": the trainer writes PyTorch distributed checkpoints to S3, the agent validates and signals.

The metadata and shards are torch's own, saved once; the command here puts them into the bucket as a rank does: shards
first, `.metadata` last.
"""

import signal

import pytest
from moto.backends import get_backend

from launcher.agent.checkpoint.tagging import WORKERS
from tests.sandbox.agent.checkpoints import BUCKET, PREFIX
from tests.sandbox.agent.dcp import TRAINER

pytestmark = pytest.mark.torch


@pytest.fixture
def dcp_trainer(node, bucket, sample):
    """Starts the next attempt's agent with a command that saves up to a step."""
    (node.folder / "train.py").write_text(TRAINER)

    def job(steps, pause=0.0, **changes):
        node.job(steps, pause, sample, **{"mode": "dcp"} | changes)
        return node

    return job


@pytest.fixture
def store(bucket, sample):
    """Puts a step's checkpoint into the bucket, completely or in part."""

    def put(step, *, without="", **changed):
        for path in sample.iterdir():
            if path.name != without:
                bucket.write(f"step-{step}/{path.name}", changed.get("metadata") or path.read_bytes())

    return put


def shard(sample):
    return next(path.name for path in sorted(sample.iterdir()) if path.suffix == ".distcp")


def uri(step):
    return f"s3://checkpoints/a/run/step-{step}"


class TestStart:
    def test_run_without_checkpoints_starts_anew(self, dcp_trainer):
        node = dcp_trainer(1)
        assert node.run() == 0
        assert node.output()[0] == "start anew"
        assert node.events("nothing-restored")

    def test_resume_uses_newest_complete_checkpoint_and_reports_skipped(self, dcp_trainer, bucket, store, sample):
        name = shard(sample)
        store(1)
        store(2, without=name)
        store(3)
        bucket.write(f"step-3/{name}", b"x")
        store(4, metadata=b"\x80\x04K\x01.")
        store(5, without=".metadata")
        node = dcp_trainer(0)
        assert node.run() == 0
        assert node.output() == [f"start {uri(1)}"]
        reasons = {event["step"]: event["reason"] for event in node.events("restore-skipped")}
        assert reasons[5] == "it has no .metadata: its save did not finish"
        assert "its .metadata is unusable" in reasons[4]
        assert reasons[3].startswith(f"{name} has 1 bytes instead of")
        assert reasons[2] == f"{name} is missing"

    def test_metadata_of_incomplete_checkpoint_is_invalidated(self, dcp_trainer, bucket, store, sample):
        name = shard(sample)
        store(1)
        store(2, without=name)
        node = dcp_trainer(0)
        assert node.run() == 0
        bucket.write(f"step-2/{name}", (sample / name).read_bytes())  # as when the next life is torn off in its save
        assert node.run(attempt=2) == 0
        assert node.output() == [f"start {uri(1)}"] * 2

    def test_resumed_checkpoint_is_untagged(self, dcp_trainer, bucket, store):
        store(1)
        store(2, without=".metadata")
        for key in [*bucket.keys()]:
            bucket.supersede(key)
        assert dcp_trainer(0).run() == 0
        assert bucket.retained_keys() == {key for key in [*bucket.keys()] if key.startswith("step-1/")}


class TestRunningCommand:
    def test_newest_checkpoints_kept_and_others_superseded(self, dcp_trainer, bucket):
        node = dcp_trainer(4, keep=2)
        assert node.run() == 0
        assert node.steps("checkpoint-uploaded")[-1] == 4
        assert {key.partition("/")[0] for key in bucket.retained_keys()} == {"step-3", "step-4"}
        assert {key.partition("/")[0] for key in bucket.expiring()} == {"step-1", "step-2"}

    def test_incomplete_checkpoint_does_not_count_among_kept(self, dcp_trainer, bucket, store, sample):
        store(1)
        store(2, without=shard(sample))
        node = dcp_trainer(3, keep=2)  # the trainer goes on from step 1 and saves 2 again
        assert node.run() == 0
        assert {key.partition("/")[0] for key in bucket.retained_keys()} == {"step-2", "step-3"}

    def test_notice_saves_checkpoint_and_next_attempt_resumes_there(self, dcp_trainer):
        node = dcp_trainer(600, 0.2)
        agent = node.start()
        node.wait_until(lambda: any(line.startswith("step") for line in node.output()))
        agent.send_signal(signal.SIGUSR1)
        assert agent.wait(timeout=90) == 75
        last = node.last_step()
        dcp_trainer(last + 1)
        assert node.run(attempt=2) == 0
        assert node.output()[-2:] == [f"start {uri(last)}", f"step {last + 1}"]
        assert node.restored(2) == last

    def test_notice_interrupts_tagging(self, dcp_trainer, bucket, front):
        backend = get_backend("s3")["123456789012"]["aws"]
        for index in range(1500):
            backend.put_object(BUCKET, f"{PREFIX}step-1/{index:04}.distcp", b"x")
        node = dcp_trainer(600, 0.3, keep=1)
        agent = node.start()

        def tagged():
            return [at for at, (_, path) in enumerate(front.begun) if path.endswith("?tagging")]

        node.wait_until(lambda: len(tagged()) > 20)
        agent.send_signal(signal.SIGUSR1)
        assert agent.wait(timeout=90) == 75
        last = f"step-{node.last_step()}/.metadata"
        saved = max(at for at, (method, path) in enumerate(front.begun) if method == "PUT" and path.endswith(last))
        assert len(tagged()) < 1500
        # What a worker had begun when the notice came may reach the store after the last save.
        assert len([at for at in tagged() if at > saved]) <= WORKERS

    def test_s3_errors_do_not_affect_command(self, dcp_trainer, bucket, front):
        node = dcp_trainer(2, 0.5)
        hit = []
        front.rule = lambda method, path: 503 if method == "GET" and "list-type" in path and hit else None
        agent = node.start()
        node.wait_for("command-started")
        hit.append(1)
        node.wait_for("store-error")
        hit.clear()
        assert agent.wait(timeout=90) == 0
        assert node.steps("checkpoint-uploaded")[-1] == 2
