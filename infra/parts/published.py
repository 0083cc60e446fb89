"""Templates that AWS publishes for a release of ParallelCluster, in a bucket of every region."""

from aws_cdk import Aws, Stack
from constructs import Construct

from launcher.rendering.image import PARALLELCLUSTER_VERSION


def published_template(scope: Construct, path: str) -> str:
    """The URL of a template of the pinned release, in the region of a construct's stack."""
    region = Stack.of(scope).region
    bucket = f"{region}-aws-parallelcluster"
    key = f"parallelcluster/{PARALLELCLUSTER_VERSION}/templates/{path}"
    return f"https://{bucket}.s3.{region}.{Aws.URL_SUFFIX}/{key}"
