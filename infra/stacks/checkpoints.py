"""The checkpoints of a cluster in a protected stack: no update or deletion of another stack can change them."""

from collections.abc import Mapping

from aws_cdk import Duration
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from constructs import Construct

from infra.parts.outputs import add_output
from infra.parts.private_bucket import INCOMPLETE_DAYS, private_bucket
from infra.stacks.plan_stack import PlanStack
from launcher.model.monitoring import (
    ACCESS_LOG_DAYS,
    STAGED_DAYS,
    STAGED_FOLDER,
    STORE_TAG,
    SUPERSEDED,
    SUPERSEDED_DAYS,
)
from launcher.model.plan import Plan

REPLACED = {STORE_TAG: SUPERSEDED}
"""The tag that the agent sets on superseded checkpoints. A lifecycle rule by age could delete the newest one."""
MANIFESTS = "*/step-*/manifest.json"
"""The manifests that make checkpoints complete, by the keys that the agent writes (launcher/agent/manifest.py). No
other object of the agent has such a key."""


class CheckpointStore(Construct):
    """A private, encrypted bucket.

    The bucket is not versioned: checkpoints have unique names and are never written twice. With versions, every
    superseded checkpoint would be billed twice. For manifests, the bucket's policy denies a second write to everyone.

    Attributes:
        bucket: the bucket.
    """

    def __init__(self, scope: Construct, id_: str, *, prefix: str, kms_key_arn: str | None, access_log: bool) -> None:
        """Jobs write below `prefix`.

        `kms_key_arn` None: S3's own key. `access_log`: log every request, in a separate bucket.
        """
        super().__init__(scope, id_)
        log_bucket = None
        if access_log:
            # S3 writes it with its own key only.
            expire = s3.LifecycleRule(id="expire", expiration=Duration.days(ACCESS_LOG_DAYS))
            log_bucket = private_bucket(self, "AccessLog", rules=[expire])
        rules = [
            s3.LifecycleRule(id="superseded", tag_filters=REPLACED, expiration=Duration.days(SUPERSEDED_DAYS)),
            s3.LifecycleRule(id="staged", prefix=f"{prefix}/{STAGED_FOLDER}/", expiration=Duration.days(STAGED_DAYS)),
            s3.LifecycleRule(id="incomplete", abort_incomplete_multipart_upload_after=Duration.days(INCOMPLETE_DAYS)),
        ]
        self.bucket = private_bucket(self, "Bucket", rules=rules, kms_key_arn=kms_key_arn, log_to=log_bucket)
        self.bucket.add_to_resource_policy(
            # S3 user guide, "Enforce conditional writes": the parts of an upload take no such header, its end does.
            iam.PolicyStatement(
                sid="WriteManifestsOnce",
                effect=iam.Effect.DENY,
                principals=[iam.AnyPrincipal()],
                actions=["s3:PutObject"],
                resources=[self.bucket.arn_for_objects(MANIFESTS)],
                conditions={
                    "Null": {"s3:if-none-match": "true"},
                    "Bool": {"s3:ObjectCreationOperation": "true"},
                },
            )
        )


class CheckpointsStack(PlanStack):
    """The checkpoint bucket.

    Attributes:
        store: the bucket's construct.
    """

    def __init__(
        self, scope: Construct, *, plan: Plan, prefix: str, account: str | None, tags: Mapping[str, str]
    ) -> None:
        """Create a plan's checkpoint bucket; jobs write below `prefix`."""
        super().__init__(
            scope,
            "checkpoints",
            plan=plan,
            account=account,
            tags=tags,
            description=f"Slipway: checkpoints of {plan.cluster_name}",
            termination_protection=True,
        )
        storage = plan.request.storage
        self.store = CheckpointStore(
            self, "Store", prefix=prefix, kms_key_arn=storage.kms_key_arn, access_log=storage.access_log
        )
        add_output(self, "BucketName", self.store.bucket.bucket_name)
