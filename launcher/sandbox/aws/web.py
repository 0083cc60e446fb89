"""moto behind its sockets: the access log around it, and a plain answer for what it cannot do."""

import json
import logging
import socket
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import BaseWSGIServer, make_server

from launcher.sandbox.aws.access_log import AccessLog, Application, Environ, service_of
from launcher.sandbox.aws.component_calls import EmulatedHosts
from launcher.sandbox.aws.ledger import Ledger
from launcher.sandbox.endpoint.model_server import Conduct, ModelServer

_POLL_S = 0.05
_LACKS = (NotImplementedError, LookupError, TypeError, ValueError, AttributeError, AssertionError)


class PlainAnswers:
    """A WSGI application that answers 501 for what the one inside it stumbles over.

    moto's own answer is a web page with status 500: no SDK can read it, and each asks four times before it gives up.
    """

    def __init__(self, inner: Application, ledger: Ledger) -> None:
        """Keep what answers, and the book in which a missing call is written down."""
        self._inner = inner
        self._ledger = ledger

    def __call__(self, environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer."""
        try:
            return self._inner(environ, start_response)
        except _LACKS as problem:
            logging.getLogger(__name__).warning("not emulated", exc_info=problem)
            service = service_of(environ)
            self._ledger.missing_action(f"{service}: {problem}")
            kind, body = _refusal(environ, f"the sandbox cannot do this ({service}): {problem!r}")
            headers = [
                ("Content-Type", kind),
                ("Content-Length", str(len(body))),
                ("x-amzn-ErrorType", "NotImplemented"),
            ]
            start_response("501 Not Implemented", headers)
            return [body]


def _refusal(environ: Environ, message: str) -> tuple[str, bytes]:
    """An error in the words of the protocol that the request came in."""
    kind = environ.get("CONTENT_TYPE", "")
    if "json" in kind:
        return kind, json.dumps({"__type": "NotImplemented", "message": message}).encode()
    error = f"<Error><Code>NotImplemented</Code><Message>{escape(message)}</Message></Error>"
    whole = error if service_of(environ) == "s3" else f"<ErrorResponse>{error}</ErrorResponse>"
    return "text/xml", whole.encode()


class _QuietHandler(MotoRequestHandler):
    def log_request(self, code: Any = "-", size: Any = "-") -> None:
        """Leave it to the access log."""


class Web:
    """The servers on all sockets."""

    def __init__(self, servers: list[BaseWSGIServer]) -> None:
        """Serve."""
        self._servers = servers
        self._threads = [threading.Thread(target=each.serve_forever, args=(_POLL_S,), daemon=True) for each in servers]
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


def serve(sockets: list[socket.socket], log: Path, ledger: Ledger, conduct: Conduct) -> Web:
    """Answer on sockets that listen already.

    Args:
        sockets: one for each loopback address.
        log: where the access log of S3 is written.
        ledger: where calls are written down that moto does not have.
        conduct: how what endpoints run behaves.
    """
    moto = DomainDispatcherApplication(create_backend_app)
    # The log holds a part of an answer back until the next is there: a stream would come too late.
    application = ModelServer(AccessLog(PlainAnswers(moto, ledger), log), EmulatedHosts(), conduct)
    servers = []
    for each in sockets:
        host, port = each.getsockname()[:2]
        with each:  # werkzeug serves on a copy of the descriptor
            servers.append(
                make_server(host, port, application, threaded=True, request_handler=_QuietHandler, fd=each.fileno())
            )
    return Web(servers)
