"""A run is found from another computer: only the account, with the region or the store, is the same."""

import json
import os
import subprocess
import sys

import pytest

from launcher.sandbox import running_sandbox
from launcher.sandbox.sandbox import Sandbox
from tests.documents import read_document
from tests.sandbox.clients import client, slipway
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
        own = {"HOME": str(folder / "home"), "XDG_STATE_HOME": str(folder / "state"), "LOGNAME": name}
        self.environment = {**environment, **own}

    def run(self, *words):
        return slipway(*words, folder=self.folder, environment=self.environment)


@pytest.fixture(scope="module")
def first(account, tmp_path_factory):
    return Computer("first", tmp_path_factory.mktemp("first"), account[1])


@pytest.fixture(scope="module")
def second(account, tmp_path_factory):
    return Computer("second", tmp_path_factory.mktemp("second"), account[1])


@pytest.fixture(scope="module")
def launched(first, warm_program):
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


def test_each_command_finds_run_by_region_or_store(account, second, launched):
    """In the order of a colleague's day: look, read, cancel, count, remove."""
    sandbox, _ = account
    here = ("--region", REGION, "--sandbox")
    unknown = second.run("status", "shared-job")
    assert (unknown.returncode, "--region or --store" in unknown.stderr) == (2, True), unknown.stderr

    until(lambda: read_document(second.run("status", "shared-job", "--json", *here).stdout)["status"] == "running")
    status = second.run("status", "shared-job", *here)
    assert "launched by first on" in status.stderr
    assert "rendered files are in" in status.stderr

    buckets = [bucket["Name"] for bucket in client(sandbox, "s3").list_buckets()["Buckets"]]
    objects = client(sandbox, "s3").list_objects_v2
    (store,) = [name for name in buckets if "jobs/.runs/shared-job" in json.dumps(objects(Bucket=name), default=str)]
    words = ("logs", "shared-job", "--store", f"s3://{store}", "--sandbox")
    until(lambda: "the trainer speaks" in second.run(*words).stdout)

    mistyped = second.run("report", "shard-job", *here)
    assert (mistyped.returncode, "shared-job" in mistyped.stderr) == (2, True)

    cancelled = second.run("cancel", "shared-job", "--yes", "--json", *here)
    assert read_document(cancelled.stdout)["status"] == "cancelled", cancelled.stderr
    assert second.run("attach", "shared-job", *here).returncode == 0
    program = f"import launcher; print(launcher.status('shared-job', store='s3://{store}')['status'])"
    in_account = {**second.environment, **sandbox.process_environment({})}
    called = subprocess.run(
        [sys.executable, "-c", program], cwd=second.folder, env=in_account, capture_output=True, text=True, check=False
    )
    assert called.stdout.strip() == "cancelled", called.stderr
    report = read_document(second.run("report", "shared-job", "--json", *here).stdout)
    assert (report["status"], report["simulated"]) == ("cancelled", True)
    ledger = read_document(second.run("ledger", "--json", *here).stdout)
    assert [(run["name"], run["status"]) for run in ledger["runs"]] == [("shared-job", "cancelled")]

    in_store = ("--store", f"s3://{store}", "--sandbox")
    for place in (here, in_store):
        cost = read_document(second.run("cost", "shared-job", "--json", *place).stdout)
        assert any("shared-job" in stack["name"] for stack in cost["stacks"])
    planned = second.run("down", "shared-job", "--dry-run", "--json", *in_store)
    assert [stack for stack in read_document(planned.stdout)["stacks"] if "shared-job-training" in str(stack)]
    down = second.run("down", "shared-job", "--yes", *here)
    assert down.returncode == 0, down.stderr
    # The store stays, and what it holds of the run is still found.
    after = second.run("report", "shared-job", "--json", *here)
    assert read_document(after.stdout)["status"] == "cancelled", after.stderr
