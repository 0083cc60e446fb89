import os
import signal
import subprocess
import sys

import pytest

from launcher.sandbox import processes


@pytest.fixture
def sleeper(tmp_path):
    """A process with a child, marked, holding a file."""
    log_path = tmp_path / "held.log"
    child = "import time; print(1, flush=True); time.sleep(60)"
    program = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    with log_path.open("w") as file:
        process = subprocess.Popen(
            [sys.executable, "-c", program],
            env={"SLIPWAY_TEST": str(tmp_path)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=file,
            start_new_session=True,
        )
    assert process.stdout.readline() == b"1\n"
    yield process
    processes.end(lambda: processes.marked_processes("SLIPWAY_TEST", str(tmp_path)))
    process.wait()
    process.stdout.close()


class TestFinding:
    def test_processes_are_found_by_an_environment_mark(self, sleeper, tmp_path):
        assert sleeper.pid in processes.marked_processes("SLIPWAY_TEST", str(tmp_path))
        assert processes.marked_processes("SLIPWAY_TEST", f"{tmp_path}x") == set()

    def test_processes_are_found_by_an_open_file(self, sleeper, tmp_path):
        assert sleeper.pid in processes.holding({(tmp_path / "held.log").resolve()})
        assert os.getpid() not in processes.holding({(tmp_path / "held.log").resolve()})

    def test_descendants_of_a_process_are_included(self, sleeper):
        assert len(processes.with_descendants({sleeper.pid})) == 2


class TestEnd:
    def test_end_kills_every_found_process(self, sleeper, tmp_path):
        family = processes.with_descendants({sleeper.pid})
        assert processes.end(lambda: processes.marked_processes("SLIPWAY_TEST", str(tmp_path))) == set()
        assert not any(processes.is_running(pid) for pid in family)
        assert sleeper.wait() == -signal.SIGKILL

    def test_end_never_kills_the_current_process(self):
        assert processes.end(lambda: {os.getpid()}) == set()

    def test_zombie_process_is_not_running(self):
        child = subprocess.Popen(["true"])
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert not processes.is_running(child.pid)
        child.wait()
