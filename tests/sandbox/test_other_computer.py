"""A run is found from another computer: only the account, with the region or the store, is the same."""

import json
import os
import subprocess
import sys

import pytest

from launcher.sandbox import running_sandbox
from launcher.sandbox.sandbox import Sandbox
from tests.documents import read_document
from tests.sandbox.clients import client
from tests.waiting import until
from tests.warm_app import WITHOUT_VALIDATION

STARTS_SERVERS = True
pytestmark = [pytest.mark.server]
REGION = "us-east-2"
PLAN = f"""
slipway: 1
name: shared-job
workload: {{train: {{model: {{params_b: 0.0002}}, method: pretrain, hours: 0.5, sequence_length: 64}}}}
target: {{kind: parallelcluster, region: {REGION}, instance_type: g6e.xlarge, nodes: 1}}
purchase: {{option: on-demand}}
checkpoint: {{mode: none}}
run: {{command: "echo the trainer speaks; sleep 600", workdir: work}}
"""


@pytest.fixture(scope="module")
def account(tmp_path_factory):
    """A running sandbox, which stands for the account, and the environment of somebody who can reach it."""
    cache = tmp_path_factory.mktemp("account")
    environment = {**os.environ, **WITHOUT_VALIDATION, "XDG_CACHE_HOME": str(cache)}
    place = running_sandbox.start(environment, scheduler="local")
    yield Sandbox.attach(place, region=REGION), environment
    running_sandbox.stop(environment)


class Computer:
    """A person's computer: a folder, a home and a state folder of its own."""

    def __init__(self, name, folder, environment):
        self.folder = folder
        self.own = {"HOME": str(folder / "home"), "XDG_STATE_HOME": str(folder / "state"), "LOGNAME": name}
        self.environment = {**environment, **self.own}


@pytest.fixture(scope="module")
def first(account, tmp_path_factory):
    return Computer("first", tmp_path_factory.mktemp("first"), account[1])


@pytest.fixture
def second(account, tmp_path, monkeypatch):
    """The computer that this process is for a test."""
    computer = Computer("second", tmp_path, account[1])
    for name in (*computer.own, "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, computer.environment[name])
    monkeypatch.chdir(computer.folder)
    return computer


@pytest.fixture(scope="module")
def launch(first, warm_program):
    """A job that runs, launched on the first computer by a launcher that is still following it."""
    (first.folder / "work").mkdir()
    (first.folder / "work/train.txt").write_text("what the trainer reads")
    (first.folder / "plan.yaml").write_text(PLAN)
    log = first.folder / "launch.log"
    with log.open("w") as stream:
        process = subprocess.Popen(
            [*warm_program, "launch", "plan.yaml", "--sandbox", "--yes"],
            cwd=first.folder,
            env=first.environment,
            stdout=stream,
            stderr=stream,
        )
    submission = first.folder / ".slipway/runs/shared-job/latest/submission.json"

    def is_submitted():
        assert process.poll() is None, log.read_text()
        return submission.is_file() and json.loads(submission.read_text())["job"]

    try:
        until(is_submitted, describe=log.read_text, seconds=280)
        yield
    finally:
        process.kill()
        process.wait()


def test_each_command_finds_run_by_region_or_store(account, second, launch, slipway, monkeypatch):
    """In the order of a colleague's day: look, read, cancel, count, remove."""
    sandbox, _ = account
    here = ("--region", REGION, "--sandbox")
    unknown = slipway("status", "shared-job")
    assert (unknown.code, "--region or --store" in unknown.err) == (2, True), unknown.err

    until(lambda: read_document(slipway("status", "shared-job", "--json", *here).out)["status"] == "running")
    status = slipway("status", "shared-job", *here)
    assert "launched by first on" in status.err
    assert "rendered files are in" in status.err

    buckets = [bucket["Name"] for bucket in client(sandbox, "s3").list_buckets()["Buckets"]]
    objects = client(sandbox, "s3").list_objects_v2
    (store,) = [name for name in buckets if "jobs/.runs/shared-job" in json.dumps(objects(Bucket=name), default=str)]
    words = ("logs", "shared-job", "--store", f"s3://{store}", "--sandbox")
    until(lambda: "the trainer speaks" in slipway(*words).out)

    mistyped = slipway("report", "shard-job", *here)
    assert (mistyped.code, "shared-job" in mistyped.err) == (2, True)

    cancelled = slipway("cancel", "shared-job", "--yes", "--json", *here)
    assert read_document(cancelled.out)["status"] == "cancelled", cancelled.err
    assert slipway("attach", "shared-job", *here).code == 0
    program = f"import launcher; print(launcher.status('shared-job', store='s3://{store}')['status'])"
    in_account = {**second.environment, **sandbox.process_environment({})}
    called = subprocess.run(
        [sys.executable, "-c", program], cwd=second.folder, env=in_account, capture_output=True, text=True, check=False
    )
    assert called.stdout.strip() == "cancelled", called.stderr
    report = read_document(slipway("report", "shared-job", "--json", *here).out)
    assert (report["status"], report["simulated"]) == ("cancelled", True)
    ledger = read_document(slipway("ledger", "--json", *here).out)
    assert [(run["name"], run["status"]) for run in ledger["runs"]] == [("shared-job", "cancelled")]

    in_store = ("--store", f"s3://{store}", "--sandbox")
    for place in (here, in_store):
        cost = read_document(slipway("cost", "shared-job", "--json", *place).out)
        assert any("shared-job" in stack["name"] for stack in cost["stacks"])
    planned = slipway("down", "shared-job", "--dry-run", "--json", *in_store)
    assert [stack for stack in read_document(planned.out)["stacks"] if "shared-job-training" in str(stack)]
    down = slipway("down", "shared-job", "--yes", *here)
    assert down.code == 0, down.err
    # The store stays, and what it holds of the run is still found.
    after = slipway("report", "shared-job", "--json", *here)
    assert read_document(after.out)["status"] == "cancelled", after.err
    monkeypatch.setenv("XDG_STATE_HOME", str(second.folder / "a third computer"))
    outputs = slipway("outputs", "shared-job", *here)
    assert (outputs.code, f"no outputs in s3://{store}/jobs/shared-job" in outputs.err) == (5, True), outputs.err
