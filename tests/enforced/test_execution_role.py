"""The doctor's check of CloudFormation's role, by the simulation of an enforcing IAM.

ministack's simulation accepts no context: it denies actions that only a statement with a condition allows.
"""

import json
from datetime import UTC, datetime

import pytest

from launcher.aws import bootstrap
from launcher.catalog.load import load
from launcher.catalog.permissions import load_permissions
from launcher.model.diagnosis import Outcome
from launcher.model.enums import TargetKind
from launcher.planning.pin import pinned_plan
from launcher.rendering.policies import TARGET_POLICIES, policy_name, rendered_statements
from launcher.workflow.doctor import rights
from launcher.workflow.doctor.examination import Subject
from tests import plans
from tests.checks import some
from tests.enforced.conftest import ID, OWNER, REGION

pytestmark = pytest.mark.iam
KINDS = (TargetKind.EKS, TargetKind.PCS, TargetKind.HYPERPOD_SLURM, TargetKind.SAGEMAKER_TRAINING)


@pytest.fixture(scope="module")
def attach(enforced):
    """Gives CloudFormation's role of the bootstrap these policies, and no others."""
    iam = enforced.owner.client("iam")
    role = bootstrap.role_name("hnb659fds", "cfn-exec", ID, REGION)
    trust = json.dumps({"Version": "2012-10-17", "Statement": []})
    iam.create_role(RoleName=role, AssumeRolePolicyDocument=trust)
    names = {name for kind in KINDS for name in TARGET_POLICIES[kind]}
    for title, document in enforced.policies(*sorted(names)).items():
        iam.create_policy(PolicyName=title, PolicyDocument=document)

    def attach(policies):
        for attached in iam.list_attached_role_policies(RoleName=role)["AttachedPolicies"]:
            iam.detach_role_policy(RoleName=role, PolicyArn=attached["PolicyArn"])
        for name in policies:
            iam.attach_role_policy(RoleName=role, PolicyArn=f"arn:aws:iam::{ID}:policy/{policy_name(name)}")

    return attach


@pytest.fixture
def examined(enforced):
    """The check of that role for a plan of a kind."""

    def examine(kind):
        data = plans.ten_hours_on_p5(kind.value, REGION)
        (check,) = rights.execution_role(
            Subject(
                plan=pinned_plan(plans.request_of(data), load()),
                region=REGION,
                zone=None,
                catalog=load(),
                environment=enforced.environment(OWNER),
                now=datetime.now(UTC),
            )
        )
        return check

    return examine


@pytest.mark.parametrize("kind", KINDS)
def test_role_with_the_targets_policies_lacks_conditional_rights_only(enforced, attach, examined, monkeypatch, kind):
    monkeypatch.setattr(rights, "MAX_NAMED", 1000)
    attach(TARGET_POLICIES[kind])
    check = examined(kind)
    denied = set(check.got.removeprefix("denied: ").partition(" (")[0].split(", "))
    statements = [
        statement
        for policy in TARGET_POLICIES[kind]
        for statement in rendered_statements(load_permissions(), policy, enforced.account)
    ]
    conditional = {action for statement in statements if "Condition" in statement for action in statement["Action"]}
    assert denied <= conditional


@pytest.mark.parametrize("kind", KINDS)
def test_role_without_one_policy_fails_with_bootstrap_command_that_adds_it(attach, examined, kind):
    for lacking in some(TARGET_POLICIES[kind]):
        attach(name for name in TARGET_POLICIES[kind] if name != lacking)
        check = examined(kind)
        assert check.result is Outcome.FAILED, lacking
        assert f"the role lacks {policy_name(lacking)};" in check.fix
        assert all(f"policy/{policy_name(name)}" in check.fix for name in TARGET_POLICIES[kind])
