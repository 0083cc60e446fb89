"""Calls between the processes of a sandbox."""

import shutil
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
