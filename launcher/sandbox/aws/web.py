"""moto's HTTP servers, with the access log, and a plain error for requests that moto cannot process."""

import io
import logging
import socket
import threading
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from moto.core import loaders, utils
from moto.core.request import PRESERVED_HEADER_NAMES_ENVIRON_KEY
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import BaseWSGIServer, make_server

from launcher.sandbox import signed
from launcher.sandbox.aws import component_calls
from launcher.sandbox.aws.access_log import AccessLog, Application, Environ, service_of
from launcher.sandbox.aws.error_responses import refuse
from launcher.sandbox.aws.ledger import EmulationLedger
from launcher.sandbox.aws.pcs import EmulatedPcs
from launcher.sandbox.aws.pcs_calls import with_pcs
from launcher.sandbox.endpoint.model_server import PATH, Behaviour, ModelServer
from launcher.sandbox.keys import KeyRing
from launcher.sandbox.signed import AccessError, Request, SignatureFault

_S3, _QUERY, _JSON = range(3)
_CODES: Mapping[SignatureFault, tuple[str, str, str]] = {
    SignatureFault.UNSIGNED: ("AccessDenied", "MissingAuthenticationToken", "MissingAuthenticationTokenException"),
    SignatureFault.KEY: ("InvalidAccessKeyId", "InvalidClientTokenId", "UnrecognizedClientException"),
    SignatureFault.SESSION: ("InvalidToken", "InvalidClientTokenId", "UnrecognizedClientException"),
    SignatureFault.EXPIRED: ("ExpiredToken", "ExpiredToken", "ExpiredTokenException"),
    SignatureFault.TIME: ("RequestTimeTooSkewed", "SignatureDoesNotMatch", "InvalidSignatureException"),
    SignatureFault.SIGNATURE: ("SignatureDoesNotMatch", "SignatureDoesNotMatch", "InvalidSignatureException"),
    SignatureFault.BODY: ("XAmzContentSHA256Mismatch", "SignatureDoesNotMatch", "InvalidSignatureException"),
    SignatureFault.PLACE: ("AccessDenied", "AccessDenied", "AccessDeniedException"),
}
_HINT = "slipway sandbox status prints the keys of this sandbox"
_POLL_S = 0.05
# One loader for all services: each loader of moto lists botocore's 400 folders of services again.
utils.create_loader = cache(loaders.create_loader)  # type: ignore[attr-defined]
_LACKS = (NotImplementedError, LookupError, TypeError, ValueError, AttributeError, AssertionError)


class Entrance:
    """A WSGI application that passes on requests signed with a key of the sandbox, and refuses all others."""

    def __init__(self, inner: Application, keys: KeyRing) -> None:
        self._inner, self._keys = inner, keys

    def __call__(self, environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer a request."""
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
        match = PATH.fullmatch(environ.get("PATH_INFO", ""))
        if match is not None and match["kind"].startswith("openai"):
            return  # its bearer token is judged by the model server
        # The headers by their lower-case names; moto keeps the names that WSGI cannot say
        names = {name: name.removeprefix("HTTP_").replace("_", "-") for name in environ if name.startswith("HTTP_")}
        names |= {"CONTENT_TYPE": "content-type", "CONTENT_LENGTH": "content-length"}
        names |= environ.get(PRESERVED_HEADER_NAMES_ENVIRON_KEY, {})
        request = Request(
            method=environ["REQUEST_METHOD"],
            target=environ["REQUEST_URI"],
            headers={
                value.lower(): str(environ[name]).encode("latin-1").decode("utf-8", "replace")
                for name, value in names.items()
                if name in environ
            },
            body=lambda: _body(environ),
        )
        signed.check(request, self._keys)


def _body(environ: Environ) -> bytes:
    length = environ.get("CONTENT_LENGTH") or ""
    if length.isdecimal():
        body = environ["wsgi.input"].read(int(length))
    else:
        body = environ["wsgi.input"].read() if environ.get("wsgi.input_terminated") else b""
    environ["wsgi.input"] = io.BytesIO(body)
    return bytes(body)


def with_plain_errors(inner: Application, ledger: EmulationLedger) -> Application:
    """A WSGI application that answers 501 if the application inside raises an error.

    moto's own answer is a web page with status 500: no SDK can parse it, and each SDK tries four times before it fails.
    """

    def answer(environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        try:
            return inner(environ, start_response)
        except _LACKS as problem:
            logging.getLogger(__name__).warning("not emulated", exc_info=problem)
            service = service_of(environ)
            ledger.missing_action(f"{service}: {problem}")
            message = f"the sandbox cannot do this ({service}): {problem!r}"
            return refuse(environ, start_response, "501 Not Implemented", "NotImplemented", message)

    return answer


class _QuietHandler(MotoRequestHandler):
    def log_request(self, code: Any = "-", size: Any = "-") -> None:
        """Log nothing: the access log has the request."""


class Web:
    """The servers on all sockets."""

    def __init__(self, servers: list[BaseWSGIServer]) -> None:
        self._servers = servers
        self._threads = [
            threading.Thread(target=server.serve_forever, args=(_POLL_S,), daemon=True) for server in servers
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Close all sockets."""
        for server in self._servers:
            server.shutdown()
        for thread in self._threads:
            thread.join()
        for server in self._servers:
            server.server_close()


class Dispatcher(DomainDispatcherApplication):
    """moto's dispatcher with a cache: moto lists its own folder at each request to find the backend of a host."""

    def __init__(self, create_app: Callable[..., Any]) -> None:
        super().__init__(create_app)
        self._backends: dict[str | None, Any] = {}

    def get_backend_for_host(self, host: str | None) -> Any:
        """The name of a host's backend, from the cache after the first request."""
        if host not in self._backends:
            self._backends[host] = super().get_backend_for_host(host)
        return self._backends[host]


def serve(
    sockets: list[socket.socket],
    log: Path,
    ledger: EmulationLedger,
    behaviour: Callable[[], Behaviour],
    keys: KeyRing,
    *,
    pcs: EmulatedPcs,
) -> Web:
    """Serve on sockets that already listen."""
    moto = with_pcs(Dispatcher(create_backend_app), pcs)
    # The log delays a part of a response until the next part exists: streams would arrive too late.
    logged = AccessLog(with_plain_errors(moto, ledger), log)
    served = ModelServer(
        logged,
        keys,
        behaviour,
        find=component_calls.find_endpoint,
        read=component_calls.read_object,
        write=component_calls.write_object,
    )
    application = Entrance(served, keys)
    servers = []
    for listener in sockets:
        host, port = listener.getsockname()[:2]
        with listener:  # werkzeug serves on a copy of the descriptor
            servers.append(
                make_server(host, port, application, threaded=True, request_handler=_QuietHandler, fd=listener.fileno())
            )
    return Web(servers)
