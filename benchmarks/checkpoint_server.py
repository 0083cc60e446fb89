"""An S3 server for client benchmarks: objects are files, requests are not verified, and nothing is delayed.

    python -m benchmarks.checkpoint_server FOLDER

It prints its endpoint and serves until its standard input ends. It supports the requests of the agent, boto3, `aws s3
cp` and s5cmd: put, get with a range, head, delete, list, multipart uploads. The parts of an upload remain separate
files, and downloads go from file to socket within the kernel, so that the clients dominate the time.
"""

import itertools
import os
import re
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

_CHUNK = 1 << 20
_RANGE = re.compile(r"bytes=(\d+)-(\d*)")
_MODIFIED, _MODIFIED_ISO = "Fri, 20 Nov 2026 12:00:00 GMT", "2026-11-20T12:00:00.000Z"
Parts = list[tuple[Path, int]]


class ObjectServer(ThreadingHTTPServer):
    """The server with its objects: for each key, its files and their sizes."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, folder: Path) -> None:
        """Listen on a free port; objects are stored in `folder`."""
        super().__init__(("127.0.0.1", 0), _Handler)
        self.folder = folder
        self.objects: dict[str, Parts] = {}
        self.uploads: dict[str, dict[int, tuple[Path, int]]] = {}
        self.numbers = itertools.count()
        self.lock = threading.Lock()

    def fresh(self) -> tuple[int, Path]:
        """A new unique number, and the file with that name."""
        with self.lock:
            number = next(self.numbers)
        return number, self.folder / str(number)

    def keep(self, key: str, parts: Parts) -> None:
        """Store an object that consists of files; remove the files of its previous version."""
        with self.lock:
            before, self.objects[key] = self.objects.get(key, []), parts
        remove(before)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a client that disconnects."""


def remove(parts: Parts) -> None:
    """Remove an object's files."""
    for path, _ in parts:
        path.unlink(missing_ok=True)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: ObjectServer

    def log_message(self, *_: Any) -> None:
        pass

    def parse_request(self) -> bool:
        good = super().parse_request()
        if good:
            parts = urlsplit(self.path)
            self.key = unquote(parts.path).lstrip("/")
            self.query = {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
        return good

    def do_PUT(self) -> None:
        number, path = self.server.fresh()
        size = self._receive(path)
        upload = self.query.get("uploadId")
        if upload is not None:
            self.server.uploads[upload][int(self.query["partNumber"])] = (path, size)
        elif "tagging" in self.query:
            path.unlink()
        else:
            self.server.keep(self.key, [(path, size)])
        self._answer(200, headers={"ETag": f'"{number}"'})

    def do_POST(self) -> None:
        self._discard()
        if "uploads" in self.query:
            upload = str(self.server.fresh()[0])
            self.server.uploads[upload] = {}
            self._xml(f"<InitiateMultipartUploadResult><UploadId>{upload}</UploadId></InitiateMultipartUploadResult>")
        else:
            parts = self.server.uploads.pop(self.query["uploadId"])
            self.server.keep(self.key, [parts[number] for number in sorted(parts)])
            self._xml(f'<CompleteMultipartUploadResult><ETag>"{len(parts)}"</ETag></CompleteMultipartUploadResult>')

    def do_DELETE(self) -> None:
        """Delete one object, or everything below a key that ends with a slash."""
        with self.server.lock:
            below = [key for key in self.server.objects if key.startswith(self.key)] if self.key.endswith("/") else []
            deleted = [self.server.objects.pop(key, []) for key in (below or [self.key])]
        for parts in deleted:
            remove(parts)
        self._answer(204)

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        if "/" not in self.key:
            self._xml(self._listing())
            return
        parts = self.server.objects.get(self.key)
        if parts is None:
            self._xml("<Error><Code>NoSuchKey</Code><Message>no</Message></Error>", status=404)
            return
        total = sum(size for _, size in parts)
        requested = _RANGE.fullmatch(self.headers.get("Range", ""))
        first = int(requested[1]) if requested else 0
        last = min(int(requested[2]), total - 1) if requested and requested[2] else total - 1
        self.send_response(206 if requested else 200)
        self.send_header("ETag", f'"{total}"')
        self.send_header("Last-Modified", _MODIFIED)
        self.send_header("Content-Length", str(last + 1 - first))
        if requested:
            self.send_header("Content-Range", f"bytes {first}-{last}/{total}")
        self.end_headers()
        if self.command == "GET":
            self._send(parts, first, last + 1)

    def _send(self, parts: Parts, first: int, end: int) -> None:
        begin = 0
        for path, size in parts:
            low, high = max(first, begin) - begin, min(end, begin + size) - begin
            begin += size
            if low >= high:
                continue
            with path.open("rb") as file:
                while low < high:
                    low += os.sendfile(self.connection.fileno(), file.fileno(), low, high - low)

    def _listing(self) -> str:
        prefix = f"{self.key.rstrip('/')}/{self.query.get('prefix', '')}"
        bucket = f"{self.key.rstrip('/')}/"
        with self.server.lock:
            found = {key: sum(size for _, size in parts) for key, parts in self.server.objects.items()}
        folders = ""
        if "delimiter" in self.query:
            below = sorted(key for key in found if key.startswith(prefix))
            first = {key[len(prefix) :].partition("/")[0] for key in below if "/" in key[len(prefix) :]}
            names = (f"{prefix}{name}/".removeprefix(bucket) for name in sorted(first))
            folders = "".join(f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>" for name in names)
            found = {key: found[key] for key in below if "/" not in key[len(prefix) :]}
        entries = "".join(
            f"<Contents><Key>{escape(key.removeprefix(bucket))}</Key><Size>{size}</Size>"
            f"<LastModified>{_MODIFIED_ISO}</LastModified><ETag>x</ETag><StorageClass>STANDARD</StorageClass></Contents>"
            for key, size in sorted(found.items())
            if key.startswith(prefix)
        )
        return f"<ListBucketResult><IsTruncated>false</IsTruncated>{entries}{folders}</ListBucketResult>"

    def _receive(self, path: Path) -> int:
        total = 0
        with path.open("wb", buffering=0) as file:
            for chunk in self._body():
                file.write(chunk)
                total += len(chunk)
        return total

    def _discard(self) -> None:
        for _ in self._body():
            pass

    def _body(self) -> Iterator[memoryview]:
        if "aws-chunked" not in self.headers.get("Content-Encoding", ""):
            yield from self._exactly(int(self.headers.get("Content-Length", 0)))
            return
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            yield from self._exactly(size)
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass  # a checksum, which is not checked

    def _exactly(self, remaining: int) -> Iterator[memoryview]:
        buffer = memoryview(bytearray(min(_CHUNK, remaining)))
        while remaining:
            got = self.rfile.readinto(buffer[: min(len(buffer), remaining)])
            if not got:
                raise ConnectionError("the client went away")
            yield buffer[:got]
            remaining -= got

    def _xml(self, text: str, *, status: int = 200) -> None:
        self._answer(status, text.encode(), {"Content-Type": "application/xml"})

    def _answer(self, status: int, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def main() -> int:
    """Serve until standard input ends."""
    server = ObjectServer(Path(sys.argv[1]))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
    sys.stdin.read()
    return 0


if __name__ == "__main__":
    sys.exit(main())
