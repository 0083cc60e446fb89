"""Clients for many regions at once: one set of credentials, one loader, a lock around what boto3 does not share."""

from collections.abc import Mapping
from threading import Lock
from typing import Any

import boto3
from botocore.config import Config

from launcher.aws.calls import NO_CREDENTIALS_HINT, CredentialsError, NoAccountError, asked
from launcher.aws.session import ATTEMPTS, Session, own_endpoint

CONNECT_S, READ_S = 10, 60
FALLBACK_REGION = "us-east-1"
"""Where a question that no region belongs to is asked when the environment names no region."""


class Sessions:
    """Sessions of all regions over one boto3 session, for use from several threads.

    Credentials are resolved once, so that a role is assumed or a token asked for once and not for every region.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        """Resolve the credentials of an environment.

        Raises:
            CredentialsError: there are none, or they have run out.
        """
        key, secret = environment.get("AWS_ACCESS_KEY_ID"), environment.get("AWS_SECRET_ACCESS_KEY")
        if key and not secret:
            message = "credentials: AWS_ACCESS_KEY_ID is set without AWS_SECRET_ACCESS_KEY"
            raise CredentialsError(message, hint=NO_CREDENTIALS_HINT)
        with asked("credentials"):
            self._boto = boto3.Session(
                aws_access_key_id=key or None,
                aws_secret_access_key=secret if key else None,
                aws_session_token=environment.get("AWS_SESSION_TOKEN") if key else None,
                profile_name=None if key else environment.get("AWS_PROFILE") or None,
                region_name=environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or None,
            )
            credentials = self._boto.get_credentials()
            if credentials is None:
                raise NoAccountError("no AWS credentials", hint=NO_CREDENTIALS_HINT)
            credentials.get_frozen_credentials()
        self._environment = environment
        self._made: dict[str, Session] = {}
        self._lock = Lock()

    @property
    def home(self) -> str:
        """The region of the environment or the profile."""
        return str(self._boto.region_name or FALLBACK_REGION)

    def session(self, region: str, service: str) -> Session:
        """The session of a region with the client of a service in it."""
        with self._lock:
            made = self._made.setdefault(region, Session(environment=self._environment, region=region))
            if service not in made.clients:
                made.clients[service] = self._client(region, service)
            return made

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            for session in self._made.values():
                for client in session.clients.values():
                    client.close()

    def _client(self, region: str, service: str) -> Any:
        known = self._environment
        with asked(service):
            return self._boto.client(
                service,
                region_name=region,
                endpoint_url=own_endpoint(known, service),
                config=Config(
                    retries={"max_attempts": ATTEMPTS, "mode": "standard"},
                    connect_timeout=CONNECT_S,
                    read_timeout=READ_S,
                ),
            )
