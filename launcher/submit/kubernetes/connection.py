"""A connection to a Kubernetes API through the official client: JSON in, JSON out, and Slipway's errors."""

import base64
import contextlib
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launcher.agent import safe_json
from launcher.catalog import safe_yaml
from launcher.catalog.regular_file import read_regular
from launcher.model.distribution import install_hint
from launcher.model.errors import ImpossibleError
from launcher.submit.jobs import SchedulerError, UnreachableError

TIMEOUT_S = 30.0
_TOKEN_LIVES_S = 600.0
"""EKS accepts a token for fifteen minutes; Slipway requests a new token earlier."""
_NOT_THERE = 404
_MAX_BYTES = 1 << 30
"""Of an answer: a list of pods has about 10 kB per pod."""
MAX_BYTES = 4 << 20
"""Of a kubeconfig."""
_LONGEST_REASON = 200
_LATER = frozenset({408, 429, 500, 502, 503, 504})
_HINTS = {
    401: "the cluster does not accept these credentials: an EKS access entry grants a role access",
    403: "these credentials may not do that: associate AmazonEKSEditPolicy with the role's access entry",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiEndpoint:
    """The address and credentials of a cluster's API. `authority` is its certificate, in base64 as EKS returns it."""

    name: str
    address: str
    authority: str | None
    token: Callable[[], str]


class ApiRefusedError(SchedulerError):
    """The cluster refuses a request permanently; `code` is the HTTP status code."""

    def __init__(self, message: str, *, code: int, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.code = code


class Connection:
    """A cluster's API."""

    def __init__(self, name: str, client: Any) -> None:
        self.name = name
        self._client = client

    def ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        form: str = "application/json",
    ) -> dict[str, Any]:
        """Send one request.

        Raises:
            UnreachableError: no complete answer came.
        """
        with self._translate_errors(path):
            answer = self._call(method, path, query=query, body=body, form=form, timeout_s=TIMEOUT_S)
            document: dict[str, Any] = safe_json.loads(answer.data, most_bytes=_MAX_BYTES)
            return document

    def text(self, path: str, *, query: Mapping[str, str]) -> str:
        """Return what a container has printed.

        Raises:
            UnreachableError: no complete answer came.
        """
        with self._translate_errors(path):
            answer = self._call("GET", path, query=query, body=None, form="", timeout_s=TIMEOUT_S)
            return bytes(answer.data).decode(errors="replace")

    def find(self, path: str, *, query: Mapping[str, str] | None = None) -> dict[str, Any] | None:
        """Return an object or a list; None if it is missing."""
        try:
            return self.ask("GET", path, query=query)
        except ApiRefusedError as refused:
            if refused.code == _NOT_THERE:
                return None
            raise

    def execute(self, namespace: str, pod: str, command: Sequence[str], *, tty: bool, stdin: bool) -> Any:
        """Run a command in a pod; return the client's own channels, which carry bytes.

        Raises:
            UnreachableError: the connection failed.
        """
        stream_options = {"command": list(command), "stdin": stdin, "stdout": True, "stderr": not tty, "tty": tty}
        return self._stream("stream", "exec", namespace, pod, binary=True, **stream_options)

    def forward(self, namespace: str, pod: str, port: int) -> tuple[Any, Callable[[], str]]:
        """A socket to a port of a pod, and a function that returns the kubelet's error after the socket has closed.

        Raises:
            UnreachableError: the connection failed.
        """
        streamed = self._stream("portforward", "portforward", namespace, pod, ports=str(port))
        return streamed.socket(port), lambda: streamed.error(port) or ""

    def _stream(self, function: str, part: str, namespace: str, pod: str, **stream_options: Any) -> Any:
        from kubernetes import client, stream  # noqa: PLC0415 - only where a cluster is asked

        # The client replaces a method of what it calls through for as long as it connects: others may use this one.
        api_client = client.ApiClient(self._client.configuration)
        call = getattr(client.CoreV1Api(api_client), f"connect_get_namespaced_pod_{part}")
        with self._translate_errors(f"pods/{pod}/{part}"):
            return getattr(stream, function)(call, pod, namespace, _preload_content=False, **stream_options)

    def close(self) -> None:
        """Close the connections of the client."""
        self._client.close()

    def _call(
        self, method: str, path: str, *, query: Mapping[str, str] | None, body: Any, form: str, timeout_s: float
    ) -> Any:
        return self._client.call_api(
            path,
            method,
            query_params=list((query or {}).items()),
            header_params={"Accept": "application/json", **({"Content-Type": form} if body is not None else {})},
            body=body,
            auth_settings=["BearerToken"],
            _return_http_data_only=True,
            _preload_content=False,
            _request_timeout=(10.0, timeout_s),
        )

    @contextlib.contextmanager
    def _translate_errors(self, path: str) -> Iterator[None]:
        from kubernetes.client.exceptions import ApiException  # noqa: PLC0415 - only where a cluster is asked
        from urllib3.exceptions import HTTPError  # noqa: PLC0415 - the same

        try:
            yield
        except ApiException as problem:
            # A handshake that is refused comes as what the WebSocket's own client made of it.
            status = problem.status or getattr(problem.__context__, "status_code", 0)
            text = message(problem.body or getattr(problem.__context__, "resp_body", None)) or str(problem.reason)
            if status in _LATER or not status:
                raise UnreachableError(f"{self.name}: the API answers {status}: {text}") from problem
            raise ApiRefusedError(f"{self.name}: {text}", code=int(status), hint=_HINTS.get(status, "")) from problem
        except (HTTPError, OSError, ValueError) as problem:
            raise UnreachableError(f"{self.name}: no answer from {path}: {_short(problem)}") from problem


def to_endpoint(endpoint: ApiEndpoint, *, clock: Callable[[], float] = time.monotonic) -> Connection:
    """A connection to a cluster by the address of its API; Slipway renews the token before it expires.

    Raises:
        ImpossibleError: the `kubernetes` package is not installed.
    """
    client = _client_module()
    configuration = client.Configuration(host=endpoint.address)
    configuration.retries = False
    if endpoint.authority is not None:
        configuration.ssl_ca_cert = _certificate(endpoint.authority)
    made_at = -_TOKEN_LIVES_S

    def refresh(known: Any) -> None:
        nonlocal made_at
        if clock() - made_at >= _TOKEN_LIVES_S:
            known.api_key["authorization"] = f"Bearer {endpoint.token()}"
            made_at = clock()

    refresh(configuration)
    configuration.refresh_api_key_hook = refresh
    return Connection(endpoint.name, client.ApiClient(configuration))


def to_context(context: str, kubeconfig: str | None = None) -> Connection:
    """A connection described by a context of the user's kubeconfig, with any kind of credentials.

    Raises:
        ImpossibleError: the client is not installed, or the context does not exist.
    """
    _client_module()
    from kubernetes import config  # noqa: PLC0415 - only where a cluster is asked

    named = kubeconfig or str(Path.home() / ".kube" / "config")
    try:
        for path in filter(None, named.split(os.pathsep)):
            _refuse_invalid(Path(path).expanduser())
        client = config.new_client_from_config(config_file=kubeconfig, context=context)
    except (config.ConfigException, OSError, ValueError, TypeError, AttributeError, KeyError) as problem:
        # The client meets a file of another form with whatever its code raises.
        reason = " ".join(str(problem).split())[:_LONGEST_REASON]
        hint = "kubectl config get-contexts lists them; aws eks update-kubeconfig --name CLUSTER adds one"
        raise ImpossibleError(f"target.context: {context} cannot be used: {reason}", hint=hint) from problem
    client.configuration.retries = False
    return Connection(f"context {context}", client)


def _refuse_invalid(path: Path) -> None:
    """Refuse a kubeconfig that is no regular file, is too large, or is not YAML; one that is missing is passed over."""
    with suppress(FileNotFoundError):
        safe_yaml.loads(read_regular(path, MAX_BYTES).decode("utf-8-sig"))


def require_client() -> None:
    """Require the official client.

    Raises:
        ImpossibleError: the client is not installed.
    """
    _client_module()


def _client_module() -> Any:
    try:
        from kubernetes import client  # noqa: PLC0415 - only where a cluster is asked
    except ImportError as problem:
        message = "jobs on Kubernetes need its client, which is not installed"
        raise ImpossibleError(message, hint=install_hint("eks")) from problem
    return client


def _certificate(authority: str) -> str:
    """Write a certificate to a file, which the client reads when it connects; return its path. It is no secret."""
    with tempfile.NamedTemporaryFile("wb", prefix="slipway-ca-", suffix=".pem", delete=False) as file:
        file.write(base64.b64decode(authority))
        return str(Path(file.name))


def message(body: Any) -> str:
    """The message of a `Status` object of the API; any other body unchanged."""
    text = body.decode(errors="replace") if isinstance(body, bytes) else str(body or "")
    try:
        return str(safe_json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        return text.strip()[:300]


def _short(problem: Exception) -> str:
    return str(problem).partition("\n")[0][:200]
