"""A proxy between agent and S3 that forwards requests or injects network faults."""

import threading
from http.client import HTTPConnection
from http.server import ThreadingHTTPServer
from urllib.parse import urlsplit

from tests.emulators.loopback import QuietHandler

ERRORS = {403: "AccessDenied", 404: "NoSuchKey", 507: "InsufficientStorage"}
"""What S3 calls its refusals; any other status is a SlowDown."""


class Front(ThreadingHTTPServer):
    """Stands before the S3 server and can refuse a request, hold it before it gets there, or hold its answer.

    `rule(method, path)` says what happens to a request: None (nothing), a status to refuse it with (or a
    status and what S3 calls it), "before" or
    "after" (it is held: `held` is set, and it is let go when the front stops), "cut" (the connection is closed instead
    of an answer), "cut-body" (closed in the middle of the answer), "flip" (a bit of the answer is turned over) or
    "no-conditions" (conditional writes are not implemented). `begun` has every request of which the first line came in.
    """

    daemon_threads = True

    def __init__(self, upstream):
        super().__init__(("127.0.0.1", 0), FrontHandler)
        self.upstream = urlsplit(upstream).netloc
        self.endpoint = f"http://127.0.0.1:{self.server_address[1]}"
        self.rule = lambda method, path: None
        self.begun = []
        self.held = threading.Event()
        self.over = threading.Event()
        self.closed = False

    def __enter__(self):
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self.closed = True
        self.over.set()
        self.shutdown()
        self.server_close()

    def hold(self):
        self.held.set()
        self.over.wait(60)

    def forward(self, method, path, body, headers):
        connection = HTTPConnection(self.upstream, timeout=30)
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            return response.status, dict(response.getheaders()), response.read()
        finally:
            connection.close()

    def handle_error(self, request, client_address):
        """A killed agent breaks its connections; that is what is tested."""


class FrontHandler(QuietHandler):
    protocol_version = "HTTP/1.1"
    server: Front

    def parse_request(self):
        """Every method is handled by the one below."""
        good = super().parse_request()
        self.method, self.command = self.command, "ANY"
        if good:
            self.server.begun.append((self.method, self.path))
        return good

    def do_ANY(self):
        length = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(length)
        if len(body) < length:
            self.close_connection = True  # the sender is gone; S3 takes no object of which the end is missing
            return
        action = self.server.rule(self.method, self.path)
        if isinstance(action, int):
            action = action, ERRORS.get(action, "SlowDown")
        if isinstance(action, tuple):
            action, code = action
            self.answer(action, {}, f"<Error><Code>{code}</Code><Message>no</Message></Error>".encode())
            return
        conditional = "If-None-Match" in self.headers or "If-Match" in self.headers
        if action == "no-conditions" and conditional:
            self.answer(501, {}, b"<Error><Code>NotImplemented</Code><Message>no</Message></Error>")
            return
        if action == "cut":
            self.close_connection = True
            return
        if action == "before":
            self.server.hold()
        if self.server.closed:
            self.close_connection = True  # a late request must not reach the bucket of the next test
            return
        status, headers, content = self.server.forward(self.method, self.path, body, dict(self.headers))
        if action == "after":
            self.server.hold()
        if action == "flip" and content:
            content = bytes([content[0] ^ 1]) + content[1:]
        self.answer(status, headers, content, cut=action == "cut-body")

    def answer(self, status, headers, content, *, cut=False):
        self.send_response(status)
        for name, value in headers.items():
            if name.lower() not in {"transfer-encoding", "connection", "date", "server", "content-length"}:
                self.send_header(name, value)
        self.send_header("Content-Length", headers.get("Content-Length", str(len(content))))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2] if cut else content)
        self.close_connection = self.close_connection or cut
