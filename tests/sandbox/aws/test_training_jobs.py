"""The sandbox's training jobs: refusals, states over time, stop, limits, node losses, and billing."""

import json
import time
from datetime import UTC, datetime, timedelta

import pytest
from botocore.exceptions import ClientError

from launcher.sandbox.cluster.training_plan import TrainingPlan
from tests.sandbox.aws.answers import REGION

BUCKET, GROUP = "jobs-of-the-test", "/aws/sagemaker/TrainingJobs"
IMAGE = f"763104351884.dkr.ecr.{REGION}.amazonaws.com/pytorch:2.13-cu133-amzn2023-sagemaker"
SCRIPTS = {
    "count": "import os, json; hosts = json.load(open('{ml}/input/config/resourceconfig.json'));"
    " print(hosts['current_host'], 'of', len(hosts['hosts']), flush=True)",
    "wait": "import signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: (print('told', flush=True),"
    " sys.exit(75))); print('waits', flush=True); time.sleep(600)",
    "fail": "import os; os.makedirs('{ml}/output', exist_ok=True);"
    " open('{ml}/output/failure', 'w').write('out of memory'); raise SystemExit(3)",
}
PATIENCE_S = 30


@pytest.fixture(scope="module")
def role(client):
    trust = {"Effect": "Allow", "Principal": {"Service": "sagemaker.amazonaws.com"}, "Action": "sts:AssumeRole"}
    document = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
    return client("iam").create_role(RoleName="jobs", AssumeRolePolicyDocument=document)["Role"]["Arn"]


@pytest.fixture(scope="module")
def create(client, role):
    """Creates a training job that runs one of SCRIPTS, with changes; what the test needs to ask for it."""
    client("s3").create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})

    def make(name, script="count", *, nodes=1, spot=False, limits=None, resources=None, **changes):
        text = SCRIPTS[script]
        lines = f"import os\nml = os.path.dirname(os.path.abspath(__file__)).rsplit('/input/', 1)[0]\nexec({text!r}"
        lines += ".replace('{ml}', ml))\n"
        client("s3").put_object(Bucket=BUCKET, Key=f"{script}/run.py", Body=lines.encode())
        source = {"S3DataType": "S3Prefix", "S3Uri": f"s3://{BUCKET}/{script}/"}
        request = {
            "TrainingJobName": name,
            "RoleArn": role,
            "AlgorithmSpecification": {
                "TrainingImage": IMAGE,
                "TrainingInputMode": "File",
                "ContainerEntrypoint": ["python3", "/opt/ml/input/data/code/run.py"],
            },
            "InputDataConfig": [{"ChannelName": "code", "DataSource": {"S3DataSource": source}}],
            "OutputDataConfig": {"S3OutputPath": f"s3://{BUCKET}/out/"},
            "ResourceConfig": {
                "InstanceType": "ml.g5.xlarge",
                "InstanceCount": nodes,
                "VolumeSizeInGB": 30,
                **(resources or {}),
            },
            "StoppingCondition": {
                "MaxRuntimeInSeconds": 600,
                **({"MaxWaitTimeInSeconds": 1200} if spot else {}),
                **(limits or {}),
            },
            "EnableManagedSpotTraining": spot,
            **changes,
        }
        return client("sagemaker").create_training_job(**request)

    return make


@pytest.fixture
def until(client):
    """Waits until a job has a status or a secondary one; what is said of it then."""

    def wait(name, *statuses):
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            description = client("sagemaker").describe_training_job(TrainingJobName=name)
            if {description["TrainingJobStatus"], description["SecondaryStatus"]} & set(statuses):
                return description
            time.sleep(0.1)
        raise AssertionError(f"{name} is {description['TrainingJobStatus']}, {description['SecondaryStatus']}")

    return wait


@pytest.fixture
def print_lines(client):
    """What the nodes of a job have printed, once it is as much as is waited for."""

    def lines(name, count=1):
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            try:
                answer = client("logs").filter_log_events(logGroupName=GROUP, logStreamNamePrefix=f"{name}/")
            except ClientError:
                answer = {"events": []}
            if len(answer["events"]) >= count:
                return [(event["logStreamName"], event["message"]) for event in answer["events"]]
            time.sleep(0.1)
        raise AssertionError(answer)

    return lines


def codes(refused):
    return refused.value.response["Error"]["Code"], refused.value.response["Error"]["Message"]


def secondary(description):
    return [transition["Status"] for transition in description["SecondaryStatusTransitions"]]


def test_training_job_nodes_have_separate_files_and_states_in_order(create, until, print_lines):
    create("two-nodes", nodes=2)
    description = until("two-nodes", "Completed", "Failed")
    assert secondary(description) == ["Starting", "Downloading", "Training", "Uploading", "Completed"]
    assert description["BillableTimeInSeconds"] == description["TrainingTimeInSeconds"]
    log_lines = print_lines("two-nodes", 2)
    assert sorted(line for _, line in log_lines) == ["algo-1 of 2", "algo-2 of 2"]
    assert {stream.rpartition("-")[0] for stream, _ in log_lines} == {"two-nodes/algo-1", "two-nodes/algo-2"}


def test_subnets_and_groups_of_a_training_job_are_in_one_vpc(create, client):
    ec2 = client("ec2")
    vpcs = [ec2.create_vpc(CidrBlock=f"10.{number}.0.0/16")["Vpc"]["VpcId"] for number in (71, 72)]
    subnet = ec2.create_subnet(VpcId=vpcs[0], CidrBlock="10.71.0.0/24")["Subnet"]["SubnetId"]
    own, other = (ec2.create_security_group(VpcId=vpc, GroupName="jobs", Description="jobs")["GroupId"] for vpc in vpcs)
    create("in-one-vpc", VpcConfig={"Subnets": [subnet], "SecurityGroupIds": [own]})
    with pytest.raises(ClientError, match="must be in one VPC"):
        create("in-two-vpcs", VpcConfig={"Subnets": [subnet], "SecurityGroupIds": [own, other]})


def test_training_job_name_is_unique(create, client, until):
    create("once", Tags=[{"Key": "slipway:run", "Value": "first"}])
    with pytest.raises(ClientError) as refused:
        create("once")
    assert codes(refused)[0] == "ResourceInUse"
    arn = until("once", "Completed")["TrainingJobArn"]
    assert client("sagemaker").list_tags(ResourceArn=arn)["Tags"] == [{"Key": "slipway:run", "Value": "first"}]
    client("sagemaker").delete_training_job(TrainingJobName="once")
    create("once")


@pytest.mark.parametrize(
    "changes, expected",
    [
        ({"RoleArn": "arn:aws:iam::123456789012:role/nobody"}, "Could not assume role"),
        ({"resources": {"InstanceType": "ml.p5.47xlarge"}}, "not a valid enum value"),
        ({"spot": True, "limits": {"MaxWaitTimeInSeconds": 60}}, "MaxWaitTimeInSeconds"),
        ({"limits": {"MaxWaitTimeInSeconds": 1200}}, "is only for managed spot training"),
        ({"spot": True, "resources": {"KeepAlivePeriodInSeconds": 60}}, "KeepAlivePeriodInSeconds"),
        ({"resources": {"VolumeKmsKeyId": "alias/own"}}, "local storage"),
        ({"resources": {"InstanceCount": 0}}, "InstanceCount"),
        ({"Environment": {"A": "x" * 513}}, "maximum of 512"),
        ({"Tags": [{"Key": "a*b", "Value": ""}]}, "does not match pattern"),
        ({"VpcConfig": {"Subnets": ["subnet-0123456789abcdef0"], "SecurityGroupIds": ["sg-1"]}}, "does not exist"),
    ],
)
def test_invalid_training_job_refused(create, changes, expected):
    with pytest.raises(ClientError) as refused:
        create("refused", **changes)
    code, message = codes(refused)
    assert code == "ValidationException"
    assert expected in message


def test_exceeded_quota_refused_with_quota_name(create, world_sandbox):
    world_sandbox.limit_training(quotas={"ml.g5.xlarge": 0})
    try:
        with pytest.raises(ClientError) as refused:
            create("too-many", spot=True)
    finally:
        world_sandbox.limit_training()
    code, message = codes(refused)
    assert code == "ResourceLimitExceeded"
    assert "'ml.g5.xlarge for spot training job usage' is 0 Instances" in message


def test_training_job_waiting_for_capacity_can_be_stopped(create, client, world_sandbox, until):
    world_sandbox.limit_training(lacking=("spot", "on-demand"))
    try:
        create("waiting")
        assert until("waiting", "Pending")["TrainingJobStatus"] == "InProgress"
        assert "training job waiting" in world_sandbox.running_jobs()
        client("sagemaker").stop_training_job(TrainingJobName="waiting")
        description = until("waiting", "Stopped")
    finally:
        world_sandbox.limit_training()
    assert "TrainingStartTime" not in description
    with pytest.raises(ClientError, match="is in status Stopped"):
        client("sagemaker").stop_training_job(TrainingJobName="waiting")


def test_stopped_training_job_signals_containers_first(create, client, world_sandbox, until, print_lines):
    create("stopped", "wait")
    print_lines("stopped")
    assert "training job stopped" in world_sandbox.running_jobs()
    client("sagemaker").stop_training_job(TrainingJobName="stopped")
    assert until("stopped", "Stopped")["SecondaryStatus"] == "Stopped"
    assert "training job stopped" not in world_sandbox.running_jobs()
    assert [line for _, line in print_lines("stopped", 2)] == ["waits", "told"]


def test_training_job_time_limit_stops_without_failure(create, until, print_lines):
    create("limited", "wait", limits={"MaxRuntimeInSeconds": 2})
    description = until("limited", "Stopped")
    assert description["SecondaryStatus"] == "MaxRuntimeExceeded"
    assert "FailureReason" not in description
    assert [line for _, line in print_lines("limited", 2)] == ["waits", "told"]


def test_failed_container_gives_failure_file_text(create, until):
    create("failing", "fail")
    assert until("failing", "Failed")["FailureReason"] == "AlgorithmError: out of memory, exit code: 3"


def test_managed_spot_restarts_without_notice_and_bills_less(create, world_sandbox, client, until, print_lines):
    create("taken", "wait", spot=True)
    print_lines("taken")
    world_sandbox.interrupt_job("taken")
    assert [line for _, line in print_lines("taken", 2)] == ["waits", "waits"]
    time.sleep(2)
    client("sagemaker").stop_training_job(TrainingJobName="taken")
    description = until("taken", "Stopped")
    assert secondary(description).count("Training") == 2
    assert "Interrupted" in secondary(description)
    assert description["BillableTimeInSeconds"] < description["TrainingTimeInSeconds"]


def test_on_demand_restarts_up_to_retry_limit(create, world_sandbox, until, print_lines):
    create("retried", "wait", RetryStrategy={"MaximumRetryAttempts": 1})
    for count in (1, 2):
        print_lines("retried", count)
        until("retried", "Training")
        world_sandbox.interrupt_job("retried")
    description = until("retried", "Failed")
    assert description["FailureReason"].startswith("InternalServerError")
    assert secondary(description).count("Restarting") == 1


def test_missing_image_or_data_fails_training_job(create, until):
    missing = {"TrainingImage": f"123456789012.dkr.ecr.{REGION}.amazonaws.com/team/none:1", "TrainingInputMode": "File"}
    create("no-image", AlgorithmSpecification=missing)
    assert "Cannot pull container image" in until("no-image", "Failed")["FailureReason"]
    source = {"S3DataType": "S3Prefix", "S3Uri": f"s3://{BUCKET}/nothing/"}
    create("no-data", InputDataConfig=[{"ChannelName": "code", "DataSource": {"S3DataSource": source}}])
    assert "no S3 objects found" in until("no-data", "Failed")["FailureReason"]


def plan(name, begins, ends, target="training-job"):
    now = datetime.now(UTC)
    return TrainingPlan(
        arn=f"arn:aws:sagemaker:{REGION}:123456789012:training-plan/{name}",
        instance_type="ml.p5.48xlarge",
        count=2,
        zone_id=None,
        starts_at=now + timedelta(hours=begins),
        ends_at=now + timedelta(hours=ends),
        fee_usd=None,
        target=target,
    )


def test_future_training_plan_awaited_and_expired_or_foreign_refused(create, client, world_sandbox, until):
    plans = {
        training_plan.name: training_plan
        for training_plan in (
            plan("to-come", 24, 48),
            plan("over", -48, -24),
            plan("hyperpods", -1, 24, "hyperpod-cluster"),
        )
    }
    world_sandbox.create_prerequisites(training_plans=plans.values())

    def planned(name):
        resources = {"InstanceType": "ml.p5.48xlarge", "TrainingPlanArn": plans[name].arn}
        create(f"plan-{name}", resources=resources)

    for name, expected in (("over", "is Expired"), ("hyperpods", "is for hyperpod-cluster")):
        with pytest.raises(ClientError, match=expected):
            planned(name)
    planned("to-come")
    until("plan-to-come", "Pending")
    client("sagemaker").stop_training_job(TrainingJobName="plan-to-come")
    until("plan-to-come", "Stopped")


def test_training_jobs_listed_by_status_and_unknown_not_found(client, create, until):
    create("listed", "fail")
    until("listed", "Failed")
    listed = client("sagemaker").list_training_jobs(StatusEquals="Failed")["TrainingJobSummaries"]
    assert {job["TrainingJobStatus"] for job in listed} == {"Failed"}
    assert "listed" in {job["TrainingJobName"] for job in listed}
    with pytest.raises(ClientError, match="Requested resource not found"):
        client("sagemaker").describe_training_job(TrainingJobName="nobody")
