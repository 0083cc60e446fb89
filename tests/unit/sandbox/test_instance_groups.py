"""The groups of a sandbox are read while other threads create and remove groups."""

import sys
import threading
from types import SimpleNamespace

import pytest

from launcher.sandbox.aws.auto_scaling import Groups

TIMES = 20_000


@pytest.fixture
def switches_often():
    """Threads take turns after every few instructions."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("switches_often")
def test_instance_is_found_while_groups_come_and_go(tmp_path):
    groups = Groups(tmp_path, "mark", None, None, None)

    def change():
        for number in range(TIMES):
            with groups._lock:
                groups._groups["r", str(number % 50)] = SimpleNamespace(members={})
                groups._groups.pop(("r", str((number + 25) % 50)), None)
                groups._groups["r", "last"] = groups._groups.pop(("r", "last"))

    groups._groups["r", "last"] = SimpleNamespace(members={"i-1": "member"})
    writer = threading.Thread(target=change)
    writer.start()
    while writer.is_alive():
        assert groups.member("i-1")[1] == "member"
    writer.join()
