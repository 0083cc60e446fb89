"""Calls between the processes of a sandbox: one connection a call, on a socket in its folder, one JSON each way.

The sockets are multiprocessing's, with a secret that only both sides know; no received data is unpickled.
"""

import contextlib
import json
import logging
import socket
import threading
from collections.abc import Callable, Mapping
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, Listener, answer_challenge, deliver_challenge
from pathlib import Path
from typing import Any, TypeAlias

from launcher.agent import safe_json

Operation: TypeAlias = Callable[[Mapping[str, Any]], Any]

TIMEOUT_S = 120.0
"""More than the time that a node may need to start."""
_BACKLOG = 64
_BROKEN = (OSError, EOFError, ValueError, AuthenticationError)


class ControlError(Exception):
    """The server refused an operation, or does not answer."""


class ControlServer:
    """Answers calls, each in its own thread."""

    def __init__(self, operations: Mapping[str, Operation], secret: str, address: Path) -> None:
        """Operations get the arguments and return JSON values; exceptions are sent to the caller."""
        self._operations = operations
        self._secret = secret.encode()
        # Without a secret here, accept() waits for no word of a caller: each thread checks its own.
        self._listener = Listener(str(address), "AF_UNIX", _BACKLOG)
        self._over = threading.Event()
        self._address = address
        self._thread = threading.Thread(target=self._serve, name="control", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Close the socket; a second call does nothing.

        Without the socket's file no connection reaches the waiting thread: it ends with the process.
        """
        if self._over.is_set():
            return
        self._over.set()
        # Closing a socket does not wake a waiting thread; a connection does. It does not wait for an answer.
        with socket.socket(socket.AF_UNIX) as caller:
            reached = caller.connect_ex(str(self._address)) == 0
        if reached:
            self._thread.join()
        with contextlib.suppress(FileNotFoundError):
            self._listener.close()

    def _serve(self) -> None:
        while not self._over.is_set():
            try:
                connection = self._listener.accept()
            except OSError:
                # The caller is gone.
                continue
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: "Connection[Any, Any]") -> None:
        with connection, contextlib.suppress(*_BROKEN):
            # The order of Listener.accept() and Client(): each side proves that it has the secret.
            deliver_challenge(connection, self._secret)
            answer_challenge(connection, self._secret)
            request = safe_json.loads(connection.recv_bytes())
            connection.send_bytes(json.dumps(self._outcome(request)).encode())

    def _outcome(self, request: Mapping[str, Any]) -> dict[str, Any]:
        operation = self._operations.get(request["operation"])
        if operation is None:
            return {"error": f"no operation {request['operation']}"}
        try:
            return {"result": operation(request["arguments"])}
        except (LookupError, ValueError, RuntimeError, OSError) as error:
            return {"error": str(error.args[0] if error.args else error)}
        except Exception as error:
            logging.getLogger(__name__).exception("operation %s", request["operation"])
            return {"error": f"{request['operation']}: {error!r}"}


class ControlClient:
    """Calls a ControlServer."""

    def __init__(self, address: str, secret: str) -> None:
        self._address = address
        self._secret = secret

    def call(self, operation: str, **arguments: Any) -> Any:
        """Call an operation; return its result.

        Raises:
            ControlError: the server refused the request or does not answer.
        """
        try:
            with Client(self._address, "AF_UNIX", authkey=self._secret.encode()) as connection:
                connection.send_bytes(json.dumps({"operation": operation, "arguments": arguments}).encode())
                if not connection.poll(TIMEOUT_S):
                    raise ControlError(f"the sandbox's server does not answer within {TIMEOUT_S:g} s")
                answer = safe_json.loads(connection.recv_bytes())
        except _BROKEN as error:
            raise ControlError(f"the sandbox's server does not answer: {error}") from error
        if "error" in answer:
            raise ControlError(str(answer["error"]))
        return answer["result"]
