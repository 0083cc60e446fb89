"""The policies of `slipway policies` for one account, and stack resources that they do not allow."""

import json

from launcher.catalog.permissions import load_permissions
from launcher.rendering.policies import TARGET_POLICIES, PolicyAccount, execution_policies, render_policy
from tests.infra.iam import ACCOUNT, allows

PERMISSIONS = load_permissions()
NAMED = {
    "store": ("arn:aws:s3:::weights",),
    "objects": ("arn:aws:s3:::weights/team/*",),
    "key": (f"arn:aws:kms:us-east-2:{ACCOUNT}:key/1234abcd-12ab-34cd-56ef-1234567890ab",),
}
"""Resources that a plan names and its launcher must reach."""
FREE = PolicyAccount(
    id=ACCOUNT, qualifier="hnb659fds", boundary_arn=None, data_buckets=("corpus-of-the-team",), lists=NAMED
)


def policy(name, account=FREE):
    return json.loads(render_policy(PERMISSIONS, name, account).text)


def policies(target, account=FREE):
    return [policy(name, account) for name in execution_policies([target])]


def refused(target, resources, account=FREE):
    """The requests for a target's stacks that its policies refuse: (action, ARN, context)."""
    documents, bound = policies(target, account), account.boundary_arn
    context = {"PermissionsBoundary": bound} if bound else {}
    return [
        (action, arn, more)
        for action, arn, more in resources
        if not allows(documents, action, arn, **{**context, **more})
    ]


def types(assembly):
    return {resource["Type"] for template in assembly.templates.values() for resource in template["Resources"].values()}


def allowed_types(target):
    return {type_ for name in TARGET_POLICIES[target] for type_ in PERMISSIONS.policy(name).types}
