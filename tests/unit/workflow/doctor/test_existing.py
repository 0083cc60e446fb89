"""The doctor on existing resources that a plan names: security groups and roles."""

import json

import pytest

from launcher.model.administrator import by_administrator
from launcher.model.diagnosis import Outcome
from launcher.workflow.doctor.existing_access import EXISTING
from tests.emulators.aws_account import DENIED, EC2_DENIED
from tests.unit.workflow.doctor.conftest import REGION, actions_of, client, decision

EXAMINED = EXISTING

pytestmark = pytest.mark.server


@pytest.fixture
def ec2_client(ready_account):
    return client(ready_account, "ec2")


@pytest.fixture
def vpc(ec2_client):
    return ec2_client.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]


@pytest.fixture
def group(ec2_client, vpc):
    """A group of that VPC, with rules to itself for some ways."""

    def make(*ways, where=None):
        group_id = ec2_client.create_security_group(GroupName=f"g{len(ways)}", Description="d", VpcId=where or vpc)[
            "GroupId"
        ]
        rule = {
            "GroupId": group_id,
            "IpPermissions": [{"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group_id}]}],
        }
        for direction in ways:
            getattr(ec2_client, f"authorize_security_group_{direction}")(**rule)
        return group_id

    return make


@pytest.fixture
def look_up(examined, probe_plan, vpc):
    """The check of a plan's one group."""

    def check_group(name, kind="hyperpod-slurm", instance_type="p5.48xlarge"):
        text = (
            "slipway: 1\nname: probe\nworkload: {train: {model: llama-3.1-8b, tokens_b: 2.0}}\n"
            f"target: {{kind: {kind}, instance_type: {instance_type}, nodes: 2, region: {REGION}, az_id: use2-az1}}\n"
            f"purchase: {{option: on-demand}}\nnetwork: {{vpc_id: {vpc}, subnet_ids: [subnet-0a1b2c3d4e5f60718],\n"
            f"  security_group_ids: [{name}]}}\n"
        )
        (check,) = (check for check in examined(probe_plan(text)).checks if check.name == "security group")
        return check

    return check_group


def test_security_group_with_both_member_rules_passes(group, look_up):
    assert look_up(group("ingress", "egress")).result is Outcome.OK


@pytest.mark.parametrize("there,lacking", [("ingress", "egress"), ("egress", "ingress")])
def test_hyperpod_group_without_rule_fails_with_command(group, look_up, there, lacking):
    name = group(there)
    check = look_up(name)
    assert check.result is Outcome.FAILED
    assert check.fix == by_administrator(
        f"aws ec2 authorize-security-group-{lacking} --region {REGION} --group-id {name} "
        f"--ip-permissions 'IpProtocol=-1,UserIdGroupPairs=[{{GroupId={name}}}]'"
    )


def test_suggested_commands_create_missing_rules(ec2_client, group, look_up):
    """Its words, as the AWS CLI reads them, are the call that `group` makes."""
    name = group()
    assert look_up(name).fix.count("authorize-security-group-") == 2
    rule = {"GroupId": name, "IpPermissions": [{"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": name}]}]}
    ec2_client.authorize_security_group_ingress(**rule)
    ec2_client.authorize_security_group_egress(**rule)
    assert look_up(name).result is Outcome.OK


def test_group_without_member_rules_passes_on_parallelcluster(group, look_up):
    assert look_up(group(), kind="parallelcluster").result is Outcome.OK


def test_group_of_other_vpc_or_missing_group_fails(ec2_client, group, look_up):
    other = ec2_client.create_vpc(CidrBlock="10.1.0.0/16")["Vpc"]["VpcId"]
    check = look_up(group("ingress", "egress", where=other))
    assert (check.result, check.got) == (Outcome.FAILED, f"it belongs to {other}")
    missing = look_up("sg-0fedcba9876543210")
    assert (missing.result, missing.got) == (Outcome.FAILED, "no such group in the region")


def test_group_without_describe_right_is_unknown(ready_account, look_up):
    ready_account.canned["ec2.DescribeSecurityGroups"] = EC2_DENIED
    assert look_up("sg-0fedcba9876543210").result is Outcome.UNKNOWN


# --------------------------------------------------------------------------------------------------------------- roles


def trusting(*services):
    statements = [
        {"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole"} for service in services
    ]
    return json.dumps({"Version": "2012-10-17", "Statement": statements})


@pytest.fixture
def machines(ready_account):
    """A role of the account, trusted by some services."""
    return lambda *services: client(ready_account, "iam").create_role(
        RoleName="machines", Path="/team/", AssumeRolePolicyDocument=trusting(*services)
    )["Role"]["Arn"]


@pytest.fixture
def with_role(examined, probe_plan):
    """The checks of a plan's one role."""

    def role_checks(arn, kind="hyperpod-slurm", key="nodes"):
        text = (
            "slipway: 1\nname: probe\nworkload: {train: {model: llama-3.1-8b, tokens_b: 2.0}}\n"
            f"target: {{kind: {kind}, instance_type: p5.48xlarge, nodes: 2, region: {REGION}, az_id: use2-az1}}\n"
            f'purchase: {{option: on-demand}}\nsecurity: {{roles: {{{key}: "{arn}"}}}}\n'
        )
        return [check for check in examined(probe_plan(text)).checks if check.name == "role"]

    return role_checks


def test_trusted_role_with_all_rights_passes(machines, with_role):
    there, able = with_role(machines("sagemaker.amazonaws.com"))
    assert (there.result, able.result) == (Outcome.OK, Outcome.OK)
    assert "security.roles.nodes" in able.asked


def test_role_trusting_other_service_fails_with_statement(machines, with_role):
    there, _ = with_role(machines("ec2.amazonaws.com"))
    assert (there.result, there.got) == (Outcome.FAILED, "its trust policy names ec2.amazonaws.com")
    statement = json.loads(there.fix.partition(": ")[2])
    assert statement["Principal"] == {"Service": "sagemaker.amazonaws.com"}
    assert statement["Action"] == ["sts:AssumeRole"]


def test_pod_role_fix_includes_tag_session(machines, with_role):
    there, _ = with_role(machines("ec2.amazonaws.com"), kind="eks", key="pods")
    assert json.loads(there.fix.partition(": ")[2])["Action"] == ["sts:AssumeRole", "sts:TagSession"]


def test_pod_role_is_simulated_on_plan_folder(ready_account, machines, with_role):
    requests = []

    def allowed(sent):
        requests.append(sent)
        return {"EvaluationResults": [decision(action, "allowed") for action in actions_of(sent)], "IsTruncated": False}

    ready_account.canned["iam.SimulatePrincipalPolicy"] = allowed
    _, able = with_role(machines("pods.eks.amazonaws.com"), kind="eks", key="pods")
    assert able.result is Outcome.OK
    text = json.dumps(requests)
    assert "/jobs/probe/*" not in text, "a simulation is of one object, not of a pattern"
    assert "/jobs/probe/probe" in text
    assert "${" not in text
    assert "aws:PrincipalTag/kubernetes-service-account" in text


def test_missing_role_or_role_of_other_account_fails(with_role):
    (missing,) = with_role("arn:aws:iam::123456789012:role/gone")
    assert (missing.result, missing.got) == (Outcome.FAILED, "no such role")
    (other,) = with_role("arn:aws:iam::210987654321:role/machines")
    assert other.got == "it is of account 210987654321, not of 123456789012"


def test_missing_role_rights_are_named(ready_account, machines, with_role):
    def lacks(sent):
        actions = actions_of(sent)
        decided = [
            decision(word, "implicitDeny" if word in ("iam:CreateUser", "s3:PutObject") else "allowed")
            for word in actions
        ]
        return {"EvaluationResults": decided, "IsTruncated": False}

    ready_account.canned["iam.SimulatePrincipalPolicy"] = lacks
    _, able = with_role(machines("sagemaker.amazonaws.com"))
    assert able.result is Outcome.FAILED
    assert able.got == "denied: s3:PutObject (no policy allows it)"
    assert able.fix.startswith("slipway policies FILE --account 123456789012")


@pytest.mark.parametrize("refused", ["iam.SimulatePrincipalPolicy", "iam.GetRole"])
def test_role_without_simulation_right_is_unknown(ready_account, machines, with_role, refused):
    ready_account.canned[refused] = DENIED
    assert [check.result for check in with_role(machines("sagemaker.amazonaws.com"))][-1] is Outcome.UNKNOWN


def test_denial_lacking_context_is_unknown(ready_account, machines, with_role):
    def depends(sent):
        return {
            "EvaluationResults": [
                decision(action, "implicitDeny", MissingContextValues=["ec2:Subnet"]) for action in actions_of(sent)
            ],
            "IsTruncated": False,
        }

    arn = machines("sagemaker.amazonaws.com")
    ready_account.canned["iam.SimulatePrincipalPolicy"] = depends
    _, able = with_role(arn)
    assert able.result is Outcome.UNKNOWN
    assert "ec2:Subnet" in able.got
