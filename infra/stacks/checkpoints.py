"""The checkpoints of a cluster, on their own and protected: no other stack's update or deletion can touch them."""

from collections.abc import Mapping

from aws_cdk import CfnOutput, Duration
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from constructs import Construct

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
"""The tag the agent puts on checkpoints that newer ones replace. A lifecycle rule by age could delete the newest."""
MANIFESTS = "*/step-*/manifest.json"
"""What makes checkpoints whole, by the keys the agent gives them (launcher/agent/manifest.py); no other object of its
ends so."""


class CheckpointStore(Construct):
    """A private, encrypted bucket.

    It is not versioned: checkpoints have their own names and are never written twice, and with versions every
    superseded one would be paid for again. Of their manifests the bucket's policy sees to it, whoever asks.

    Attributes:
        bucket: the bucket.
    """

    def __init__(self, scope: Construct, id_: str, *, prefix: str, kms_key_arn: str | None, access_log: bool) -> None:
        """Jobs write below `prefix`.

        `kms_key_arn` None: S3's own key. `access_log`: log every request, in a bucket of its own.
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
        store: the store.
    """

    def __init__(
        self, scope: Construct, *, plan: Plan, prefix: str, account: str | None, tags: Mapping[str, str]
    ) -> None:
        """Make a plan's checkpoint bucket; jobs write below `prefix`."""
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
        CfnOutput(self, "BucketName", value=self.store.bucket.bucket_name, description="The checkpoint bucket")
