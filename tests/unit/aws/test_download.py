"""A public file through the proxy of a company's network, and what is said of a host that is out of reach."""

import base64
import os
from contextlib import closing
from http.server import BaseHTTPRequestHandler

import pytest

from launcher.aws.feeds.download import Downloads
from launcher.model.errors import AwsError
from tests.stand_ins.loopback import listening

pytestmark = pytest.mark.server
URL = "http://prices.example/index.json"
BASIC = "Basic " + base64.b64encode(b"me:secret").decode()


@pytest.fixture
def proxy(monkeypatch):
    """A proxy that asks for a name and a password (RFC 9110, 11.7) and answers every address alike."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            allowed = self.headers["Proxy-Authorization"] == BASIC
            body = b"{}" if allowed else b"who are you?"
            self.send_response(200 if allowed else 407)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    with listening(Handler) as address:
        monkeypatch.setenv("http_proxy", address.replace("//", "//me:secret@"))
        yield asked


@pytest.fixture
def fetch(tmp_path):
    with closing(Downloads(tmp_path)) as downloads:
        yield downloads.fetch


def test_it_comes_through_the_proxy_with_its_name_and_password(proxy, fetch):
    assert fetch(URL).path.read_bytes() == b"{}"
    assert proxy == [URL]


def test_a_proxy_that_refuses_is_said(proxy, fetch, monkeypatch):
    monkeypatch.setenv("http_proxy", os.environ["http_proxy"].replace("me:secret", "me:wrong"))
    with pytest.raises(AwsError, match="the server answers 407"):
        fetch(URL)


def test_a_host_out_of_reach_is_named_without_the_file_and_without_the_password(proxy, fetch, monkeypatch):
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
