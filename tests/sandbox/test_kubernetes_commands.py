"""Commands about jobs on an existing Kubernetes cluster, from several terminals, with disturbed jobs.

Each job ends with the checkpoint, bit for bit, of one that nothing disturbs.
"""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from launcher.aws import eks
from launcher.aws.session import Session
from launcher.sandbox import running_sandbox
from launcher.sandbox.sandbox import Sandbox
from tests.sandbox.clients import slipway

pytestmark = [pytest.mark.cdk, pytest.mark.server, pytest.mark.slow, pytest.mark.xdist_group("kubernetes-commands")]

STEPS, HOLD = 300, 100
PATIENCE_S = 240.0
TRAINER = """
import hashlib, os, pathlib, signal, sys, time
stop = []
signal.signal(signal.SIGUSR1, lambda *_: stop.append(1))
part, steps, go = os.environ["SLIPWAY_PART"], int(sys.argv[1]), pathlib.Path(sys.argv[2])
folder, resume = pathlib.Path(os.environ["SLIPWAY_CHECKPOINT_DIR"]), os.environ["SLIPWAY_RESUME_DIR"]
step, state = 0, b""
if resume:
    step, state = int(resume.rpartition("-")[2]), pathlib.Path(resume, "state").read_bytes()
print(f"begins at {step}", flush=True)
while step < steps:
    time.sleep(0.03)
    if step and step % 100 == 0 and not (stop or go.exists()):
        continue
    step += 1
    state = hashlib.sha256(state + f"{part} {step}".encode()).digest()
    if step % 20 == 0 or step == steps or stop:
        partial = folder / f"tmp-{step}"
        partial.mkdir(exist_ok=True)
        (partial / "state").write_bytes(state)
        partial.rename(folder / f"step-{step}")
    with open(os.environ["SLIPWAY_METRICS"], "a") as metrics:
        print('{"step": %d, "steps": %d}' % (step, steps), file=metrics)
    if stop:
        sys.exit(85)
print(f"ends with {state.hex()}", flush=True)
"""
"""Waits at every hundredth step until it may go on."""
TEAM = {"slipway": 1, "name": "team", "purchase": {"option": "on-demand"}, "network": {"api_cidrs": ["52.94.76.0/24"]}}
"""A cluster without a job."""
QUEUE = {"queue": "hyperpod-ns-research-localqueue", "priority": "training-priority"}
TARGETS = {
    "eks": {"kind": "eks", "region": "us-east-2"},
    "hyperpod-eks": {"kind": "hyperpod-eks", "region": "us-east-1", **QUEUE},
}
"""Where it is. On HyperPod its jobs wait in a team's queue, and an operator makes their pods."""


def run_undisturbed(part):
    """The state of a node's part in the last checkpoint of a run that nothing disturbs."""
    state = b""
    for step in range(1, STEPS + 1):
        state = hashlib.sha256(state + f"{part} {step}".encode()).digest()
    return state


def until(so):
    deadline = time.monotonic() + PATIENCE_S
    while not (value := so()):
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.1)
    return value


class Launch:
    """A `slipway launch` in a terminal of its own."""

    def __init__(self, plan, place):
        place.launches.append(self)
        self.stderr_file = place.root / f"{plan.stem}-{time.monotonic_ns()}.err"
        command = [sys.executable, "-m", "launcher", "launch", str(plan), "--sandbox", "--yes"]
        with self.stderr_file.open("wb") as log:
            options = {"cwd": place.root, "env": place.environment, "stdout": subprocess.DEVNULL, "stderr": log}
            self.process = subprocess.Popen(command, start_new_session=True, **options)

    def wait_for_message(self, text):
        """Wait until stderr contains a text."""
        until(lambda: text in self.stderr_file.read_text() or self.process.poll() is not None)
        assert text in self.stderr_file.read_text(), self.stderr_file.read_text()

    def ended(self):
        """Its exit code."""
        return self.process.wait(PATIENCE_S)


class Place:
    """A sandbox that stays with a cluster, and terminals there."""

    def __init__(self, kind, root, environment):
        self.kind, self.root, self.environment, self.launches = kind, root, environment, []
        self.target = {**TARGETS[kind], "instance_type": "p5.48xlarge", "nodes": 2}
        self.region = self.target["region"]
        self.sandbox = Sandbox.attach(running_sandbox.find(environment), region=self.region)
        self.work = root / "work"
        self.work.mkdir()
        (self.work / "train.py").write_text(TRAINER)
        self.cluster, self.name = self._plan({**TEAM, "target": self.target}), "slipway-team"
        self.terminal("deploy", str(self.cluster), "--sandbox", "--yes")

    def _plan(self, document):
        path = self.root / f"{document['name']}.json"
        path.write_text(json.dumps(document))
        return path

    def terminal(self, *arguments, code=0):
        """A command in another terminal."""
        done = slipway(*arguments, folder=self.root, environment=self.environment)
        assert done.returncode == code, (arguments, done.stdout, done.stderr)
        return done

    def json_of(self, *arguments):
        return json.loads(self.terminal(*arguments, "--json").stdout)

    def go(self, name):
        """What lets the trainer of a job go on."""
        return self.root / f"{name}-goes"

    def job(self, name, nodes):
        """The plan of a job for the cluster."""
        target = {**self.target, "nodes": nodes, "cluster": "team"}
        train = {"model": {"params_b": 0.0002}, "method": "pretrain", "hours": 0.5}
        plan = {
            "slipway": 1,
            "name": name,
            "workload": {"train": train},
            "target": target,
            "purchase": {"option": "on-demand"},
            "checkpoint": {"interval": 30, "keep": 3, "grace_seconds": 20},
            # A pod that somebody kills without grace leaves as one that has failed: these are counted.
            "run": {
                "command": ["python3", "train.py", str(STEPS), str(self.go(name))],
                "workdir": "work",
                "retries": 2,
            },
        }
        return self._plan(plan)

    def parts(self, name, nodes):
        """The state of every node's part of the newest checkpoint, brought here by `checkpoints restore`."""
        states = []
        for part in range(nodes):
            place = self.root / f"{name}-{part}"
            self.terminal("checkpoints", "restore", name, "--node", str(part), "-o", str(place), "--sandbox")
            states.append((place / f"step-{STEPS}" / "state").read_bytes())
        return states

    def pods(self, folder):
        """The client of the cluster's API, and the names and nodes of a job's pods that run."""
        import kubernetes

        session = Session(environment=self.sandbox.process_environment(dict(os.environ)), region=self.region)
        configuration = kubernetes.client.Configuration(host=eks.describe(session, self.name).endpoint)
        outputs = json.loads(next((self.root / ".slipway" / "runs").glob("*/*/outputs.json")).read_text())
        role = next(output["AccessRoleArn"] for output in outputs.values() if "AccessRoleArn" in output)
        configuration.api_key = {"authorization": f"Bearer {eks.token(eks.assume_role(session, role), self.name)}"}
        core = kubernetes.client.CoreV1Api(kubernetes.client.ApiClient(configuration))
        namespace, _, job = folder.partition("/")
        items = core.list_namespaced_pod(namespace, label_selector=f"slipway/job={job}").items
        return core, namespace, {pod.metadata.name: pod.spec.node_name for pod in items}


@pytest.fixture(scope="module", params=TARGETS)
def started_sandbox(request, tmp_path_factory):
    root = tmp_path_factory.mktemp("commands")
    environment = {**os.environ, "XDG_CACHE_HOME": str(root / "cache")}
    environment.pop("SLIPWAY_HYPERPOD_CHART", None)
    running_sandbox.start(environment, scheduler="local")
    try:
        place = Place(request.param, root, environment)
        yield place
        for launch in place.launches:
            launch.process.kill()
            launch.ended()
    finally:
        running_sandbox.stop(environment)


def test_job_is_followed_detached_cancelled_and_removed(started_sandbox):
    name = "walked"
    plan = started_sandbox.job(name, 1)
    first = Launch(plan, started_sandbox)
    first.wait_for_message(f"saved at step {HOLD}")
    first.process.send_signal(signal.SIGINT)
    assert first.ended() == 130, first.stderr_file.read_text()
    assert f"slipway status {name}" in first.stderr_file.read_text()

    state = started_sandbox.json_of("status", name)
    assert (state["status"], state["saved_step"]) == ("running", HOLD)
    assert "begins at 0" in started_sandbox.terminal("logs", name).stdout
    assert started_sandbox.json_of("report", name)["status"] == "running"
    assert {HOLD} <= {
        checkpoint["step"] for checkpoint in started_sandbox.json_of("checkpoints", "list", name)["checkpoints"]
    }
    started_sandbox.terminal("checkpoints", "verify", name)
    started_sandbox.terminal("cancel", name, "--yes")
    assert started_sandbox.json_of("status", name)["status"] == "cancelled"

    second = Launch(plan, started_sandbox)
    second.wait_for_message(f"saved at step {2 * HOLD}")
    # What had the launcher is taken away, and its job goes on without it.
    second.process.kill()
    second.ended()
    assert started_sandbox.json_of("status", name)["status"] == "running"
    follow = [sys.executable, "-m", "launcher", "logs", name, "-f"]
    options = {
        "cwd": started_sandbox.root,
        "env": started_sandbox.environment,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
    }
    with subprocess.Popen(follow, text=True, **options) as following:
        line = next(line for line in following.stdout if "begins at" in line)
        started_sandbox.go(name).touch()
        rest, err = following.communicate(timeout=PATIENCE_S)
    assert following.returncode == 0, err
    assert int(line.split()[-1]) >= HOLD
    assert f"ends with {run_undisturbed('0').hex()}" in rest
    assert started_sandbox.json_of("status", name)["status"] == "succeeded"
    report = started_sandbox.json_of("report", name)
    assert (report["status"], report["scheduler"]) == ("succeeded", "kubernetes")
    assert report["attempts"][-1]["last_step"] == STEPS
    assert started_sandbox.parts(name, 1) == [run_undisturbed("0")]
    assert "has ended already" in started_sandbox.terminal("cancel", name, "--yes").stderr
    assert (
        started_sandbox.json_of("status", name)["status"]
        == started_sandbox.json_of("report", name)["status"]
        == "succeeded"
    )

    removed = started_sandbox.json_of("down", str(plan), "--sandbox", "--yes")
    assert {resource["kind"] for resource in removed["kept"]} >= {"cluster", "namespace", "checkpoints"}
    assert {job["status"] for job in removed["jobs"]} == {"gone"}
    assert started_sandbox.name in started_sandbox.sandbox.clusters()


def _kill(place, folder):
    """A pod is killed without any grace."""
    core, namespace, pods = place.pods(folder)
    core.delete_namespaced_pod(min(pods), namespace, grace_period_seconds=0)


def _drain(place, folder):
    """A node is drained, taken away, and another comes in its place."""
    _, _, pods = place.pods(folder)
    place.sandbox.lose_node(place.name, pods[min(pods)])


def _lose_api(place, folder):
    """The API server goes away, a pod is lost meanwhile with its node, and it comes back."""
    _, _, pods = place.pods(folder)
    place.sandbox.answer(place.name, up=False)
    node = pods[max(pods)]
    place.sandbox.fail_node(place.name, node)
    place.sandbox.replace_node(place.name, node)
    time.sleep(3.0)
    place.sandbox.answer(place.name, up=True)


@pytest.mark.parametrize("disturb", [_kill, _drain, _lose_api], ids=lambda function: function.__name__.strip("_"))
def test_two_disturbed_pods_finish_with_undisturbed_result(started_sandbox, disturb):
    name = disturb.__name__.strip("_").replace("_", "-")
    launch = Launch(started_sandbox.job(name, 2), started_sandbox)
    launch.wait_for_message(f"saved at step {HOLD}")
    folder = json.loads((started_sandbox.root / ".slipway" / "runs" / name / "latest" / "submission.json").read_text())[
        "folder"
    ]
    disturb(started_sandbox, folder)
    launch.wait_for_message("resumes from step")
    started_sandbox.go(name).touch()
    assert launch.ended() == 0, launch.stderr_file.read_text()
    first, *_, last = started_sandbox.json_of("report", name)["attempts"]
    assert first["ended_by"] != "completed"
    assert (last["ended_by"], last["last_step"]) == ("completed", STEPS)
    assert last["resumed_from_step"] >= HOLD
    # A container that is started again in its pod finds what the one before has written there.
    written = (started_sandbox.root / ".slipway" / "runs" / name / "latest" / "events.jsonl").read_text().splitlines()
    of_agent = [line for line in written if json.loads(line).get("node")]
    assert len(of_agent) == len(set(of_agent)) > 0
    assert started_sandbox.parts(name, 2) == [run_undisturbed("0"), run_undisturbed("1")]
