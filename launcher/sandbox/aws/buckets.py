"""AWS::S3::Bucket and AWS::S3::BucketPolicy: S3 returns the settings of the template.

Judged by: cfn-lint 1.58.0's copy of CloudFormation's registry, which judges every synthesised template
(tests/infra/linting.py); errors and lists of objects by answers recorded from AWS
(tests/sandbox/aws/test_recorded_answers.py: localstack@8b9a79f, tests/aws/services); the rest by moto 5.2.5.

Emulated: encryption, versioning, lifecycle rules, public access block, ownership, logging and tags; the policy, which
is stored and returned; statements that require conditional writes, which are enforced. A bucket with objects is not
deleted. Not emulated: all other conditions of policy statements (moto would apply the statement without its condition,
and a rule against plain HTTP would refuse everything); expirations and transitions.
"""

import json
from contextlib import suppress
from typing import Any

from flask import has_request_context, request
from moto.iam.access_control import IAMPolicy, PermissionResult
from moto.s3.exceptions import MissingBucket
from moto.s3.models import FakeBucket, S3Backend, s3_backends
from moto.utilities.utils import get_partition

from launcher.agent import safe_json
from launcher.sandbox.aws.model import Created, Model, Requested, ResourceRefusedError

UNCONDITIONAL = {"Null": {"s3:if-none-match": "true"}, "Bool": {"s3:ObjectCreationOperation": "true"}}
"""The condition that holds for a request that creates an object without If-None-Match."""
PARTS_AND_PROPERTIES = frozenset({"acl", "legal-hold", "partNumber", "retention", "tagging", "uploadId"})
"""Query parameters of a PUT that creates no object."""


def backend_of(account_id: str, region_name: str) -> S3Backend:
    """The emulated S3 of an account."""
    return s3_backends[account_id][get_partition(region_name)]


def _create(requested: Requested) -> FakeBucket:
    name = requested.get("BucketName") or requested.name
    definition = {"Type": requested.type, "Properties": requested.properties}
    bucket = FakeBucket.create_from_cloudformation_json(name, definition, requested.account_id, requested.region_name)
    _apply(requested, bucket)
    return bucket


def _change(requested: Requested, bucket: FakeBucket) -> FakeBucket:
    if (requested.get("BucketName") or bucket.name) != bucket.name:
        raise ResourceRefusedError("the sandbox does not replace a bucket: keep its name or make a new stack")
    FakeBucket.update_from_cloudformation_json(
        bucket,
        bucket.name,
        {"Type": requested.type, "Properties": {**requested.properties, "BucketName": bucket.name}},
        requested.account_id,
        requested.region_name,
    )
    _apply(requested, bucket)
    return bucket


def _remove(requested: Requested, bucket: FakeBucket) -> None:
    if backend_of(requested.account_id, requested.region_name).delete_bucket(bucket.name) is None:
        raise ResourceRefusedError("The bucket you tried to delete is not empty")


def _apply(requested: Requested, bucket: FakeBucket) -> None:
    backend, name = backend_of(requested.account_id, requested.region_name), bucket.name
    versioning = requested.get("VersioningConfiguration")
    if versioning:
        backend.put_bucket_versioning(name, versioning["Status"])
    block = requested.get("PublicAccessBlockConfiguration")
    if block:
        settings = ("BlockPublicAcls", "IgnorePublicAcls", "BlockPublicPolicy", "RestrictPublicBuckets")
        backend.put_public_access_block(name, {word: _text(block.get(word, False)) for word in settings})
    ownership = requested.get("OwnershipControls")
    if ownership:
        backend.put_bucket_ownership_controls(name, ownership["Rules"][0]["ObjectOwnership"])
    lifecycle = requested.get("LifecycleConfiguration")
    if lifecycle:
        backend.put_bucket_lifecycle_configuration(name, [_rule(rule) for rule in lifecycle["Rules"]])
    logging = requested.get("LoggingConfiguration", {})
    # Straight into the bucket: moto would ask the target for a grant in its access control list.
    bucket.logging = {
        name: logging.get(key, "")
        for name, key in (("TargetBucket", "DestinationBucketName"), ("TargetPrefix", "LogFilePrefix"))
        if logging.get("DestinationBucketName")
    }


def _rule(rule: dict[str, Any]) -> dict[str, Any]:
    """A lifecycle rule of CloudFormation in the form of the S3 API, which moto expects."""
    expiration = {
        "Days": rule.get("ExpirationInDays"),
        "Date": rule.get("ExpirationDate"),
        "ExpiredObjectDeleteMarker": _text(rule.get("ExpiredObjectDeleteMarker")),
    }
    days = rule.get("NoncurrentVersionExpirationInDays")
    api = {
        "ID": rule.get("Id"),
        "Status": rule["Status"],
        "Filter": _filter(rule),
        "Expiration": _present(expiration),
        "NoncurrentVersionExpiration": rule.get("NoncurrentVersionExpiration") or _present({"NoncurrentDays": days}),
        "AbortIncompleteMultipartUpload": rule.get("AbortIncompleteMultipartUpload"),
        "Transition": [
            {
                "Days": step.get("TransitionInDays"),
                "Date": step.get("TransitionDate"),
                "StorageClass": step["StorageClass"],
            }
            for step in rule.get("Transitions", [])
        ],
        "NoncurrentVersionTransition": [
            {"NoncurrentDays": step["TransitionInDays"], "StorageClass": step["StorageClass"]}
            for step in rule.get("NoncurrentVersionTransitions", [])
        ],
    }
    return {key: value for key, value in api.items() if value or key == "Filter"}


def _filter(rule: dict[str, Any]) -> dict[str, Any]:
    tags, prefix = rule.get("TagFilters", []), rule.get("Prefix")
    if not tags:
        return {"Prefix": prefix or ""}
    if len(tags) == 1 and not prefix:
        return {"Tag": dict(tags[0])}
    return {"And": _present({"Prefix": prefix, "Tag": [dict(tag) for tag in tags]})}


def _present(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


def _text(value: Any) -> str | None:
    return None if value is None else str(value).lower()


def _put_policy(requested: Requested, before: Any = None) -> Created:
    del before
    bucket = requested.need("Bucket")
    policy = json.dumps(requested.need("PolicyDocument")).encode()
    backend_of(requested.account_id, requested.region_name).put_bucket_policy(bucket, policy)
    return Created(physical_resource_id=bucket)


def _remove_policy(requested: Requested, policy: Created) -> None:
    """Delete the policy. If its bucket is gone, the deletion succeeds too (CloudFormation CLI, handler contract)."""
    with suppress(MissingBucket):
        backend_of(requested.account_id, requested.region_name).delete_bucket_policy(policy.physical_resource_id)


def permission(bucket: FakeBucket, action: str, resource: str) -> PermissionResult:
    """The decision of a bucket's policy about an action; replaces FakeBucket.get_permission.

    Only statements without a condition, and those with a condition on conditional writes, are evaluated.
    """
    if bucket.policy is None:
        return PermissionResult.NEUTRAL
    policy = safe_json.loads(bucket.policy)
    statements = policy["Statement"] if isinstance(policy["Statement"], list) else [policy["Statement"]]
    policy["Statement"] = [one for one in statements if not one.get("Condition") or _is_unconditional_write(one)]
    # moto calls the end of an upload in parts by its method.
    action = "s3:PutObject" if action == "s3:PostObject" else action
    return IAMPolicy(json.dumps(policy)).is_action_permitted(action, resource)


def _is_unconditional_write(statement: dict[str, Any]) -> bool:
    """Whether a statement is about writes without If-None-Match and the current request is one (S3 user guide)."""
    if statement["Condition"] != UNCONDITIONAL or not has_request_context():
        return False
    creates = request.method == "PUT" and not PARTS_AND_PROPERTIES & set(request.args)
    completes = request.method == "POST" and "uploadId" in request.args
    return (creates or completes) and "If-None-Match" not in request.headers


def install() -> None:
    """Make every bucket decide with `permission`."""
    setattr(FakeBucket, FakeBucket.get_permission.__name__, permission)


MODELS = (
    Model(type="AWS::S3::Bucket", make=_create, change=_change, remove=_remove),
    Model(type="AWS::S3::BucketPolicy", make=_put_policy, change=_put_policy, remove=_remove_policy),
)
