"""AWS clients from an environment, and the translation of botocore's errors."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field
from functools import cache
from textwrap import shorten
from typing import Any

import boto3
import botocore.session
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    CredentialRetrievalError,
    LoginError,
    NoCredentialsError,
    PartialCredentialsError,
    ProfileNotFound,
    SSOError,
    TokenRetrievalError,
)
from botocore.handlers import BUILTIN_HANDLERS
from botocore.hooks import HierarchicalEmitter
from botocore.loaders import create_loader
from botocore.parsers import ResponseParserError

from launcher.agent.safe_json import JsonError
from launcher.model.errors import AwsError

ATTEMPTS = 5
MAX_SAID = 400
"""Characters to show of an error's message: a proxy may respond with a complete HTML page."""
NO_CREDENTIALS_HINT = "set AWS_PROFILE or AWS_ACCESS_KEY_ID, or run: aws configure sso"
LOGIN_HINT = "log in again (aws sso login, aws login, or new keys) and run the same command: data already read is kept"
CUT_SHORT = "the answer is cut short or unreadable"
_UNUSABLE = (CredentialRetrievalError, PartialCredentialsError, ProfileNotFound)
_LOGGED_OUT = (LoginError, SSOError, TokenRetrievalError)
"""The profile exists; its session has ended, or has not begun."""
_EXPIRED = frozenset(("ExpiredToken", "ExpiredTokenException", "RequestExpired"))
"""Codes of expired credentials: any further call would fail in the same way."""
_NO_PROFILE = {"profile": (None, None, None, None)}
_DESCRIPTIONS = create_loader(os.environ.get("AWS_DATA_PATH"))
"""botocore's descriptions of services, each read and listed once for all sessions.

Otherwise each session reads them again: EC2's needs 0.2 s and tens of MB, and a client lists all services' 400 folders.
"""


class CredentialsError(AwsError):
    """No usable credentials exist: any further call would fail too (exit 1)."""


class NoAccountError(CredentialsError):
    """The environment names no credentials: Slipway can still read AWS's public data."""


def error_code(problem: AwsError) -> str:
    """The service's code for an error; empty if no service responded."""
    cause = problem.__cause__
    return str(cause.response.get("Error", {}).get("Code", "")) if isinstance(cause, ClientError) else ""


def share_descriptions() -> None:
    """Read each description once for every botocore session of this process, including sessions that moto creates."""
    botocore.session.create_loader = lambda _=None: _DESCRIPTIONS


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """Clients for one region. The environment is a value: a sandbox's environment has its own endpoint and keys."""

    environment: Mapping[str, str]
    region: str
    clients: dict[str, Any] = field(default_factory=dict)

    def client(self, service: str) -> Any:
        """The client of a service, created once."""
        if service not in self.clients:
            known = self.environment
            endpoint = own_endpoint(known, service)
            with translate_errors(service):
                session = boto_session(known, self.region)
                self.clients[service] = session.client(
                    service,
                    endpoint_url=endpoint,
                    config=Config(
                        retries={"max_attempts": ATTEMPTS, "mode": "standard"},
                        s3={"addressing_style": "path"} if endpoint else {},
                    ),
                )
        return self.clients[service]


def boto_session(environment: Mapping[str, str], region: str | None) -> boto3.Session:
    """A session with the credentials of an environment: its keys, or its profile if it has no keys.

    Raises:
        CredentialsError: one half of a key pair is missing.
    """
    key, secret = environment.get("AWS_ACCESS_KEY_ID"), environment.get("AWS_SECRET_ACCESS_KEY")
    if key and not secret:
        message = "credentials: AWS_ACCESS_KEY_ID is set without AWS_SECRET_ACCESS_KEY"
        raise CredentialsError(message, hint=NO_CREDENTIALS_HINT)
    return boto3.Session(
        botocore_session=bare_session(),
        aws_access_key_id=key or None,
        aws_secret_access_key=secret if key else None,
        aws_session_token=environment.get("AWS_SESSION_TOKEN") if key else None,
        profile_name=None if key else environment.get("AWS_PROFILE") or environment.get("AWS_DEFAULT_PROFILE") or None,
        region_name=region,
    )


def bare_session() -> botocore.session.Session:
    """A session of botocore without a profile: it would read one of this process, which may not exist."""
    hooks = copy(_builtin_hooks(len(BUILTIN_HANDLERS)))
    core = botocore.session.Session(session_vars=_NO_PROFILE, event_hooks=hooks, include_builtin_handlers=False)
    core.register_component("data_loader", _DESCRIPTIONS)
    return core


@cache
def _builtin_hooks(handlers: int) -> HierarchicalEmitter:
    """The event handlers of botocore itself, registered once: that takes 4 ms, and each client has a session.

    Args:
        handlers: their number; a package that is imported later may add some.
    """
    del handlers
    hooks = HierarchicalEmitter()
    botocore.session.Session(session_vars=_NO_PROFILE, event_hooks=hooks)
    return hooks


def own_endpoint(environment: Mapping[str, str], service: str) -> str | None:
    """The address set for a service, or for all services (AWS SDK reference, service-specific endpoints).

    >>> own_endpoint({"AWS_ENDPOINT_URL_SERVICE_QUOTAS": "http://127.0.0.1:1"}, "service-quotas")
    'http://127.0.0.1:1'
    """
    named = environment.get(f"AWS_ENDPOINT_URL_{service.upper().replace('-', '_')}")
    return named or environment.get("AWS_ENDPOINT_URL")


@contextmanager
def translate_errors(subject: str) -> Iterator[None]:
    """Translate the errors of a call into Slipway's errors, which name the subject of the request.

    Raises:
        CredentialsError: the credentials are missing or expired; the hint explains how to get some.
        AwsError: the call failed, or its response is incomplete.
    """
    try:
        yield
    except ClientError as problem:
        body = problem.response.get("Error", {})
        text = shorten(str(body.get("Message", problem)), MAX_SAID, placeholder=" ...")
        message = f"{subject}: {body.get('Code', 'error')}: {text}"
        if body.get("Code") in _EXPIRED:
            raise CredentialsError(message, hint=LOGIN_HINT) from problem
        raise AwsError(message) from problem
    except _LOGGED_OUT as problem:
        raise CredentialsError(f"{subject}: {problem}", hint=LOGIN_HINT) from problem
    except NoCredentialsError as problem:
        raise CredentialsError(f"{subject}: no AWS credentials", hint=NO_CREDENTIALS_HINT) from problem
    except _UNUSABLE as problem:
        raise CredentialsError(f"{subject}: {problem}", hint=NO_CREDENTIALS_HINT) from problem
    except BotoCoreError as problem:
        raise AwsError(f"{subject}: {problem}") from problem
    except ResponseParserError as problem:
        raise AwsError(f"{subject}: {CUT_SHORT}", hint="run it again") from problem
    except JsonError as problem:
        raise AwsError(f"{subject}: {CUT_SHORT}: not valid JSON: {problem}", hint="run it again") from problem
    except UnicodeEncodeError as problem:
        wrong = f"{subject}: {problem.object!r} holds half of a pair of surrogates, which no name in AWS holds"
        raise AwsError(shorten(wrong, MAX_SAID, placeholder=" ...")) from problem
