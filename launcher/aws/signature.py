"""The signature of a request to AWS, computed by the SDK's own signers."""

from collections.abc import Mapping
from urllib.parse import quote, unquote, urlsplit

from botocore.auth import HmacV1QueryAuth, S3SigV4Auth, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.compat import HTTPHeaders
from botocore.credentials import Credentials

_QUOTED = "-_.~"


def version_4(
    method: str,
    path: str,
    query: str,
    headers: Mapping[str, str],
    *,
    content_hash: str,
    secret: str,
    moment: str,
    region: str,
    service: str,
) -> str:
    """The signature of version 4, in hex.

    Args:
        method: the method of the request.
        path: as sent, percent-encoded.
        query: as sent, percent-encoded, without the signature.
        headers: the signed headers by lower-case name.
        content_hash: the SHA-256 of the body in hex, or the word that replaces it.
        secret: the secret key.
        moment: the time of the signature, in the form of X-Amz-Date.
        region: of the credential's scope.
        service: of the credential's scope.
    """
    pairs = [parameter.partition("=") for parameter in query.split("&") if parameter]
    canonical = "&".join(sorted(f"{_encode(name)}={_encode(value)}" for name, _, value in pairs))
    signer = (S3SigV4Auth if service == "s3" else SigV4Auth)(Credentials("", secret), service, region)
    # The SDK's own choice leaves out some headers that other SDKs sign.
    signer.headers_to_sign = lambda _: _headers(headers)
    sent = {**headers, "x-amz-content-sha256": content_hash}
    request = AWSRequest(method, f"http://localhost{path}?{canonical}", headers=sent)
    request.context["timestamp"] = moment
    text = signer.string_to_sign(request, signer.canonical_request(request))
    return str(signer.signature(text, request))


def _encode(text: str) -> str:
    return quote(unquote(text), safe=_QUOTED)


def version_2(method: str, url: str, headers: Mapping[str, str], *, secret: str, expires: str) -> str:
    """The signature of a presigned S3 address in version 2, which SDKs still create if a region accepts it.

    Args:
        method: the method of the request.
        url: path and query; the path begins with the bucket.
        headers: content-md5, content-type and those that begin with x-amz-, from the request's headers or its query.
        secret: the secret key.
        expires: the expiry time, seconds since 1970, as in the query.
    """
    signer = HmacV1QueryAuth(Credentials("", secret))
    signer._get_date = lambda: expires  # noqa: SLF001  it takes seconds from now
    return str(signer.get_signature(method, urlsplit(url), _headers(headers)))


def _headers(named: Mapping[str, str]) -> HTTPHeaders:
    headers = HTTPHeaders()
    for name, value in named.items():
        headers[name] = value
    return headers
