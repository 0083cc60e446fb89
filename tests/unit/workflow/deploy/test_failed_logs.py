"""The reason of a resource that does not start, from logs that the rollback of its stack deletes."""

import time

import boto3
import pytest
from moto import mock_aws

from launcher.aws.session import Session
from launcher.model.errors import DeploymentFailedError
from launcher.workflow.deploy.failed_logs import FailedLogs
from launcher.workflow.deploy.stack_events import StackEvents
from tests.plans import two_node_plan

REGION = "us-east-2"
KEYS = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing"}


@pytest.fixture
def failed(catalog, monkeypatch):
    """Let a resource of a type fail in `cdk deploy`; the message of the deployment's failure."""
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)

    def fail(type_):
        logs = FailedLogs(session=Session(environment=KEYS, region=REGION), plan=two_node_plan("eks", catalog))
        with StackEvents(lambda _: None, {}, on_failed=logs.read) as events:
            events.line(f"slipway-probe-x | 3/9 | 10:07:45 AM | CREATE_FAILED | {type_} | It (It1) did not start")
        return logs.explain(DeploymentFailedError("the deployment failed", hint="slipway down probe"))

    with mock_aws():
        yield fail


def client(service):
    return boto3.client(service, region_name=REGION)


def write(group, stream, *lines):
    logs = client("logs")
    logs.create_log_group(logGroupName=group)
    logs.create_log_stream(logGroupName=group, logStreamName=stream)
    events = [{"timestamp": int(time.time() * 1000), "message": line} for line in lines]
    logs.put_log_events(logGroupName=group, logStreamName=stream, logEvents=events)


@pytest.mark.parametrize(
    "type_, group, stream",
    [
        ("AWS::SageMaker::Endpoint", "/aws/sagemaker/Endpoints/slipway-probe", "main/i-1"),
        ("AWS::SageMaker::InferenceComponent", "/aws/sagemaker/InferenceComponents/slipway-probe", "main/i-1"),
        (
            "AWS::SageMaker::Cluster",
            "/aws/sagemaker/Clusters/slipway-probe/abc123def456",
            "LifecycleConfig/workers/i-1",
        ),
    ],
)
def test_failure_has_last_lines_of_the_resource_that_did_not_start(failed, type_, group, stream):
    write(group, stream, *(f"line {number}" for number in range(9)), "OSError: no space left on device")
    write(group.replace("slipway-probe", "slipway-probe2"), "main/i-1", "another team's")
    failure = failed(type_)
    assert failure.message.splitlines()[:2] == ["the deployment failed", "the last lines of what did not start:"]
    assert failure.message.splitlines()[2:] == [
        *(f"  line {n}" for n in range(5, 9)),
        "  OSError: no space left on device",
    ]
    assert failure.hint == "slipway down probe"


def test_failed_hyperpod_cluster_has_lines_of_its_scripts_not_of_the_newer_health_agent(failed):
    group = "/aws/sagemaker/Clusters/slipway-probe/abc123def456"
    write(group, "LifecycleConfig/workers/i-1", "on_create.sh: an accelerator is missing")
    client("logs").create_log_stream(logGroupName=group, logStreamName="SagemakerHealthMonitoringAgent/workers/i-1")
    client("logs").put_log_events(
        logGroupName=group,
        logStreamName="SagemakerHealthMonitoringAgent/workers/i-1",
        logEvents=[{"timestamp": int(time.time() * 1000) + 5000, "message": "a heartbeat of the agent"}],
    )
    shown = failed("AWS::SageMaker::Cluster").message.splitlines()[2:]
    assert shown == ["  on_create.sh: an accelerator is missing"]


def write_boot_reports(*reports):
    """Reports of nodes, by name and text, in the store that a deployed plan has."""
    client("s3").create_bucket(Bucket="store", CreateBucketConfiguration={"LocationConstraint": REGION})
    body = '{"Resources": {"Topic": {"Type": "AWS::SNS::Topic"}}, "Outputs": {"BucketName": {"Value": "store"}}}'
    cloudformation = client("cloudformation")
    ids = {
        part: cloudformation.create_stack(StackName=f"slipway-probe-{part}", TemplateBody=body)["StackId"]
        for part in ("training", "checkpoints")
    }
    folder = f"jobs/.guard/{ids['training'].split('/')[2]}/messages/boots"
    for name, text in reports:
        client("s3").put_object(Bucket="store", Key=f"{folder}/{name}", Body=text.encode())


def test_failed_node_group_has_last_lines_of_the_newest_node_that_did_not_join(failed):
    write_boot_reports(
        ("20261128T100000Z-i-1-failed.txt", "an older one"),
        ("20261128T110000Z-i-2-failed.txt", "kubelet: Unauthorized\n\nslipway: i-2 has not joined its cluster in time"),
        ("20261128T120000Z-i-3-ready.txt", "joined"),
    )
    shown = failed("AWS::EKS::Nodegroup").message.splitlines()[2:]
    assert shown == ["  kubelet: Unauthorized", "  slipway: i-2 has not joined its cluster in time"]


def test_boot_report_above_64_kib_is_read_only_to_there(failed):
    write_boot_reports(("20261128T100000Z-i-1-failed.txt", f"{'x' * 70_000}\nthe end"))
    assert failed("AWS::EKS::Nodegroup").message.splitlines()[2:] == [f"  {'x' * 65_536}"]


def test_failure_of_resources_without_a_log_is_unchanged(failed):
    for type_ in ("AWS::EC2::VPC", "AWS::SageMaker::Endpoint", "AWS::SageMaker::Cluster", "AWS::EKS::Nodegroup"):
        assert failed(type_).message == "the deployment failed"
