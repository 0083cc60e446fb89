"""The first thing that a request to the embedded AWS meets: only what the sandbox's owner has signed goes on.

What is refused gets the codes that AWS has for it, in the protocol that the request came in.
"""

import io
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from moto.core.request import PRESERVED_HEADER_NAMES_ENVIRON_KEY

from launcher.sandbox import signed
from launcher.sandbox.aws.access_log import Application, Environ, service_of
from launcher.sandbox.aws.answers import refuse
from launcher.sandbox.endpoint.model_server import PATH
from launcher.sandbox.keys import KeyRing
from launcher.sandbox.signed import AccessError, Refusal, Request

_S3, _QUERY, _JSON = range(3)
_CODES: Mapping[Refusal, tuple[str, str, str]] = {
    Refusal.UNSIGNED: ("AccessDenied", "MissingAuthenticationToken", "MissingAuthenticationTokenException"),
    Refusal.KEY: ("InvalidAccessKeyId", "InvalidClientTokenId", "UnrecognizedClientException"),
    Refusal.SESSION: ("InvalidToken", "InvalidClientTokenId", "UnrecognizedClientException"),
    Refusal.EXPIRED: ("ExpiredToken", "ExpiredToken", "ExpiredTokenException"),
    Refusal.TIME: ("RequestTimeTooSkewed", "SignatureDoesNotMatch", "InvalidSignatureException"),
    Refusal.SIGNATURE: ("SignatureDoesNotMatch", "SignatureDoesNotMatch", "InvalidSignatureException"),
    Refusal.BODY: ("XAmzContentSHA256Mismatch", "SignatureDoesNotMatch", "InvalidSignatureException"),
    Refusal.PLACE: ("AccessDenied", "AccessDenied", "AccessDeniedException"),
}
_HINT = "slipway sandbox status prints the keys of this sandbox"


class Entrance:
    """A WSGI application that passes on what is signed with a key of the sandbox."""

    def __init__(self, inner: Application, keys: KeyRing) -> None:
        """Keep what answers, and the keys that are taken."""
        self._inner, self._keys = inner, keys

    def __call__(self, environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer."""
        try:
            signed.refuse_foreign(environ.get("HTTP_HOST", ""), environ.get("HTTP_ORIGIN"))
            self._check(environ)
        except AccessError as error:
            service = service_of(environ)
            is_query = "x-www-form-urlencoded" in environ.get("CONTENT_TYPE", "")
            kind = _S3 if service == "s3" else _QUERY if is_query else _JSON
            code = _CODES[error.refusal][kind]
            return refuse(environ, start_response, "403 Forbidden", code, f"{error.message}; {_HINT}")
        return self._inner(environ, start_response)

    def _check(self, environ: Environ) -> None:
        found = PATH.fullmatch(environ.get("PATH_INFO", ""))
        if found is not None and found["kind"].startswith("openai"):
            return  # its bearer token is judged by the model server
        request = Request(
            method=environ["REQUEST_METHOD"],
            target=environ["REQUEST_URI"],
            headers=_headers(environ),
            body=lambda: _body(environ),
        )
        signed.check(request, self._keys)


def _headers(environ: Environ) -> dict[str, str]:
    """The headers by their lower-case names; moto keeps the names that WSGI cannot say."""
    names = {name: name.removeprefix("HTTP_").replace("_", "-") for name in environ if name.startswith("HTTP_")}
    names |= {"CONTENT_TYPE": "content-type", "CONTENT_LENGTH": "content-length"}
    names |= environ.get(PRESERVED_HEADER_NAMES_ENVIRON_KEY, {})
    return {
        said.lower(): str(environ[name]).encode("latin-1").decode("utf-8", "replace")
        for name, said in names.items()
        if name in environ
    }


def _body(environ: Environ) -> bytes:
    """The body, which can be read again."""
    length = environ.get("CONTENT_LENGTH") or ""
    if length.isdecimal():
        body = environ["wsgi.input"].read(int(length))
    else:
        body = environ["wsgi.input"].read() if environ.get("wsgi.input_terminated") else b""
    environ["wsgi.input"] = io.BytesIO(body)
    return bytes(body)
