"""Checks that a request is signed with a key of the sandbox by computing the Signature Version 4 again.

Checked: the key, its session token, the time, the scope, that host and every x-amz- header are signed, the body's hash,
and the signature; in a header, or in the query of a presigned URL, for S3 in version 2 as well. Sources: IAM User
Guide, "Elements of an AWS API request signature"; S3 API reference, "Authenticating Requests"; read 2026-11-23.
Not emulated: policies of POST forms, the signature of each chunk of an aws-chunked body (that of the headers is
checked), version 4A, and anonymous requests: the sandbox has no public bucket and no identity provider.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from hashlib import sha256
from hmac import compare_digest
from urllib.parse import parse_qsl, unquote, urlsplit

from launcher.aws.signature import version_2, version_4
from launcher.sandbox.keys import AccessKey, KeyRing

_ALGORITHM = "AWS4-HMAC-SHA256"
_WHEN = "%Y%m%dT%H%M%SZ"
_SKEW = timedelta(minutes=15)
_LONGEST_S = 604_800
"""Seven days: the longest lifetime of a presigned URL."""
_STS_S = 900
"""Seconds for which STS accepts a presigned URL, regardless of the URL's own expiry
(aws-iam-authenticator v0.7, pkg/token/token.go)."""
_HASH = re.compile(r"[0-9a-f]{64}")
_PRESIGNED = {
    "Credential": "X-Amz-Credential",
    "SignedHeaders": "X-Amz-SignedHeaders",
    "Signature": "X-Amz-Signature",
}


class SignatureFault(Enum):
    """The reason of a refusal."""

    UNSIGNED = "unsigned"
    KEY = "key"
    SESSION = "session"
    EXPIRED = "expired"
    TIME = "time"
    SIGNATURE = "signature"
    BODY = "body"
    PLACE = "place"


class AccessError(Exception):
    """A request that no key of the sandbox has signed."""

    def __init__(self, refusal: SignatureFault, message: str) -> None:
        super().__init__(message)
        self.refusal, self.message = refusal, message


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A received request: `target` is path and query, percent-encoded; header names are lower-case."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: Callable[[], bytes] = bytes

    @property
    def query(self) -> Mapping[str, str]:
        """The decoded query of the request; the last of several values."""
        return dict(parse_qsl(self.target.partition("?")[2], keep_blank_values=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Claim:
    key: str
    day: str
    region: str
    service: str
    names: tuple[str, ...]
    signature: str
    moment: str
    token: str


def refuse_foreign(host: str, origin: str | None, *, own_origin: bool = False) -> None:
    """Refuse a request that a web page may have sent to this computer.

    A page whose name resolves to 127.0.0.1 sends that name as the host, and browsers send the page's origin.
    `own_origin` accepts the server itself as origin, as WebSocket clients send it: for a server that has no pages.
    """
    name = urlsplit(f"//{host}").hostname or ""
    if name not in ("localhost", "127.0.0.1", "::1") and not name.endswith(".localhost"):
        raise AccessError(SignatureFault.PLACE, f"host {host[:100]!r}: the sandbox answers only as localhost")
    if origin is not None and not (own_origin and origin == f"http://{host}"):
        raise AccessError(SignatureFault.PLACE, f"origin {origin[:100]!r}: the sandbox does not answer web pages")


def check(request: Request, keys: KeyRing, *, ignored: frozenset[str] = frozenset()) -> AccessKey:
    """The key with which a request was signed.

    `ignored` are names in the query that were added after the signature.

    Raises:
        AccessError: the request has no signature or a wrong one.
    """
    query = request.query
    if not request.target.startswith("/"):
        raise AccessError(SignatureFault.UNSIGNED, "the request names no path")
    if "Signature" in query and "AWSAccessKeyId" in query:
        return _check_version_2(request, query, keys)
    presigned = "X-Amz-Signature" in query
    claim = _claim_of_query(query) if presigned else _claim_of_header(request.headers)
    key = _key(claim.key, claim.token, keys)
    try:
        signed_at = datetime.strptime(claim.moment, _WHEN).replace(tzinfo=UTC)
    except ValueError:
        raise AccessError(SignatureFault.UNSIGNED, "X-Amz-Date is missing or not a date") from None
    if not claim.moment.startswith(claim.day):
        raise AccessError(SignatureFault.SIGNATURE, f"the credential is of {claim.day}, the request of {claim.moment}")
    signed = signed_at
    _refuse_another_time(signed, query if presigned else None, claim.service)
    expected = version_4(
        request.method,
        request.target.partition("?")[0] or "/",
        _query_signed(request, ignored | {"X-Amz-Signature"} if presigned else ignored),
        _headers_signed(request, claim),
        content_hash=_content_hash(request, claim, presigned=presigned),
        secret=key.secret,
        moment=claim.moment,
        region=claim.region,
        service=claim.service,
    )
    if not compare_digest(expected.encode(), claim.signature.encode()):
        raise AccessError(
            SignatureFault.SIGNATURE, "the request signature we calculated does not match the signature you provided"
        )
    return key


def _claim_of_header(headers: Mapping[str, str]) -> _Claim:
    algorithm, _, fields = headers.get("authorization", "").partition(" ")
    values = {name: value for name, _, value in (field.strip().partition("=") for field in fields.split(","))}
    if algorithm != _ALGORITHM or set(values) != set(_PRESIGNED):
        raise AccessError(SignatureFault.UNSIGNED, f"the request is not signed with {_ALGORITHM}")
    return _claim(values, headers.get("x-amz-date", ""), headers.get("x-amz-security-token", ""))


def _claim_of_query(query: Mapping[str, str]) -> _Claim:
    values = {name: query.get(parameter, "") for name, parameter in _PRESIGNED.items()}
    if query.get("X-Amz-Algorithm") != _ALGORITHM:
        raise AccessError(SignatureFault.UNSIGNED, f"the request is not signed with {_ALGORITHM}")
    return _claim(values, query.get("X-Amz-Date", ""), query.get("X-Amz-Security-Token", ""))


def _claim(values: Mapping[str, str], moment: str, token: str) -> _Claim:
    scope = values["Credential"].split("/")
    if len(scope) != 5 or scope[-1] != "aws4_request" or not scope[0]:  # noqa: PLR2004  key/day/region/service/aws4_request
        raise AccessError(SignatureFault.UNSIGNED, "the credential is malformed: KEY/DAY/REGION/SERVICE/aws4_request")
    key, day, region, service, _ = scope
    names = tuple(values["SignedHeaders"].split(";"))
    return _Claim(
        key=key,
        day=day,
        region=region,
        service=service,
        names=names,
        signature=values["Signature"],
        moment=moment,
        token=token,
    )


def _key(key_id: str, token: str, keys: KeyRing) -> AccessKey:
    key = keys.find(key_id)
    if key is None:
        raise AccessError(SignatureFault.KEY, f"access key {key_id[:100]} does not belong to this sandbox")
    if not compare_digest(key.token.encode(), token.encode()):
        raise AccessError(SignatureFault.SESSION, f"the session token does not belong to access key {key_id}")
    if key.ends is not None and key.ends <= datetime.now(UTC):
        raise AccessError(SignatureFault.EXPIRED, f"access key {key_id} expired at {key.ends:%Y-%m-%dT%H:%M:%SZ}")
    return key


def _refuse_another_time(signed: datetime, query: Mapping[str, str] | None, service: str) -> None:
    now = datetime.now(UTC)
    if query is None:
        if abs(now - signed) > _SKEW:
            raise AccessError(
                SignatureFault.TIME, f"the request was signed at {signed:%Y%m%dT%H%M%SZ}, it is {now:{_WHEN}}"
            )
        return
    expires = query.get("X-Amz-Expires", "")
    if not expires.isdecimal() or not 1 <= int(expires) <= _LONGEST_S:
        raise AccessError(SignatureFault.UNSIGNED, f"X-Amz-Expires is {expires[:20]!r}, allowed: 1 to {_LONGEST_S} s")
    lasts = timedelta(seconds=_STS_S if service == "sts" else int(expires))
    if signed - now > _SKEW or now > signed + lasts:
        raise AccessError(SignatureFault.EXPIRED, "the presigned request has expired, or is not valid yet")


def _query_signed(request: Request, left_out: frozenset[str]) -> str:
    pairs = request.target.partition("?")[2].split("&")
    return "&".join(pair for pair in pairs if unquote(pair.partition("=")[0]) not in left_out)


def _headers_signed(request: Request, claim: _Claim) -> dict[str, str]:
    needed = {"host", *(name for name in request.headers if name.startswith("x-amz-"))}
    # The signature holds the hash of the body, whether its header is signed or not.
    unsigned = needed - set(claim.names) - {"x-amz-content-sha256"}
    if unsigned:
        raise AccessError(SignatureFault.SIGNATURE, f"unsigned headers: {', '.join(sorted(unsigned))}")
    return {name: request.headers.get(name, "") for name in claim.names}


def _content_hash(request: Request, claim: _Claim, *, presigned: bool) -> str:
    if presigned and claim.service == "s3":
        return request.query.get("X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD")
    declared = request.headers.get("x-amz-content-sha256")
    if declared is not None and _HASH.fullmatch(declared) is None:
        return declared
    digest = sha256(request.body()).hexdigest()
    if declared not in (None, digest):
        raise AccessError(
            SignatureFault.BODY, "the provided x-amz-content-sha256 header does not match what was computed"
        )
    return digest


def _check_version_2(request: Request, query: Mapping[str, str], keys: KeyRing) -> AccessKey:
    key = _key(query["AWSAccessKeyId"], query.get("x-amz-security-token", ""), keys)
    expires = query.get("Expires", "")
    if not expires.isdecimal() or int(expires) < datetime.now(UTC).timestamp():
        raise AccessError(SignatureFault.EXPIRED, "the presigned request has expired")
    headers = {name: value for name, value in query.items() if name.startswith("x-amz-")}
    headers |= {
        name: value
        for name, value in request.headers.items()
        if name in ("content-md5", "content-type") or name.startswith("x-amz-")
    }
    host = urlsplit(f"//{request.headers.get('host', '')}").hostname or ""
    bucket = host.removesuffix(".localhost") if host.endswith(".localhost") else ""
    target = f"/{bucket}{request.target}" if bucket else request.target
    expected = version_2(request.method, target, headers, secret=key.secret, expires=expires)
    if not compare_digest(expected.encode(), query["Signature"].encode()):
        raise AccessError(
            SignatureFault.SIGNATURE, "the request signature we calculated does not match the signature you provided"
        )
    return key
