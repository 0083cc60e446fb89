"""Other causes that end an attempt or trigger a checkpoint: a date, advice, a watchdog, invalid data."""

import json
import os
import signal
import time
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta

import pytest

from launcher.sandbox.cluster.imds import MetadataService
from tests.emulators.loopback import QuietHandler, listening

TRAINER = """
import json, os, signal, sys, time
from pathlib import Path
stop = []
signal.signal(signal.SIGUSR1, lambda *_: stop.append(1))
interval, metrics = Path(os.environ["SLIPWAY_CHECKPOINT_INTERVAL_FILE"]), Path(os.environ["SLIPWAY_METRICS"])
folder, saved, write_s = Path(os.environ["SLIPWAY_CHECKPOINT_DIR"]), time.monotonic(), float(sys.argv[2])
for step in range(1, int(sys.argv[1]) + 1):
    time.sleep(0.1)
    if "quiet" not in sys.argv:
        with metrics.open("a") as file:
            file.write(json.dumps({"step": step, "loss": 1.0}) + "\\n")
    if stop or time.monotonic() - saved >= float(interval.read_text()):
        partial = folder / f"tmp-{step}"
        partial.mkdir()
        time.sleep(write_s)
        (partial / "data").write_text(str(step))
        partial.rename(folder / f"step-{step}")
        saved = time.monotonic()
        print("saved", step, flush=True)
    if stop:
        sys.exit(85)
if "hang" in sys.argv:
    time.sleep(600)
"""


def save_plan(node):
    return [int(line.split()[1]) for line in node.output() if line.startswith("saved")]


def metrics(node):
    path = node.folder / "shared" / "metrics.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]


def soon(seconds):
    return (datetime.now(UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


class TestCapacityEnd:
    def test_capacity_end_saves_checkpoint_and_exits_with_75(self, trainer_node, bucket):
        ends_at = soon(2702)
        trainer_node.job(600, 0, interval_s=600.0, ends_at=ends_at, drain=True)
        assert trainer_node.run() == 75
        (notice,) = trainer_node.events("notice")
        assert (notice["source"], notice["at"], notice["left_s"]) == ("capacity-end", ends_at, 900.0)
        assert trainer_node.events("drain-failed")  # there is no Slurm here
        assert trainer_node.events("interrupted")[0]["ended_by"] == "time-limit"
        assert bucket.whole() == save_plan(trainer_node)

    def test_capacity_end_too_near_prevents_start(self, trainer_node, bucket):
        trainer_node.job(600, 0, ends_at=soon(600))
        assert trainer_node.run() == 75
        assert not trainer_node.events("command-started")

    def test_planned_lead_time_before_capacity_end_is_used(self, trainer_node, bucket):
        trainer_node.job(10, 0, ends_at=soon(600), leave_before_s=300.0)
        assert trainer_node.run() == 0


class TestRebalance:
    def test_rebalance_writes_checkpoint_at_once_and_continues(self, trainer_node, bucket):
        service = MetadataService({"instance-id": "i-0123456789abcdef0"})
        trainer_node.environment["AWS_EC2_METADATA_SERVICE_ENDPOINT"] = service.endpoint
        trainer_node.job(600, 0, interval_s=600.0, imds=True)
        try:
            agent = trainer_node.start()
            trainer_node.wait_for("command-started")
            assert save_plan(trainer_node) == []
            service.recommend_rebalance()
            trainer_node.wait_for("checkpoint-uploaded")
            time.sleep(0.5)
            assert len(save_plan(trainer_node)) == 1  # once, and then as before
            assert agent.poll() is None
            assert len(trainer_node.events("rebalance-recommended")) == 1
            service.arm()
            assert agent.wait(timeout=60) == 75
        finally:
            service.stop()
        assert trainer_node.events("interrupted")[0]["ended_by"] == "spot-interruption"


class TestHungJob:
    def test_hung_job_is_ended_with_reason(self, trainer_node, bucket):
        trainer_node.job(5, 0, "hang", hung_minutes=0.03)
        assert trainer_node.run() == 124
        assert trainer_node.events("hung")[0]["step"] == 5
        assert trainer_node.events("failed")[0]["reason"] == "no new step for 0.03 minutes after step 5"
        assert [event["signal"] for event in trainer_node.events("signalled")] == ["SIGTERM"]

    def test_hung_start_detected_after_earlier_step_reports(self, trainer_node, bucket):
        trainer_node.job(3, 0)
        assert trainer_node.run() == 0
        trainer_node.job(command=("sleep", "600"), hung_minutes=0.03)
        assert trainer_node.run(attempt=2) == 124
        assert trainer_node.events("failed")[0]["reason"] == "no new step for 0.03 minutes after the start"

    def test_trainer_without_step_reports_is_not_hung(self, trainer_node, bucket):
        trainer_node.job(30, 0, "quiet", hung_minutes=0.02)
        assert trainer_node.run() == 0


class TestInterval:
    def test_checkpoint_interval_follows_measured_write_time(self, trainer_node, bucket):
        trainer_node.job(60, 0.6, interval_s=0.5, mtbf_s=7.5)
        assert trainer_node.run() == 0
        change = trainer_node.events("interval")[0]
        # sqrt(2 C M) less the checkpoint itself; what is measured is C to the length of a look, 0.25 s.
        assert 0.5 <= change["checkpoint_seconds"] <= 1.5
        assert 2.0 <= change["seconds"] <= 4.5
        root = trainer_node.folder / "node" / f"slipway-{os.getuid()}" / "tiny"
        assert float((root / "interval").read_text()) > 1.9

    def test_checkpoint_interval_unchanged_without_hazard(self, trainer_node, bucket):
        trainer_node.job(20, 0.2, interval_s=0.5)
        assert trainer_node.run() == 0
        assert not trainer_node.events("interval")

    def test_every_checkpoint_writes_costs_to_metrics(self, trainer_node, bucket):
        trainer_node.job(20, 0.5, interval_s=1.0)
        assert trainer_node.run() == 0
        costs = [line for line in metrics(trainer_node) if "checkpoint_step" in line]
        assert [line["checkpoint_step"] for line in costs] == trainer_node.steps("checkpoint-uploaded")
        assert all(0.25 <= line["checkpoint_seconds"] <= 2.0 for line in costs)
        assert all(line["checkpoint_bytes"] < 10 and line["upload_seconds"] >= 0 for line in costs)
        assert max(line["step"] for line in metrics(trainer_node) if "step" in line) == 20


class TestMetadata:
    """A metadata service that is absent, slow, without token or answers rubbish does not touch the job."""

    @pytest.fixture
    def serve(self):
        with ExitStack() as servers:

            def start(answer):
                class Handler(QuietHandler):
                    def do_PUT(self):
                        answer(self, "PUT")

                    def do_GET(self):
                        answer(self, "GET")

                return servers.enter_context(listening(Handler))

            yield start

    def run(self, node, endpoint, trouble):
        node.environment["AWS_EC2_METADATA_SERVICE_ENDPOINT"] = endpoint
        node.job(40, 0, imds=True, interval_s=0.5)
        assert node.run() == 0
        assert node.events("completed")
        errors = [event["error"] for event in node.events("metadata-error")]
        assert [text.partition(":")[0] for text in errors] == ([trouble] if trouble else [])

    def test_absent_metadata_service_is_reported_and_job_runs(self, trainer_node, bucket):
        self.run(trainer_node, "http://127.0.0.1:9", "the metadata service does not answer")

    def test_slow_metadata_service_is_reported_and_job_runs(self, trainer_node, bucket, serve):
        self.run(trainer_node, serve(lambda *_: time.sleep(10)), "the metadata service does not answer")

    def test_metadata_service_without_token_is_reported_and_job_runs(self, trainer_node, bucket, serve):
        self.run(trainer_node, serve(lambda handler, _: handler.reply(403, b"")), "no token")

    def test_invalid_metadata_answer_is_reported_and_job_runs(self, trainer_node, bucket, serve):
        endpoint = serve(lambda handler, _: handler.reply(200, b'\xff<html>{"action": "dance"}'))
        self.run(trainer_node, endpoint, "the metadata service returned an invalid notice")


def test_scheduler_signal_is_distinguished_from_spot_notice(trainer_node, bucket):
    trainer_node.job(600, 0, interval_s=600.0)
    agent = trainer_node.start()
    trainer_node.wait_for("command-started")
    time.sleep(0.5)
    agent.send_signal(signal.SIGUSR1)
    assert agent.wait(timeout=60) == 75
    assert trainer_node.events("interrupted")[0]["ended_by"] == "time-limit"
