"""Consecutive attempts: completed, interrupted, failed."""

import os
import signal
import sys

import pytest

from launcher.agent.build import build
from launcher.agent.node.process import group_lives
from launcher.sandbox.cluster.imds import MetadataService


class TestCompleted:
    def test_every_checkpoint_is_stored_and_newest_are_kept(self, node, bucket):
        node.job(5, 0.3, 1000)
        assert node.run() == 0
        uploaded = node.steps("checkpoint-uploaded")
        assert (uploaded, uploaded[-1]) == (sorted(uploaded), 5)
        assert node.events()[-1]["event"] == "completed"
        assert (node.folder / "shared" / "checkpoints-are-marked-r1").exists()  # no later attempt need guess
        newest = uploaded[-2:]
        assert bucket.retained_keys() == {
            *(f"step-{step}/manifest.json" for step in newest),
            *(file.key for step in newest for file in bucket.manifest(step).files),
        }
        assert {f"step-{step}/manifest.json" for step in uploaded[:-2]} <= bucket.expiring()

    def test_unchanged_files_are_uploaded_once(self, node, bucket):
        node.job(3, 0.3, 1000)
        assert node.run() == 0
        sent = [event["sent_bytes"] for event in node.events("checkpoint-uploaded")]
        assert sent == [2000, *[1000] * (len(sent) - 1)]
        assert len(sent) > 1
        steps = node.steps("checkpoint-uploaded")[-2:]
        bases = {file.key for step in steps for file in bucket.manifest(step).files if file.path == "deep/base"}
        assert len(bases) == 1
        assert bases <= bucket.retained_keys()

    def test_command_has_documented_environment(self, node, bucket):
        interval = ["CHECKPOINT_INTERVAL_S", "CHECKPOINT_INTERVAL_FILE"]
        names = ["RUN", "ATTEMPT", "CHECKPOINT_DIR", "RESUME_DIR", "RESUME_FILE", *interval, "METRICS"]
        script = "\n".join(f'echo "{name}=$SLIPWAY_{name}"' for name in names)
        script += '\ncat "$SLIPWAY_CHECKPOINT_INTERVAL_FILE"; echo "$PLAN $SLURM_JOB_NAME"; pwd'
        node.job(command=("sh", "-c", script), env={"PLAN": "a b"}, interval_s=12.5)
        assert node.run(attempt=3, SLURM_JOB_NAME="gpt") == 0
        root = node.folder / "node" / f"slipway-{os.getuid()}" / "tiny"
        assert node.output() == [
            "RUN=r1",
            "ATTEMPT=3",
            f"CHECKPOINT_DIR={root / 'checkpoints'}",
            "RESUME_DIR=",
            "RESUME_FILE=",
            "CHECKPOINT_INTERVAL_S=12.5",
            f"CHECKPOINT_INTERVAL_FILE={root / 'interval'}",
            f"METRICS={node.folder / 'shared' / 'metrics.jsonl'}",
            "12.5",
            "a b interactive",
            str(node.folder),
        ]

    def test_agent_runs_from_single_file(self, node, bucket):
        build(node.folder / "slipway-agent")
        node.program = [sys.executable, "-S", "-s", str(node.folder / "slipway-agent")]
        node.job(2, 0.1, 10)
        assert node.run() == 0
        node.lose()
        assert node.run(attempt=2) == 0
        assert node.output()[-1] == "start 2 attempt 2"

    def test_job_without_checkpoints_makes_no_store_requests(self, node):
        node.job(2, 0, 10, mode="none", uri=None)
        node.environment["AWS_ENDPOINT_URL"] = "http://127.0.0.1:9"
        assert node.run() == 0
        assert [event["event"] for event in node.events()] == [
            "attempt-started",
            "command-started",
            "command-ended",
            "completed",
        ]


class TestInterrupted:
    def test_spot_notice_saves_checkpoint_and_other_node_resumes(self, node, bucket):
        service = MetadataService({"instance-id": "i-0123456789abcdef0"})
        node.environment["AWS_EC2_METADATA_SERVICE_ENDPOINT"] = service.endpoint
        node.job(60, 0.1, 1000, imds=True, drain=True)
        try:
            agent = node.start()
            node.wait_for("checkpoint-uploaded")
            at = service.arm()
            assert agent.wait(timeout=60) == 75
        finally:
            service.stop()
        ending = [event["event"] for event in node.events()]
        assert (
            ending.index("notice") < ending.index("drain-failed") < ending.index("signalled")
        )  # there is no Slurm here
        (notice,) = node.events("notice")
        assert (notice["source"], notice["detail"], notice["at"]) == ("spot", "terminate", at)
        last = node.last_step()
        node.lose()
        node.job(last + 2, 0, 1000)
        assert node.run(attempt=2) == 0
        assert node.output()[-3:] == [f"start {last} attempt 2", f"step {last + 1}", f"step {last + 2}"]
        (restored,) = node.events("restored")
        assert (restored["step"], restored["attempt"], restored["bytes"]) == (last, 2, 2000)
        assert node.events("interrupted")[0]["ended_by"] == "spot-interruption"

    def test_spot_notice_before_command_ends_agent(self, node, bucket):
        service = MetadataService({"instance-id": "i-0123456789abcdef0"})
        node.environment["AWS_EC2_METADATA_SERVICE_ENDPOINT"] = service.endpoint
        node.job(3, 0, 10, imds=True, drain=True, uri="s3://bucket-of-nobody/x")
        node.environment["AWS_ENDPOINT_URL"] = "http://127.0.0.1:9"  # nobody answers: it waits, and hears the notice
        try:
            agent = node.start()
            node.wait_for("restore-retry")
            service.arm()
            assert agent.wait(timeout=60) == 75
        finally:
            service.stop()
        assert [event["event"] for event in node.events()][-3:] == ["notice", "drain-failed", "interrupted"]
        assert node.output() == []

    def test_scheduler_signal_saves_checkpoint_and_exits_with_75(self, node, bucket):
        node.job(60, 0.1, 10)
        agent = node.start()
        node.wait_for("checkpoint-uploaded")
        agent.send_signal(signal.SIGUSR1)
        assert agent.wait(timeout=60) == 75
        assert not node.events("drained") + node.events("drain-failed")

    def test_command_ignoring_signal_is_terminated(self, node, bucket):
        node.job(100, 0.1, 10, "deaf", grace_seconds=0.3)
        agent = node.start()
        node.wait_for("checkpoint-uploaded")
        agent.send_signal(signal.SIGUSR1)
        assert agent.wait(timeout=60) == 75
        assert [event["signal"] for event in node.events("signalled")] == ["SIGTERM"]
        assert node.events("command-ended")[0]["code"] == 143

    def test_last_upload_after_notice_has_no_rate_limit(self, node, bucket, front):
        node.job(60, 0.2, 8_000_000, max_mb_s=0.5)
        agent = node.start()
        node.wait_until(lambda: any(method == "PUT" and path.endswith("/data") for method, path in front.begun))
        agent.send_signal(signal.SIGUSR1)
        assert agent.wait(timeout=60) == 75
        assert [event["reason"] for event in node.events("upload-restarted")] == ["a notice is pending"]
        assert node.steps("checkpoint-uploaded")[-1] == node.last_step()

    def test_cancelled_job_exits_with_143_and_stores_last_checkpoint(self, node, bucket):
        node.job(60, 0.1, 10)
        agent = node.start()
        node.wait_for("checkpoint-uploaded")
        agent.terminate()
        assert agent.wait(timeout=60) == 143
        assert [(event["event"], event["ended_by"]) for event in node.events()[-1:]] == [("cancelled", "cancel")]
        assert bucket.manifest(node.last_step())


class TestFailed:
    def test_crashed_command_exit_code_follows_stored_checkpoints(self, node, bucket):
        node.job(2, 0, 10, "crash")
        assert node.run() == 3
        assert node.events("checkpoint-uploaded")[-1]["step"] == 2
        assert node.events()[-1]["ended_by"] == "failure"
        (torn,) = [event for event in node.events("checkpoint-dropped") if "folder" in event]
        assert torn["folder"] == "step-99"
        assert not [key for key in bucket.retained_keys() if key.startswith("step-99")]

    @pytest.mark.parametrize(
        "command,code",
        [
            (("sh", "-c", "exit 75"), 1),
            (("sh", "-c", "kill -9 $$"), 137),
            (("/nowhere/program",), 127),
            (("/etc/passwd",), 126),
        ],
        ids=str,
    )
    def test_exit_code_of_command_is_mapped(self, node, bucket, command, code):
        node.job(command=command)
        assert node.run() == code
        assert (node.events()[-1]["event"], node.events()[-1]["exit_code"]) == ("failed", code)

    def test_unreadable_store_stops_start(self, node, bucket):
        node.job(2, 0, 10, uri="s3://no-such-bucket/a")
        assert node.run() == 74
        assert node.output() == []
        assert "would lose its checkpoints" in node.events("failed")[0]["reason"]

    def test_processes_of_killed_agent_are_ended(self, node, bucket):
        trainer = f"{sys.executable} {node.folder}/train.py 600 0.1 10"
        node.job(command=("sh", "-c", f"{trainer} & wait"))  # the kernel ends the shell, and nobody the trainer
        first = node.start()
        (started,) = node.wait_for("command-started")
        node.wait_for("checkpoint-uploaded")
        first.kill()
        first.wait()
        assert group_lives(started["pid"])
        node.job(1, 0, 10)
        assert node.run(attempt=2) == 0
        assert not group_lives(started["pid"])


def test_two_failures_without_newer_checkpoint_end_retries(node):
    given_up = node.folder / "shared" / "not-tried-again"
    for attempt, steps in ((1, 2), (2, 4), (3, 4)):
        assert not given_up.exists()
        node.job(steps, 0.2, 1000, "crash")
        assert node.run(attempt=attempt) == 3
    assert "without a newer checkpoint" in given_up.read_text()
    assert [event["attempt"] for event in node.events("not-tried-again")] == [3]
