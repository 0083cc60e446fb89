"""The feature flags of the CDK that Slipway's constructs are written for."""

from constructs import Construct

from launcher.agent import safe_json
from launcher.catalog.assets import asset


def own_flags(construct: Construct) -> None:
    """Give a construct without children the flags of Slipway's cdk.json, whatever those of the app around it.

    An app without a flag would otherwise get other resources, or an error: a bucket's log without
    `serverAccessLogsUseBucketPolicy` needs an access control list, which the bucket forbids.
    """
    for flag, value in safe_json.load(asset("cdk.json"))["context"].items():
        if flag.startswith("@aws-cdk"):
            construct.node.set_context(flag, value)
