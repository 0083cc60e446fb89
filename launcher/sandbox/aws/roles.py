"""AWS::IAM::Role with its managed policies, which moto ignores.

Judged by: cfn-lint 1.58.0's copy of CloudFormation's registry, which judges every synthesised template
(tests/infra/linting.py); roles and missing policies by answers recorded from AWS
(tests/sandbox/aws/test_recorded_answers.py: localstack@8b9a79f, tests/aws/services).

Emulated: trust policy, inline and managed policies, permissions boundary, tags, and updates of managed policies. Not
emulated: permissions (no request is refused), updates of other properties.
"""

import json
from typing import Any

from moto.iam.models import Role, iam_backends
from moto.utilities.utils import get_partition

from launcher.sandbox.aws.model import Model, Requested


def _iam(requested: Requested) -> Any:
    return iam_backends[requested.account_id][get_partition(requested.region_name)]


def _create(requested: Requested) -> Role:
    name = requested.get("RoleName") or requested.name
    definition = {"Type": requested.type, "Properties": requested.properties}
    role = Role.create_from_cloudformation_json(name, definition, requested.account_id, requested.region_name)
    # moto answers the template's mapping as Python would print it.
    role.policies = {key: json.dumps(document) for key, document in role.policies.items()}
    for arn in requested.get("ManagedPolicyArns", []):
        _iam(requested).attach_role_policy(arn, role.name)
    return role


def _change(requested: Requested, role: Role) -> Role:
    given = requested.get("ManagedPolicyArns", [])
    for arn in [arn for arn in role.managed_policies if arn not in given]:
        _iam(requested).detach_role_policy(arn, role.name)
    for arn in [arn for arn in given if arn not in role.managed_policies]:
        _iam(requested).attach_role_policy(arn, role.name)
    return role


def _remove(requested: Requested, role: Role) -> None:
    for arn in list(role.managed_policies):
        _iam(requested).detach_role_policy(arn, role.name)
    for name in list(role.policies):
        _iam(requested).delete_role_policy(role.name, name)
    _iam(requested).delete_role(role.name)


MODELS = (Model(type="AWS::IAM::Role", make=_create, change=_change, remove=_remove),)
