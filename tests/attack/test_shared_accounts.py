"""Two people in one account: both launch into an empty region, or one removes the cluster that the other follows."""

import itertools
import json
import os
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from threading import Barrier

import pytest

from launcher.aws.session import Session
from launcher.cdk import toolchain
from launcher.cdk.commands import Assembly, Cdk
from launcher.cdk.runner import SubprocessRunner
from launcher.model.emulator import EMULATED_ACCOUNT
from launcher.model.enums import TargetKind
from launcher.model.job import JobState
from launcher.records.submission import SANDBOX, HeadNode, Submission
from launcher.sandbox import running_sandbox
from launcher.sandbox.sandbox import Sandbox
from launcher.submit.slurm import Slurm
from launcher.workflow.cluster.reach import removal_of
from launcher.workflow.deploy.account_preparation import prepare_account
from launcher.workflow.run.submission_watch import ClusterRemovedError, Mirror, RemoteWatch
from tests.attack import commands
from tests.sandbox.clients import client
from tests.sandbox.slurm_cluster import TEMPLATE, script_in
from tests.waiting import until

REGION = "us-east-1"
TRAINING = "slipway-demo-training"


@pytest.fixture
def account(tmp_path_factory, monkeypatch):
    """A sandbox that stays, as both people have it; its region is not bootstrapped."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    yield Sandbox.attach(running_sandbox.start(os.environ, scheduler="local"), region=REGION)
    running_sandbox.stop(os.environ)


@pytest.fixture
def follow(account, tmp_path, monkeypatch):
    """A running job on a cluster, and what a launch follows it with; the messages of the launch."""
    cloudformation = client(account, "cloudformation")
    body = json.dumps(TEMPLATE)
    tags = [{"Key": "slipway:cluster", "Value": "demo"}]
    cloudformation.create_stack(StackName=TRAINING, TemplateBody=body, Tags=tags)
    slurm = Slurm(shell=account.head_node("demo", os.environ))
    job = slurm.submit("demo-1", str(tmp_path), script_in(tmp_path, "sleep 300").name)
    submission = Submission(
        key="demo-1",
        target=TargetKind.PARALLELCLUSTER,
        head_node=HeadNode(via=SANDBOX, host="demo", region=REGION, instance=account.record.mark),
        cluster="demo",
        folder=job.folder,
        store_uri="s3://store/jobs",
        checkpoint_uri="s3://store/jobs/demo",
        work={},
        asked_at=datetime.now(UTC),
        job=job.job,
    )
    clock, messages = itertools.count(0, 20), []
    watch = RemoteWatch(
        mirror=Mirror(source=slurm, job=job, folder=tmp_path / "mirror"),
        poll_s=0.0,
        notify=messages.append,
        removed=partial(removal_of, submission, os.environ),
        clock=lambda: float(next(clock)),
    )
    until(lambda: watch.ended() or watch.facts.state is JobState.RUNNING, lambda: str(watch.facts), 20)
    assert not watch.over, watch.facts
    monkeypatch.chdir(tmp_path)
    return watch, messages


def test_followed_job_ends_with_exit_6_when_another_terminal_removes_the_cluster(account, follow):
    watch, messages = follow
    code, out, err = commands.run("down", "demo", "--yes", "--region", REGION, "--sandbox")
    assert code == 0, out + err
    with pytest.raises(ClusterRemovedError) as raised:
        until(watch.ended)
    assert raised.value.exit_code == 6
    assert not [line for line in messages if "continues" in line]


def test_followed_job_ends_with_exit_6_when_another_terminal_stops_the_sandbox(follow):
    watch, messages = follow
    code, out, err = commands.run("sandbox", "stop", "--yes")
    assert code == 0, out + err
    with pytest.raises(ClusterRemovedError, match="the sandbox of cluster demo has ended: job") as raised:
        until(watch.ended)
    assert raised.value.exit_code == 6
    assert not messages


class TestTwoFirstLaunches:
    """The second launch begins while the first one prepares the account."""

    @pytest.fixture
    def launch(self, account, tmp_path):
        """Prepare the account as a launch does, with the real CDK CLI."""
        stack = {"type": "aws:cloudformation:stack", "properties": {"templateFile": "train.json"}}
        stack["environment"] = f"aws://{EMULATED_ACCOUNT}/{REGION}"
        (tmp_path / "manifest.json").write_text(json.dumps({"version": "36.0.0", "artifacts": {"train": stack}}))
        (tmp_path / "train.json").write_text(json.dumps({"Resources": {"Topic": {"Type": "AWS::SNS::Topic"}}}))
        assembly = Assembly(folder=tmp_path, digests=frozenset(), seal="")
        environment = account.process_environment(toolchain.environment(os.environ))
        session = Session(environment=environment, region=REGION)
        cdk = Cdk(runner=SubprocessRunner(), environment=environment)

        def prepare(qualifier, messages):
            prepare_account(
                cdk, assembly, session, account=EMULATED_ACCOUNT, qualifier=qualifier, notify=messages.append
            )
            return cdk

        return prepare

    @pytest.mark.parametrize("qualifier", [None])
    def test_both_first_launches_into_an_empty_account_succeed(self, account, launch, qualifier):
        together, messages = Barrier(2), ([], [])

        def twin(number):
            together.wait()
            launch(qualifier, messages[number])

        with ThreadPoolExecutor(2) as pool:
            list(pool.map(twin, range(2)))
        (stack,) = client(account, "cloudformation").describe_stacks(StackName="CDKToolkit")["Stacks"]
        assert stack["StackStatus"] in {"CREATE_COMPLETE", "UPDATE_COMPLETE"}
