"""The policy of the slipway user, compared with every AWS call that the launcher can make."""

import ast
import json
from functools import cache
from pathlib import Path

import botocore.session
from botocore import xform_name

from launcher.catalog.permissions import load_permissions
from launcher.rendering.policies import DOCTOR, PERSON, Account, render_policy
from launcher.targets.registry import TARGETS
from launcher.workflow.cluster.readback.training import GRANTING
from tests.infra.iam import ACCOUNT, actions

AWS = Path(__file__).resolve().parents[3] / "launcher/aws"
PREFIXES = {
    "elb": "elasticloadbalancing",
    "elbv2": "elasticloadbalancing",
    "service-quotas": "servicequotas",
    "sagemaker-runtime": "sagemaker",
}
"""IAM's name of a service, where it is not the API's."""
S3 = {
    "CreateMultipartUpload": "PutObject",
    "CompleteMultipartUpload": "PutObject",
    "DeleteObjects": "DeleteObject",
    "GetBucketEncryption": "GetEncryptionConfiguration",
    "GetBucketLifecycleConfiguration": "GetLifecycleConfiguration",
    "GetPublicAccessBlock": "GetBucketPublicAccessBlock",
    "HeadBucket": "ListBucket",
    "HeadObject": "GetObject",
    "ListMultipartUploads": "ListBucketMultipartUploads",
    "ListObjectVersions": "ListBucketVersions",
    "ListObjectsV2": "ListBucket",
    "UploadPart": "PutObject",
}
"""IAM's names of S3's calls (S3 user guide, required permissions for API operations)."""
FREE = {"sts:GetCallerIdentity"}
"""Calls that need no permission."""
RENAMED = {
    # "The BatchCreateWorkloadEstimateUsage operation doesn't have its own IAM permission" (its documentation).
    "bcm-pricing-calculator:BatchCreateWorkloadEstimateUsage": "bcm-pricing-calculator:CreateWorkloadEstimateUsage",
    "budgets:DescribeBudget": "budgets:ViewBudget",
    "cloudformation:DescribeStackResources": None,
}


@cache
def operations(service):
    """The operations of a service by botocore's names of their methods."""
    model = botocore.session.get_session().get_service_model(service)
    return {xform_name(operation_name): operation_name for operation_name in model.operation_names}


def calls(path):
    """The actions that a module's calls need."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    services = literal_arguments(tree, "client")
    names = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    names |= literal_arguments(tree, "get_waiter")
    action_names = set()
    for service in services:
        for name in names & set(operations(service)):
            operation = operations(service)[name]
            if service == "s3":
                operation = S3.get(operation, operation)
            action_names.add(f"{PREFIXES.get(service, service)}:{operation}")
    return action_names


def literal_arguments(tree, method):
    """The first words that are given to a method."""
    return {
        node.args[0].value
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == method
        if node.args and isinstance(node.args[0], ast.Constant)
    }


def test_every_call_of_the_launcher_is_allowed_to_whoever_runs_it():
    """But for those that it makes as the access role of a cluster (tests/infra/test_eks.py holds what that has)."""
    account = Account(id=ACCOUNT, qualifier="hnb659fds", boundary_arn=None)
    personal = [name for target in TARGETS.values() for name in target.person]
    texts = [render_policy(load_permissions(), name, account).text for name in (PERSON, DOCTOR, *personal)]
    allowed = FREE.union(GRANTING, *(actions(json.loads(text)) for text in texts))
    lacking = {}
    for path in sorted(AWS.glob("*.py")):
        needed = {RENAMED.get(call, call) for call in calls(path)}
        if needed - allowed - {None}:
            lacking[path.name] = sorted(needed - allowed - {None})
    assert lacking == {}
