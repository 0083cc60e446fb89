"""A launch that deploys its own cluster: the embedded AWS, its Slurm, and an emulator of Run Command."""

import json
import os
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from launcher.aws.session import Session
from launcher.model.emulator import EMULATED_ACCOUNT as ACCOUNT
from launcher.model.errors import ImpossibleError
from launcher.model.report import RunStatus
from launcher.records.run_folder import latest
from launcher.sandbox.sandbox import Sandbox
from launcher.sandbox.slurm.daemons import client_environment
from launcher.workflow.deploy.context import DeployOptions
from launcher.workflow.deploy.in_sandbox import context_in
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import pick, price
from launcher.workflow.run.launch import launch_quote
from launcher.workflow.run.launch_options import LaunchOptions
from tests.emulators.run_command import Machine, served
from tests.sandbox.submit.conftest import RUNUSER

pytestmark = [pytest.mark.slurm, pytest.mark.xdist_group("slurm-launch")]
PLAN = """
slipway: 1
name: {name}
workload: {{train: {{model: {{params_b: 0.0002}}, method: pretrain, hours: 0.5}}}}
target: {{{where}kind: parallelcluster, region: us-east-2, instance_type: p5.48xlarge, nodes: 1}}
purchase: {{option: spot}}
checkpoint: {{interval: 30, keep: 3, grace_seconds: 20}}
run: {{command: [{python}, train.py], workdir: work}}
"""
FETCH = """import sys, boto3
from botocore.config import Config
assert sys.argv[1:4] == ["s3", "cp", "--only-show-errors"] and sys.argv[5] == "-", sys.argv
bucket, _, key = sys.argv[4].removeprefix("s3://").partition("/")
client = boto3.client("s3", config=Config(s3={"addressing_style": "path"}))
sys.stdout.buffer.write(client.get_object(Bucket=bucket, Key=key)["Body"].read())
"""
"""The AWS CLI of the head node, as far as it is called."""
TABLE = "parallelcluster-slipway-own"
TRAINER = """import os
from pathlib import Path
made = Path(os.environ["SLIPWAY_CHECKPOINT_DIR"], "step-1")
made.mkdir()
(made / "_DONE").touch()
print("trained in", os.getcwd())
"""


class HeadNode(Machine):
    """The head node of the cluster that a launch will have deployed."""

    def __init__(self, home):
        super().__init__("not there yet", {})
        self.home = home

    def programs(self):
        (self.home / ".bash_profile").write_text(f'export PATH="{self.home}/bin:$PATH"\n')
        for name, text in {"runuser": RUNUSER.replace("env -i", "env"), "aws": self.fetch()}.items():
            (self.home / "bin" / name).write_text(f"#!/bin/bash\n{text}")
            (self.home / "bin" / name).chmod(0o755)

    def fetch(self):
        (self.home / "aws.py").write_text(FETCH)
        return f'exec {sys.executable} {self.home}/aws.py "$@"\n'

    def came_up(self, sandbox, folder):
        """It is there: under its id, with the way to its Slurm."""
        outputs = folder.read_json("outputs.json")
        (self.instance,) = {
            output["HeadNodeInstanceId"] for output in outputs.values() if "HeadNodeInstanceId" in output
        }
        variables = client_environment(Path(sandbox.cluster_facts("slipway-own")["slurm_conf"]))
        path = f"{self.home}/bin:{os.environ['PATH']}:{variables['PATH']}"
        self.environment = {**sandbox.job_environment(os.environ), **variables, "HOME": str(self.home), "PATH": path}


@pytest.fixture(scope="module")
def user(tmp_path_factory):
    """A person with a plan, an account in which nothing is yet, and the head node that there will be."""
    home, root = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("user")
    (home / "bin").mkdir()
    (root / "work").mkdir()
    (root / "work" / "train.py").write_text(TRAINER)
    machine = HeadNode(home)
    machine.programs()
    with (
        Sandbox(region="us-east-2", scheduler="slurm") as sandbox,
        served(machine, otherwise=sandbox.endpoint) as endpoint,
    ):
        yield User(root, machine, sandbox, endpoint)


class User:
    def __init__(self, root, machine, sandbox, endpoint):
        self.root, self.machine, self.sandbox = root, machine, sandbox
        self.environment = {**sandbox.process_environment(os.environ), "AWS_ENDPOINT_URL_SSM": endpoint}
        self.messages = []
        key = {"AttributeName": "Id"}
        self.dynamodb = Session(environment=self.environment, region="us-east-2").client("dynamodb")
        self.dynamodb.create_table(
            TableName=TABLE,
            KeySchema=[{**key, "KeyType": "HASH"}],
            AttributeDefinitions=[{**key, "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )

    def notify(self, text):
        self.messages.append(text)
        if text.startswith("deployed in"):
            self.machine.came_up(self.sandbox, latest("own", self.root))
        if text.startswith("its guard"):
            # It was stopped, and asking for its start had the sandbox's fleet begin.
            assert self.fleet() == "RUNNING"

    def set_fleet(self, status):
        value = {"M": {"status": {"S": status}, "lastStatusUpdatedTime": {"S": "before"}}}
        self.dynamodb.put_item(TableName=TABLE, Item={"Id": {"S": "COMPUTE_FLEET"}, "Data": value})

    def fleet(self):
        item = self.dynamodb.get_item(TableName=TABLE, Key={"Id": {"S": "COMPUTE_FLEET"}})["Item"]
        return item["Data"]["M"]["status"]["S"]

    def launch(self, name, where=""):
        path = self.root / f"{name}.yaml"
        path.write_text(PLAN.format(name=name, where=where, python=sys.executable))
        priced = price(path, datetime.now(UTC), PriceOptions(any_age=True))
        rank, quoted = pick(priced, None)
        self.messages.clear()
        of_box = DeployOptions(root=self.root, environment=self.environment, notify=self.notify)
        options = LaunchOptions(
            root=self.root,
            environment=self.environment,
            notify=self.notify,
            progress=lambda now: None,
            poll_s=0.5,
            account=ACCOUNT,
            queues=context_in(self.sandbox, priced, quoted.plan, of_box).queues,
        )
        return launch_quote(priced, rank, quoted, options)


@pytest.fixture(scope="module")
def first_launch(user):
    """The first launch: its run folder, its report, and its messages."""
    user.set_fleet("RUNNING")
    return (*user.launch("own"), [*user.messages])


def test_cluster_is_deployed_and_job_runs(user, first_launch):
    folder, report, messages = first_launch
    assert report.status is RunStatus.SUCCEEDED
    assert {status for _, status in report.stacks} == {"CREATE_COMPLETE"}
    assert report.verified_resources
    (attempt,) = report.attempts
    assert (attempt.ended_by, attempt.exit_code) == ("completed", 0)
    submission = folder.read_json("submission.json")
    assert submission["head_node"] == {
        "via": "ssm",
        "host": None,
        "instance": user.machine.instance,
        "region": "us-east-2",
        "user": "ubuntu",
        "role": None,
        "kind": None,
    }
    assert f"trained in {submission['folder']}/work" in (folder.logs / "attempt-1.log").read_text()
    bucket = submission["store_uri"].removeprefix("s3://").partition("/")[0]
    written = {request.path for request in user.sandbox.s3_requests()}
    assert any(path.startswith(f"/{bucket}/") and path.endswith("/own/step-1/manifest.json") for path in written)
    steps = ("deployed", "run.workdir", "submitted")
    order = [next(index for index, line in enumerate(messages) if line.startswith(step)) for step in steps]
    assert order == sorted(order)
    assert not any("starting it" in line for line in messages)
    assert json.loads((folder.path / "report.json").read_text())["simulated"] is False


def test_second_job_on_existing_cluster_starts_stopped_fleet(user, first_launch):
    user.set_fleet("STOPPED")
    folder, report = user.launch("second", "cluster: own, az_id: use2-az1, ")
    assert report.status is RunStatus.SUCCEEDED
    assert "the compute fleet of slipway-own is STOPPED: starting it" in user.messages
    assert user.fleet() == "RUNNING"
    assert not any(line.startswith("deployed in") for line in user.messages)
    submission = folder.read_json("submission.json")
    assert (submission["cluster"], submission["checkpoint_uri"].rpartition("/")[2]) == ("own", "second")


def test_unknown_cluster_refused(user):
    with pytest.raises(ImpossibleError, match=r"target\.cluster: no cluster absent in us-east-2"):
        user.launch("third", "cluster: absent, ")
