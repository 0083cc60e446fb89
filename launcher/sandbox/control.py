"""How the owner of a sandbox talks to its server: JSON over HTTP on loopback, with a secret that only the two have."""

import hmac
import http.client
import json
import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias

Operation: TypeAlias = Callable[[Mapping[str, Any]], Any]

_POLL_S = 0.05
_TIMEOUT_S = 120.0
"""Above the time that a node may take to come up."""


class ControlError(Exception):
    """An operation that the server refused, or a server that does not answer."""


class ControlServer:
    """Answers `POST /<operation>`."""

    def __init__(self, operations: Mapping[str, Operation], secret: str) -> None:
        """Start it.

        Args:
            operations: by name; each gets the arguments and gives JSON values. The caller is told of a LookupError,
                ValueError, RuntimeError or OSError.
            secret: what a caller has to show.
        """
        self._server = _Server(operations, secret)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(_POLL_S,), name="control", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """Its port."""
        return int(self._server.server_address[1])

    def stop(self) -> None:
        """Close the port."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class ControlClient:
    """Calls a ControlServer."""

    def __init__(self, port: int, secret: str) -> None:
        """Keep where it is and what to show."""
        self._port = port
        self._secret = secret

    def call(self, operation: str, **arguments: Any) -> Any:
        """What an operation gives.

        Raises:
            ControlError: it was refused, or nobody answers.
        """
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=_TIMEOUT_S)
        try:
            headers = {"Authorization": f"Bearer {self._secret}", "Content-Type": "application/json"}
            connection.request("POST", f"/{operation}", json.dumps(arguments), headers)
            answer = connection.getresponse()
            body = json.loads(answer.read())
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise ControlError(f"the sandbox's server does not answer: {error}") from error
        finally:
            connection.close()
        if answer.status != HTTPStatus.OK:
            raise ControlError(str(body["error"]))
        return body["result"]


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, operations: Mapping[str, Operation], secret: str) -> None:
        self.operations = operations
        self.secret = secret
        super().__init__(("127.0.0.1", 0), _Handler)


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_POST(self) -> None:
        """Carry out an operation."""
        shown = self.headers.get("Authorization", "").removeprefix("Bearer ")
        operation = self.server.operations.get(self.path.lstrip("/"))
        if not hmac.compare_digest(shown.encode(), self.server.secret.encode()):
            self._send(HTTPStatus.FORBIDDEN, {"error": "not the owner of this sandbox"})
        elif operation is None:
            self._send(HTTPStatus.NOT_FOUND, {"error": f"no operation {self.path}"})
        else:
            arguments = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            try:
                result = operation(arguments)
            except (LookupError, ValueError, RuntimeError, OSError) as error:
                self._send(HTTPStatus.CONFLICT, {"error": str(error.args[0] if error.args else error)})
            else:
                self._send(HTTPStatus.OK, {"result": result})

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the name is the base class's
        """Keep quiet."""

    def _send(self, status: HTTPStatus, document: Mapping[str, Any]) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
