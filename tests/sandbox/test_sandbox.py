"""The sandbox as a whole: what runs in it, and that nothing of it is left."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from launcher.model.emulator import MARK
from launcher.model.job import JobState
from launcher.sandbox import processes
from launcher.sandbox.keeper import daemon_logs
from launcher.sandbox.sandbox import Sandbox
from tests.sandbox.slurm_cluster import deploy, script_in
from tests.sandbox.slurm_jobs import jobs_on
from tests.waiting import until

PATIENCE_S = 180
REGION = "us-east-1"
SCHEDULERS = ["local", pytest.param("slurm", marks=pytest.mark.slurm)]
STARTS_SERVERS = True
pytestmark = pytest.mark.xdist_group("sandbox")


WATCH = """
import json, os, sys, time, urllib.error, urllib.request
base = os.environ["AWS_EC2_METADATA_SERVICE_ENDPOINT"]
def ask(path, method="GET", **headers):
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    with urllib.request.urlopen(urllib.request.Request(base + path, method=method, headers=named)) as answer:
        return answer.read().decode()
token = ask("/latest/api/token", "PUT", X_aws_ec2_metadata_token_ttl_seconds="60")
print("instance", ask("/latest/meta-data/instance-id", X_aws_ec2_metadata_token=token), flush=True)
while len(sys.argv) > 1:
    try:
        notice = ask("/latest/meta-data/spot/instance-action", X_aws_ec2_metadata_token=token)
        print("notice", json.loads(notice)["action"])
        break
    except urllib.error.HTTPError:
        time.sleep(0.05)
"""


@pytest.fixture(scope="module", params=SCHEDULERS)
def sandbox_of(request):
    with Sandbox(region=REGION, scheduler=request.param) as started:
        deploy(started)
        yield started


def test_jobs_of_two_launches_use_different_ports(sandbox_of):
    assert len({sandbox_of.job_environment({})["SLIPWAY_SANDBOX_PORT"] for _ in range(5)}) > 1


class TestInterruption:
    def run(self, sandbox, folder, at_the_end, notice_s):
        """A job that waits for a notice in its first life; its scheduler, id and what it printed."""
        (folder / "watch.py").write_text(WATCH)
        script = script_in(
            folder,
            'echo "files $(ls $SLIPWAY_SCRATCH | wc -l)"; touch $SLIPWAY_SCRATCH/checkpoint\n'
            '[ -n "${SLURM_RESTART_COUNT-}" ] && rm $SLIPWAY_SCRATCH/checkpoint && '
            f'exec "$SLIPWAY_PYTHON" {folder}/watch.py\n'
            f'"$SLIPWAY_PYTHON" {folder}/watch.py wait\n{at_the_end}',
        )
        scheduler = jobs_on(sandbox, "demo")
        job = scheduler.submit(script, folder=folder, environment=sandbox.job_environment(os.environ))
        until(lambda: (folder / "out").exists() and "instance" in (folder / "out").read_text())
        (node,) = scheduler.nodes(job)
        if "exit" not in at_the_end:
            scheduler.node_lost(node)
        loss = sandbox.lose_node("demo", node, notice_s=notice_s)
        until(lambda: scheduler.state(job).final or scheduler.state(job) is JobState.PENDING)
        scheduler.release(job)
        until(lambda: scheduler.state(job).final)
        return scheduler, job, loss, (folder / "out").read_text()

    def test_noticed_job_leaving_in_time_resumes_on_new_node(self, sandbox_of, tmp_path):
        before = {node.instance_id: node.generation for node in sandbox_of.nodes("demo")}
        leave = "scontrol update nodename=$SLURMD_NODENAME state=drain reason=notice; exit 75"
        scheduler, job, loss, output = self.run(sandbox_of, tmp_path, leave, notice_s=PATIENCE_S)
        assert scheduler.state(job) is JobState.COMPLETED
        assert loss.drained
        assert loss.noticed_at < loss.lost_at < loss.replaced_at
        first, second = scheduler.attempts(job)
        assert (first.exit_code, first.node_lost, second.exit_code) == (75, False, 0)
        # The second life is on another instance, whose disk is empty and whose metadata service has no notice.
        assert re.findall(r"files (\d+)", output) == ["0", "0"]
        assert "notice terminate" in output
        old, new = re.findall(r"instance (\S+)", output)
        assert {old} == set(before)
        assert {node.instance_id: node.generation for node in sandbox_of.nodes("demo")} == {new: before[old] + 1}

    def test_noticed_job_staying_is_lost_with_node(self, sandbox_of, tmp_path):
        scheduler, job, loss, output = self.run(sandbox_of, tmp_path, "sleep 600", notice_s=1)
        assert scheduler.state(job) is JobState.COMPLETED
        assert not loss.drained
        first, second = scheduler.attempts(job)
        assert (first.node_lost, first.exit_code, second.exit_code) == (True, None, 0)
        assert re.findall(r"files (\d+)", output) == ["0", "0"]


def remains(description):
    """What is left of a sandbox: its processes, its folder, whoever listens on its port."""
    remaining = [f"process {pid}" for pid in description["pids"] if processes.is_running(pid)]
    remaining += [f"marked {pid}" for pid in processes.marked_processes(MARK, description["mark"])]
    remaining += [path for path in description["paths"] if os.path.lexists(path)]
    with socket.socket() as probe:
        if probe.connect_ex(("127.0.0.1", description["port"])) == 0:
            remaining.append(f"port {description['port']}")
    return remaining


OWNER = f"""
import json, os, sys, time
sys.path[:0] = [{str(Path(__file__).parent)!r}]
import test_sandbox as test
from launcher.sandbox.sandbox import Sandbox
from pathlib import Path

folder, scheduler = Path(sys.argv[1]), sys.argv[2]
with Sandbox(scheduler=scheduler) as sandbox:
    test.deploy(sandbox)
    script = test.script_in(folder, "trap '' TERM; setsid sleep 600 & echo ready; sleep 600; sleep 600")
    job = test.jobs_on(sandbox, "demo").submit(script, folder=folder, environment=sandbox.job_environment(os.environ))
    test.until(lambda: (folder / "out").exists() and "ready" in (folder / "out").read_text())
    print(json.dumps(test.describe(sandbox)), flush=True)
    if len(sys.argv) > 3:
        raise RuntimeError("something went wrong")
    time.sleep(600)
"""

STOPS = f"""
import signal, sys
sys.path[:0] = [{str(Path(__file__).parent)!r}]
import test_sandbox as test
from launcher.model.errors import AwsError
from launcher.sandbox.sandbox import Sandbox

handler = lambda: signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
first, second = Sandbox(scheduler="local"), Sandbox(scheduler="local")
first.__enter__(), second.__enter__()
description = test.describe(first)
first.stop()
print(test.remains(description), handler())
first.stop()
try:
    first.clusters()
except AwsError as problem:
    print(problem.message)
second.stop()
print(handler())
"""


def describe(sandbox):
    """What there is of a sandbox, for somebody who wants to see it gone."""
    server = sandbox._server
    pids = processes.with_descendants({server._server.pid, server._keeper.pid})
    # A slurmstepd is neither below the server nor marked.
    pids |= processes.marked_processes(MARK, sandbox._mark) | processes.holding(daemon_logs(server._paths))
    return {
        "pids": sorted(pids),
        "server": server._server.pid,
        "mark": sandbox._mark,
        "paths": [str(path) for path in server._paths],
        "port": int(sandbox.endpoint.rpartition(":")[2]),
    }


@pytest.fixture
def start_owner(tmp_path):
    """Starts a process with a sandbox in which a job runs; the process, and what there is of the sandbox."""
    started = []

    def go(scheduler, *arguments, environment=None, name="a"):
        folder = tmp_path / name
        folder.mkdir()
        owner = subprocess.Popen(
            [sys.executable, "-c", OWNER, str(folder), scheduler, *arguments],
            env={**os.environ, **(environment or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        started.append(owner)
        line = owner.stdout.readline()
        assert line, owner.stderr.read()
        return owner, json.loads(line)

    yield go
    for owner in started:
        if owner.poll() is None:
            owner.kill()
        owner.communicate()


class TestEnd:
    @pytest.mark.parametrize(
        "scheduler, number",
        [
            ("auto", signal.SIGTERM),
            pytest.param("local", signal.SIGKILL, marks=pytest.mark.slow),
            pytest.param("local", signal.SIGHUP, marks=pytest.mark.slow),
        ],
    )
    def test_signal_to_owner_leaves_no_processes_or_files(self, start_owner, tmp_path, scheduler, number):
        """In a deep temporary folder, which does not matter. SIGKILL under Slurm: TestTwo."""
        deep = tmp_path / ("a folder with blanks " * 4).strip() / ("deep" * 20)
        deep.mkdir(parents=True)
        owner, description = start_owner(scheduler, environment={"TMPDIR": str(deep)})
        assert len(description["pids"]) > 3
        assert any(path.startswith(str(deep)) for path in description["paths"])
        owner.send_signal(number)
        owner.wait(PATIENCE_S)
        until(lambda: not remains(description))

    def test_exception_in_owner_leaves_no_processes_or_files(self, start_owner):
        owner, description = start_owner("auto", "raise")
        _, errors = owner.communicate(timeout=PATIENCE_S)
        assert owner.returncode == 1
        assert "something went wrong" in errors
        assert remains(description) == []

    def test_ctrl_c_to_process_group_leaves_no_processes_or_files(self, start_owner):
        owner, description = start_owner("local")
        os.killpg(owner.pid, signal.SIGINT)
        owner.wait(PATIENCE_S)
        until(lambda: not remains(description))

    def test_second_stop_does_nothing_and_last_sandbox_restores_signal_handlers(self):
        done = subprocess.run([sys.executable, "-c", STOPS], capture_output=True, text=True, check=True)
        assert done.stdout.splitlines() == ["[] False", "the sandbox is not running", "True"]


class TestTwo:
    def test_two_sandboxes_share_no_resources_and_each_ends_with_its_owner_or_server(self, start_owner):
        first, one = start_owner("auto", name="one")
        _, other = start_owner("auto", name="other")
        assert one["port"] != other["port"]
        assert not set(one["pids"]) & set(other["pids"])
        assert not set(one["paths"]) & set(other["paths"])
        first.kill()
        first.wait()
        until(lambda: not remains(one))
        assert all(processes.is_running(pid) for pid in other["pids"])
        os.kill(other["server"], signal.SIGKILL)
        # Its owner has not noticed yet; the keeper has.
        until(lambda: [entry for entry in remains(other) if entry != f"process {other['server']}"] == [])
