"""Clients of a sandbox that have its keys."""

from typing import Any

import boto3
from botocore.config import Config

from launcher.sandbox.sandbox import Sandbox

ONE_TRY = Config(retries={"total_max_attempts": 1})


def client(sandbox: Sandbox, service: str, **more: Any) -> Any:
    """A client of a service; `more` are boto3's own arguments, other keys among them."""
    known = sandbox.environment
    own = {
        "endpoint_url": sandbox.endpoint,
        "region_name": sandbox.region,
        "aws_access_key_id": known["AWS_ACCESS_KEY_ID"],
        "aws_secret_access_key": known["AWS_SECRET_ACCESS_KEY"],
    }
    return boto3.client(service, **{**own, **more})
