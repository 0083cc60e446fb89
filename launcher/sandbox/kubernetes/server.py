"""The API server on loopback: HTTP, tokens, watches that end and resume, and control by tests.

The server can be stopped and started again; its objects and running pods are retained.
"""

import contextlib
import json
import logging
import re
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit

from launcher.agent import safe_json
from launcher.records.run_folder import SANDBOX_LOG
from launcher.sandbox import signed
from launcher.sandbox.environment import SERVER_LOG
from launcher.sandbox.kubernetes import channels
from launcher.sandbox.kubernetes.api import Api, matching
from launcher.sandbox.kubernetes.kinds import Kind
from launcher.sandbox.kubernetes.statuses import RefusedError
from launcher.sandbox.kubernetes.store import ObjectChange

REVIEW = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_OF_ONE = {"GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "POST": "create"}
_OF_ALL = {"GET": "list", "POST": "create", "DELETE": "deletecollection"}
VERSION = {"major": "1", "minor": "34", "gitVersion": "v1.34.0-slipway-sandbox", "platform": "linux/amd64"}
BOOKMARK_S = 5.0
WATCH_S = 1800.0
"""The maximum duration of a watch; a real server ends it after 30 to 60 minutes (--min-request-timeout)."""
_PATH = re.compile(
    r"/(?:api/(?P<core>v1)|apis/(?P<group>[^/]+)/(?P<version>[^/]+))"
    r"(?:/namespaces/(?P<namespace>[^/]+)(?=/[^/]))?(?:/(?P<plural>[^/]+))?(?:/(?P<name>[^/]+))?(?:/(?P<part>[^/]+))?"
)
ReadLog = Callable[[str, str, Mapping[str, str]], bytes]
FindSpawn = Callable[[str, str], channels.Spawn]


@dataclass(slots=True)
class ApiRights:
    """The forbidden operations of callers: verb and plural, in every namespace."""

    denied: set[tuple[str, str]] = field(default_factory=set)

    def refuse_unless_allowed(self, method: str, kind: Kind, namespace: str, name: str | None) -> None:
        """Refuse a forbidden request."""
        verb = _OF_ALL.get(method, "get") if name is None else _OF_ONE.get(method, "get")
        self.refuse(verb, kind.plural, kind.group, namespace)

    def refuse(self, verb: str, plural: str, group: str, namespace: str) -> None:
        """Refuse a forbidden verb on a resource, which may be a subresource: `pods/exec`."""
        if (verb, plural) in self.denied:
            where = f' in the namespace "{namespace}"' if namespace else " at the cluster scope"
            text = f'cannot {verb} resource "{plural}" in API group "{group}"{where}'
            raise RefusedError("Forbidden", f"{plural} is forbidden: User {text}")

    def review(self, review: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to a SelfSubjectAccessReview.

        Raises:
            RefusedError: the review names no attributes.
        """
        attributes = review.get("spec", {}).get("resourceAttributes")
        if attributes is None:
            text = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
            raise RefusedError("Invalid", text)
        allowed = (attributes.get("verb"), attributes.get("resource")) not in self.denied
        return {**review, "status": {"allowed": allowed}}


class Server:
    """One API server.

    `allows` decides whether a token is accepted. `log` returns the output of a pod's container, and `spawner` a
    function that starts programs in it; both raise RefusedError if the pod or the container does not exist or run.
    """

    def __init__(self, api: Api, *, allows: Callable[[str], bool], log: ReadLog, spawner: FindSpawn) -> None:
        self.api = api
        self.allows = allows
        self.log, self.spawner = log, spawner
        self.rights = ApiRights()
        self.port = 0
        self.epoch = 0
        self.fault = ""
        self._server: _Listener | None = None

    @property
    def address(self) -> str:
        """The URL of the server, also while the server is stopped."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def up(self) -> bool:
        """Whether the server listens."""
        return self._server is not None

    def start(self) -> None:
        """Listen, on the same port as before if there was one."""
        if self._server is None:
            self._server = _Listener(("127.0.0.1", self.port), self)
            self.port = self._server.server_address[1]
            threading.Thread(target=self._server.serve_forever, args=(0.05,), name="kube-api", daemon=True).start()

    def stop(self) -> None:
        """Close the port and all open connections."""
        server, self._server = self._server, None
        if server is not None:
            self.break_watches()
            server.shutdown()
            server.server_close()
            server.cut()

    def fail(self, part: str, problem: Exception) -> None:
        """Refuse all further requests, because a part of the sandbox has failed: waiting clients get the error."""
        logging.getLogger(__name__).error("the sandbox's %s failed", part, exc_info=problem)
        self.fault = (
            f"the sandbox's {part} failed: {problem!r}; the traceback is in the sandbox's {SERVER_LOG}, which a launch"
            f" keeps as {SANDBOX_LOG} in its run folder"
        )
        self.break_watches()

    def break_watches(self) -> None:
        """End every watch, as the restart of a server does."""
        self.epoch += 1
        self.api.objects.wake()


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, address: tuple[str, int], owner: Server) -> None:
        self.owner = owner
        self._open: set[socket.socket] = set()
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore the error: the client has disconnected."""

    def cut(self) -> None:
        for connection in list(self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Listener

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def do_PUT(self) -> None:
        self._answer()

    def do_PATCH(self) -> None:
        self._answer()

    def do_DELETE(self) -> None:
        self._answer()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - http.server's name
        """Log nothing."""

    def _answer(self) -> None:
        parts = urlsplit(self.path)
        query = dict(parse_qsl(parts.query))
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length) if length else b""
        try:
            signed.refuse_foreign(self.headers.get("Host", ""), self.headers.get("Origin"), own_origin=True)
            self._authenticate()
            self._route(parts.path, query, body)
        except signed.AccessError as problem:
            refused = RefusedError("Forbidden", problem.message)
            self._send(refused.code, refused.status())
        except RefusedError as refused:
            self._send(refused.code, refused.status())
        except OSError:
            self.close_connection = True
        except Exception as problem:
            if self.server.owner.up:  # else its connections were cut off
                self.server.owner.fail("Kubernetes API", problem)
            raise

    def _authenticate(self) -> None:
        scheme, _, token = (self.headers.get("Authorization") or "").partition(" ")
        if scheme.lower() != "bearer" or not self.server.owner.allows(token):
            raise RefusedError("Unauthorized", "Unauthorized")

    def _route(self, path: str, query: dict[str, str], body: bytes) -> None:
        api = self.server.owner.api
        if self.server.owner.fault:
            raise RefusedError("NotImplemented", self.server.owner.fault)
        if path in ("/version", "/version/"):
            self._send(200, VERSION)
            return
        if path in ("/readyz", "/livez"):
            self._raw(200, b"ok", "text/plain")
            return
        if path == REVIEW and self.command == "POST":
            self._send(201, self.server.owner.rights.review(_decode(body)))
            return
        match = _PATH.fullmatch(path.rstrip("/"))
        if match is None:
            raise RefusedError("NotFound", "the server could not find the requested resource")
        group, version = match["group"] or "", match["core"] or match["version"]
        if match["plural"] is None:
            self._send(200, self._discovery(group, version))
            return
        kind, namespace = api.kinds.at(group, version, match["plural"]), match["namespace"] or ""
        self.server.owner.rights.refuse_unless_allowed(self.command, kind, namespace, match["name"])
        if match["name"] is None:
            self._collection(kind, namespace, query, body)
        else:
            self._one(kind, (namespace, match["name"]), match["part"] or "", query, body)

    def _discovery(self, group: str, version: str) -> dict[str, Any]:
        kinds = [kind for kind in self.server.owner.api.kinds if (kind.group, kind.version) == (group, version)]
        if not kinds:
            raise RefusedError("NotFound", "the server could not find the requested resource")
        resources = [{"name": kind.plural, "kind": kind.kind, "namespaced": kind.namespaced} for kind in kinds]
        name = f"{group}/{version}" if group else version
        return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": name, "resources": resources}

    def _collection(self, kind: Kind, namespace: str, query: dict[str, str], body: bytes) -> None:
        api = self.server.owner.api
        if self.command == "GET" and query.get("watch") in ("1", "true", "True"):
            self._watch(kind, namespace, query)
        elif self.command == "GET":
            self._send(200, api.page(kind, namespace, query))
        elif self.command == "POST":
            self._send(201, api.create(kind, namespace, _decode(body)))
        elif self.command == "DELETE":
            options = _decode(body) if body else {}
            for item in api.page(kind, namespace, query)["items"]:
                where, name = item["metadata"].get("namespace", ""), item["metadata"]["name"]
                with contextlib.suppress(RefusedError):
                    api.delete(kind, where, name, options)
            self._send(200, {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"})
        else:
            raise RefusedError("MethodNotAllowed", "the server does not allow this method on the requested resource")

    def _one(self, kind: Kind, place: tuple[str, str], part: str, query: dict[str, str], body: bytes) -> None:
        api, (namespace, name) = self.server.owner.api, place
        if kind.kind == "Pod" and part == "log" and self.command == "GET":
            self._log(namespace, name, query)
        elif kind.kind == "Pod" and part in ("exec", "portforward") and self.command == "GET":
            self._channels(namespace, name, part)
        elif kind.kind == "Pod" and part == "eviction" and self.command == "POST":
            self._send(201, api.evict(namespace, name, _decode(body).get("deleteOptions") or {}))
        elif part not in ("", "status"):
            raise RefusedError("NotFound", "the server could not find the requested resource")
        elif self.command == "GET":
            self._send(200, api.objects.get(kind, namespace, name))
        elif self.command == "PUT":
            self._send(200, api.replace(kind, namespace, name, _decode(body), part))
        elif self.command == "PATCH":
            form = str(self.headers.get("Content-Type") or "").partition(";")[0]
            patch = safe_json.loads(body)
            self._send(200, api.patch(kind, namespace, name, patch, form=form, part=part))
        elif self.command == "DELETE" and not part:
            options = {**query, **(_decode(body) if body else {})}
            self._send(200, api.delete(kind, namespace, name, options))
        else:
            raise RefusedError("MethodNotAllowed", "the server does not allow this method on the requested resource")

    def _log(self, namespace: str, name: str, query: dict[str, str]) -> None:
        owner = self.server.owner
        epoch, sent_bytes = owner.epoch, 0
        first = owner.log(namespace, name, query)
        if query.get("follow") not in ("1", "true", "True"):
            self._raw(200, first, "text/plain")
            return
        self._begin("text/plain")
        data: bytes | None = first
        while data is not None and owner.epoch == epoch:
            if len(data) > sent_bytes:
                self._chunk(data[sent_bytes:])
                sent_bytes = len(data)
            time.sleep(0.1)
            # What a pod has printed up to now; None once it has ended and all of it was sent
            api = self.server.owner.api
            pod = api.objects.find(api.kinds.at("", "v1", "pods"), namespace, name)
            ended = pod is None or pod.get("status", {}).get("phase") in ("Succeeded", "Failed")
            data = None if ended else self.server.owner.log(namespace, name, query)
        self._chunk(b"")

    def _channels(self, namespace: str, name: str, part: str) -> None:
        parameters = parse_qs(urlsplit(self.path).query)
        spawn = self.server.owner.spawner(namespace, name)
        for verb in ("get", "create"):
            self.server.owner.rights.refuse(verb, f"pods/{part}", "", namespace)
        answer = channels.handshake_headers(self.headers)
        self.close_connection = True
        self.send_response(101)
        for header, value in answer:
            self.send_header(header, value)
        self.end_headers()
        stream_channels = channels.Channels(self.connection)
        if part == "exec":
            streams = {name: parameters.get(name, ["false"])[0].lower() in ("1", "true") for name in ("tty", "stdin")}
            channels.execute(stream_channels, spawn, parameters["command"], **streams)
        else:
            channels.forward(stream_channels, int(parameters["ports"][0]))
        stream_channels.close()

    def _watch(self, kind: Kind, namespace: str, query: dict[str, str]) -> None:
        owner = self.server.owner
        objects, match, epoch = owner.api.objects, matching(kind, query), owner.epoch
        version_asked = query.get("resourceVersion") or "0"
        if not version_asked.isdigit():
            raise RefusedError("BadRequest", f"Invalid value: {version_asked!r}")
        deadline = time.monotonic() + min(float(query.get("timeoutSeconds") or WATCH_S), WATCH_S)
        marks = query.get("allowWatchBookmarks") in ("1", "true", "True")
        version, sent_at = int(version_asked), time.monotonic()
        self._begin("application/json")
        if version == 0:
            listed, version = objects.every(kind, namespace, match)
            for document in listed:
                self._event("ADDED", document)
        while time.monotonic() < deadline and owner.epoch == epoch:
            try:
                changes, version = objects.since(version, kind)
            except RefusedError as expired:
                self._event("ERROR", expired.status())
                break
            for change in changes:
                self._notify(change, namespace, match)
            if marks and time.monotonic() - sent_at >= BOOKMARK_S:
                sent_at = time.monotonic()
                metadata = {"resourceVersion": str(version)}
                self._event("BOOKMARK", {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata})
            objects.wait(version, min(1.0, max(0.0, deadline - time.monotonic())))
        self._chunk(b"")

    def _notify(self, change: ObjectChange, namespace: str, match: Callable[[Mapping[str, Any]], bool]) -> None:
        if namespace not in ("", change.newest["metadata"].get("namespace", "")):
            return
        before = change.before is not None and match(change.before)
        after = change.after is not None and match(change.after)
        if before or after:
            event = "MODIFIED" if before and after else "ADDED" if after else "DELETED"
            document = change.newest
            version = {"resourceVersion": str(change.version)}
            self._event(event, {**document, "metadata": {**document["metadata"], **version}})

    def _event(self, event: str, document: Mapping[str, Any]) -> None:
        self._chunk(json.dumps({"type": event, "object": document}).encode() + b"\n")

    def _begin(self, media: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", media)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def _send(self, code: int, document: Mapping[str, Any]) -> None:
        self._raw(code, json.dumps(document).encode(), "application/json")

    def _raw(self, code: int, data: bytes, media: str) -> None:
        self.send_response(code)
        self.send_header("Content-Type", media)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _decode(body: bytes) -> dict[str, Any]:
    try:
        value = safe_json.loads(body)
    except ValueError as problem:
        raise RefusedError("BadRequest", f"couldn't get version/kind; json parse error: {problem}") from problem
    if not isinstance(value, dict):
        raise RefusedError("BadRequest", "the object provided is unrecognized")
    return value
