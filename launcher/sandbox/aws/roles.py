"""AWS::IAM::Role with its managed policies, which moto passes over.

Emulated: trust policy, inline and managed policies, permissions boundary, tags. Not emulated: what they allow,
nobody is refused; an update.
"""

import json
from typing import Any

from moto.iam.models import Role, iam_backends
from moto.utilities.utils import get_partition

from launcher.sandbox.aws.model import Model, Requested


def _iam(wanted: Requested) -> Any:
    return iam_backends[wanted.account_id][get_partition(wanted.region_name)]


def _make(wanted: Requested) -> Role:
    name = wanted.get("RoleName") or wanted.name
    definition = {"Type": wanted.type, "Properties": wanted.properties}
    role = Role.create_from_cloudformation_json(name, definition, wanted.account_id, wanted.region_name)
    # moto answers the template's mapping as Python would print it.
    role.policies = {key: json.dumps(document) for key, document in role.policies.items()}
    for arn in wanted.get("ManagedPolicyArns", []):
        _iam(wanted).attach_role_policy(arn, role.name)
    return role


def _remove(wanted: Requested, role: Role) -> None:
    for arn in list(role.managed_policies):
        _iam(wanted).detach_role_policy(arn, role.name)
    for name in list(role.policies):
        _iam(wanted).delete_role_policy(role.name, name)
    _iam(wanted).delete_role(role.name)


MODELS = (Model(type="AWS::IAM::Role", make=_make, remove=_remove),)
