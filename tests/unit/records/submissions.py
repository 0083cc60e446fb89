"""A submitted job."""

from datetime import UTC, datetime

from launcher.model.enums import TargetKind
from launcher.records.submission import HeadNode, Submission

API = HeadNode(via="eks", host="slipway-x", region="us-east-2", role="arn:aws:iam::1:role/access", kind="Job")


NODE = HeadNode(via="ssm", instance="i-0", region="us-east-2", user="ec2-user")


def submission(head_node, **more):
    return Submission(
        key="x-1",
        target=TargetKind.PARALLELCLUSTER if head_node.kind is None else TargetKind.EKS,
        head_node=head_node,
        cluster="x",
        folder="slipway/x-0123abcd",
        store_uri="s3://b/jobs",
        checkpoint_uri="s3://b/jobs/x",
        work={"files": 1, "git": None},
        asked_at=datetime(2026, 11, 22, tzinfo=UTC),
        **more,
    )
