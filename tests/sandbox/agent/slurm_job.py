"""A job on the nodes of a real Slurm: the rendered batch script, the agent and a synchronous training command."""

import contextlib
import json
import os
import shutil
import sys
import tempfile
import time
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from launcher import plan_file
from launcher.agent.build import build
from launcher.agent.manifest import parse
from launcher.catalog.load import load
from launcher.model.job import JobState
from launcher.planning.pin import pinned_plan
from launcher.rendering.batch import JobSettings
from launcher.rendering.bundle import render
from launcher.rendering.names import symbolic_names
from launcher.sandbox.cluster.imds import MetadataService
from launcher.sandbox.slurm.files import SlurmPlaces, node_environment, write_node_environment
from launcher.submit.jobs import SchedulerError
from tests.emulators.moto_server import KEYS
from tests.sandbox.agent.checkpoints import BUCKET, PREFIX
from tests.sandbox.agent.daemons import Slurm
from tests.sandbox.slurm_cluster import GROUP, SPEC
from tests.sandbox.slurm_jobs import SlurmJobs
from tests.waiting import until

MARK = "test-agent-slurm"
QUEUE = "p5-48xlarge"
MACHINES = replace(GROUP, queue=QUEUE, max_count=4)
NODES = MACHINES.node_names()
STEPS, HOLD = 60, 25
PLAN = """
slipway: 1
name: chain
workload: {{train: {{model: {{params_b: 0.001}}, hours: 1}}}}
target: {{region: us-east-2, instance_type: p5.48xlarge, nodes: {nodes}}}
purchase: {{option: on-demand}}
checkpoint: {{uri: "s3://{uri}", keep: 2, grace_seconds: {grace}}}
run: {run}
"""
TRAINER = """
import hashlib, os, signal, sys, time
from pathlib import Path
rank, ranks = os.environ["SLURM_NODEID"], range(int(os.environ["SLURM_JOB_NUM_NODES"]))
steps, hold = int(sys.argv[1]), int(sys.argv[2])
first_attempt = os.environ["SLIPWAY_ATTEMPT"] == "1"
stop = []
signal.signal(getattr(signal, sys.argv[3]), lambda *_: stop.append(1))
folder, resume = Path(os.environ["SLIPWAY_CHECKPOINT_DIR"]), os.environ["SLIPWAY_RESUME_DIR"]
meeting = Path("meeting", os.environ["SLIPWAY_ATTEMPT"])
meeting.mkdir(parents=True, exist_ok=True)
first, state = 0, rank
if resume:
    first = int(resume.rpartition("-")[2])
    state, known = Path(resume, f"shard-{rank}").read_text(), rank
    for step in range(1, first + 1):
        known = hashlib.sha256(f"{known} {step}".encode()).hexdigest()
    assert state == known, "torn"

def together(step):
    # Whether a rank was told to stop: a word of each, read by all.
    own = meeting / f"{step}-{rank}"
    own.with_suffix(".new").write_text("stop" if stop else "go")
    own.with_suffix(".new").rename(own)
    words = []
    for other in ranks:
        while not (meeting / f"{step}-{other}").exists():
            time.sleep(0.01)
        words.append((meeting / f"{step}-{other}").read_text())
    return "stop" in words

for step in range(first + 1, steps + 1):
    time.sleep(0.1)
    while step == hold and first_attempt and not stop:
        time.sleep(0.01)
    state = hashlib.sha256(f"{state} {step}".encode()).hexdigest()
    leaving = together(step)
    if leaving or step % 10 == 0 or step == steps:
        partial = folder / f"tmp-{step}"
        partial.mkdir()
        (partial / f"shard-{rank}").write_text(state)
        partial.rename(folder / f"step-{step}")
    if leaving:
        sys.exit(85)
print(f"rank {rank} ends with {state}", flush=True)
"""


def expect(rank):
    state = rank
    for step in range(1, STEPS + 1):
        state = sha256(f"{state} {step}".encode()).hexdigest()
    return state


class Cluster:
    """Four nodes, each with a metadata service of its own."""

    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="sla-", dir="/tmp"))  # leaves room for the paths of sockets
        spec = replace(SPEC, queues=(replace(SPEC.queues[0], name=QUEUE),), groups=(MACHINES,))
        self.services = {name: MetadataService({"instance-id": f"i-{name}"}) for name in NODES}
        self.places = SlurmPlaces(folder=self.folder, nodes=self.folder / "n")
        for name in NODES:
            scratch = self.folder / "n" / name / "scratch"
            scratch.mkdir(parents=True)
            endpoint = self.services[name].endpoint
            environment = node_environment(metadata=endpoint, scratch=str(scratch), life=f"{self.folder.name}-{name}")
            write_node_environment(self.places, name, environment)
        self.slurm = Slurm(self.places, spec, MARK)
        self.slurm.start()
        self.scheduler = SlurmJobs(self.places.configuration, self.places.attempts, MARK)

    def stop(self):
        self.slurm.stop()
        for service in self.services.values():
            service.stop()
        shutil.rmtree(self.folder)

    def take(self, name, job):
        """A node is gone with everything on it; another one of its name takes its place."""
        self.scheduler.node_lost(name)
        self.slurm.kill_node(name)
        self.slurm.declare_down(name, "lost")
        until(
            lambda: self.scheduler.state(job) is JobState.PENDING,
            lambda: self.slurm.run("scontrol", "show", "job", job),
        )
        self.renew(name)

    def renew(self, name):
        self.services[name].clear()
        scratch = self.folder / "n" / name / "scratch"
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir()
        self.slurm.start_node(name)


@pytest.fixture(scope="module")
def slurm_cluster():
    cluster = Cluster()
    yield cluster
    cluster.stop()


@pytest.fixture(scope="module")
def agent(tmp_path_factory):
    path = tmp_path_factory.mktemp("agent") / "slipway-agent.pyz"
    build(path)
    return path


class Job:
    """One submission and what it leaves."""

    def __init__(self, cluster, folder, endpoint, bucket):
        self.cluster, self.folder, self.bucket = cluster, folder, bucket
        self.environment = {"PATH": os.environ["PATH"], **KEYS, "AWS_ENDPOINT_URL": endpoint}
        self.environment |= {"SLIPWAY_PYTHON": sys.executable, "SLIPWAY_SANDBOX": "1"}
        self.id, self.nodes = None, 2

    def prepare(self, *, nodes=2, hold=0, grace=20, steps=STEPS, catches="SIGUSR1", **run):
        """Render the job of a plan, with the command that trains."""
        self.nodes = nodes
        text = PLAN.format(nodes=nodes, grace=grace, uri=f"{BUCKET}/{PREFIX}", run=json.dumps(run))
        plan = pinned_plan(plan_file.loads(text), load())
        settings = JobSettings(run="r1", checkpoint_interval_s=1.0, imds_poll_s=0.2)
        for file in render(plan, instances=load().instance_types, names=symbolic_names(plan), job=settings).files:
            if file.path.startswith("job."):
                (self.folder / file.path).write_text(file.text)
        spec = json.loads((self.folder / "job.json").read_text())
        spec["command"] = [sys.executable, "train.py", str(steps), str(hold), catches]
        (self.folder / "job.json").write_text(json.dumps(spec))

    def in_the_middle_of_a_step(self, **options):
        """Submit it and wait until every rank is in step HOLD and a checkpoint in the store; the names of its nodes."""
        self.prepare(hold=HOLD, **options)
        self.submit()
        last = f"{HOLD - 1}-"
        rendezvous = self.folder / "work" / "meeting" / "1"
        until(lambda: len(list(rendezvous.glob(f"{last}[0-9]"))) == self.nodes, self.describe)
        until(lambda: self.events("checkpoint-uploaded", attempt=1), self.describe)
        return self.cluster.scheduler.nodes(self.id)

    def submit(self):
        scheduler = self.cluster.scheduler
        self.id = scheduler.submit(self.folder / "job.sbatch", folder=self.folder, environment=self.environment)

    def state(self):
        return self.cluster.scheduler.state(self.id)

    def events(self, name, attempt=None, part=0):
        path = self.folder / ("events.jsonl" if part == 0 else f"events-part{part}.jsonl")
        documents = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        return [e for e in documents if e["event"] == name and attempt in (None, e["attempt"])]

    def back(self, attempt=2):
        """Put into the queue again, and let start without the wait that Slurm adds."""
        until(lambda: self.state() is JobState.PENDING, self.describe)

        again_at = 0.0

        def started():
            nonlocal again_at
            if self.events("attempt-started", attempt=attempt):
                return True
            # Not at every look, for every release puts the start off; and an early one may have had no effect.
            if time.monotonic() >= again_at:
                with contextlib.suppress(SchedulerError):  # the attempt before has not quite ended
                    self.cluster.scheduler.release(self.id)
                    again_at = time.monotonic() + 10
            return False

        until(started, self.describe)

    def goes_on_and_ends(self):
        """From the newest whole checkpoint of the first attempt, or from a newer one on the disks of all nodes."""
        self.back()
        self.ends_from_its_checkpoint()

    def ends_from_its_checkpoint(self):
        """The second attempt does: see goes_on_and_ends."""
        self.ends_as_if_nothing_had_been()
        commits = [key for key in self.bucket.all_keys() if key.endswith("/manifest.json")]
        manifests = [parse(self.bucket.read(key).decode()) for key in commits]
        whole = max(manifest.step for manifest in manifests if manifest.attempt == 1)
        assert self.events("restored", attempt=2)[0]["step"] >= whole > 0
        assert not self.events("attempt-started", attempt=3)

    def describe(self):
        """What Slurm and the job say, for a test that fails."""
        return "\n".join((self.cluster.slurm.run("scontrol", "show", "job", self.id), self.output()))

    def output(self):
        return "".join(path.read_text() for path in self.folder.glob("slurm-*.out"))

    def ends_as_if_nothing_had_been(self):
        until(lambda: self.state().final, self.describe)
        assert self.state() is JobState.COMPLETED, self.output()
        for rank in range(self.nodes):
            assert f"rank {rank} ends with {expect(str(rank))}" in self.output()


@pytest.fixture
def job(slurm_cluster, agent, tmp_path, endpoint, bucket):
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "train.py").write_text(TRAINER)
    shutil.copy(agent, tmp_path / "slipway-agent.pyz")
    prepared = Job(slurm_cluster, tmp_path, endpoint, bucket)
    prepared.prepare()
    yield prepared
    if prepared.id is not None and not prepared.state().final:
        slurm_cluster.scheduler.cancel(prepared.id)
        until(lambda: prepared.state().final)
