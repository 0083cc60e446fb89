"""Clients with a sandbox's keys."""

import subprocess
import sys
from typing import Any

import boto3
from botocore.config import Config

from launcher.sandbox.sandbox import Sandbox

ONE_TRY = Config(retries={"total_max_attempts": 1})


def client(sandbox: Sandbox, service: str, **more: Any) -> Any:
    """A client of a service; `more` are boto3's own arguments, such as other keys."""
    known = sandbox.environment
    options = {
        "endpoint_url": sandbox.endpoint,
        "region_name": sandbox.region,
        "aws_access_key_id": known["AWS_ACCESS_KEY_ID"],
        "aws_secret_access_key": known["AWS_SECRET_ACCESS_KEY"],
    }
    return boto3.client(service, **{**options, **more})


PROGRAM = (sys.executable, "-m", "launcher")


def slipway(*arguments, folder, environment, program=PROGRAM):
    return subprocess.run(
        [*program, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=300
    )
