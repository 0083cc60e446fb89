"""The stack of training jobs: role, guard, external rules; no instances, and a network only if the plan names one."""

import json
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import boto3
import pytest
from moto import mock_aws

from launcher.model.enums import TargetKind
from tests.checks import some
from tests.infra.deployer import FREE, allowed_types, refused, types
from tests.infra.guard_modules import guard_module
from tests.infra.iam_names import made
from tests.infra.reading import variables

KIND = "sagemaker-training"
CREATED = datetime(2026, 11, 19, 20, tzinfo=UTC)
STARTED = datetime(2026, 11, 19, 22, tzinfo=UTC)
IN_VPC = """
slipway: 1
name: small
target: {kind: sagemaker-training, region: us-east-2, instance_type: p5.48xlarge, nodes: 2}
network: {vpc_id: vpc-0123456789abcdef0, subnet_ids: [subnet-0123456789abcdef0]}
purchase: {option: on-demand}
"""


@pytest.fixture
def in_vpc(synthesised):
    return synthesised(IN_VPC)


def test_execution_policies_allow_deployment_in_vpc(in_vpc):
    assert refused(TargetKind.SAGEMAKER_TRAINING, made(in_vpc), FREE) == []
    assert types(in_vpc) <= allowed_types(TargetKind.SAGEMAKER_TRAINING)


def test_training_jobs_stacks_have_no_instances_and_a_network_only_for_closed_plans(example):
    if example.plan.request.network.is_closed:
        assert example.resources("network", "AWS::EC2::VPC")
        assert not types(example) & {"AWS::EC2::Instance", "AWS::EC2::LaunchTemplate", "AWS::EC2::NatGateway"}
        return
    assert not {type_ for type_ in types(example) if type_.startswith(("AWS::EC2::", "AWS::SageMaker::", "AWS::FSx::"))}
    assert set(example.templates) == {
        f"slipway-{example.plan.name}-{part}.template.json" for part in ("checkpoints", "training")
    }


def test_vpc_plan_has_security_group_between_members(in_vpc):
    (group,) = in_vpc.resources("training", "AWS::EC2::SecurityGroup")
    for kind, key in (("Ingress", "SourceSecurityGroupId"), ("Egress", "DestinationSecurityGroupId")):
        rule = in_vpc.only("training", f"AWS::EC2::SecurityGroup{kind}")
        assert (rule["IpProtocol"], rule[key]) == ("-1", {"Fn::GetAtt": [group, "GroupId"]})
    assert in_vpc.template("training")["Outputs"]["PrivateSubnetId"]["Value"] == "subnet-0123456789abcdef0"


def test_closed_plan_has_one_private_subnet_with_endpoints_of_s3_and_cloudwatch(named):
    closed = named("private")
    (subnet,) = closed.resources("network", "AWS::EC2::Subnet")
    services = {
        kind: {
            json.dumps(endpoint["ServiceName"]).rstrip('"]}').rpartition(".")[2]
            for endpoint in closed.resources("network", "AWS::EC2::VPCEndpoint").values()
            if endpoint["VpcEndpointType"] == kind
        }
        for kind in ("Gateway", "Interface")
    }
    assert "s3" in services["Gateway"]
    assert services["Interface"] == {"logs", "monitoring"}
    assert not types(closed) & {"AWS::EC2::Route", "AWS::EC2::InternetGateway", "AWS::EC2::NatGateway"}
    outputs = closed.template("training")["Outputs"]
    assert subnet in json.dumps(outputs["PrivateSubnetId"]["Value"])
    assert "SecurityGroupId" in json.dumps(list(outputs))
    (role,) = [role for key, role in closed.resources("training", "AWS::IAM::Role").items() if "ExecutionRole" in key]
    assert "ec2:CreateNetworkInterfacePermission" in json.dumps(role["Policies"])


def test_sagemaker_of_account_assumes_role_deleting_only_journal_and_cache(example):
    roles = example.resources("training", "AWS::IAM::Role")
    (role,) = [role for key, role in roles.items() if key.startswith("ExecutionRole")]
    (trust,) = role["AssumeRolePolicyDocument"]["Statement"]
    assert trust["Principal"] == {"Service": "sagemaker.amazonaws.com"}
    assert trust["Condition"] == {"StringEquals": {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}}
    policy = example.only("training", "AWS::IAM::ManagedPolicy")["PolicyDocument"]["Statement"]
    deletes = [
        statement["Resource"]
        for statement in policy
        if statement["Effect"] == "Allow" and "s3:DeleteObject" in json.dumps(statement["Action"])
    ]
    assert all(
        "/.runs/*" in json.dumps(resource) or "/.compile-cache/*" in json.dumps(resource) for resource in deletes
    )
    assert deletes


def test_failed_training_job_matched_by_cluster_tag(example):
    rules = example.resources("training", "AWS::Events::Rule").values()
    (pattern,) = [rule["EventPattern"] for rule in rules if "EventPattern" in rule]
    assert pattern["detail"] == {"TrainingJobStatus": ["Failed"], "Tags": {"slipway:cluster": [example.plan.name]}}
    assert variables(example)["TRAINING_JOBS"] == f"slipway-{example.plan.name}"


class SageMaker:
    """Two jobs that run, of which one is the plan's, and one that waits for capacity."""

    def __init__(self):
        self.stopped, self.stored = [], []
        self.jobs = {"own-1": ("tiny", "Training"), "other-1": ("other", "Training"), "own-2": ("tiny", "Pending")}

    def get_paginator(self, call):
        return SimpleNamespace(paginate=lambda **params: [getattr(self, call)(**params)])

    def list_training_jobs(self, StatusEquals):  # noqa: N803 - as the API has it
        assert StatusEquals == "InProgress"
        return {"TrainingJobSummaries": [{"TrainingJobName": name, "TrainingJobArn": name} for name in self.jobs]}

    def list_tags(self, ResourceArn):  # noqa: N803 - the same
        return {"Tags": [{"Key": "slipway:cluster", "Value": self.jobs[ResourceArn][0]}]}

    def describe_training_job(self, TrainingJobName):  # noqa: N803 - the same
        secondary = self.jobs[TrainingJobName][1]
        started = {"TrainingStartTime": STARTED} if secondary == "Training" else {}
        return {
            "TrainingJobName": TrainingJobName,
            "SecondaryStatus": secondary,
            "CreationTime": CREATED,
            "ResourceConfig": {"InstanceCount": 2},
            **started,
        }

    def stop_training_job(self, TrainingJobName):  # noqa: N803 - the same
        self.stopped.append(TrainingJobName)

    def put_object(self, *, Bucket, Key, Body, ContentType):  # noqa: N803 - as S3's API has it
        assert (Bucket, Key, ContentType) == ("store", "jobs/.guard/x/sent/stopped.json", "application/json")
        self.stored.append(json.loads(Body))


def test_guard_counts_billed_instances_and_stops_only_own_jobs():
    with guard_module("training_jobs") as module, guard_module("guard") as base:
        variables = {
            "CLUSTER": "tiny",
            "HYPERPOD": "slipway-tiny",
            "STACK": "s",
            "TOPICS": "",
            "AWS_REGION": "us-east-2",
            "STATE": "/slipway/s/guard",
            "FOLDER_URI": "s3://store/jobs/.guard/x",
            "TTL_HOURS": "0",
        }
        settings = base.Settings.of({**variables, "PREPAID": "false", "IDLE_MINUTES": "0"})
        service = SageMaker()
        guard = module.TrainingJobGuard(settings, lambda _: service, datetime(2026, 11, 20, tzinfo=UTC))
        assert len(guard.nodes()) == 2
        assert not guard.all_idle(guard.nodes())
        guard.watch_time(guard.now, 2)
        assert service.stopped == ["own-1", "own-2"]
        (stop,) = service.stored
        assert (stop["text"], stop["jobs_wait"], stop["ended_by"]) == ("its 0 hours have ended", False, "time-limit")


@pytest.mark.parametrize(
    "secondary, started, usd",
    [
        ("Training", True, 2 * 2 * 40),
        ("Downloading", True, 2 * 2 * 40),
        # A billed job whose start SageMaker does not give counts since its creation.
        ("Downloading", False, 2 * 4 * 40),
        ("Pending", False, 0),
    ],
)
def test_unreadable_state_counts_cost_since_training_start(secondary, started, usd):
    now = datetime(2026, 11, 20, tzinfo=UTC)
    with guard_module("training_jobs") as module, guard_module("guard") as base:
        service = SageMaker()
        service.jobs = {"own-1": ("tiny", secondary), "other-1": ("other", "Training")}
        description = service.describe_training_job
        known = {"TrainingStartTime": STARTED} if started else {}
        service.describe_training_job = lambda TrainingJobName: (  # noqa: N803 - as the API has it
            {key: value for key, value in description(TrainingJobName).items() if key != "TrainingStartTime"} | known
        )
        settings = SimpleNamespace(cluster="tiny", sum=SimpleNamespace(other_usd_per_hour=0.0), usd_per_node_hour=40.0)
        guard = module.TrainingJobGuard(settings, lambda _: service, now)
        assert base.usd_at_least(settings, guard.nodes(), None, now) == usd


@pytest.mark.parametrize("days_later, before, after", [(0, None, 30), (29, None, 30), (31, None, None), (0, 400, 400)])
def test_guard_sets_missing_log_retention_and_deletes_no_event(monkeypatch, example, days_later, before, after):
    guard_variables = {name: variables(example)[name] for name in ("LOG_GROUP", "LOG_RETENTION_DAYS")}
    assert guard_variables == {"LOG_GROUP": "/aws/sagemaker/TrainingJobs", "LOG_RETENTION_DAYS": "30"}
    for name, value in guard_variables.items():
        monkeypatch.setenv(name, value)
    with mock_aws(), guard_module("training_jobs") as module:
        logs, group = boto3.client("logs", "us-east-2"), guard_variables["LOG_GROUP"]
        now = datetime.now(UTC) + timedelta(days=days_later)
        guard = module.TrainingJobGuard(SimpleNamespace(usd_per_node_hour=None), lambda _: logs, now)
        guard.set_retention()  # before the first job of the account there is no group
        for name in (group, f"{group}-of-others"):
            logs.create_log_group(logGroupName=name)
        if before is not None:
            logs.put_retention_policy(logGroupName=group, retentionInDays=before)
        guard.set_retention()
        retention_by_group = {
            log_group["logGroupName"]: log_group.get("retentionInDays")
            for log_group in logs.describe_log_groups()["logGroups"]
        }
    assert retention_by_group == {group: after, f"{group}-of-others": None}


def test_guard_sets_retention_only_on_training_job_log_group(example):
    (role,) = [role for key, role in example.resources("training", "AWS::IAM::Role").items() if "Guard" in key]
    statements = role["Policies"][0]["PolicyDocument"]["Statement"]
    (keep,) = [statement for statement in statements if statement["Action"] == "logs:PutRetentionPolicy"]
    assert all("log-group:/aws/sagemaker/TrainingJobs" in json.dumps(resource) for resource in some(keep["Resource"]))
