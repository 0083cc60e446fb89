"""Calls between the processes of a sandbox."""

import shutil
import socket
import tempfile
import threading
from pathlib import Path

import pytest

from launcher.sandbox.control import ControlClient, ControlError, ControlServer


@pytest.fixture
def folder():
    # Sockets need a short path.
    with tempfile.TemporaryDirectory(prefix="slc-", dir="/tmp", ignore_cleanup_errors=True) as name:
        yield Path(name)


@pytest.mark.parametrize("remove_folder", [False, True], ids=["folder-kept", "folder-removed"])
def test_server_stops_after_an_answer(folder, remove_folder):
    server = ControlServer({"double": lambda arguments: 2 * arguments["number"]}, "secret", folder / "control")
    client = ControlClient(str(folder / "control"), "secret")
    assert client.call("double", number=3) == 6
    if remove_folder:
        shutil.rmtree(folder)
    stopping = threading.Thread(target=server.stop, daemon=True)
    stopping.start()
    stopping.join(timeout=30)
    assert not stopping.is_alive()
    assert not (folder / "control").exists()
    with pytest.raises(ControlError, match="does not answer"):
        client.call("double", number=3)


@pytest.fixture
def server(folder):
    server = ControlServer({"double": lambda arguments: 2 * arguments["number"]}, "secret", folder / "control")
    yield server
    server.stop()


def test_silent_caller_delays_no_other_call(folder, server):
    del server
    answers = []
    client = ControlClient(str(folder / "control"), "secret")
    with socket.socket(socket.AF_UNIX) as silent:
        silent.connect(str(folder / "control"))
        call = threading.Thread(target=lambda: answers.append(client.call("double", number=3)), daemon=True)
        call.start()
        call.join(timeout=10)
        assert answers == [6]


def test_caller_without_the_secret_is_refused_and_delays_no_other_call(folder, server):
    del server
    with pytest.raises(ControlError, match="does not answer"):
        ControlClient(str(folder / "control"), "another").call("double", number=3)
    assert ControlClient(str(folder / "control"), "secret").call("double", number=3) == 6
