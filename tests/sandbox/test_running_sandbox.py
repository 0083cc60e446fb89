"""A persistent sandbox: one command starts it, others use it, another ends it, and nothing remains."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from launcher import emulation
from launcher.model.emulator import MARK
from launcher.model.enums import TargetKind
from launcher.model.errors import ImpossibleError
from launcher.model.job import JobState
from launcher.model.report import Report, RunStatus
from launcher.records import run_folder
from launcher.records.cache_folder import cache_folder
from launcher.records.command_record import recorded_command
from launcher.records.report_document import report_document
from launcher.records.submission import SANDBOX, HeadNode, Submission
from launcher.sandbox import processes, running_sandbox
from launcher.sandbox.sandbox import Sandbox
from launcher.submit.jobs import SchedulerEndedError
from launcher.workflow.cluster.reach import removal_of
from launcher.workflow.cluster.run_environment import SandboxOutOfReachError, sandbox_of
from launcher.workflow.deploy.context import DeployOptions
from launcher.workflow.deploy.in_sandbox import context_in
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import price
from tests.documents import read_document
from tests.sandbox.clients import client, slipway
from tests.sandbox.slurm_cluster import deploy, script_in
from tests.sandbox.slurm_jobs import jobs_on
from tests.waiting import until

EXAMPLE = Path(__file__).parents[2] / "examples" / "tiny-gpt.yaml"
PATIENCE_S = 120.0
DEPLOYED = Report(
    name="tiny",
    status=RunStatus.INTERRUPTED,
    scheduler="slurm",
    simulated=True,
    attempts=(),
    quoted_usd=Decimal(9),
    quoted_hours=1.0,
    prices_as_of=None,
    usd_per_hour=Decimal(9),
    stacks=(("slipway-tiny-training", "CREATE_COMPLETE"), ("slipway-tiny-checkpoints", "CREATE_COMPLETE")),
    verified_resources=(),
    not_emulated=(),
    left_up_usd_per_hour=Decimal("0.29"),
)

STARTS_SERVERS = True
pytestmark = [pytest.mark.server]


@pytest.fixture
def own_environment(tmp_path, monkeypatch):
    """The environment of somebody whose files are below the test's folder; what they started ends with the test."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    yield dict(os.environ)
    running_sandbox.stop(os.environ)


@pytest.fixture
def run_in(slipway, monkeypatch, own_environment):
    """Runs a command in this process, in a folder, in that environment."""

    def run(folder, *words):
        with monkeypatch.context() as patch:
            patch.chdir(folder)
            return slipway(*words)

    return run


def left_of(place_of_sandbox):
    """What there still is of a sandbox."""
    pids = [pid for pid in (place_of_sandbox.pid,) if processes.is_running(pid)]
    return [
        *pids,
        *processes.marked_processes(MARK, place_of_sandbox.mark),
        *(p for p in [place_of_sandbox.folder] if Path(p).exists()),
    ]


def test_sandbox_stays_between_commands_and_leaves_no_remains(own_environment, tmp_path):
    started = running_sandbox.start(own_environment, scheduler="local")
    first = Sandbox.attach(started, region="us-east-1")
    deploy(first)
    script = script_in(tmp_path, "echo ready; sleep 600")
    job = jobs_on(first, "demo").submit(script, folder=tmp_path, environment=first.job_environment(own_environment))
    with first:
        """A block ends, and the sandbox does not."""
    until(lambda: jobs_on(first, "demo").state(job) is JobState.RUNNING)

    # Another process, as another terminal is.
    document = read_document(
        slipway("sandbox", "status", "--json", folder=tmp_path, environment=own_environment).stdout
    )
    assert document["schema"] == "slipway.sandbox/1"
    assert [cluster["name"] for cluster in document["clusters"]] == ["demo"]
    assert [job["state"] for job in document["clusters"][0]["jobs"]] == ["RUNNING"]
    assert document["endpoint"] == first.endpoint

    with pytest.raises(ImpossibleError, match="is already running"):
        running_sandbox.start(own_environment)
    assert left_of(started)

    # Somebody who asks it by its address as if it were AWS: its prices are kept apart, and go with it.
    by_address = own_environment | {"AWS_ENDPOINT_URL": first.endpoint}
    prices = cache_folder(by_address)
    prices.mkdir(parents=True)
    (prices / "sources.csv").touch()
    assert prices != cache_folder(own_environment)
    unasked = slipway("sandbox", "stop", folder=tmp_path, environment=by_address)
    assert (unasked.returncode, "job.sh on demo" in unasked.stderr) == (2, True), unasked.stderr
    assert left_of(started)
    ended = slipway("sandbox", "stop", "--yes", folder=tmp_path, environment=by_address)
    assert ended.returncode == 0, ended.stderr
    assert left_of(started) == []
    assert not running_sandbox.folder_of(own_environment).exists()
    assert not prices.exists()
    assert slipway("sandbox", "stop", folder=tmp_path, environment=own_environment).returncode == 5


def test_down_finds_sandbox_stacks_by_newest_run(own_environment, tmp_path, run_in):
    """As `status` does; from another folder by what stands there."""
    attached = Sandbox.attach(running_sandbox.start(own_environment, scheduler="local"), region="us-east-2")
    template = {"Resources": {"Topic": {"Type": "AWS::SNS::Topic"}}}
    client(attached, "cloudformation").create_stack(
        StackName="slipway-tiny-training", TemplateBody=json.dumps(template)
    )
    folder = run_folder.create("tiny", datetime(2026, 11, 20, 12, tzinfo=UTC), tmp_path)
    with recorded_command(folder, "deploy", sandbox=True, done="deployed"):
        folder.write_json("plan.json", {"slipway": 1, "name": "tiny", "target": {"region": "us-east-2"}})
        folder.write_json("report.json", report_document(DEPLOYED))
    other = tmp_path / "other"
    other.mkdir()
    assert "While it stays up" in run_in(tmp_path, "report", "tiny").out
    dry_run = run_in(other, "down", "tiny", "--sandbox", "--dry-run", "--json")
    assert dry_run.code == 0, dry_run.err
    assert json.loads(dry_run.out)["region"] == "us-east-2"
    ended = run_in(tmp_path, "down", "tiny", "--yes")
    assert ended.code == 0, ended.err
    assert attached.stacks() == ()
    out = run_in(tmp_path, "report", "tiny").out
    assert "slipway-tiny-training  DELETE_COMPLETE" in out
    assert "While it stays up" not in out


def record_launch(root):
    """A killed launch in a sandbox of a plan named tiny, before it submitted a job."""
    folder = run_folder.create("tiny", datetime(2026, 11, 20, 12, tzinfo=UTC), root)
    folder.write_json("command.json", {"command": "launch --sandbox", "pid": 0, "ended": None})
    folder.write_json("plan.json", {"slipway": 1, "name": "tiny", "target": {"region": "us-east-2"}})
    folder.write_json("report.json", report_document(replace(DEPLOYED, status=RunStatus.RUNNING, stacks=())))


def test_deployments_into_one_sandbox_from_one_folder_exclude_each_other(own_environment, tmp_path):
    """As on AWS; a sandbox that ends with its command has no other deployment."""
    slipway("sandbox", "start", "--scheduler", "local", folder=tmp_path, environment=own_environment)
    priced = price(EXAMPLE, datetime.now(UTC), PriceOptions(any_age=True))
    plan, region = priced.quote(1).plan, priced.quote(1).plan.place.region
    sandbox = emulation.find_sandbox(own_environment, region, folder=tmp_path)
    none_runs = {**own_environment, "XDG_CACHE_HOME": str(tmp_path / "other")}
    for environment, lock in ((own_environment, tmp_path), (none_runs, None)):
        options = DeployOptions(root=tmp_path, notify=print, sandbox=True, environment=environment)
        assert context_in(sandbox, priced, plan, options).root == lock


def test_folder_uses_named_sandbox(own_environment, tmp_path, run_in):
    mine, theirs, third = (tmp_path / name for name in ("mine", "theirs", "third"))
    for folder in (mine, theirs, third):
        folder.mkdir()

    def status_in(folder):
        return read_document(run_in(folder, "sandbox", "status", "--json").out)

    begun = slipway(
        "sandbox", "start", "--scheduler", "local", "--name", "mine", folder=mine, environment=own_environment
    )
    assert begun.returncode == 0, begun.stderr
    try:
        assert (status_in(mine)["name"], status_in(theirs)["running"]) == ("mine", False)
        assert "also running: mine; slipway sandbox start --name mine" in run_in(theirs, "sandbox", "status").out
        shared = run_in(theirs, "sandbox", "start", "--name", "mine")
        assert "this folder uses the sandbox mine" in shared.out
        assert status_in(theirs)["endpoint"] == status_in(mine)["endpoint"]
        again = run_in(mine, "sandbox", "start", "--name", "mine")
        assert (again.code, "mine is already running" in again.err) == (5, True)
        # What was launched in one folder is found from another one, which uses another sandbox.
        record_launch(mine)
        killed = run_in(third, "status", "tiny").out
        assert "the running sandbox has no stack of it" in killed
        template = json.dumps({"Resources": {"Topic": {"Type": "AWS::SNS::Topic"}}})
        running = running_sandbox.find(own_environment, "mine")
        cloudformation = client(Sandbox.attach(running, region="us-east-2"), "cloudformation")
        cloudformation.create_stack(StackName="slipway-tiny-network", TemplateBody=template)
        killed = run_in(third, "status", "tiny").out
        assert "the running sandbox has its stacks: slipway-tiny-network CREATE_COMPLETE" in killed
        removed = run_in(third, "down", "tiny", "--dry-run", "--json")
        assert [stack["name"] for stack in json.loads(removed.out)["stacks"]] == ["slipway-tiny-network"]
        for given in ({"folder": mine}, {"mark": running.mark}):
            assert emulation.find_sandbox(own_environment, "us-east-2", **given).endpoint == status_in(mine)["endpoint"]
        for given in ({}, {"folder": third}, {"mark": "of an ended one"}):
            assert emulation.find_sandbox(own_environment, "us-east-2", **given) is None
        # A third folder has none to end, and ends nobody else's.
        assert run_in(third, "sandbox", "stop").code == 5
        assert run_in(theirs, "sandbox", "stop").code == 0
        assert status_in(mine) == {"schema": "slipway.sandbox/1", "running": False}
    finally:
        running_sandbox.stop(own_environment, "mine")


def test_two_simultaneous_starts_get_one_sandbox(own_environment):
    outcomes = []

    def go():
        try:
            outcomes.append(running_sandbox.start(own_environment, scheduler="local").mark)
        except ImpossibleError as problem:
            outcomes.append(problem.message)

    threads = [threading.Thread(target=go) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = running_sandbox.find(own_environment)
    assert found is not None
    assert found.mark in outcomes
    assert sum("is already running" in outcome for outcome in outcomes) == 1


def test_sandbox_with_killed_server_not_found_and_cleaned_up(own_environment):
    started = running_sandbox.start(own_environment, scheduler="local")
    os.kill(started.pid, signal.SIGKILL)
    until(lambda: not left_of(started))
    assert running_sandbox.find(own_environment) is None
    assert running_sandbox.start(own_environment, scheduler="local").mark != started.mark


def test_sandbox_started_with_another_home_is_not_called_ended(own_environment, tmp_path):
    started = running_sandbox.start(own_environment, scheduler="local")
    other = {**own_environment, "XDG_CACHE_HOME": str(tmp_path / "other")}
    head_node = HeadNode(via=SANDBOX, host="cluster tiny", region="us-east-2", instance=started.mark)
    submission = Submission(
        target=TargetKind.PARALLELCLUSTER,
        cluster="tiny",
        head_node=head_node,
        key="tiny-1",
        folder="jobs/tiny-1",
        store_uri="s3://store/jobs/tiny",
        checkpoint_uri="s3://store/jobs/tiny",
        work={},
        asked_at=datetime.now(UTC),
    )
    assert sandbox_of(head_node, own_environment).record == started
    with pytest.raises(SandboxOutOfReachError, match="cluster tiny runs, but was started with another HOME"):
        sandbox_of(head_node, other)
    assert removal_of(submission, other) == ""
    running_sandbox.stop(own_environment)
    for environment in (own_environment, other):
        with pytest.raises(SchedulerEndedError, match="has ended, with everything") as raised:
            sandbox_of(head_node, environment)
        assert not isinstance(raised.value, SandboxOutOfReachError)
        assert removal_of(submission, environment) == "the sandbox of cluster tiny has ended"


def test_damaged_or_outdated_sandbox_file_is_ignored(own_environment):
    place = running_sandbox.folder_of(own_environment)
    place.parent.mkdir(parents=True)
    for text in ("", "{", "[]", '{"port": 1}', json.dumps(dict.fromkeys(running_sandbox.RunningSandbox.__slots__, 1))):
        place.write_text(text)
        assert running_sandbox.find(own_environment) is None


def test_sandbox_flag_without_running_sandbox_refused_with_start_command(own_environment, tmp_path):
    done = slipway("cost", "--sandbox", folder=tmp_path, environment=own_environment)
    assert done.returncode == 5
    assert "slipway sandbox start" in done.stderr


def launch_and_leave(folder, environment, until_word):
    """Launch the example, and leave it with Ctrl-C after a message with a word."""
    launch = subprocess.Popen(
        [sys.executable, "-m", "launcher", "launch", str(EXAMPLE), "--sandbox", "--yes"],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    messages = []
    for line in launch.stderr:
        messages.append(line)
        if until_word in line:
            break
    launch.send_signal(signal.SIGINT)
    launch.communicate(timeout=PATIENCE_S)
    assert launch.returncode == 130, "".join(messages)


@pytest.mark.slow
@pytest.mark.cdk
def test_launch_is_followed_detached_and_ended_from_other_terminals(own_environment, tmp_path):
    start = slipway("sandbox", "start", "--scheduler", "local", folder=tmp_path, environment=own_environment)
    assert start.returncode == 0, start.stderr
    launch_and_leave(tmp_path, own_environment, "saved at step")
    launch_and_leave(tmp_path, own_environment, "submitted: ")
    cancelled = slipway("cancel", "tiny-gpt", "--yes", folder=tmp_path, environment=own_environment)
    assert "is running too; this is run" in cancelled.stderr
    status = slipway("status", "tiny-gpt", folder=tmp_path, environment=own_environment)
    assert "has ended; this is run" in status.stderr

    state = read_document(slipway("status", "tiny-gpt", "--json", folder=tmp_path, environment=own_environment).stdout)
    assert state["status"] == "running"
    assert state["saved_step"]
    listed = slipway("checkpoints", "list", "tiny-gpt", "--json", folder=tmp_path, environment=own_environment)
    assert read_document(listed.stdout)["checkpoints"]
    cancelled = slipway("cancel", "tiny-gpt", "--yes", folder=tmp_path, environment=own_environment)
    assert "slipway down tiny-gpt --sandbox" in cancelled.stderr
    state = read_document(slipway("status", "tiny-gpt", "--json", folder=tmp_path, environment=own_environment).stdout)
    assert state["status"] == "cancelled"
    cost = read_document(slipway("cost", "--sandbox", "--json", folder=tmp_path, environment=own_environment).stdout)
    assert {stack["name"] for stack in cost["stacks"]} >= {"slipway-tiny-gpt-training", "slipway-tiny-gpt-network"}
    for arguments in (
        ["verify"],
        ["prune", "--keep", "1", "--dry-run"],
        ["prune", "--keep", "1", "--yes"],
        ["restore"],
    ):
        done = slipway(
            "checkpoints",
            arguments[0],
            "tiny-gpt",
            *arguments[1:],
            "--json",
            folder=tmp_path,
            environment=own_environment,
        )
        document = read_document(done.stdout)
        assert document["schema"] == f"slipway.checkpoints-{arguments[0]}/1"
    assert len(list((tmp_path / "checkpoints").rglob("*.*"))) >= document["files"] > 0
    listed = slipway("checkpoints", "list", "tiny-gpt", "--json", folder=tmp_path, environment=own_environment)
    assert [checkpoint["step"] for checkpoint in read_document(listed.stdout)["checkpoints"]] == [document["step"]]
    dry = slipway(
        "deploy", str(EXAMPLE), "--sandbox", "--dry-run", "--json", folder=tmp_path, environment=own_environment
    )
    assert not read_document(dry.stdout)["deployed"]
    assert dry.returncode == 0, dry.stderr
    for part in ("network", "checkpoints", "training"):
        assert f"  slipway-tiny-gpt-{part}: no change\n" in dry.stderr, dry.stderr
    assert "a new sandbox is empty" not in dry.stderr
    down = slipway("down", "tiny-gpt", "--sandbox", "--yes", folder=tmp_path, environment=own_environment)
    assert down.returncode == 0, down.stderr
    sandbox = Sandbox.attach(running_sandbox.find(own_environment), region="us-east-1")
    assert [stack["name"] for stack in sandbox.stacks()] == ["slipway-tiny-gpt-checkpoints"]

    before = time.monotonic()
    ended = slipway("sandbox", "stop", "--json", folder=tmp_path, environment=own_environment)
    assert read_document(ended.stdout) == {"schema": "slipway.sandbox/1", "running": False}
    assert time.monotonic() - before < PATIENCE_S
    after = slipway("status", "tiny-gpt", "--json", folder=tmp_path, environment=own_environment)
    assert read_document(after.stdout)["status"] == "cancelled"
