"""Two agents of one job in pods: killed, drained and evicted, they resume from the same checkpoint, bit for bit."""

import hashlib
import json
import random
import re
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from launcher.agent.job import CheckpointSpec, JobSpec
from launcher.aws.objects import Objects
from launcher.aws.session import Session
from launcher.model.job import Submitted
from launcher.model.report import RunStatus
from launcher.records import run_folder
from launcher.submit.kubernetes.connection import ApiEndpoint, to_endpoint
from launcher.submit.kubernetes.jobs import KubernetesJobs
from launcher.workflow.run.follow import Follower
from launcher.workflow.run.submission_watch import Mirror, RemoteWatch
from tests.emulators.moto_server import KEYS, s3_client

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[3]
BUCKET = "pods"
TRAINER = """
import hashlib, os, signal, sys, time
from pathlib import Path
stop = []
signal.signal(signal.SIGUSR1, lambda *_: stop.append(1))
enough, hold = Path(__file__).with_name("enough"), Path(__file__).with_name("hold")
part, steps, every = os.environ["SLIPWAY_PART"], int(sys.argv[1]), int(sys.argv[2])
folder, resume = Path(os.environ["SLIPWAY_CHECKPOINT_DIR"]), os.environ["SLIPWAY_RESUME_DIR"]
step, state = 0, b""
if resume:
    step, state = int(resume.rpartition("-")[2]), Path(resume, "state").read_bytes()
    whole = b""
    for each in range(1, step + 1):
        whole = hashlib.sha256(whole + f"{part} {each}".encode()).digest()
    assert state == whole, "torn"
print(f"begins at {step}", flush=True)
while step < steps and not enough.exists():
    time.sleep(0.04)
    if step == steps - 1 and hold.exists():
        continue
    step += 1
    state = hashlib.sha256(state + f"{part} {step}".encode()).digest()
    if step % every == 0 or step == steps or stop:
        partial = folder / f"tmp-{step}"
        partial.mkdir(exist_ok=True)
        (partial / "state").write_bytes(state)
        partial.rename(folder / f"step-{step}")
    with open(os.environ["SLIPWAY_METRICS"], "a") as metrics:
        print('{"step": %d, "steps": %d}' % (step, steps), file=metrics)
    if stop:
        sys.exit(85)
print(f"ends with {state.hex()} at {step}", flush=True)
"""


def ends_with(part, steps):
    """What a run comes to that nothing disturbs."""
    state = b""
    for step in range(1, steps + 1):
        state = hashlib.sha256(state + f"{part} {step}".encode()).digest()
    return state.hex()


class Store:
    """What the pods left in S3."""

    def __init__(self, endpoint):
        self.client = s3_client(KEYS | {"AWS_ENDPOINT_URL": endpoint})
        self.client.create_bucket(Bucket=BUCKET)

    def file(self, name):
        """A file of the journal, put together."""
        objects = self.client.list_objects_v2(Bucket=BUCKET, Prefix=f"runs/r1/{name}/").get("Contents", ())
        keys = sorted(content["Key"] for content in objects)
        return b"".join(self.client.get_object(Bucket=BUCKET, Key=key)["Body"].read() for key in keys).decode()

    def whole(self):
        """The checkpoints that have a manifest."""
        objects = self.client.list_objects_v2(Bucket=BUCKET, Prefix="checkpoints/step-").get("Contents", ())
        return [content["Key"] for content in objects if content["Key"].endswith("/manifest.json")]

    def events(self, kind):
        return [event for event in map(json.loads, self.file("events.jsonl").splitlines()) if event["event"] == kind]

    def remove(self):
        while objects := self.client.list_objects_v2(Bucket=BUCKET).get("Contents"):
            keys = [{"Key": content["Key"]} for content in objects]
            self.client.delete_objects(Bucket=BUCKET, Delete={"Objects": keys})
        self.client.delete_bucket(Bucket=BUCKET)


@pytest.fixture
def pods_store(endpoint):
    store = Store(endpoint)
    yield store
    store.remove()


@pytest.fixture
def submit_pods(cluster, api_client, pod_job, endpoint, pods_store):
    """Submits the job: pods that meet through the store, with their files in a ConfigMap."""
    import kubernetes

    def submit(*, nodes=2, steps=160, every=10):
        spec = JobSpec(
            run="r1",
            name="tiny",
            command=(sys.executable, "${TRAIN}", str(steps), str(every)),
            workdir="${SLIPWAY_ROOT}",
            checkpoint=CheckpointSpec(uri=f"s3://{BUCKET}/checkpoints", interval_s=1.0, final_upload_s=30.0),
            scratch="${SLIPWAY_ROOT}/scratch",
            events="${SLIPWAY_ROOT}/events.jsonl",
            metrics="${SLIPWAY_ROOT}/metrics.jsonl",
            imds=False,
            journal=f"s3://{BUCKET}/runs/r1",
            grace_s=20.0,
        )
        text = spec.to_json().replace("${TRAIN}", str(cluster._folder / "train.py"))
        (cluster._folder / "train.py").write_text(TRAINER)
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "job"}, "data": {"job.json": text}}
        kubernetes.client.CoreV1Api(api_client).create_namespaced_config_map("default", body)
        document = pod_job("", nodes=nodes, grace_s=20)
        pod = document["spec"]["template"]["spec"]
        pod["volumes"].append({"name": "job", "configMap": {"name": "job"}})
        container = pod["containers"][0]
        script = (
            f'export SLIPWAY_PART=$JOB_COMPLETION_INDEX; exec {sys.executable} -m launcher.agent run --config "$JOB"'
        )
        container["command"] = ["/bin/sh", "-c", script]
        container["volumeMounts"].append({"name": "job", "mountPath": "/job"})
        values = {**KEYS, "AWS_ENDPOINT_URL": endpoint, "PYTHONPATH": str(ROOT), "JOB": "/job/job.json"}
        values |= {"SLIPWAY_ROOT": "/slipway", "SLIPWAY_PARTS": str(nodes), "AWS_EC2_METADATA_DISABLED": "true"}
        pod_name = {"name": "SLIPWAY_POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
        container["env"] = [pod_name, *({"name": name, "value": value} for name, value in values.items())]
        kubernetes.client.BatchV1Api(api_client).create_namespaced_job("default", document)

    return submit


@pytest.fixture
def job_conditions(kubernetes, api_client):
    def read_conditions():
        job_status = kubernetes.client.BatchV1Api(api_client).read_namespaced_job("train", "default").status
        return {condition.type: condition.message for condition in job_status.conditions or ()}

    return read_conditions


def _running(cluster):
    return [pod for pod in cluster.pods() if pod["status"].get("phase") == "Running"]


def _bit_for_bit(store, nodes, steps):
    logs = [store.file("log.txt"), *(store.file(f"log-part{part}.txt") for part in range(1, nodes))]
    for part, log in enumerate(logs):
        assert f"ends with {ends_with(part, steps)}" in log, log


@pytest.mark.slow
def test_two_pods_connect_train_and_store_files(cluster, submit_pods, pods_store, job_conditions, until):
    cluster.add_node("n1", allocatable={"nvidia.com/gpu": "1"})
    cluster.add_node("n2", allocatable={"nvidia.com/gpu": "1"})
    submit_pods(steps=20)
    until(lambda: "Complete" in job_conditions(), 60)
    _bit_for_bit(pods_store, 2, 20)
    assert [event["attempt"] for event in pods_store.events("attempt-started")] == [1]
    assert [
        record["step"] for record in map(json.loads, pods_store.file("metrics.jsonl").splitlines()) if "step" in record
    ][-1] == 20
    assert pods_store.file("log.txt").startswith("slipway: ")


SLOW = pytest.mark.slow


@pytest.mark.parametrize("disturb", ["drain", pytest.param("kill", marks=SLOW), pytest.param("take", marks=SLOW)])
def test_disturbed_job_finishes_bit_for_bit(cluster, submit_pods, pods_store, job_conditions, until, disturb):  # noqa: PLR0917
    for name in ("n1", "n2", "n3"):
        cluster.add_node(name, allocatable={"nvidia.com/gpu": "1"})
    submit_pods()
    until(pods_store.whole)
    pod = next(item for item in _running(cluster) if item["metadata"]["labels"]["job-name"] == "train")
    if disturb == "kill":
        cluster.api.evict("default", pod["metadata"]["name"], {"gracePeriodSeconds": 1})
    elif disturb == "drain":
        cluster.drain(pod["spec"]["nodeName"])
    else:
        cluster.take_node(pod["spec"]["nodeName"])
    until(job_conditions)
    assert "Complete" in job_conditions(), [
        job_conditions(),
        pods_store.file("log.txt"),
        pods_store.file("log-part1.txt"),
    ]
    _bit_for_bit(pods_store, 2, 160)
    restored = [event["step"] for event in pods_store.events("restored")]
    assert restored
    assert restored[0] > 0


@pytest.mark.parametrize("kills", [2, pytest.param(100, marks=SLOW)])
def test_pods_killed_at_random_restore_only_whole_checkpoints(  # noqa: PLR0917  the fixtures
    cluster, submit_pods, pods_store, job_conditions, until, kills
):
    """With notice, with too little, and with none; the trainer refuses what is not bit for bit what it was."""
    chance = random.Random(20261122)
    cluster.add_node("n0", allocatable={"nvidia.com/gpu": "1"})
    submit_pods(nodes=1, steps=10**6, every=5)
    for number in range(kills):
        pod = until(lambda: next(iter(_running(cluster)), None), 60)
        begun = len(pods_store.file("events.jsonl"))
        # Before it has begun, in the middle of a checkpoint, or long after one.
        time.sleep(chance.choice([0.2, 2.0, 4.0]) + chance.random())
        assert not job_conditions(), [job_conditions(), pods_store.file("log.txt")[-2000:]]
        kind = chance.choice(["take", "at once", "soon", "in time"])
        if kind == "take":
            cluster.take_node(pod["spec"]["nodeName"])
            cluster.add_node(f"n{number + 1}", allocatable={"nvidia.com/gpu": "1"})
        else:
            seconds = {"at once": 0, "soon": 1, "in time": 20}[kind]
            cluster.api.evict("default", pod["metadata"]["name"], {"gracePeriodSeconds": seconds})
        until(
            lambda pod=pod: pod["metadata"]["name"] not in {item["metadata"]["name"] for item in _running(cluster)}, 60
        )
        assert len(pods_store.file("events.jsonl")) >= begun
    (cluster._folder / "enough").touch()
    until(job_conditions)
    log = pods_store.file("log.txt")
    assert "Complete" in job_conditions(), [job_conditions(), log[-2000:]]
    assert "torn" not in log
    state, step = re.search(r"ends with (\w+) at (\d+)", log).groups()
    assert state == ends_with("0", int(step))


@pytest.fixture
def source(cluster, endpoint):
    """What a launcher asks: the API, and the journal of the job's pods."""
    session = Session(environment={**KEYS, "AWS_ENDPOINT_URL": endpoint}, region="us-east-1")
    token = cluster.tokens.own
    connection = to_endpoint(ApiEndpoint(name="c", address=cluster.server.address, authority=None, token=lambda: token))
    journal = Objects.at(session, f"s3://{BUCKET}/runs/r1")
    yield KubernetesJobs(connection=connection, namespace="default", kind="Job", pod_files=journal)
    connection.close()


def test_second_launcher_follows_job_after_server_outage(cluster, submit_pods, source, pods_store, tmp_path):
    """The first launcher is gone in the middle; the second one goes on with the copies of the first."""
    cluster.add_node("n1", allocatable={"nvidia.com/gpu": "1"})
    hold = cluster._folder / "hold"
    hold.touch()
    submit_pods(nodes=1, steps=100)
    job, messages = Submitted(job="train", key="r1", folder="default"), []
    mirror = Mirror(source=source, job=job, folder=tmp_path / "job")
    watch = RemoteWatch(mirror=mirror, poll_s=0.2, notify=messages.append)
    while not (tmp_path / "job" / "log.txt").is_file():
        assert not watch.ended()
        time.sleep(0.1)
    cluster.server.stop()
    time.sleep(0.3)
    assert not watch.ended()
    cluster.server.start()
    hold.unlink()
    folder = run_folder.create("tiny", datetime.now(UTC), tmp_path)
    follower = Follower(
        job=tmp_path / "job",
        folder=folder,
        log=tmp_path / "job" / "log.txt",
        on_event=lambda _: None,
        on_progress=lambda _: None,
        on_first_checkpoint=lambda: None,
    )
    again = RemoteWatch(mirror=mirror, poll_s=0.2, notify=messages.append)
    assert follower.follow(again.ended, tick=lambda: None) is RunStatus.SUCCEEDED
    assert (tmp_path / "job" / "log.txt").read_text() == pods_store.file("log.txt")
    assert (folder.logs / "attempt-1.log").read_text().startswith("slipway: job r1, attempt 1")
    assert (follower.step, follower.saved_step) == (100, 100)
    assert any("no answer" in message for message in messages)
