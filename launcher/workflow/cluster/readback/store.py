"""Compares buckets in S3 with the plan."""

from launcher.aws import buckets, stacks
from launcher.aws.buckets import BucketState
from launcher.model.monitoring import STORE_TAG, SUPERSEDED
from launcher.workflow.cluster.readback.reading import Reading


def checkpoint_buckets(reading: Reading) -> None:
    """Check every bucket: private, encrypted, TLS only; for checkpoints also lifecycle rules and stack protection."""
    checks, request = reading.checks, reading.plan.request
    (name,) = {resource.stack for resource in reading.resources if resource.type == "AWS::S3::Bucket"}
    state = stacks.describe(reading.session, name)
    states = {
        bucket_name: buckets.describe(reading.session, bucket_name) for bucket_name in reading.ids("AWS::S3::Bucket")
    }
    for bucket_state in states.values():
        for_checkpoints = bucket_state.name == state.outputs["BucketName"]
        _check_closed(reading, "checkpoint bucket" if for_checkpoints else "access log bucket", bucket_state)
    bucket = states[state.outputs["BucketName"]]
    rules = {rule["ID"]: rule for rule in bucket.lifecycle}
    tag = rules.get("superseded", {}).get("Filter", {}).get("Tag", {})
    checks.equal("checkpoint bucket expires", {"Key": STORE_TAG, "Value": SUPERSEDED}, tag)
    checks.holds("checkpoint bucket aborts uploads", "AbortIncompleteMultipartUpload" in rules.get("incomplete", {}))
    checks.holds("checkpoint bucket accepts each manifest once", bucket.manifests_once)
    checks.equal("checkpoint bucket's own key", request.storage.kms_key_arn, bucket.kms_key)
    logs = (
        next((bucket_name for bucket_name in states if bucket_name != bucket.name), None)
        if request.storage.access_log
        else None
    )
    checks.equal("checkpoint bucket's access log", logs, bucket.logs_to)
    checks.holds("checkpoint stack is protected", state.protected)


def _check_closed(reading: Reading, label: str, bucket: BucketState) -> None:
    reading.checks.holds(f"{label} blocks public access", bucket.public_access_blocked)
    reading.checks.holds(f"{label} is encrypted", bucket.encryption is not None)
    reading.checks.holds(f"{label} accepts TLS only", bucket.tls_only)
