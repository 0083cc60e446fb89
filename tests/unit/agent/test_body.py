"""Response bodies over real connections: complete, truncated, and whether the connection is reused."""

from contextlib import closing

import pytest
import urllib3
from botocore.exceptions import IncompleteReadError
from botocore.response import StreamingBody

from launcher.agent.store.downloads import Body
from tests.emulators.loopback import QuietHandler, listening

CONTENT = bytes(range(256)) * 1000


class Handler(QuietHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        self.wfile.write(CONTENT if self.path == "/whole" else CONTENT[:-1])
        self.close_connection = self.path != "/whole"


@pytest.fixture
def server():
    with listening(Handler) as address:
        yield address


def body_of(pool, url):
    return Body(StreamingBody(pool.request("GET", url, preload_content=False), len(CONTENT)), len(CONTENT))


def read(body, at_once):
    buffer, content = memoryview(bytearray(at_once)), b""
    with closing(body):
        while got := body.read_into(buffer):
            content += buffer[:got]
    return content


@pytest.mark.parametrize("at_once", [1000, len(CONTENT) - 1, len(CONTENT), 10**6])
def test_whole_body_is_read_and_the_connection_is_reused(server, at_once):
    with urllib3.PoolManager() as pools:
        assert [read(body_of(pools, f"{server}/whole"), at_once) for _ in range(3)] == [CONTENT] * 3
        pool = pools.connection_from_url(server)
        assert (pool.num_requests, pool.num_connections) == (3, 1)


def test_torn_body_raises_incomplete_read(server):
    with urllib3.PoolManager() as pool, pytest.raises(IncompleteReadError):
        read(body_of(pool, f"{server}/torn"), 1000)


def test_body_closed_before_the_end_closes_the_connection(server):
    with urllib3.PoolManager() as pools:
        body = body_of(pools, f"{server}/whole")
        assert body.read_into(memoryview(bytearray(10))) == 10
        body.close()
        assert read(body_of(pools, f"{server}/whole"), 1000) == CONTENT
        assert pools.connection_from_url(server).num_connections == 2
