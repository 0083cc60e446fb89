"""The agent as a process, with a real command, against an S3 server and a metadata service on loopback."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from hashlib import sha256
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import boto3
import pytest
from botocore.config import Config
from moto.server import ThreadedMotoServer

from launcher.agent.job import CheckpointSpec, JobSpec
from launcher.agent.manifest import parse
from launcher.agent.process import signal_group

ROOT = Path(__file__).resolve().parents[3]
KEYS = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_REGION": "us-east-1"}
BUCKET, PREFIX = "checkpoints", "a/run/"

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


class Checkpoints:
    """What stands in the bucket, seen without the agent's help."""

    def __init__(self, endpoint):
        self.client = boto3.client(
            "s3",
            endpoint_url=endpoint,
            region_name="us-east-1",
            aws_access_key_id="x",
            aws_secret_access_key="x",
            config=Config(s3={"addressing_style": "path"}),
        )

    def keys(self):
        """Every key, relative to the checkpoint URI."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET)
        return [entry["Key"].removeprefix(PREFIX) for page in pages for entry in page.get("Contents", ())]

    def read(self, key):
        return self.client.get_object(Bucket=BUCKET, Key=PREFIX + key)["Body"].read()

    def write(self, key, body):
        self.client.put_object(Bucket=BUCKET, Key=PREFIX + key, Body=body)

    def delete(self, key):
        self.client.delete_object(Bucket=BUCKET, Key=PREFIX + key)

    def manifest(self, step):
        return parse(self.read(f"step-{step}/manifest.json").decode())

    def whole(self):
        """Steps of which the manifest and every object are there, by their content."""
        steps = []
        for key in self.keys():
            if key.endswith("/manifest.json"):
                manifest = parse(self.read(key).decode())
                if all(sha256(self.read(file.key)).hexdigest() == file.sha256 for file in manifest.files):
                    steps.append(manifest.step)
        return sorted(steps)

    def supersede(self, key):
        tags = [{"Key": "slipway", "Value": "superseded"}]
        self.client.put_object_tagging(Bucket=BUCKET, Key=PREFIX + key, Tagging={"TagSet": tags})

    def expiring(self):
        """Keys that the lifecycle rule would expire."""
        tags = {k: self.client.get_object_tagging(Bucket=BUCKET, Key=PREFIX + k)["TagSet"] for k in self.keys()}
        return {key for key, tag in tags.items() if {"Key": "slipway", "Value": "superseded"} in tag}

    def staying(self):
        """Keys that it would leave."""
        return set(self.keys()) - self.expiring()


class Node:
    """Starts agents and looks at what they left."""

    def __init__(self, folder, endpoint):
        self.folder = folder
        self.environment = {**os.environ, **KEYS, "AWS_ENDPOINT_URL": endpoint}
        self.program = [sys.executable, "-m", "launcher.agent"]
        self.running = []
        (folder / "train.py").write_text(TRAINER)

    def job(self, *arguments, command=None, **changes):
        policy = {"uri": f"s3://{BUCKET}/{PREFIX}", "interval_s": 1.0, "keep": 2, "final_upload_s": 30.0}
        policy |= {name: changes.pop(name) for name in list(changes) if name in CheckpointSpec.__slots__}
        values = {
            "run": "r1",
            "name": "tiny",
            "command": command or (sys.executable, str(self.folder / "train.py"), *map(str, arguments)),
            "workdir": str(self.folder),
            "checkpoint": CheckpointSpec(**policy),
            "scratch": str(self.folder / "${NODE}"),
            "events": str(self.folder / "shared" / "events.jsonl"),
            "metrics": str(self.folder / "shared" / "metrics.jsonl"),
            "imds": False,
            "imds_poll_s": 0.05,
        }
        (self.folder / "job.json").write_text(JobSpec(**values | changes).to_json())

    def start(self, attempt=1, node="node", **environment):
        names = {"NODE": node, "SLIPWAY_ATTEMPT": str(attempt), **environment}
        with (self.folder / f"{node}.log").open("a") as log:
            process = subprocess.Popen(
                [*self.program, "run", "--config", str(self.folder / "job.json")],
                cwd=ROOT,
                env=self.environment | names,
                stdout=log,
                stderr=log,
            )
        self.running.append(process)
        return process

    def run(self, attempt=1, **environment):
        return self.start(attempt, **environment).wait(timeout=60)

    def output(self, node="node"):
        lines = (self.folder / f"{node}.log").read_text().splitlines()
        return [line for line in lines if not line.startswith("[slipway]")]

    def events(self, name=None, attempt=None):
        path = self.folder / "shared" / "events.jsonl"
        found = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        return [e for e in found if name in (None, e["event"]) and attempt in (None, e["attempt"])]

    def steps(self, name, attempt=None):
        return [event["step"] for event in self.events(name, attempt)]

    def last_step(self):
        """The newest checkpoint that the command says it wrote."""
        return max(int(line.removeprefix("step ")) for line in self.output() if line.startswith("step "))

    def wait_for(self, name, attempt=None):
        self.wait_until(lambda: self.events(name, attempt))
        return self.events(name, attempt)

    def wait_until(self, condition):
        patience = time.monotonic() + 30
        while not condition():
            assert time.monotonic() < patience, f"it did not happen within 30 s: {self.events()}"
            time.sleep(0.02)

    def lose(self, node="node"):
        """What is left of a node that was taken away: nothing, and nothing that runs."""
        for event in self.events("command-started"):
            signal_group(event["pid"], signal.SIGKILL)
        shutil.rmtree(self.folder / node, ignore_errors=True)


class Front(ThreadingHTTPServer):
    """Stands before the S3 server and can refuse a request, hold it before it gets there, or hold its answer.

    `rule(method, path)` says what happens to a request: None (nothing), a status to refuse it with, "before" or
    "after". `held` is set when one is held; it is let go when the front stops. `begun` has every request of which the
    first line came in.
    """

    daemon_threads = True

    def __init__(self, upstream):
        super().__init__(("127.0.0.1", 0), FrontHandler)
        self.upstream = urlsplit(upstream).netloc
        self.endpoint = f"http://127.0.0.1:{self.server_address[1]}"
        self.rule = lambda method, path: None
        self.begun = []
        self.held = threading.Event()
        self.over = threading.Event()

    def hold(self):
        self.held.set()
        self.over.wait(60)

    def forward(self, method, path, body, headers):
        connection = HTTPConnection(self.upstream, timeout=30)
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            return response.status, dict(response.getheaders()), response.read()
        finally:
            connection.close()

    def handle_error(self, request, client_address):
        """A killed agent breaks its connections; that is what is tested."""


class FrontHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def parse_request(self):
        """Every method is handled by the one below."""
        good = super().parse_request()
        self.method, self.command = self.command, "ANY"
        if good:
            self.server.begun.append((self.method, self.path))
        return good

    def do_ANY(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        action = self.server.rule(self.method, self.path)
        if isinstance(action, int):
            self.answer(action, {}, b"<Error><Code>SlowDown</Code></Error>")
            return
        if action == "before":
            self.server.hold()
        status, headers, content = self.server.forward(self.method, self.path, body, dict(self.headers))
        if action == "after":
            self.server.hold()
        self.answer(status, headers, content)

    def answer(self, status, headers, content):
        self.send_response(status)
        for name, value in headers.items():
            if name.lower() not in {"transfer-encoding", "connection", "date", "server", "content-length"}:
                self.send_header(name, value)
        self.send_header("Content-Length", headers.get("Content-Length", str(len(content))))
        self.end_headers()
        self.wfile.write(content)


@pytest.fixture(scope="session")
def endpoint():
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    yield "http://{}:{}".format(*server.get_host_and_port())
    server.stop()


@pytest.fixture
def bucket(endpoint):
    checkpoints = Checkpoints(endpoint)
    checkpoints.client.create_bucket(Bucket=BUCKET)
    yield checkpoints
    for key in [*checkpoints.keys()]:
        checkpoints.delete(key)
    checkpoints.client.delete_bucket(Bucket=BUCKET)


@pytest.fixture
def node(tmp_path, endpoint):
    node = Node(tmp_path, endpoint)
    yield node
    for process in node.running:
        if process.poll() is None:
            process.kill()
            process.wait()


@pytest.fixture
def front(endpoint, node):
    """A front that the node's agents talk to S3 through."""
    front = Front(endpoint)
    thread = threading.Thread(target=front.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    node.environment["AWS_ENDPOINT_URL"] = front.endpoint
    yield front
    front.over.set()
    front.shutdown()
    front.server_close()
    thread.join()
