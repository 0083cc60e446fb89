"""Who is asked to save in a container, on every target: each rank once, and nothing beside or above it.

The agent is started as each target starts it: as the first process of a pod (`templates/kubernetes/start.py`), below
the entry script of a training job, and beside a container of Docker on plain instances and Slurm
(`templates/slurm/container.sh`). The container ends as the kubelet, SageMaker and a scheduler end one.
"""

import os
import re
import shlex
import shutil
import signal
import tarfile
from pathlib import Path

import pytest

from launcher.agent.node.process_table import process_of
from tests.emulators.moto_server import KEYS
from tests.plans import ROOT
from tests.sandbox.agent.checkpoints import BUCKET
from tests.sandbox.agent.containers import (
    PROGRAMS,
    PYTHON,
    Docker,
    Namespaces,
    as_json,
    docker,
    in_network,
    inside,
    make_image,
    pid_of,
)
from tests.sandbox.agent.front import Front

TRAINER = """
import os, signal, stat, sys, time
from pathlib import Path
caught, *words = sys.argv[1:]
asked, rank = [], os.environ.get("RANK", "0")
signal.signal(getattr(signal, caught), lambda *_: asked.append(1))
if "chip" in words:
    os.mknod("/dev/nvidia-uvm", 0o600 | stat.S_IFCHR, os.makedev(1, 3))
    chip = open("/dev/nvidia-uvm")
if "daemons" in words and os.environ["SLIPWAY_ATTEMPT"] == "1":
    import subprocess
    code = "import sys, time; file = open(sys.argv[1], 'w'); time.sleep(600)"
    for number, environment in enumerate((None, {})):
        path = Path(os.environ["SLIPWAY_CHECKPOINT_DIR"], f"daemon-{number}")
        daemon = subprocess.Popen([sys.executable, "-c", code, path], env=environment, start_new_session=True)
        while not path.exists():
            time.sleep(0.01)
        print(f"DAEMON {daemon.pid}", flush=True)
folder, resume = Path(os.environ["SLIPWAY_CHECKPOINT_DIR"]), os.environ["SLIPWAY_RESUME_DIR"]
step = int(resume.rpartition("-")[2]) if resume else 0
print(f"RANK {rank} is {os.getpid()} from {step}", flush=True)

def save():
    partial = folder / f"tmp-{step}"
    partial.mkdir()
    (partial / "data").write_text(f"step {step}")
    partial.rename(folder / f"step-{step}")

while not asked:
    step += 1
    time.sleep(0.05)
    busy = time.process_time() + ("chip" not in words) * 0.02
    while time.process_time() < busy:
        pass
    if rank == "0" and step % 20 == 5 and not asked:
        save()
if rank == "0" and not (folder / f"step-{step}").exists():
    save()
time.sleep(1.5)  # long enough for a second request
print(f"SAVED {step} by {os.getpid()} asked {len(asked)}", flush=True)
"""
LAUNCHER = """
import os, signal, subprocess, sys, time
number, *words = sys.argv[1:]
ranks = []
for rank in range(int(number)):
    names = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": number, "MASTER_ADDR": "127.0.0.1"}
    own = {**os.environ, **names} if int(number) > 1 else None
    ranks.append(subprocess.Popen([sys.executable, *words], start_new_session=own is not None, env=own))

def end(*_):
    print("LAUNCHER ASKED", flush=True)
    for rank in ranks:
        rank.kill()
    sys.exit(9)

for caught in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
    signal.signal(caught, end)
while any(rank.poll() is None for rank in ranks):
    time.sleep(0.05)
sys.exit(max(rank.returncode for rank in ranks))
"""
"""Catches the signals itself, and kills what it started: as torchrun its ranks, in sessions of their own, and as a
wrapper its only program."""
WRAPPER = "import subprocess, sys; sys.exit(subprocess.call([sys.executable, *sys.argv[1:]]))"
MONITOR = "(while :; do sleep 0.2; done) &"
SERVER = "{python} -m http.server 0 --bind 127.0.0.1 >/dev/null 2>&1 &"
BESIDE = f'{MONITOR} {SERVER} {{line}}; code=$?; kill -0 %1 && kill -0 %2 || echo "HELPER GONE"; kill %1 %2; exit $code'
CASES = ["alone", "beside", "wrapper", "chip", "ranks", "script"]
FEW = {"pod": ("beside", "chip", "ranks", "script"), "training job": ("wrapper", "ranks")}
"""In `make test`; the others at full size."""


def command_of(node, case):
    """The command of one case: where the trainer is, and what runs beside and above it."""
    for name, text in (("train.py", TRAINER), ("launcher.py", LAUNCHER)):
        (node.folder / name).write_text(text)
    script, launcher = str(node.folder / "train.py"), str(node.folder / "launcher.py")
    words = {
        "alone": [PYTHON, script, "SIGTERM"],
        "beside": [PYTHON, script, "SIGTERM"],
        "wrapper": [PYTHON, "-c", WRAPPER, script, "SIGUSR1"],
        "chip": [PYTHON, launcher, "1", script, "SIGTERM", "chip"],
        "ranks": [PYTHON, launcher, "2", script, "SIGTERM"],
        "script": [PYTHON, script, "SIGUSR1"],
        "daemons": [PYTHON, script, "SIGTERM", "daemons"],
    }[case]
    if case in {"beside", "ranks"}:
        return ("bash", "-c", BESIDE.format(python=shlex.quote(PYTHON), line=shlex.join(words)))
    if case == "script":
        (node.folder / "run.sh").write_text(f"#!/bin/bash\nset -e\n{shlex.join(words)}\necho done\n")
        return ("bash", str(node.folder / "run.sh"))
    return tuple(words)


@pytest.fixture(params=[Namespaces, Docker])
def container(node, endpoint, bucket, request):
    """A container that is not started yet; requests in it reach the test's S3."""
    container = request.param(node.folder)
    with in_network(container.network, lambda: Front(endpoint)) as front:
        node.environment = {**KEYS, "AWS_ENDPOINT_URL": front.endpoint, "AWS_EC2_METADATA_DISABLED": "true"}
        yield container
        container.close()
    for entry in bucket.client.list_objects_v2(Bucket=BUCKET, Prefix="runs/").get("Contents", ()):
        bucket.client.delete_object(Bucket=BUCKET, Key=entry["Key"])


def job_folder(node, agent, folder, case):
    """The folder that the launcher sends, without the command's files."""
    node.job(command=command_of(node, case), journal=f"s3://{BUCKET}/runs/r1", grace_s=20.0, scratch="/scratch")
    (folder / "kubernetes").mkdir(parents=True)
    for source, name in {
        node.folder / "job.json": "job.json",
        agent: "slipway-agent.pyz",
        ROOT / "templates" / "kubernetes" / "start.py": "kubernetes/start.py",
    }.items():
        shutil.copy(source, folder / name)
    (folder / "fetch_work.py").touch()


def start(node, container, agent, target, case):
    """Start the container of a target as its service does."""
    names = {"SLIPWAY_OPERATOR": "job", "SLIPWAY_RUN_KEY": "r1", "SLIPWAY_RETRIES": "2", "SLIPWAY_MEETING": "127.0.0.1"}
    names |= node.environment | {"NODE": "node"}
    mounts = {path: path for path in (*PROGRAMS, str(node.folder))}
    (node.folder / "scratch").mkdir()
    mounts[str(node.folder / "scratch")] = "/scratch"
    if target == "pod":
        job_folder(node, agent, node.folder / "slipway" / "job", case)
        mounts[str(node.folder / "slipway")] = "/slipway"
        names |= {"SLIPWAY_ROOT": "/slipway", "SLIPWAY_PARTS": "1", "JOB_COMPLETION_INDEX": "0"}
        names |= {"SLIPWAY_POD": "pod-1", "SLIPWAY_NODE": "node"}
        words = [PYTHON, "/slipway/job/kubernetes/start.py"]
    else:
        job, ml = node.folder / "job", node.folder / "ml"
        job_folder(node, agent, job, case)
        channel = ml / "input" / "data" / "slipway"
        hosts = {"current_host": "algo-1", "hosts": ["algo-1"], "network_interface_name": "lo"}
        as_json(hosts, ml / "input" / "config" / "resourceconfig.json")
        as_json(names | {"SLIPWAY_ROOT": "/scratch/slipway"}, channel / "environment.json")
        shutil.copy(ROOT / "templates" / "sagemaker" / "entry.py", channel)
        with tarfile.open(channel / "job.tar.gz", "w:gz") as packed:
            packed.add(job, ".")
        (ml / "output").mkdir()
        mounts[str(ml)] = "/opt/ml"
        names, words = {}, [PYTHON, "/opt/ml/input/data/slipway/entry.py"]
    with (node.folder / "node.log").open("a") as log:
        process = container.start(words, environment=names, mounts=mounts, log=log)
    until_stored(node, process)
    return process


def until_stored(node, process):
    """Wait for the first checkpoint of a running attempt."""
    node.wait_until(lambda: node.events("checkpoint-uploaded") or process.poll() is not None)
    assert process.poll() is None, node.output()


def check_asked(node, numbers):
    """Every rank was asked once, and nothing else; its last step is stored.

    Args:
        node: The node.
        numbers: The ids of processes in the container, by those that the agent sees.
    """
    log = "\n".join(node.output())
    ranks = set(map(int, re.findall(r"^RANK \d+ is (\d+)", log, re.MULTILINE)))
    saved = re.findall(r"^SAVED (\d+) by (\d+) asked (\d+)$", log, re.MULTILINE)
    assert {int(pid) for _, pid, _ in saved} == ranks, log
    assert {times for *_, times in saved} == {"1"}
    signalled = [pid for event in node.events("signalled") for pid in event["processes"]]
    assert sorted(numbers.get(pid, pid) for pid in signalled) == sorted(ranks), log
    assert "HELPER GONE" not in log
    assert "LAUNCHER ASKED" not in log
    assert node.steps("checkpoint-uploaded")[-1] in {int(step) for step, *_ in saved}


def at_full_size(target, case):
    return pytest.param(target, case, marks=[pytest.mark.slow] if case not in FEW[target] else [])


@pytest.mark.parametrize("target,case", [at_full_size(target, case) for target in FEW for case in CASES])
def test_container_that_ends_asks_each_rank_once(node, container, agent, target, case):
    process = start(node, container, agent, target, case)
    numbers = inside(container.first())
    container.stop()
    assert process.wait(timeout=90) == 75
    check_asked(node, {})
    assert not list(filter(process_of, numbers))
    assert [event["exit_code"] for event in node.events("interrupted")] == [75]


def test_killed_agent_of_training_job_is_started_again_without_its_leftovers(node, container, agent):
    """The container stays; in it the kernel ends no process of the attempt before."""
    process = start(node, container, agent, "training job", "daemons")
    outside = {number: pid for pid, number in inside(container.first()).items()}
    daemons = [outside[int(pid)] for pid in re.findall(r"^DAEMON (\d+)$", "\n".join(node.output()), re.MULTILINE)]
    assert len(daemons) == 2
    assert all(map(process_of, daemons))
    (command,) = node.events("command-started")
    os.kill(outside[parent_of(outside[command["pid"]], container)], signal.SIGKILL)
    node.wait_for("command-started", attempt=2)
    assert not list(filter(process_of, daemons))
    (ended,) = node.events("processes-ended", attempt=2)
    assert ended["count"] == 2
    assert node.restored(2) > 0
    container.stop()
    assert process.wait(timeout=90) == 75


def parent_of(pid, container):
    """The id in the container of a process's parent."""
    (parent,) = re.findall(r"^PPid:\s*(\d+)", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return inside(container.first())[int(parent)]


@pytest.mark.parametrize("case", CASES)
def test_agent_beside_docker_asks_each_rank_once(node, case):
    """As on plain instances and Slurm: the ranks are below Docker's daemon and its first process."""
    make_image(Docker.image, node.folder / "image")
    script = (ROOT / "templates" / "slurm" / "container.sh").read_text()
    node.job(command=("bash", "-c", script, "container", "docker", Docker.image, "0", *command_of(node, case)))
    scratch, mounts = node.folder / "node", ":".join(PROGRAMS)
    agent = node.start(SLIPWAY_FOLDER=str(node.folder), SLIPWAY_SCRATCH=str(scratch), SLIPWAY_MOUNTS=mounts)
    until_stored(node, agent)
    numbers = inside(pid_of(f"slipway-{os.getuid()}"))
    os.kill(agent.pid, signal.SIGUSR1)
    assert agent.wait(timeout=90) == 75
    check_asked(node, numbers)
    assert not list(filter(process_of, numbers))
    assert f"slipway-{os.getuid()}" not in docker("ps", "--format", "{{.Names}}").split()
