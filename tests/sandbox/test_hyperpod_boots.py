"""HyperPod in the sandbox with a lifecycle script that fails: the deployment, the workers, the guard, the launch.

The failing file is in S3 before the deployment: the CDK does not send a file that is there.
"""

import hashlib
import json
import os
import subprocess
import sys
import time
from datetime import UTC, datetime

import pytest

from launcher import plan_file
from launcher.aws.session import Session
from launcher.catalog.assets import asset
from launcher.cdk import toolchain
from launcher.model.emulator import EMULATED_ACCOUNT
from launcher.model.errors import DeploymentFailedError
from launcher.planning.pin import pinned_plan
from launcher.sandbox.aws.hyperpod_boots import REPLACED_S
from launcher.sandbox.sandbox import Sandbox
from launcher.targets.hyperpod_slurm.files import lifecycle_files
from launcher.workflow.deploy.context import DeployOptions
from launcher.workflow.deploy.deployment import deploy_quote
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import pick, price
from launcher.workflow.run.launch import launch_quote
from launcher.workflow.run.launch_options import LaunchOptions
from launcher.workflow.run.submission_watch import JobCancelledError
from tests.waiting import until

pytestmark = [pytest.mark.cdk, pytest.mark.server, pytest.mark.xdist_group("hyperpod")]

REGION = "us-east-2"
PLAN = """
slipway: 1
name: {name}
workload: {{train: {{model: {{params_b: 0.0002}}, method: pretrain, hours: 0.5}}}}
target: {{kind: hyperpod-slurm, region: us-east-2, instance_type: g5.xlarge, nodes: 2}}
purchase: {{option: {option}, price_overrides: {{ml.g5.xlarge/{option}: 1.4}}}}
checkpoint: {{interval: 30}}
"""
FAILS = "echo 'node.sh: /dev/nvme1n1: no space left on device'\nexit 1\n"
WATCH = """
import os
from datetime import UTC, datetime
import boto3
from hyperpod import HyperPodGuard, Settings
HyperPodGuard(Settings.of(os.environ), boto3.client, datetime.now(UTC)).watch()
"""


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory):
    with Sandbox(region=REGION, scheduler="local") as started:
        command = [*toolchain.cdk_command(os.environ), "bootstrap", f"aws://{EMULATED_ACCOUNT}/{REGION}"]
        folder = tmp_path_factory.mktemp("without-app")  # a cdk.json has an app, which would be run
        variables = started.process_environment(os.environ)
        subprocess.run(command, cwd=folder, env=variables, check=True, capture_output=True)
        yield started


@pytest.fixture
def client(sandbox):
    return Session(environment=sandbox.process_environment({}), region=REGION).client


@pytest.fixture
def failing(client, tmp_path, catalog):
    """A priced plan whose node.sh fails on every worker."""
    from infra.parts.hyperpod_lifecycle import FOLDER

    def write(name, option, more=""):
        path = tmp_path / "plan.yaml"
        path.write_text(PLAN.format(name=name, option=option) + more)
        files = lifecycle_files(pinned_plan(plan_file.load(path), catalog), catalog.instance_types)
        digest = hashlib.sha256("".join(f"{file}\0{text}\0" for file, text in sorted(files.items())).encode())
        key = f"{FOLDER}/{digest.hexdigest()}/node.sh"
        bucket = f"cdk-hnb659fds-assets-{EMULATED_ACCOUNT}-{REGION}"
        client("s3").put_object(Bucket=bucket, Key=key, Body=FAILS.encode())
        return price(path, datetime.now(UTC), PriceOptions(any_age=True))

    return write


@pytest.fixture
def deploy(sandbox, failing, tmp_path):
    """Deploy a plan whose node.sh fails on every worker."""

    def run(name, option):
        priced = failing(name, option)
        options = DeployOptions(root=tmp_path, sandbox=True, dry_run=False, notify=lambda _: None, emulator=sandbox)
        return deploy_quote(priced, *pick(priced, None), options)

    return run


def sizes(client, name):
    groups = client("sagemaker").describe_cluster(ClusterName=f"slipway-{name}")["InstanceGroups"]
    return {group["InstanceGroupName"]: (group["CurrentCount"], group["TargetCount"]) for group in groups}


def test_failing_script_fails_the_deployment_with_its_last_lines(client, deploy):
    with pytest.raises(DeploymentFailedError) as failure:
        deploy("strict", "on-demand")
    assert "Lifecycle scripts did not run successfully" in failure.value.message
    assert failure.value.message.splitlines()[-1] == "  node.sh: /dev/nvme1n1: no space left on device"
    assert client("sagemaker").list_clusters()["ClusterSummaries"] == []


def test_failing_workers_of_continuous_provisioning_are_replaced_until_the_guard_deletes_them(sandbox, client, deploy):
    deploy("again", "spot")
    sagemaker, name = client("sagemaker"), "slipway-again"

    def failures():
        events = sagemaker.list_cluster_events(ClusterName=name, InstanceGroupName="workers")["Events"]
        failed = [event for event in events if "has Failed" in event["Description"]]
        assert failed == events, "an instance whose scripts still run has not started"
        return failed

    until(lambda: len(failures()) >= 4)
    assert sizes(client, "again") == {"controller": (1, 1), "workers": (0, 2)}
    pending = sagemaker.list_cluster_nodes(ClusterName=name, IncludeNodeLogicalIds=True)["ClusterNodeSummaries"]
    assert [node["InstanceStatus"]["Status"] for node in pending] == ["Running", "Pending", "Pending"]
    resources = client("cloudformation").describe_stack_resources(StackName=f"{name}-training")["StackResources"]
    (guard,) = [row["PhysicalResourceId"] for row in resources if row["ResourceType"] == "AWS::Lambda::Function"]
    function = client("lambda").get_function(FunctionName=guard)
    variables = function["Configuration"]["Environment"]["Variables"]
    environment = {**sandbox.process_environment(os.environ), **variables, "AWS_REGION": REGION}
    subprocess.run([sys.executable, "-c", WATCH], cwd=asset("templates/guard"), env=environment, check=True)
    assert sizes(client, "again") == {"controller": (1, 1), "workers": (0, 0)}
    bucket, _, folder = variables["FOLDER_URI"].removeprefix("s3://").partition("/")
    body = client("s3").get_object(Bucket=bucket, Key=f"{folder}/sent/stopped.json")["Body"].read()
    text = json.loads(body)["text"]
    assert "workers failed to start" in text
    assert ": Lifecycle scripts did not run successfully." in text
    assert "node.sh: /dev/nvme1n1: no space left on device" in text
    # What was being tried at the guard's call ends, and no other one follows.
    ended = len(failures())
    time.sleep(2 * REPLACED_S)
    assert len(failures()) <= ended + 2


@pytest.mark.slow
def test_launch_whose_workers_fail_to_boot_ends_with_the_guards_stop_and_the_last_lines(
    sandbox, client, failing, tmp_path
):
    (tmp_path / "work").mkdir()
    (tmp_path / "work/job.py").write_text("")
    priced = failing("launched", "spot", "run: {command: [python3, job.py], workdir: work}\n")
    lines = []
    options = LaunchOptions(root=tmp_path, sandbox=True, notify=lines.append, progress=lambda _: None, emulator=sandbox)
    with pytest.raises(JobCancelledError) as stopped:
        launch_quote(priced, *pick(priced, None), options)
    assert "the guard stopped the nodes, and job 1 was cancelled" in stopped.value.message
    assert "workers failed to start; each try is billed" in stopped.value.message
    assert "node.sh: /dev/nvme1n1: no space left on device" in stopped.value.message
    assert sizes(client, "launched") == {"controller": (1, 1), "workers": (0, 0)}
