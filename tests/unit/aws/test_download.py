"""Downloading a public file through a proxy, and the message when a host is unreachable."""

import base64
import gzip
import os
import socket
from contextlib import closing

import pytest

from launcher.aws.feeds import download
from launcher.aws.feeds.download import PublicDownloads
from launcher.model.errors import AwsError
from tests.emulators.loopback import QuietHandler, listening

pytestmark = pytest.mark.server
URL = "http://prices.example/index.json"
BASIC = "Basic " + base64.b64encode(b"me:secret").decode()


@pytest.fixture
def proxy(monkeypatch):
    """A proxy that asks for a name and a password (RFC 9110, 11.7) and answers every address alike."""
    requests = []

    class Handler(QuietHandler):
        def do_GET(self):
            requests.append(self.path)
            allowed = self.headers["Proxy-Authorization"] == BASIC
            body = b"{}" if allowed else b"who are you?"
            self.reply(200 if allowed else 407, body)

    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    with listening(Handler) as address:
        monkeypatch.setenv("http_proxy", address.replace("//", "//me:secret@"))
        yield requests


@pytest.fixture
def fetch(tmp_path):
    with closing(PublicDownloads(tmp_path)) as downloads:
        yield downloads.fetch


def test_download_uses_the_proxy_with_name_and_password(proxy, fetch):
    assert fetch(URL).path.read_bytes() == b"{}"
    assert proxy == [URL]


def test_proxy_refusing_the_password_is_an_error(proxy, fetch, monkeypatch):
    monkeypatch.setenv("http_proxy", os.environ["http_proxy"].replace("me:secret", "me:wrong"))
    with pytest.raises(AwsError, match="the server answers 407"):
        fetch(URL)


def test_unreachable_host_is_named_without_file_and_password(proxy, fetch, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://me:secret@127.0.0.1:9")
    with pytest.raises(AwsError) as caught:
        fetch(URL)
    assert caught.value.message == "prices.example cannot be reached through the proxy 127.0.0.1:9: Connection refused"
    monkeypatch.setenv("no_proxy", "prices.example")
    with pytest.raises(AwsError) as caught:
        fetch(URL)
    assert caught.value.message.startswith("prices.example cannot be reached: ")
    assert "no_proxy" in caught.value.hint
    assert proxy == []


def test_host_is_abandoned_after_the_first_failed_connection(fetch, monkeypatch):
    with socket.socket() as host:
        host.bind(("127.0.0.1", 0))
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        messages = set()
        for name in ("index", "other"):
            with pytest.raises(AwsError, match="cannot be reached: Connection refused") as caught:
                fetch(f"http://127.0.0.1:{host.getsockname()[1]}/{name}.json")
            messages.add(caught.value.message)
            # By now it would answer.
            host.listen()
        assert len(messages) == 1
        host.setblocking(False)
        with pytest.raises(BlockingIOError):
            host.accept()


@pytest.fixture
def answering_server(monkeypatch):
    """A server whose next answer is what a test sets: status, headers, body."""
    next_answer = {}

    class Handler(QuietHandler):
        def do_GET(self):
            next_answer["asked"] = dict(self.headers)
            body = next_answer.get("body", b"{}")
            self.send_response(next_answer.get("status", 200))
            for name, value in next_answer.get("headers", {"Content-Length": str(len(body))}).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    with listening(Handler) as address:
        next_answer["url"] = f"{address}/index.json"
        yield next_answer


def test_download_requests_identity_encoding_and_refuses_gzip(answering_server, fetch, tmp_path):
    body = gzip.compress(b"0" * 10**6)
    answering_server |= {"body": body, "headers": {"Content-Length": str(len(body)), "Content-Encoding": "gzip"}}
    with pytest.raises(AwsError, match="comes as gzip"):
        fetch(answering_server["url"])
    assert answering_server["asked"]["Accept-Encoding"] == "identity"
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 1000


@pytest.mark.parametrize("headers", [{"Content-Length": "99999"}, {}, {"Content-Length": "9" * 5000}])
def test_download_above_the_size_limit_is_refused(answering_server, fetch, tmp_path, monkeypatch, headers):
    monkeypatch.setattr(download, "MAX_BYTES", 1000)
    answering_server |= {"body": b"0" * 2000, "headers": headers}
    with pytest.raises(AwsError, match="more than 1,000 bytes"):
        fetch(answering_server["url"])
    assert list(tmp_path.glob("*.part")) == []


def test_not_modified_answer_without_a_condition_is_an_error(answering_server, fetch):
    answering_server |= {"status": 304, "body": b"", "headers": {}}
    with pytest.raises(AwsError, match="answers 304, and nothing was there"):
        fetch(answering_server["url"])
    assert fetch(answering_server["url"], known='"a"') is None


def test_invalid_last_modified_date_is_none(answering_server, fetch):
    for stamp in (f"Fri, 20 Mar 2026 10:00:00 +{'9' * 30}", "x"):
        answering_server |= {"headers": {"Content-Length": "2", "Last-Modified": stamp}}
        assert fetch(answering_server["url"]).changed is None
