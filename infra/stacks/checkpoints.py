"""The checkpoints of a cluster, on their own and protected: no other stack's update or deletion can touch them."""

from collections.abc import Mapping

from aws_cdk import CfnOutput
from constructs import Construct

from infra.parts.checkpoint_store import CheckpointStore
from infra.stacks.plan_stack import PlanStack
from launcher.model.plan import Plan


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
