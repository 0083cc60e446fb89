"""Clients for many regions: one set of credentials, one loader, and a lock around boto3's shared state."""

from collections.abc import Mapping
from threading import Lock
from typing import Any

from botocore.config import Config
from botocore.exceptions import ProxyConnectionError

from launcher.aws.session import (
    ATTEMPTS,
    NO_CREDENTIALS_HINT,
    NoAccountError,
    Session,
    boto_session,
    own_endpoint,
    translate_errors,
)

CONNECT_S, READ_S = 10, 60
FALLBACK_REGION = "us-east-1"
"""The region of requests that belong to no region, if the environment names none."""


class Sessions:
    """Sessions of all regions over one boto3 session, for use from several threads.

    Credentials are resolved once, so that Slipway assumes a role or requests a token once, not once per region.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        with translate_errors("credentials"):
            region = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or None
            self._boto = boto_session(environment, region)
            try:
                credentials = self._boto.get_credentials()
            except ProxyConnectionError as problem:
                # No other source has credentials, and the metadata service was called through a proxy.
                hint = f"check HTTP_PROXY and NO_PROXY; {NO_CREDENTIALS_HINT}"
                raise NoAccountError(f"no AWS credentials: {problem}", hint=hint) from problem
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
        """The session of a region, with a client of the service."""
        with self._lock:
            region_session = self._made.setdefault(region, Session(environment=self._environment, region=region))
            if service not in region_session.clients:
                region_session.clients[service] = self._client(region, service)
            return region_session

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            for session in self._made.values():
                for client in session.clients.values():
                    client.close()

    def _client(self, region: str, service: str) -> Any:
        known = self._environment
        with translate_errors(service):
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
