"""The agent as a process, with a real command, against S3 and metadata servers on loopback."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys

import pytest

from launcher.agent.job import CheckpointSpec, JobSpec
from launcher.agent.node.process import pids, proc_file
from launcher.agent.store.objects import Store
from launcher.aws.objects import Objects
from launcher.aws.session import Session
from tests.emulators.moto_server import KEYS
from tests.sandbox.agent.checkpoints import BUCKET, PREFIX, WRITE_MANIFESTS_ONCE, Checkpoints
from tests.sandbox.agent.children import ROOT, Nursery
from tests.sandbox.agent.front import Front
from tests.sandbox.agent.slurm_job import agent, job, slurm_cluster  # noqa: F401  fixtures
from tests.waiting import until

TRAINER = """
import hashlib, os, signal, sys, time
from pathlib import Path
steps, pause, size = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
stop = []
if "deaf" not in sys.argv:
    signal.signal(signal.SIGUSR1, lambda *_: stop.append(1))
else:
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
folder, resume = Path(os.environ["SLIPWAY_CHECKPOINT_DIR"]), os.environ["SLIPWAY_RESUME_DIR"]
content = lambda step: hashlib.shake_256(str(step).encode()).digest(size)
step = int(resume.rpartition("-")[2]) if resume else 0
if resume:
    assert Path(resume, "data").read_bytes() == content(step), "torn"
    assert Path(resume, "deep", "base").read_bytes() == content(0), "torn"
print(f"start {step} attempt {os.environ['SLIPWAY_ATTEMPT']}", flush=True)
while step < steps and not stop:
    time.sleep(pause)
    step += 1
    partial = folder / f"tmp-{step}"
    (partial / "deep").mkdir(parents=True)
    (partial / "data").write_bytes(content(step))
    (partial / "deep" / "base").write_bytes(content(0))
    partial.rename(folder / f"step-{step}")
    print(f"step {step}", flush=True)
if "crash" in sys.argv:
    (folder / "step-99").mkdir()
    (folder / "step-99" / "half").write_text("torn")
sys.exit(85 if stop else 3 if "crash" in sys.argv else 0)
"""


class Node:
    """Starts agents and looks at what they left."""

    def __init__(self, folder, endpoint, nursery):
        self.folder = folder
        self.place = folder
        """Where the nodes have their disks."""
        self.environment = {**os.environ, **KEYS, "AWS_ENDPOINT_URL": endpoint}
        self.nursery = nursery
        self.program = None
        """Words that start an agent in place of the nursery, for a test that asks for the program itself."""
        self.running = []
        self.parsed = {}
        """The content of files of events and the events in it: a test that waits reads a file fifty times a second."""
        (folder / "train.py").write_text(TRAINER)

    def job(self, *arguments, command=None, **changes):
        policy = {"uri": f"s3://{BUCKET}/{PREFIX}", "interval_s": 1.0, "keep": 2, "final_upload_s": 30.0}
        policy |= {name: changes.pop(name) for name in list(changes) if name in CheckpointSpec.__slots__}
        values = {
            "run": "r1",
            "name": "tiny",
            "command": command or (sys.executable, str(self.folder / "train.py"), *map(str, arguments)),
            "workdir": str(self.place),
            "checkpoint": CheckpointSpec(**policy),
            "scratch": str(self.place / "${NODE}"),
            "events": str(self.folder / "shared" / "events.jsonl"),
            "metrics": str(self.folder / "shared" / "metrics.jsonl"),
            "imds": False,
            "imds_poll_s": 0.05,
        }
        (self.folder / "job.json").write_text(JobSpec(**values | changes).to_json())

    def start(self, attempt=1, node="node", **environment):
        names = {"NODE": node, "SLIPWAY_ATTEMPT": str(attempt), **environment}
        arguments = ["run", "--config", str(self.folder / "job.json")]
        path = self.folder / f"{node}.log"
        if self.program is None:
            process = self.nursery.start(arguments, self.environment | names, path)
        else:
            with path.open("a") as log:
                process = subprocess.Popen(
                    [*self.program, *arguments], cwd=ROOT, env=self.environment | names, stdout=log, stderr=log
                )
        self.running.append(process)
        return process

    def run(self, attempt=1, **environment):
        return self.start(attempt, **environment).wait(timeout=90)

    def output(self, node="node"):
        lines = (self.folder / f"{node}.log").read_text().splitlines()
        return [line for line in lines if not line.startswith("[slipway]")]

    def events(self, name=None, attempt=None, part=0):
        path = self.folder / "shared" / (f"events-part{part}.jsonl" if part else "events.jsonl")
        text = path.read_bytes() if path.exists() else b""
        if text != self.parsed.get(path, (b"", []))[0]:
            # A full disk takes a piece of a line; what comes after it stands on its own.
            self.parsed[path] = text, [json.loads(line) for line in text.decode().splitlines() if line.endswith("}")]
        _, documents = self.parsed.get(path, (b"", []))
        return [e for e in documents if name in (None, e["event"]) and attempt in (None, e["attempt"])]

    def steps(self, name, attempt=None):
        return [event["step"] for event in self.events(name, attempt)]

    def restored(self, attempt):
        """The step that an attempt went on from; 0 for the very beginning."""
        return max(self.steps("restored", attempt), default=0)

    def last_step(self):
        """The newest checkpoint that the command says it wrote."""
        return max(int(line.removeprefix("step ")) for line in self.output() if line.startswith("step "))

    def wait_for(self, name, attempt=None, part=0):
        self.wait_until(lambda: self.events(name, attempt, part))
        return self.events(name, attempt, part)

    def wait_until(self, condition):
        until(condition, lambda: str(self.events()), 90)

    def lose(self, node="node"):
        """What is left of a node that was taken away: nothing, and nothing that runs."""
        self.end_commands()
        shutil.rmtree(self.place / node, ignore_errors=True)

    def end_commands(self):
        """The commands of killed agents, by what they were given: the numbers that were written down may be others'."""
        given = f"SLIPWAY_CHECKPOINT_DIR={self.folder}/".encode()
        for pid in pids():
            if given in proc_file(pid, "environ"):
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)


@pytest.fixture
def bucket(endpoint):
    checkpoints = Checkpoints(endpoint)
    checkpoints.client.create_bucket(Bucket=BUCKET)
    checkpoints.client.put_bucket_policy(Bucket=BUCKET, Policy=json.dumps({"Statement": [WRITE_MANIFESTS_ONCE]}))
    yield checkpoints
    checkpoints.remove()


@pytest.fixture(scope="session")
def nursery():
    starter = Nursery()
    yield starter
    starter.close()


@pytest.fixture
def node(tmp_path, endpoint, bucket, nursery):
    node = Node(tmp_path, endpoint, nursery)
    yield node
    for process in node.running:
        if process.poll() is None:
            process.kill()
            process.wait()
    node.end_commands()


@pytest.fixture
def trainer_node(node, request):
    """That node with the TRAINER of the test's module."""
    (node.folder / "train.py").write_text(request.module.TRAINER)
    return node


@pytest.fixture
def front(endpoint, node):
    """A front that the node's agents talk to S3 through."""
    with Front(endpoint) as front:
        node.environment["AWS_ENDPOINT_URL"] = front.endpoint
        yield front


@pytest.fixture
def store(bucket, endpoint, monkeypatch):
    for name, value in {**KEYS, "AWS_ENDPOINT_URL": endpoint}.items():
        monkeypatch.setenv(name, value)
    return Store(f"s3://{BUCKET}/{PREFIX}")


@pytest.fixture
def objects(bucket, endpoint):
    """The same store as the launcher reads it."""
    session = Session(environment={**os.environ, **KEYS, "AWS_ENDPOINT_URL": endpoint}, region="us-east-1")
    return Objects.at(session, f"s3://{BUCKET}/{PREFIX}")


@pytest.fixture
def front_store(endpoint, monkeypatch, bucket, store):
    with Front(endpoint) as front:
        monkeypatch.setenv("AWS_ENDPOINT_URL", front.endpoint)
        yield front, Store(f"s3://{BUCKET}/{PREFIX}")
