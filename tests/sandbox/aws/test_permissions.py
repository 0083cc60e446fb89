"""Simulated permissions in the sandbox, and the doctor's check of CloudFormation's role by them."""

import json
from datetime import UTC, datetime

import pytest

from launcher.aws import bootstrap
from launcher.aws.identity import simulate_permissions
from launcher.aws.session import Session
from launcher.catalog.load import load
from launcher.catalog.permissions import load_permissions
from launcher.model.diagnosis import Outcome
from launcher.model.emulator import EMULATED_ACCOUNT as ACCOUNT
from launcher.model.enums import TargetKind
from launcher.model.errors import AwsError
from launcher.model.request import DEFAULT_QUALIFIER, OWN_QUALIFIER
from launcher.planning.pin import pinned_plan
from launcher.rendering.policies import TARGET_POLICIES, PolicyAccount, policy_name, render_policy
from launcher.workflow.doctor import account as account_checks
from launcher.workflow.doctor import rights
from launcher.workflow.doctor.examination import Subject
from tests.plans import request_of, ten_hours_on_p5
from tests.sandbox.aws.answers import REGION

KINDS = [kind for kind in TARGET_POLICIES if kind is not TargetKind.SAGEMAKER_ENDPOINT]
TRUST = json.dumps({"Version": "2012-10-17", "Statement": []})


@pytest.fixture
def role(client):
    """Creates a role with inline policies, under a boundary; its ARN."""
    iam, made = client("iam"), []

    def make(name, *statements, boundary=None):
        limit = {}
        if boundary is not None:
            document = json.dumps({"Version": "2012-10-17", "Statement": boundary})
            policy = iam.create_policy(PolicyName=f"{name}-b", PolicyDocument=document)["Policy"]
            limit["PermissionsBoundary"] = policy["Arn"]
        arn = iam.create_role(RoleName=name, AssumeRolePolicyDocument=TRUST, **limit)["Role"]["Arn"]
        made.append(name)
        for number, statement in enumerate(statements):
            document = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
            iam.put_role_policy(RoleName=name, PolicyName=f"p{number}", PolicyDocument=document)
        return arn

    yield make
    for name in made:
        for policy in iam.list_role_policies(RoleName=name)["PolicyNames"]:
            iam.delete_role_policy(RoleName=name, PolicyName=policy)
        for policy in iam.list_attached_role_policies(RoleName=name)["AttachedPolicies"]:
            iam.detach_role_policy(RoleName=name, PolicyArn=policy["PolicyArn"])
        iam.delete_role(RoleName=name)


@pytest.fixture
def session(world_sandbox):
    return Session(environment=world_sandbox.environment, region=REGION)


def allow(*actions, resource="*", **more):
    return {"Effect": "Allow", "Action": list(actions), "Resource": resource, **more}


TAGGED = {"Condition": {"Null": {"aws:ResourceTag/slipway:cluster": "false"}}}
THROUGH = {"Condition": {"ForAnyValue:StringEquals": {"aws:CalledVia": ["pcs.amazonaws.com"]}}}


OF_SERVICES = {"Effect": "Allow", "NotAction": "iam:*", "Resource": "*"}
BUT_ONE = {"Effect": "Allow", "Action": "*", "NotResource": "arn:aws:s3:::a"}
CLUSTER = {"aws:ResourceTag/slipway:cluster": "x"}


@pytest.mark.parametrize(
    "statements, request_, allowed",
    [
        ([allow("s3:Get*")], ("s3:getobject", "arn:aws:s3:::a/b", {}), True),
        ([allow("s3:Get*")], ("s3:PutObject", "arn:aws:s3:::a/b", {}), False),
        ([allow("s3:*", resource="arn:aws:s3:::a/*")], ("s3:GetObject", "arn:aws:s3:::A/b", {}), False),
        ([allow("s3:*"), {**allow("s3:Get*"), "Effect": "Deny"}], ("s3:GetObject", "arn:aws:s3:::a/b", {}), False),
        ([OF_SERVICES], ("iam:CreateUser", "*", {}), False),
        ([OF_SERVICES], ("s3:ListBucket", "*", {}), True),
        ([BUT_ONE], ("s3:ListBucket", "arn:aws:s3:::a", {}), False),
        ([allow("pcs:*", **TAGGED)], ("pcs:DeleteQueue", "*", CLUSTER), True),
        ([allow("pcs:*", **TAGGED)], ("pcs:DeleteQueue", "*", {}), False),
        ([allow("ec2:*", **THROUGH)], ("ec2:RunInstances", "*", {"aws:CalledVia": "pcs.amazonaws.com"}), True),
        ([allow("ec2:*", **THROUGH)], ("ec2:RunInstances", "*", {"aws:CalledVia": "eks.amazonaws.com"}), False),
    ],
)
def test_simulation_follows_evaluation_logic_of_iam(role, session, statements, request_, allowed):
    action, resource, context = request_
    (decision,) = simulate_permissions(session, role("simulated", *statements), [action], [resource], context)
    assert decision.allowed is allowed


def test_boundary_limits_what_policies_allow(role, session):
    arn = role("bounded", allow("s3:*"), boundary=[allow("s3:GetObject")])
    decisions = simulate_permissions(session, arn, ["s3:GetObject", "s3:PutObject"])
    assert [(decision.allowed, decision.by_boundary) for decision in decisions] == [(True, False), (False, True)]


@pytest.mark.parametrize("resource", ["*", "arn:aws:ec2:us-east-2:123456789012:instance/i-1"])
def test_decision_names_the_condition_keys_that_a_request_lacks(role, session, resource):
    (decision,) = simulate_permissions(session, role("conditional", allow("ec2:*", **THROUGH)), ["ec2:Run"], [resource])
    assert (decision.allowed, decision.missing) == (False, ("aws:calledvia",))


def test_unknown_principal_is_refused(session):
    with pytest.raises(AwsError, match="NoSuchEntity"):
        simulate_permissions(session, f"arn:aws:iam::{ACCOUNT}:role/nobody", ["s3:GetObject"])


def examine(world_sandbox, kind, check, qualifier=None):
    """The doctor's only check by one examination of a plan of a kind."""
    own = {} if qualifier is None else {"security": {"qualifier": qualifier}}
    data = ten_hours_on_p5(kind.value, REGION, **own)
    catalog, environment = load(), world_sandbox.environment
    plan = pinned_plan(request_of(data), catalog)
    now = datetime.now(UTC)
    (found,) = check(Subject(plan=plan, region=REGION, zone=None, catalog=catalog, environment=environment, now=now))
    return found


@pytest.fixture
def execution(client, role):
    """Creates CloudFormation's role of a bootstrap with some of Slipway's policies."""
    iam, made = client("iam"), []

    def make(names, qualifier=DEFAULT_QUALIFIER):
        account = PolicyAccount(id=ACCOUNT, qualifier=qualifier, boundary_arn=None)
        name = bootstrap.role_name(qualifier, "cfn-exec", ACCOUNT, REGION)
        role(name)
        for policy in names:
            text = render_policy(load_permissions(), policy, account).text
            arn = iam.create_policy(PolicyName=policy_name(policy), PolicyDocument=text)["Policy"]["Arn"]
            made.append(arn)
            iam.attach_role_policy(RoleName=name, PolicyArn=arn)

    yield make
    for name in iam.list_roles()["Roles"]:
        for policy in iam.list_attached_role_policies(RoleName=name["RoleName"])["AttachedPolicies"]:
            if policy["PolicyArn"] in made:
                iam.detach_role_policy(RoleName=name["RoleName"], PolicyArn=policy["PolicyArn"])
    for arn in made:
        iam.delete_policy(PolicyArn=arn)


@pytest.mark.parametrize("kind", KINDS)
def test_doctor_says_that_execution_role_has_the_rights(execution, world_sandbox, kind):
    """With the conditions of every statement: the printed policies are enough for the printed bootstrap."""
    execution(TARGET_POLICIES[kind])
    check = examine(world_sandbox, kind, rights.execution_role)
    assert (check.result, check.got) == (Outcome.OK, "IAM allows it")


def test_doctor_names_the_policy_that_execution_role_lacks(execution, world_sandbox):
    execution(TARGET_POLICIES[TargetKind.PCS], OWN_QUALIFIER)
    check = examine(world_sandbox, TargetKind.EKS, rights.execution_role, OWN_QUALIFIER)
    assert check.result is Outcome.FAILED
    assert "eks:CreateCluster" in check.got
    assert "the role lacks SlipwayEKS;" in check.fix
    assert check.fix.partition("   (")[0].endswith(
        f"--qualifier {OWN_QUALIFIER} --toolkit-stack-name CDKToolkit-slipway"
    )


def test_doctor_finds_the_bootstrap_of_another_qualifier(client, execution, world_sandbox):
    execution(TARGET_POLICIES[TargetKind.PCS], OWN_QUALIFIER)
    name = bootstrap.version_parameter(OWN_QUALIFIER)
    client("ssm").put_parameter(Name=name, Value="28", Type="String")
    try:
        check = examine(world_sandbox, TargetKind.PCS, account_checks.check_bootstrap)
        missing = examine(world_sandbox, TargetKind.PCS, rights.execution_role)
    finally:
        client("ssm").delete_parameter(Name=name)
    assert check.result is Outcome.FAILED
    assert "the region has a bootstrap with the qualifier slipway" in check.got
    assert check.fix.startswith("security: {qualifier: slipway}; or ")
    assert (missing.result, missing.got) == (Outcome.UNKNOWN, "no such role: the bootstrap above creates it")
