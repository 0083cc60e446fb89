"""A persistent process that several processes share."""

import sys
from pathlib import Path

from launcher.sandbox.processes import is_running
from tests.waiting import until
from tests.warm_process import WarmProcess, shared_places

PROGRAM = """
import os, sys
with open(sys.argv[1], "w") as file:
    file.write(str(os.getpid()))
print("ready", flush=True)
sys.stdin.read()
"""


def test_users_of_a_place_share_a_process_that_ends_with_the_places():
    with shared_places("one", "other") as folder:
        places = [Path(folder, name) for name in ("one", "one", "other")]
        users = [WarmProcess(sys.executable, "-c", PROGRAM, place=place) for place in places]
        first, second, another = (int(Path(user.address).read_text()) for user in users)
        assert first == second != another
        for user in users:
            user.close()
        assert is_running(first)
    until(lambda: not is_running(first) and not is_running(another))
    assert not Path(folder).exists()
