"""An emulated AWS account on loopback: moto, plus canned answers for operations or states that moto lacks.

A canned answer is validated against the output shape of botocore's model, so that it cannot drift from the API. moto's
serialisers then write it in the service's protocol. A request for an operation without either fails like a refusal of
AWS.
"""

import json
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.error import HTTPError
from urllib.parse import parse_qs

from moto.core.serialize import get_serializer_class
from moto.core.utils import get_service_model

from tests.emulators.answers import check_by_model
from tests.emulators.loopback import QuietHandler, listening
from tests.emulators.moto_server import moto_server

SERVICES = {"servicequotas": "service-quotas", "monitoring": "cloudwatch"}
"""SDK names of services that sign their requests with another name."""
KEYS = {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-2"}


@dataclass(frozen=True)
class Refused:
    """An error instead of an answer: its code, its text and its HTTP status."""

    code: str
    message: str = "no"
    status: int = 400


DENIED = Refused("AccessDeniedException", "User is not authorized to perform this action", 403)
EC2_DENIED = Refused("UnauthorizedOperation", "You are not authorized to perform this operation.", 403)
THROTTLED = Refused("ThrottlingException", "Rate exceeded")

Answer = dict | Refused | Callable[[dict], "dict | Refused"]


@dataclass
class AwsAccount:
    """Canned answers in addition to moto, by "service.Operation", and the received requests."""

    canned: dict[str, Answer] = field(default_factory=dict)
    requests: list[tuple[str, dict]] = field(default_factory=list)
    url: str = ""
    moto: str = ""

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables that point boto3 at the account."""
        return {**KEYS, "AWS_ENDPOINT_URL": self.url}


@contextmanager
def served() -> Iterator[AwsAccount]:
    """The account on a free loopback port, with its own moto server."""
    with moto_server() as url, in_front_of(url) as state:
        yield state


@contextmanager
def in_front_of(url: str) -> Iterator[AwsAccount]:
    """The account on a free loopback port, in front of a sandbox; it forwards requests with their signatures."""
    state = AwsAccount(moto=url)
    with listening(type("Handler", (_Handler,), {"state": state})) as state.url:
        yield state


def reset(state: AwsAccount) -> None:
    """Remove all state, including moto's resources."""
    state.canned.clear()
    state.requests.clear()
    request = urllib.request.Request(f"{state.moto}/moto-api/reset", method="POST")
    urllib.request.urlopen(request).close()


class _Handler(QuietHandler):
    state: AwsAccount

    def do_any(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        service = _service(self.headers.get("Authorization", ""))
        operation, sent = _operation(self.headers, body)
        name = f"{service}.{operation}"
        self.state.requests.append((name, sent))
        if name not in self.state.canned:
            self._from_moto(body)
            return
        answer = self.state.canned[name]
        self._send(service, operation, answer(sent) if callable(answer) else answer)

    do_GET = do_POST = do_HEAD = do_PUT = do_DELETE = do_any

    def _send(self, service, operation, answer):
        model = get_service_model(service)
        protocol = _protocol(model)
        body: str | bytes
        if isinstance(answer, Refused):
            body, kind, status = _error(protocol, answer), _content_type(protocol), answer.status
        else:
            operation_model = model.operation_model(operation)
            check_by_model(operation_model, answer)
            written = get_serializer_class(service, protocol)(operation_model).serialize(answer)
            body, kind, status = written["body"], _content_type(protocol), written["status_code"]
        self._reply(status, {"Content-Type": kind}, body if isinstance(body, bytes) else body.encode())

    def _from_moto(self, body):
        headers = {name: value for name, value in self.headers.items() if name.lower() != "connection"}
        # Without a type, urllib would call an object a form, and moto would read it as one.
        headers.setdefault("Content-Type", "application/octet-stream")
        request = urllib.request.Request(
            self.state.moto + self.path, data=body or None, headers=headers, method=self.command
        )
        try:
            with urllib.request.urlopen(request) as answer:
                self._reply(answer.status, dict(answer.headers), answer.read())
        except HTTPError as problem:
            self._reply(problem.code, dict(problem.headers), problem.read())

    def _reply(self, status, headers, body):
        self.send_response(status)
        for name, value in headers.items():
            if name.lower() not in ("content-length", "transfer-encoding", "connection", "date", "server"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _service(authorization: str) -> str:
    """The service of a request, from its signature's scope."""
    if "Credential=" not in authorization:
        return "s3"
    signed = authorization.partition("Credential=")[2].split(",")[0].split("/")[3]
    return SERVICES.get(signed, signed)


def _operation(headers, body: bytes) -> tuple[str, dict]:
    """The operation and parameters of a request; an empty name if its path determines the operation."""
    target = headers.get("X-Amz-Target")
    if target:
        return target.rpartition(".")[2], json.loads(body or b"{}")
    if body.startswith(b"Action=") or b"&Action=" in body:
        sent = {name: values[0] for name, values in parse_qs(body.decode()).items()}
        return sent["Action"], sent
    return "", {}


def _protocol(model) -> str:
    return model.metadata["protocol"]


def _content_type(protocol: str) -> str:
    return "application/x-amz-json-1.1" if "json" in protocol else "text/xml"


def _error(protocol: str, refused: Refused) -> str:
    if "json" in protocol:
        return json.dumps({"__type": refused.code, "message": refused.message})
    error = f"<Error><Code>{refused.code}</Code><Message>{refused.message}</Message></Error>"
    if protocol == "rest-xml":
        return error
    if protocol == "ec2":
        return f"<Response><Errors>{error}</Errors><RequestID>r</RequestID></Response>"
    return f"<ErrorResponse>{error}<RequestId>r</RequestId></ErrorResponse>"
