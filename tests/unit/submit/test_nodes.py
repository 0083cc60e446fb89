"""A tunnel to a node: the message when a connection fails."""

import socket
import threading

import pytest

from launcher.submit.nodes import SlurmNodes, forward_port
from launcher.submit.shell import LocalShell


def free() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def start(tunnel):
    """Run a tunnel in a thread until the process ends; returns when it listens."""
    ready = threading.Event()
    threading.Thread(target=tunnel, args=(ready.set,), daemon=True).start()
    assert ready.wait(10)


def answer(port: int) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
        return client.recv(10)


def refusing() -> tuple[socket.socket, object]:
    near, far = socket.socketpair()
    far.close()
    return near, lambda: "the pod refused it"


@pytest.mark.parametrize(
    "dial, reason",
    [
        (lambda: (socket.create_connection(("127.0.0.1", free())), str), "Connection refused"),
        (refusing, "the pod refused it"),
    ],
)
def test_tunnel_without_connection_reports_the_reason_and_closes(dial, reason, capsys):
    here = free()
    start(lambda ready: forward_port(here, dial, ready))
    assert answer(here) == b""
    for _ in range(100):
        if reason in (err := capsys.readouterr().err):
            break
        threading.Event().wait(0.05)
    assert err == f"  cannot connect to the node's port: {reason}\n"


def test_tunnel_to_a_port_in_use_locally_keeps_the_local_server_reachable():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = int(server.getsockname()[1])
        nodes = SlurmNodes(head=LocalShell({}), job="1", folder=".", names=("n1",))
        start(lambda ready: nodes.tunnel("n1", port, port, ready))
        server.settimeout(10)
        client = socket.create_connection(("127.0.0.1", port), timeout=10)
        with client, server.accept()[0] as taken:
            taken.sendall(b"here")
            assert client.recv(10) == b"here"
