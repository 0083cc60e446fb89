"""moto on a free loopback port, for the duration of a test."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from moto.moto_server.werkzeug_app import MotoRequestHandler, create_backend_app
from werkzeug.serving import make_server

from launcher.sandbox.aws.web import Dispatcher


@contextmanager
def moto_server() -> Iterator[str]:
    """The address of a moto server that looks up each host's backend once, like the sandbox's server."""
    app = Dispatcher(create_backend_app)
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=MotoRequestHandler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
