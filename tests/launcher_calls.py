"""The actions of IAM that the launcher's calls to AWS need, read from its modules."""

import ast
from functools import cache
from pathlib import Path

import botocore.session
from botocore import xform_name

AWS = Path(__file__).resolve().parents[1] / "launcher/aws"
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
    return calls_of(ast.parse(path.read_text(encoding="utf-8")))


def calls_of(tree):
    """The actions that the calls of a module or a function need."""
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
