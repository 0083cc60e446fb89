"""Who calls an endpoint of a sandbox, and how it is told no: by a request's signature or by a bearer token."""

import base64
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Any

from launcher.sandbox import signed
from launcher.sandbox.aws.access_log import Environ
from launcher.sandbox.environment import ACCOUNT
from launcher.sandbox.keys import KeyRing

TOKEN_HOST = "sagemaker.amazonaws.com"  # noqa: S105 - a host
TOKEN_PREFIX = "sagemaker-api-key-"  # noqa: S105 - what every token begins with
ACTION = "CallWithBearerToken"
_SCOPE = re.compile(r"Credential=[^/]+/\d{8}/(?P<region>[a-z0-9-]+)/sagemaker/aws4_request")
_WHEN = "%Y%m%dT%H%M%SZ"


class RefusedError(Exception):
    """A request that gets no answer: status, the code that SDKs go by, and the sentence."""

    def __init__(self, status: int, code: str, message: str) -> None:
        """Keep them."""
        super().__init__(message)
        self.status, self.code, self.message = status, code, message

    def send(self, start_response: Callable[..., Any]) -> list[bytes]:
        """Answer with it."""
        body = json.dumps({"message": self.message, "code": self.code}).encode()
        headers = [
            ("Content-Type", "application/json"),
            ("Content-Length", str(len(body))),
            ("x-amzn-ErrorType", self.code),
        ]
        start_response(f"{self.status} {_phrase(self.status)}", headers)
        return [body]


def _phrase(status: int) -> str:
    return HTTPStatus(status).phrase if status in {int(each) for each in HTTPStatus} else "Error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The account and the region that a request is for."""

    region: str
    account: str


def caller_of(environ: Environ, keys: KeyRing, *, openai: bool) -> Caller:
    """Who calls.

    Args:
        environ: the request; its signature was checked, if it has one.
        keys: the access keys that may have signed a token.
        openai: whether it came on the path of OpenAI clients, which takes tokens; the other takes signatures.

    Raises:
        RefusedError: nobody who may.
    """
    given = environ.get("HTTP_AUTHORIZATION", "")
    region = _region_of_token(given.removeprefix("Bearer "), keys) if openai else _region_of(given)
    return Caller(region=region, account=ACCOUNT)


def _region_of(authorization: str) -> str:
    found = _SCOPE.search(authorization)
    if found is None:
        raise RefusedError(403, "MissingAuthenticationTokenException", "Missing Authentication Token")
    return found["region"]


def _region_of_token(token: str, keys: KeyRing) -> str:
    """The region of a token that still holds: a signed request in disguise, made by sagemaker-core."""
    try:
        address = base64.b64decode(token.removeprefix(TOKEN_PREFIX), validate=True).decode()
        host, _, target = address.partition("/")
        request = signed.Request(method="POST", target=f"/{target}", headers={"host": host})
        asked = request.query
        ends = datetime.strptime(asked["X-Amz-Date"], _WHEN).replace(tzinfo=UTC)
        ends += timedelta(seconds=int(asked["X-Amz-Expires"]))
        scope = _SCOPE.fullmatch(f"Credential={asked['X-Amz-Credential']}")
    except (KeyError, ValueError) as problem:
        raise RefusedError(403, "AccessDeniedException", "The bearer token is invalid") from problem
    if (host, asked.get("Action")) != (TOKEN_HOST, ACTION) or not token.startswith(TOKEN_PREFIX) or scope is None:
        raise RefusedError(403, "AccessDeniedException", "The bearer token is invalid")
    if datetime.now(UTC) > ends:
        raise RefusedError(403, "ExpiredTokenException", "The bearer token has expired")
    try:
        # Its makers add the version when it is signed.
        signed.check(request, keys, ignored=frozenset({"Version"}))
    except signed.AccessError as problem:
        raise RefusedError(403, "AccessDeniedException", f"The bearer token is invalid: {problem}") from problem
    return scope["region"]
