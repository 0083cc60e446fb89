"""AWS clients from an environment, and botocore's errors as ours."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from textwrap import shorten
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError

from launcher.model.errors import AwsError

ATTEMPTS = 5
MOST_SAID = 400
"""Characters of an error's message that are shown: a proxy on the way may answer with a whole page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """Clients for one region. The environment is a value: a sandbox's points at its own endpoint with its own keys."""

    environment: Mapping[str, str]
    region: str
    clients: dict[str, Any] = field(default_factory=dict)

    def client(self, service: str) -> Any:
        """The client of a service, made once."""
        if service not in self.clients:
            known = self.environment
            endpoint = own_endpoint(known, service)
            with translated(service):
                session = boto3.Session(
                    aws_access_key_id=known.get("AWS_ACCESS_KEY_ID"),
                    aws_secret_access_key=known.get("AWS_SECRET_ACCESS_KEY"),
                    aws_session_token=known.get("AWS_SESSION_TOKEN"),
                    profile_name=known.get("AWS_PROFILE") if "AWS_ACCESS_KEY_ID" not in known else None,
                    region_name=self.region,
                )
                self.clients[service] = session.client(
                    service,
                    endpoint_url=endpoint,
                    config=Config(
                        retries={"max_attempts": ATTEMPTS, "mode": "standard"},
                        s3={"addressing_style": "path"} if endpoint else {},
                    ),
                )
        return self.clients[service]


def own_endpoint(environment: Mapping[str, str], service: str) -> str | None:
    """The address that is set for a service, or for all of them (AWS SDK reference, service-specific endpoints).

    >>> own_endpoint({"AWS_ENDPOINT_URL_SERVICE_QUOTAS": "http://127.0.0.1:1"}, "service-quotas")
    'http://127.0.0.1:1'
    """
    named = environment.get(f"AWS_ENDPOINT_URL_{service.upper().replace('-', '_')}")
    return named or environment.get("AWS_ENDPOINT_URL")


@contextmanager
def translated(what: str) -> Iterator[None]:
    """Turn botocore's errors into one of ours that says what was being asked.

    Raises:
        AwsError: the call failed.
    """
    try:
        yield
    except NoCredentialsError as problem:
        raise AwsError(f"{what}: no AWS credentials", hint="aws configure sso") from problem
    except ClientError as problem:
        body = problem.response.get("Error", {})
        said = shorten(str(body.get("Message", problem)), MOST_SAID, placeholder=" ...")
        raise AwsError(f"{what}: {body.get('Code', 'error')}: {said}") from problem
    except BotoCoreError as problem:
        raise AwsError(f"{what}: {problem}") from problem
