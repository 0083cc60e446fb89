"""SageMaker endpoints: their state, short-lived tokens, and requests through AWS's own client."""

import base64
import json
import time
import uuid
from collections.abc import Callable
from typing import Any

from botocore.auth import SigV4QueryAuth
from botocore.awsrequest import AWSRequest

from launcher.agent import safe_json
from launcher.aws.calls import failed_with, items
from launcher.aws.session import (
    NO_CREDENTIALS_HINT,
    CredentialsError,
    Session,
    boto_session,
    error_code,
    translate_errors,
)
from launcher.model.endpoint_call import EndpointState, Reply, ServedEndpoint
from launcher.model.errors import AwsError, DeploymentFailedError

MAX_TOKEN_S = 43_200
"""Maximum lifetime of a token: 12 hours."""
TOKEN_HOST = "sagemaker.amazonaws.com"  # noqa: S105 - a host
TOKEN_PREFIX = "sagemaker-api-key-"  # noqa: S105 - what every token begins with
POLL_S = 2.0
MISSING = "could not find endpoint"
"""Text in SageMaker's ValidationException for a name that no endpoint has."""
ABSENT = ("404", "NoSuchKey", "403", "AccessDenied")
"""Codes for a missing object: without the list permission, S3 reports that access is forbidden."""


def describe_endpoint(session: Session, name: str) -> EndpointState:
    """The state of an endpoint."""
    with translate_errors(f"describe endpoint {name}"):
        description = session.client("sagemaker").describe_endpoint(EndpointName=name)
    variants = description.get("ProductionVariants", [])
    return EndpointState(
        status=str(description["EndpointStatus"]),
        config=str(description.get("EndpointConfigName", "")),
        instances=sum(int(variant.get("CurrentInstanceCount", 0)) for variant in variants),
        reason=str(description.get("FailureReason", "")),
    )


def find(session: Session, name: str) -> EndpointState | None:
    """The state of an endpoint; None if it does not exist."""
    try:
        return describe_endpoint(session, name)
    except AwsError as problem:
        if failed_with(problem, code="ValidationException", phrase=MISSING):
            return None
        raise


def in_alarm(session: Session, names: tuple[str, ...]) -> tuple[str, ...]:
    """The descriptions of the alarms among `names` that are in the ALARM state."""
    if not names:
        return ()
    call, subject = session.client("cloudwatch").describe_alarms, "describe the alarms"
    listed = items(call, subject, "MetricAlarms", AlarmNames=list(names), StateValue="ALARM")
    return tuple(str(alarm.get("AlarmDescription", "")) for alarm in listed)


def bearer_token(session: Session, seconds: int) -> str:
    """A token with which OpenAI clients call the region's endpoints, in the form of sagemaker-core 2.27.0.

    The token is an encoded signed request: until it expires, its holder has the permissions of these credentials.
    `seconds`: at most MAX_TOKEN_S.
    """
    with translate_errors("bearer token"):
        credentials = boto_session(session.environment, session.region).get_credentials()
        if credentials is None:
            raise CredentialsError("bearer token: no AWS credentials", hint=NO_CREDENTIALS_HINT)
        request = AWSRequest(
            method="POST",
            url=f"https://{TOKEN_HOST}/",
            headers={"host": TOKEN_HOST},
            params={"Action": "CallWithBearerToken"},
        )
        SigV4QueryAuth(credentials.get_frozen_credentials(), "sagemaker", session.region, expires=seconds).add_auth(
            request
        )
    signed = f"{request.url.removeprefix('https://')}&Version=1"
    return TOKEN_PREFIX + base64.b64encode(signed.encode()).decode()


def embed(session: Session, endpoint: ServedEndpoint, text: str, clock: Callable[[], float] = time.monotonic) -> Reply:
    """One embedding of a text.

    Raises:
        DeploymentFailedError: the response holds no embedding.
    """
    where = {"InferenceComponentName": endpoint.component} if endpoint.component is not None else {}
    begun = clock()
    with translate_errors(f"invoke endpoint {endpoint.name}"):
        answer = session.client("sagemaker-runtime").invoke_endpoint(
            EndpointName=endpoint.name,
            ContentType="application/json",
            Body=json.dumps({"model": endpoint.served_name, "input": text}).encode(),
            **where,
        )
        body = answer["Body"].read()
    whole = clock() - begun
    data = _read(body)
    vectors = [embedding.get("embedding") for embedding in data.get("data", []) if isinstance(embedding, dict)]
    if not vectors or not vectors[0]:
        raise DeploymentFailedError(f"endpoint {endpoint.name} answered without an embedding: {_short(body)}")
    tokens = int(data.get("usage", {}).get("prompt_tokens", 0))
    shown = f"a vector of {len(vectors[0]):,} dimensions"
    return Reply(kind="embedding", input_tokens=tokens, output_tokens=0, first_s=None, whole_s=whole, shown=shown)


def queue(
    session: Session,
    endpoint: ServedEndpoint,
    body: dict[str, Any],
    *,
    timeout_s: float,
    clock: Callable[[], float] = time.monotonic,
    wait: Callable[[float], None] = time.sleep,
) -> Reply:
    """Send one request to an asynchronous endpoint: put it into S3, and poll for its response.

    Raises:
        DeploymentFailedError: the request failed, or no response came in time.
    """
    bucket, _, folder = (endpoint.requests_uri or "").removeprefix("s3://").partition("/")
    key = f"{folder}/{uuid.uuid4()}.json"
    begun = clock()
    with translate_errors(f"queue a request of endpoint {endpoint.name}"):
        session.client("s3").put_object(Bucket=bucket, Key=key, Body=json.dumps(body).encode())
        taken = session.client("sagemaker-runtime").invoke_endpoint_async(
            EndpointName=endpoint.name, ContentType="application/json", InputLocation=f"s3://{bucket}/{key}"
        )
    while clock() - begun < timeout_s:
        failed = _object(session, taken.get("FailureLocation"))
        if failed is not None:
            raise DeploymentFailedError(f"endpoint {endpoint.name} failed on a request: {_short(failed)}")
        answer = _object(session, taken["OutputLocation"])
        if answer is not None:
            return _queued_reply(answer, endpoint, clock() - begun)
        wait(POLL_S)
    message = f"endpoint {endpoint.name} gave no answer in {timeout_s:.0f} s"
    raise DeploymentFailedError(message, hint="an endpoint at zero takes up to half an hour to start: --timeout")


def _queued_reply(answer: bytes, endpoint: ServedEndpoint, whole_s: float) -> Reply:
    data = _read(answer)
    usage = data.get("usage", {})
    tokens = int(usage.get("completion_tokens", 0))
    choices = data.get("choices") or [{}]
    text = str(choices[0].get("message", {}).get("content", ""))
    if tokens <= 0 and not data.get("data"):
        raise DeploymentFailedError(f"endpoint {endpoint.name} answered without a token: {_short(answer)}")
    return Reply(
        kind="asynchronous",
        input_tokens=int(usage.get("prompt_tokens", 0)),
        output_tokens=tokens,
        first_s=None,
        whole_s=whole_s,
        shown=text[:80],
    )


def _object(session: Session, uri: str | None) -> bytes | None:
    if not uri:
        return None
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    try:
        with translate_errors(f"read {uri}"):
            return bytes(session.client("s3").get_object(Bucket=bucket, Key=key)["Body"].read())
    except AwsError as problem:
        if error_code(problem) in ABSENT:
            return None
        raise


def _read(body: bytes) -> dict[str, Any]:
    try:
        data = safe_json.loads(body)
    except ValueError:
        return {}
    return data if isinstance(data, dict) else {}


def _short(body: bytes) -> str:
    return body[:200].decode(errors="replace")
