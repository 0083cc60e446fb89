"""The policies of `slipway policies` against the stacks of endpoints, and against a client's requests."""

import json
from dataclasses import replace

import pytest

from launcher.catalog.permissions import load_permissions
from launcher.model.enums import TargetKind
from launcher.model.named_role import named_roles
from launcher.model.request import RoleRequest
from launcher.rendering.policies import PERSON, PolicyAccount, execution_policies, render_policy
from launcher.rendering.role_policies import render_role
from launcher.targets.registry import TARGETS
from tests.checks import some
from tests.infra.iam import ACCOUNT, actions, allows
from tests.infra.iam_names import made

BOUNDARY = f"arn:aws:iam::{ACCOUNT}:policy/SlipwayBoundary"
PERMISSIONS = load_permissions()


def documents(names, boundary=None):
    account = PolicyAccount(id=ACCOUNT, qualifier="hnb659fds", boundary_arn=boundary)
    return [json.loads(render_policy(PERMISSIONS, name, account).text) for name in names]


@pytest.mark.parametrize("boundary", [None, BOUNDARY], ids=["free", "bounded"])
def test_execution_policies_allow_every_created_resource(serving_example, boundary):
    policies = documents(execution_policies([TargetKind.SAGEMAKER_ENDPOINT]), boundary)
    context = {"PermissionsBoundary": boundary} if boundary else {}
    resources = made(serving_example)
    assert len(resources) > 10
    for action, arn, more in resources:
        assert allows(policies, action, arn, **{**context, **more}), (action, arn, more)


def test_execution_policies_list_every_resource_type_of_stack(serving_example):
    types = {
        resource["Type"]
        for template in serving_example.templates.values()
        for resource in template["Resources"].values()
    }
    names = execution_policies([TargetKind.SAGEMAKER_ENDPOINT])
    assert types <= {type_ for name in names for type_ in PERMISSIONS.policy(name).types}


def test_person_policy_allows_invoke_and_reading_logs(serving_example):
    (person,) = documents([PERSON])
    endpoint_arns = [arn for action, arn, _ in made(serving_example) if action == "sagemaker:CreateEndpoint"]
    logs = [
        arn for action, arn, _ in made(serving_example) if action == "logs:CreateLogGroup" and "/aws/sagemaker/" in arn
    ]
    assert (len(endpoint_arns), len(logs)) == (1, 1)
    assert allows([person], "sagemaker:InvokeEndpoint", endpoint_arns[0])
    assert allows([person], "logs:GetLogEvents", logs[0])
    assert allows([person], "sagemaker:CallWithBearerToken", "*")


ROLE = f"arn:aws:iam::{ACCOUNT}:role/team/containers"


def containers(assembly):
    """The roles of containers that a stack makes."""
    roles = assembly.resources("serving", "AWS::IAM::Role")
    return [role for key, role in roles.items() if key.startswith("Containers")]


def test_endpoint_with_named_role_creates_no_container_role(endpoint_stack):
    named = endpoint_stack(rest={"security": {"roles": {"nodes": ROLE}}})
    assert containers(endpoint_stack())
    assert not containers(named)
    assert named.only("serving", "AWS::SageMaker::Model")["ExecutionRoleArn"] == ROLE


def test_named_role_needs_every_action_of_stack_role(serving_example):
    """Every action of every example's own role is asked of a role in its place."""
    request = replace(
        serving_example.plan.request,
        security=replace(serving_example.plan.request.security, roles=RoleRequest(nodes=ROLE)),
    )
    (role,) = named_roles(request, TARGETS[TargetKind.SAGEMAKER_ENDPOINT])
    account = PolicyAccount(id=ACCOUNT, qualifier="hnb659fds", boundary_arn=None)
    needed = actions(json.loads(render_role(PERMISSIONS, request, role, account).text))
    (container_role,) = containers(serving_example)
    for policy in some(container_role["Policies"]):
        assert actions(policy["PolicyDocument"]) <= needed
