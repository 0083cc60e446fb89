"""An account to examine: moto behind canned answers, and plans for it."""

import dataclasses
import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cache
from typing import Any

import boto3
import pytest

from launcher.aws.session import Session
from launcher.catalog.load import load
from launcher.workflow.doctor.billing import BILLING
from launcher.workflow.doctor.diagnosis import PLAN_EXAMINATIONS, diagnose, subject_of
from launcher.workflow.doctor.examination import examine
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import pick, price

REGION = "us-east-2"
NOW = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)
METRIC: dict[str, Any] = {
    "MetricNamespace": "AWS/Usage",
    "MetricName": "ResourceCount",
    "MetricDimensions": {"Class": "x", "Resource": "vCPU", "Service": "EC2", "Type": "Resource"},
    "MetricStatisticRecommendation": "Maximum",
}


@pytest.fixture
def ready_account(account):
    """An account that is ready: bootstrapped, with quotas of 10,000 and rights."""
    account.canned.update(
        {
            "service-quotas.ListServiceQuotas": lambda sent: {"Quotas": quotas(sent["ServiceCode"])},
            "service-quotas.ListAWSDefaultServiceQuotas": lambda sent: {"Quotas": []},
            "iam.SimulatePrincipalPolicy": allowed,
            "ec2.GetEbsDefaultKmsKeyId": {"KmsKeyId": "alias/aws/ebs"},
        }
    )
    client(account, "ssm").put_parameter(Name="/cdk-bootstrap/hnb659fds/version", Value="33", Type="String")
    where = {"LocationConstraint": REGION}
    s3 = client(account, "s3")
    s3.create_bucket(Bucket=f"cdk-hnb659fds-assets-123456789012-{REGION}", CreateBucketConfiguration=where)
    iam = client(account, "iam")
    for name in ("AWSServiceRoleForEC2Spot", "AWSServiceRoleForAmazonFSx"):
        iam.create_role(RoleName=name, Path="/aws-service-role/x/", AssumeRolePolicyDocument="{}")
    iam.create_role(RoleName=f"cdk-hnb659fds-cfn-exec-role-123456789012-{REGION}", AssumeRolePolicyDocument="{}")
    return account


def client(state, service):
    return _client(service, state.moto)


@cache
def _client(service, address):
    keys = {"aws_access_key_id": "x", "aws_secret_access_key": "y", "region_name": REGION}
    return boto3.client(service, endpoint_url=address, **keys)


NAMES = {
    "ec2": (
        ("Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances", "L-1216C47A"),
        ("Running On-Demand P instances", "L-417A185B"),
        ("All P5 Spot Instance Requests", "L-C4BD4855"),
        ("EC2-VPC Elastic IPs", "L-0263D0A3"),
    ),
    "ebs": (("Storage for General Purpose SSD (gp3) volumes, in TiB", "L-7A658B76"),),
    "vpc": (
        ("VPCs per Region", "L-F678F1CE"),
        ("Internet gateways per Region", "L-A4707A72"),
        ("NAT gateways per Availability Zone", "L-FE5A380F"),
        ("Network interfaces per Region", "L-DF5E4CA3"),
    ),
    "sagemaker": (
        ("ml.p5.48xlarge for cluster usage", "L-8762A75F"),
        ("ml.m6i.xlarge for cluster usage", "L-AAAA0001"),
        ("Maximum number instances allowed per SageMaker HyperPod cluster", "L-2CE978FC"),
        ("Total number of instances allowed across SageMaker HyperPod clusters", "L-3308CCC7"),
    ),
    "pcs": (("Clusters", "L-AAAA0003"),),
    "eks": (("Clusters", "L-1194D53C"), ("Nodes per managed node group", "L-BD136A63")),
    "fsx": (("Lustre Persistent_2 SSD storage capacity", "L-AAAA0002"),),
}


def quotas(service, value=10_000.0, **changed):
    """The quotas of a service; `changed` are values by code, its hyphen written as an underscore."""
    return [
        {
            "ServiceCode": service,
            "QuotaName": name,
            "QuotaCode": code,
            "Value": changed.get(code.replace("-", "_"), value),
            "Adjustable": True,
        }
        for name, code in NAMES[service]
    ]


def allowed(sent):
    """What a careful account answers: everything that is needed, and no more."""
    decisions = [(action, "implicitDeny" if action == "iam:CreateUser" else "allowed") for action in actions_of(sent)]
    return {"EvaluationResults": [decision(action, word) for action, word in decisions], "IsTruncated": False}


def actions_of(sent):
    return [value for name, value in sent.items() if name.startswith("ActionNames.member.")]


def decision(action, word, **more):
    return {"EvalActionName": action, "EvalDecision": word, "EvalResourceName": "*", **more}


PROBE = """
slipway: 1
name: probe
workload: {train: {model: llama-3.1-8b, tokens_b: 2.0}}
target: {kind: parallelcluster, instance_type: p5.48xlarge, nodes: 2, region: us-east-2, az_id: use2-az1}
purchase: {option: spot}
"""


@pytest.fixture(scope="session")
def pinned_probe(tmp_path_factory):
    """The pinned plan of a plan file's text, in a folder without other files; each text is priced once."""
    path = tmp_path_factory.mktemp("probe") / "plan.yaml"

    @cache
    def pinned(text):
        path.write_text(text, encoding="utf-8")
        return pick(price(path, NOW, PriceOptions(any_age=True)), None)[1].plan

    return pinned


@pytest.fixture
def probe_plan(pinned_probe):
    """A plan from words of YAML over a pinned one, and a way to change what was resolved."""

    def make(text=PROBE, **replaced):
        return dataclasses.replace(pinned_probe(text), **replaced)

    return make


@pytest.fixture
def examined(ready_account, request):
    """The checks of a plan: all of them, those of a module's own EXAMINED, or of one examination by its name."""
    chosen = getattr(request.module, "EXAMINED", PLAN_EXAMINATIONS)

    def run_checks(plan, *, billing=False, environment=None, only=None):
        variables, rate = environment or ready_account.environment, Decimal("0.25")
        subject = subject_of(plan, REGION, catalog=load(), environment=variables, now=NOW, up_usd_per_hour=rate)
        if billing and only is None:
            return diagnose(subject, billing=True)
        every = (*chosen, *(BILLING if billing else ()))
        return examine(subject, [examination for examination in every if only in (None, examination.name)])

    return run_checks


def session(state):
    return Session(environment=state.environment, region=REGION)


def stack(account, part, resources, outputs=None, tags=None):
    body = {"Resources": resources, "Outputs": outputs or {}}
    client(account, "cloudformation").create_stack(
        StackName=f"slipway-probe-{part}",
        TemplateBody=json.dumps(body),
        Tags=[
            {"Key": "slipway:cluster", "Value": "probe"},
            *({"Key": key, "Value": value} for key, value in (tags or {"owner": "ada"}).items()),
        ],
    )


PLAN = (
    "slipway: 1\nname: probe\nworkload: {train: {model: llama-3.1-8b, tokens_b: 2.0}}\n"
    "target: {instance_type: p5.48xlarge, nodes: 2, region: us-east-2}\n"
)
BEGINS = datetime(2026, 11, 25, 11, 30, tzinfo=UTC)


def block(number, days, fee, begins=BEGINS, **more):
    return {
        "CapacityBlockOfferingId": f"cb-{number:017d}",
        "InstanceType": "p5.48xlarge",
        "AvailabilityZone": "us-east-2a",
        "InstanceCount": 2,
        "StartDate": begins,
        "EndDate": begins + timedelta(days=days),
        "CapacityBlockDurationHours": 24 * days,
        "UpfrontFee": fee,
        "CurrencyCode": "USD",
        "Tenancy": "default",
        **more,
    }


def blocks(sent):
    """As EC2: offerings of the length that was asked for, that lie in the window."""
    offers = [block(1, 1, "2500.00"), block(2, 2, "4000.00", NOW + timedelta(hours=7))]
    hours, first = int(sent["CapacityDurationHours"]), datetime.fromisoformat(sent["StartDateRange"])
    last = datetime.fromisoformat(sent["EndDateRange"])
    matching_offers = [
        offer
        for offer in offers
        if offer["CapacityBlockDurationHours"] == hours and first <= offer["StartDate"] and offer["EndDate"] <= last
    ]
    return {"CapacityBlockOfferings": matching_offers[:1]}


@pytest.fixture
def offering(ready_account):
    """An account in which everything is on offer."""
    ready_account.canned.update(
        {
            "ec2.DescribeCapacityBlockOfferings": blocks,
            "ec2.DescribeCapacityReservations": {"CapacityReservations": []},
            "sagemaker.SearchTrainingPlanOfferings": {"TrainingPlanOfferings": []},
            "ec2.GetSpotPlacementScores": {
                "SpotPlacementScores": [{"Region": "us-east-2", "AvailabilityZoneId": "use2-az1", "Score": 3}]
            },
        }
    )
    return ready_account
