"""Pulling a container image from Amazon ECR, as statements of a policy."""

import re

from aws_cdk import Aws
from aws_cdk import aws_iam as iam

ECR = re.compile(
    r"(?P<account>\d{12})\.dkr\.ecr(?:-fips)?\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(?:\.cn)?/(?P<path>.+)"
)


def pull_statements(image: str | None) -> list[iam.PolicyStatement]:
    """What pulling an image takes: nothing for one of another registry, or none.

    The token for the registry cannot be allowed by resource.
    """
    match = ECR.fullmatch(image or "")
    if match is None:
        return []
    repository = match["path"].partition("@")[0].partition(":")[0]
    return [
        iam.PolicyStatement(sid="OpenRegistry", actions=["ecr:GetAuthorizationToken"], resources=["*"]),
        iam.PolicyStatement(
            sid="PullImage",
            actions=["ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"],
            resources=[f"arn:{Aws.PARTITION}:ecr:{match['region']}:{match['account']}:repository/{repository}"],
        ),
    ]
