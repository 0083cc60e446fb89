"""An emulator of a node's instance metadata service, version 2: it answers only requests with a token.

Emulated: tokens and their time to live, a few facts of the instance, credentials, the spot interruption notice and the
rebalance recommendation (404 while none exists). Source: EC2 User Guide, "Use IMDSv2" and "Spot Instance interruption
notices", read 2026-11-20. Not emulated: user data, network interfaces, the hop limit.

All paths are below a prefix that only the node's processes know, because every user of the computer can reach loopback.
"""

import json
import secrets
import threading
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from launcher.sandbox.keys import AccessKey, KeyRing
from launcher.sandbox.signed import AccessError, refuse_foreign

_TOKEN_PATH = "/latest/api/token"  # noqa: S105  a path
_TTL_HEADER = "X-aws-ec2-metadata-token-ttl-seconds"
_LONGEST_TTL_S = 21600
_ACTIONS = ("terminate", "stop", "hibernate")
_ROLE = "sandbox-node"
_POLL_S = 0.05
_META = "/latest/meta-data"
_HELD, _LEFT = timedelta(hours=6), timedelta(hours=1)
"""The lifetime of a role's credentials, and the remaining time at which the service issues new credentials."""


class MetadataService:
    """The metadata service of one node, on its own port on loopback. Thread-safe."""

    def __init__(self, facts: Mapping[str, str], keys: KeyRing | None = None) -> None:
        """`facts` are the values below /latest/meta-data. Without `keys`, the role's credentials give no access."""
        self._facts, self._keys = dict(facts), keys or KeyRing()
        self._key: AccessKey | None = None
        self.path = f"/{secrets.token_urlsafe(16)}"
        self._lock = threading.Lock()
        self._tokens: dict[str, float] = {}
        self._notice: dict[str, str] | None = None
        self._rebalance: dict[str, str] | None = None
        self._server = _Server(self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(_POLL_S,), name="imds", daemon=True)
        self._thread.start()

    @property
    def endpoint(self) -> str:
        """The value of AWS_EC2_METADATA_SERVICE_ENDPOINT."""
        return f"http://127.0.0.1:{self._server.server_address[1]}{self.path}"

    def stop(self) -> None:
        """Close the port."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def put(self, name: str, value: str) -> None:
        """Change a value below /latest/meta-data."""
        with self._lock:
            self._facts[name] = value

    def arm(self, action: str = "terminate", in_seconds: float = 120.0) -> str:
        """Give notice ("terminate", "stop" or "hibernate"; EC2: two minutes ahead); return its time, ISO in UTC.

        Raises:
            ValueError: the action is unknown.
        """
        if action not in _ACTIONS:
            raise ValueError(f"action {action!r}, allowed: {', '.join(_ACTIONS)}")
        at = _iso(timedelta(seconds=in_seconds))
        with self._lock:
            self._notice = {"action": action, "time": at}
        return at

    def recommend_rebalance(self) -> None:
        """Recommend a rebalance: the risk of an interruption has risen."""
        with self._lock:
            self._rebalance = {"noticeTime": _iso(timedelta())}

    def clear(self) -> None:
        """Withdraw the notice and the recommendation."""
        with self._lock:
            self._notice = self._rebalance = None

    def new_token(self, ttl_s: int) -> str:
        """A new token that is valid for `ttl_s` seconds."""
        token = secrets.token_urlsafe(32)
        with self._lock:
            self._tokens[token] = time.monotonic() + ttl_s
        return token

    def admits(self, token: str) -> bool:
        """Whether a token is valid."""
        with self._lock:
            return self._tokens.get(token, 0.0) > time.monotonic()

    def answer(self, path: str) -> str | None:
        """The value at a path; None if the path does not exist."""
        name = path.removeprefix(_META).strip("/")
        with self._lock:
            notice, rebalance = self._notice, self._rebalance
        if path == "/latest/dynamic/instance-identity/document":
            return json.dumps(
                {"instanceId": self._facts.get("instance-id"), "region": self._facts.get("placement/region")}
            )
        if not path.startswith(f"{_META}/"):
            return None
        special = {
            "spot/instance-action": json.dumps(notice) if notice else None,
            "spot/termination-time": notice["time"] if notice else None,
            "events/recommendations/rebalance": json.dumps(rebalance) if rebalance else None,
            "iam/security-credentials": _ROLE,
        }
        if name == f"iam/security-credentials/{_ROLE}":
            return self._credentials()
        return special[name] if name in special else self._facts.get(name, self._listing(name))

    def _listing(self, folder: str) -> str | None:
        """The names below a folder, as EC2 lists them: one a line, folders with a slash; None if there is none."""
        below = (fact.removeprefix(f"{folder}/") for fact in sorted(self._facts) if fact.startswith(f"{folder}/"))
        names = {name.partition("/")[0] + ("/" if "/" in name else ""): None for name in below}
        return "\n".join(names) or None

    def _credentials(self) -> str:
        """The role's credentials; new ones if less than an hour of the old ones is left."""
        now = datetime.now(UTC)
        with self._lock:
            if self._key is None or self._key.ends is None or self._key.ends - now < _LEFT:
                self._key = self._keys.grant(_HELD)
            key = self._key
        credentials = {"AccessKeyId": key.id, "SecretAccessKey": key.secret, "Token": key.token}
        ends = {"LastUpdated": _iso(timedelta()), "Expiration": f"{key.ends:%Y-%m-%dT%H:%M:%SZ}"}
        return json.dumps({"Code": "Success", "Type": "AWS-HMAC", **credentials, **ends})


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, service: MetadataService) -> None:
        self.service = service
        super().__init__(("127.0.0.1", 0), _Handler)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    timeout = 30

    def do_PUT(self) -> None:
        if self._place() != _TOKEN_PATH:
            self._send(HTTPStatus.NOT_FOUND)
        elif self.headers.get("X-Forwarded-For"):
            self._send(HTTPStatus.FORBIDDEN)
        else:
            ttl = self.headers.get(_TTL_HEADER, "")
            if not ttl.isdecimal() or not 1 <= int(ttl) <= _LONGEST_TTL_S:
                self._send(HTTPStatus.BAD_REQUEST)
            else:
                self._send(HTTPStatus.OK, self.server.service.new_token(int(ttl)), {_TTL_HEADER: ttl})

    def do_GET(self) -> None:
        path = self._place()
        if path is None:
            self._send(HTTPStatus.NOT_FOUND)
            return
        if not self.server.service.admits(self.headers.get("X-aws-ec2-metadata-token", "")):
            self._send(HTTPStatus.UNAUTHORIZED)
            return
        answer = self.server.service.answer(path)
        if answer is None:
            self._send(HTTPStatus.NOT_FOUND)
        else:
            self._send(HTTPStatus.OK, answer)

    def _place(self) -> str | None:
        """The path below the service's prefix; None if the caller does not know the prefix, or is a web page."""
        prefix, _, below = self.path.removeprefix("/").partition("/")
        try:
            refuse_foreign(self.headers.get("Host", ""), self.headers.get("Origin"))
        except AccessError:
            return None
        allowed = secrets.compare_digest(f"/{prefix}".encode("latin-1"), self.server.service.path.encode())
        return f"/{below}" if allowed else None

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the name is the base class's
        """Log nothing."""

    def _send(self, status: HTTPStatus, text: str = "", headers: Mapping[str, str] | None = None) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(body)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


def _iso(ahead: timedelta) -> str:
    """A time from now in EC2's format, to the second."""
    return (datetime.now(UTC) + ahead).strftime("%Y-%m-%dT%H:%M:%SZ")
