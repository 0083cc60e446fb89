"""The launcher's own calls under the policies of `slipway policies`: each is allowed, and only by them."""

import json

import pytest
from botocore.exceptions import ClientError

from launcher.aws import bootstrap, buckets, identity, images, keys, networks, regions, roles, stacks
from launcher.aws import eks as eks_cluster
from launcher.aws.calls import forbidden
from launcher.aws.compute_fleet import request_start, status
from launcher.aws.functions import describe as function
from launcher.aws.instances import running
from launcher.aws.log_groups import log_groups
from launcher.aws.objects import Objects
from launcher.aws.rules import describe as rule
from launcher.aws.service_roles import SPOT, has_service_role
from launcher.aws.session import Session
from launcher.aws.topics import describe as topic
from launcher.model.errors import AwsError
from tests.enforced.conftest import ID, REGION

pytestmark = pytest.mark.iam

BUCKET, OTHER = "slipway-team-checkpoints", "payroll"
SUBNET = ("subnet-00000000",)

LAUNCH = {
    "bootstrap version": lambda session: bootstrap.version(session, None),
    "region": lambda session: regions.opt_in_status(session, REGION),
    "subnets": lambda session: networks.subnets(session, SUBNET),
    "security groups": lambda session: networks.group_vpcs(session, ("sg-00000000",)),
    "routes": lambda session: networks.default_routes(session, SUBNET[0]),
    "stack": lambda session: stacks.find(session, "slipway-team-training"),
    "stacks": lambda session: stacks.tagged_stacks(session, "slipway:cluster"),
    "exports": stacks.exports,
    "service role": lambda session: has_service_role(session, SPOT),
    "role": lambda session: roles.role(session, "slipway-team-training-NodeRole"),
    "read back: bucket": lambda session: buckets.describe(session, BUCKET),
    "read back: logs": lambda session: log_groups(session, "slipway-team"),
    "read back: rule": lambda session: rule(session, "slipway-team-idle"),
    "read back: topic": lambda session: topic(session, f"arn:aws:sns:{REGION}:{ID}:slipway-team"),
    "read back: function": lambda session: function(session, "slipway-team-guard"),
    "machines": lambda session: running(session, "slipway-team"),
    "fleet": lambda session: status(session, "slipway-team"),
    "start the fleet": lambda session: request_start(session, "slipway-team", "STOPPED", NOW),
    "ship a job": lambda session: Objects.at(session, f"s3://{BUCKET}/jobs/1").put("work.tar.gz", b"x"),
    "look at checkpoints": lambda session: Objects.at(session, f"s3://{BUCKET}/jobs/1").list_objects(),
    "read a manifest": lambda session: Objects.at(session, f"s3://{BUCKET}/jobs/1").read("work.tar.gz"),
    "prune": lambda session: Objects.at(session, f"s3://{BUCKET}/jobs/1").delete(["step-1"]),
    "EKS": lambda session: eks_cluster.describe(session, "slipway-team"),
    "image": lambda session: images.ami_state(session, "ami-0123456789abcdef0"),
}
NOW = "2026-11-22"

DOCTOR = {
    "simulation": lambda session: identity.simulate_permissions(
        session, f"arn:aws:iam::{ID}:user/person", ["s3:GetObject"]
    ),
    "key": lambda session: keys.key(session, session.key),
    "key's policy": lambda session: keys.key_policy(session, session.key),
}
BEYOND = {
    "another bucket": lambda client: client("s3").get_object(Bucket=OTHER, Key="salaries.csv"),
    "a file into it": lambda client: client("s3").put_object(Bucket=OTHER, Key="x", Body=b"x"),
    "a user": lambda client: client("iam").create_user(UserName="mallory"),
    "a key for a user": lambda client: client("iam").create_access_key(UserName="person"),
    "a role": lambda client: client("iam").create_role(RoleName="slipway-x", AssumeRolePolicyDocument="{}"),
    "rights of its own": lambda client: client("iam").attach_user_policy(
        UserName="person", PolicyArn="arn:aws:iam::aws:policy/AdministratorAccess"
    ),
    "machines": lambda client: client("ec2").run_instances(ImageId="ami-1", MinCount=1, MaxCount=1),
    "a stack of its own making": lambda client: client("cloudformation").create_stack(
        StackName="slipway-x", TemplateBody=json.dumps({"Resources": {"T": {"Type": "AWS::SNS::Topic"}}})
    ),
    "somebody's stack removed": lambda client: client("cloudformation").delete_stack(StackName="payroll"),
    "somebody's role": lambda client: client("sts").assume_role(
        RoleArn=f"arn:aws:iam::{ID}:role/payroll", RoleSessionName="person"
    ),
    "the key": lambda client: client("kms").schedule_key_deletion(KeyId="alias/x"),
}


@pytest.fixture(scope="module", autouse=True)
def things(enforced):
    """What is looked at; the id of a key."""
    owner = enforced.owner.client
    where = {"LocationConstraint": REGION}
    for name in (BUCKET, OTHER):
        owner("s3").create_bucket(Bucket=name, CreateBucketConfiguration=where)
    owner("s3").put_object(Bucket=OTHER, Key="salaries.csv", Body=b"x")
    owner("ssm").put_parameter(Name="/cdk-bootstrap/hnb659fds/version", Value="33", Type="String")
    trust = {"Effect": "Allow", "Principal": {"AWS": f"arn:aws:iam::{ID}:root"}, "Action": "sts:AssumeRole"}
    text = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
    for name in ("payroll", bootstrap.role_name(None, "deploy", ID, REGION), "slipway-team-training-NodeRole"):
        owner("iam").create_role(RoleName=name, AssumeRolePolicyDocument=text)
    return owner("kms").create_key()["KeyMetadata"]["Arn"]


@pytest.fixture(scope="module")
def session_named(enforced, things):
    """The sessions of a person, of one who has the doctor's policy too, and of somebody with none; by their names."""
    whose = {
        "person": enforced.policies("person"),
        "doctor": enforced.policies("person", "doctor"),
        "stranger": {},
    }
    environments = {name: enforced.user(name, documents) for name, documents in whose.items()}
    return lambda name: Known(environment=environments[name], region=REGION, key=things)


class Known(Session):
    """A session that knows the account's key."""

    def __init__(self, *, key, **known):
        super().__init__(**known)
        object.__setattr__(self, "key", key)


def is_refused(call, session):
    """Whether IAM refuses a call; other errors mean that it came through."""
    try:
        call(session)
    except AwsError as problem:
        return forbidden(problem)
    return False


@pytest.mark.parametrize("name", LAUNCH)
def test_launch_policy_allows_the_launch_calls(session_named, name):
    assert not is_refused(LAUNCH[name], session_named("person"))
    assert is_refused(LAUNCH[name], session_named("stranger"))


@pytest.mark.parametrize("name", DOCTOR)
def test_doctor_policy_allows_the_doctor_calls(session_named, name):
    assert not is_refused(DOCTOR[name], session_named("doctor"))
    assert is_refused(DOCTOR[name], session_named("person"))


@pytest.mark.parametrize("name", BEYOND)
def test_person_policy_forbids_other_calls(session_named, boto, name):
    with pytest.raises(ClientError, match="not authorized"):
        BEYOND[name](lambda service: boto(session_named("doctor").environment, service))


def test_person_policy_allows_assuming_the_bootstrap_roles_only(session_named, boto):
    name = bootstrap.role_name(None, "deploy", ID, REGION)
    sts = boto(session_named("person").environment, "sts")
    assert sts.assume_role(RoleArn=f"arn:aws:iam::{ID}:role/{name}", RoleSessionName="cdk")["Credentials"]


def test_simulation_of_the_doctor_equals_the_result_of_the_calls(session_named):
    """`doctor` asks IAM: its answer is held against the calls above."""
    person = f"arn:aws:iam::{ID}:user/person"
    actions = ["s3:GetObject", "s3:PutObject"]
    inside = identity.simulate_permissions(session_named("doctor"), person, actions, [f"arn:aws:s3:::{BUCKET}/jobs/x"])
    outside = identity.simulate_permissions(session_named("doctor"), person, actions, [f"arn:aws:s3:::{OTHER}/x"])
    assert [decision.allowed for decision in inside] == [True, True]
    assert [decision.allowed for decision in outside] == [False, False]
