"""The examples' trainers as processes, alone and under the agent, against an S3 server on loopback."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from launcher.agent.job import CheckpointSpec, JobSpec
from launcher.agent.node.process import signal_group
from tests.emulators.moto_server import KEYS, moto_server, s3_client
from tests.plans import ROOT

BUCKET = "checkpoints"
URI = f"s3://{BUCKET}/run"
PATIENCE_S = 240
TORCHRUN = {
    "PET_NPROC_PER_NODE": "2",
    "PET_STANDALONE": "1",
    "PET_SIGNALS_TO_HANDLE": "SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIGUSR1",
    "PET_SHUTDOWN_TIMEOUT": "60",
    "OMP_NUM_THREADS": "1",
    "GLOO_SOCKET_IFNAME": "lo",
}
"""What the batch script tells torchrun, for one node with two workers."""


class Life:
    """One trainer in one folder: its attempts, and what they left."""

    def __init__(self, folder, *command, **environment):
        self.folder = folder
        self.metrics_file = folder / "metrics.jsonl"
        self.command = command
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("SLIPWAY_", "PET_"))}
        self.environment = inherited | {"PYTHONDONTWRITEBYTECODE": "1", **environment}
        self.attempt = 0
        self.running = []
        folder.mkdir(parents=True, exist_ok=True)

    def _start(self, arguments, **environment):
        self.attempt += 1
        with (self.folder / f"{self.attempt}.log").open("w") as log:
            process = subprocess.Popen(
                arguments, cwd=ROOT, env=self.environment | environment, stdout=log, stderr=log, start_new_session=True
            )
        self.running.append(process)
        return process

    def alone(self, *options, **environment):
        """Start the trainer itself."""
        return self._start([*self.command, *options], SLIPWAY_METRICS=str(self.metrics_file), **environment)

    def supervised(self, *options, mode):
        """Start the agent with it."""
        job = JobSpec(
            run="r1",
            name="example",
            command=(*self.command, *options),
            workdir=str(self.folder),
            checkpoint=CheckpointSpec(uri=URI, mode=mode, interval_s=3600.0, grace_seconds=60.0),
            scratch=str(self.folder / "scratch"),
            events=str(self.folder / "events.jsonl"),
            metrics=str(self.metrics_file),
            imds=False,
        )
        (self.folder / "job.json").write_text(job.to_json())
        command = [sys.executable, "-m", "launcher.agent", "run", "--config", str(self.folder / "job.json")]
        return self._start(command, SLIPWAY_ATTEMPT=str(self.attempt + 1))

    def output(self, attempt=0):
        return (self.folder / f"{attempt or self.attempt}.log").read_text()

    def metrics(self):
        """The trainer's lines; the agent has others, about checkpoints."""
        lines = self.metrics_file.read_text().splitlines() if self.metrics_file.exists() else []
        return [line for line in [json.loads(line) for line in lines if line.endswith("}")] if "loss" in line]

    def losses(self):
        """The loss of each step; of a step that was done twice the second, as the run went on from it."""
        return {line["step"]: line["loss"] for line in self.metrics()}

    def events(self, name):
        lines = (self.folder / "events.jsonl").read_text().splitlines()
        return [event for event in map(json.loads, lines) if event["event"] == name]

    def weights(self):
        """What the last attempt ended with."""
        return next(line for line in self.output().splitlines() if line.startswith("weights sha256 "))

    def wait_for_step(self, step):
        self.wait_until(lambda: any(line["step"] >= step for line in self.metrics()))

    def wait_until(self, condition):
        patience = time.monotonic() + PATIENCE_S
        while not condition():
            assert self.running[-1].poll() is None, self.output()
            assert time.monotonic() < patience, self.output()
            time.sleep(0.02)

    def kill(self):
        """End everything without a word, as a lost node does: what torchrun starts has sessions of its own."""
        process = self.running[-1]
        for pid in [process.pid, *descendants(process.pid)]:
            signal_group(pid, signal.SIGKILL)
        process.wait()


def descendants(pid):
    processes = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, task.read_text().split()):
            processes += [child, *descendants(child)]
    return processes


def code_of(process):
    return process.wait(timeout=PATIENCE_S)


@pytest.fixture(scope="module")
def start_trainer(tmp_path_factory):
    """Starts trainer processes; those still running at the end are killed."""
    lives = []

    def make(*command, **environment):
        lives.append(Life(tmp_path_factory.mktemp("life"), *command, **environment))
        return lives[-1]

    yield make
    for live in lives:
        if live.running and live.running[-1].poll() is None:
            live.kill()


@pytest.fixture
def s3_server():
    """An S3 server with one empty bucket: the environment that leads there, and a client."""
    with moto_server() as endpoint:
        environment = KEYS | {"AWS_ENDPOINT_URL": endpoint}
        client = s3_client(environment)
        client.create_bucket(Bucket=BUCKET)

        def keys():
            answer = client.list_objects_v2(Bucket=BUCKET, Prefix="run/")
            return sorted(entry["Key"].removeprefix("run/") for entry in answer.get("Contents", ()))

        yield environment, keys
        for entry in client.list_objects_v2(Bucket=BUCKET).get("Contents", ()):
            client.delete_object(Bucket=BUCKET, Key=entry["Key"])
        client.delete_bucket(Bucket=BUCKET)


@pytest.fixture
def s3torchconnector():
    if importlib.util.find_spec("s3torchconnector") is None:
        pytest.skip("not installed: s3torchconnector (make setup-torch)")
