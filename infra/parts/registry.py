"""Permissions to pull a container image from Amazon ECR, as policy statements."""

import re

from aws_cdk import Aws
from aws_cdk import aws_iam as iam

ECR = re.compile(
    r"(?P<account>\d{12})\.dkr\.ecr(?:-fips)?\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(?:\.cn)?/(?P<path>.+)"
)


def pull_statements(image: str | None) -> list[iam.PolicyStatement]:
    """The permissions to pull an image; empty for another registry or without an image.

    IAM cannot limit the registry's token to a resource.
    """
    match = ECR.fullmatch(image or "")
    if match is None:
        return []
    repository = match["path"].partition("@")[0].partition(":")[0]
    return [
        iam.PolicyStatement(sid="GetRegistryToken", actions=["ecr:GetAuthorizationToken"], resources=["*"]),
        iam.PolicyStatement(
            sid="PullImage",
            actions=["ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"],
            resources=[f"arn:{Aws.PARTITION}:ecr:{match['region']}:{match['account']}:repository/{repository}"],
        ),
    ]
