"""The access log of the embedded S3: one JSON object for each request, so that tests can read the stored objects."""

import json
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import unquote

from launcher.agent import safe_json

Environ: TypeAlias = dict[str, Any]
Application: TypeAlias = Callable[[Environ, Callable[..., Any]], Iterable[bytes]]


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Request:
    """One request to S3."""

    time: str
    method: str
    # /bucket/key, decoded.
    path: str
    query: str
    status: int
    # The size of the answer.
    bytes: int
    # The size of the request.
    sent: int

    @property
    def bucket(self) -> str:
        """The bucket, empty for requests to the service itself."""
        return self.path.lstrip("/").partition("/")[0]

    @property
    def key(self) -> str:
        """The object's key, empty for requests to a bucket."""
        return self.path.lstrip("/").partition("/")[2]


class AccessLog:
    """A WSGI application that logs the S3 requests of the application inside."""

    def __init__(self, inner: Application, path: Path) -> None:
        self._inner = inner
        self._path = path
        self._lock = threading.Lock()
        path.touch(mode=0o600)

    def __call__(self, environ: Environ, start_response: Callable[..., Any]) -> Iterator[bytes]:
        """Answer, and log the request before the last part of the answer is sent."""
        status = 0

        def start(line: str, headers: list[tuple[str, str]], *others: Any) -> Any:
            nonlocal status
            status = int(line.split(" ", 1)[0])
            return start_response(line, headers, *others)

        size = 0
        last = b""
        inner = self._inner(environ, start)
        try:
            for part in inner:
                # An empty part too sends the headers, which are all of an answer without a body.
                if last:
                    yield last
                last = part
                size += len(part)
        finally:
            close = getattr(inner, "close", None)
            if close is not None:
                close()
            path = environ.get("PATH_INFO", "")
            if service_of(environ) == "s3" and not path.startswith(("/moto-api", "/latest/")):
                self._write(_request(environ, status, size))
        if last:
            yield last

    def _write(self, request: S3Request) -> None:
        with self._lock, self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(request)) + "\n")


def read(path: Path) -> tuple[S3Request, ...]:
    """The requests of a log, oldest first, without an incomplete last line."""
    if not path.is_file():
        return ()
    text = path.read_text(encoding="utf-8")
    lines = text[: text.rfind("\n") + 1]
    return tuple(S3Request(**safe_json.loads(line)) for line in lines.splitlines())


def service_of(environ: Environ) -> str:
    """The service that a request was signed for, in its header or query; S3 if the request is not signed."""
    text = environ.get("HTTP_AUTHORIZATION", "") or unquote(environ.get("QUERY_STRING", ""))
    _, scheme, scope = text.partition("Credential=")
    parts = scope.split(",")[0].split("&")[0].split("/")
    return parts[3] if scheme and len(parts) > 3 else "s3"  # noqa: PLR2004  key/day/region/service/aws4_request


def _request(environ: Environ, status: int, size: int) -> S3Request:
    length = environ.get("CONTENT_LENGTH") or "0"
    return S3Request(
        time=datetime.now(UTC).isoformat(timespec="milliseconds"),
        method=environ["REQUEST_METHOD"],
        path=environ.get("PATH_INFO", "").encode("latin-1").decode("utf-8", "replace"),
        query=environ.get("QUERY_STRING", ""),
        status=status,
        bytes=size,
        sent=int(length) if length.isdecimal() else 0,
    )
