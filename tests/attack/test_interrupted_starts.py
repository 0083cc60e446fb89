"""A persistent sandbox is interrupted while it starts, or loses its server or its keeper: nothing remains."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from launcher.model.emulator import MARK
from launcher.sandbox import processes, running_sandbox
from tests.waiting import until

FEW, ALL = 3, 60
ROUNDS = [pytest.param(FEW, id="few"), pytest.param(ALL, id="all", marks=pytest.mark.slow)]
SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGKILL, signal.SIGINT)
START = [sys.executable, "-m", "launcher", "sandbox", "start", "--scheduler", "local"]


@pytest.fixture
def owned_environment(tmp_path, monkeypatch):
    """The environment of somebody whose files, and whose processes' temporary files, are the test's."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr("tempfile.tempdir", None)
    (tmp_path / "tmp").mkdir()
    yield dict(os.environ)
    running_sandbox.stop(os.environ)
    until(lambda: remnants(os.environ) == [], lambda: str(remnants(os.environ)))


def remnants(environment):
    """Processes and folders of the person's sandboxes."""
    pids = processes.marked_processes("XDG_CACHE_HOME", environment["XDG_CACHE_HOME"]) - {os.getpid()}
    return [*sorted(pids), *sorted(Path(environment["TMPDIR"]).iterdir())]


@pytest.mark.parametrize("rounds", ROUNDS)
def test_interrupted_start_leaves_no_process_or_a_complete_sandbox(owned_environment, seed, rounds):
    chance = random.Random(seed)
    for number in range(rounds):
        sent, after_s = SIGNALS[number % len(SIGNALS)], chance.uniform(0.2, 6.0)
        with subprocess.Popen(
            START, env=owned_environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as command:
            time.sleep(after_s)
            command.send_signal(sent)
        label = f"seed {seed}, round {number}: {sent.name} after {after_s:.2f} s"
        if running_sandbox.find(owned_environment) is not None:
            assert running_sandbox.stop(owned_environment) is not None, label
        until(lambda: remnants(owned_environment) == [], lambda label=label: f"{label}: {remnants(owned_environment)}")


@pytest.mark.parametrize("killed", ["server", "keeper", "both"])
def test_stop_ends_the_remaining_processes_of_a_killed_sandbox(owned_environment, killed):
    started = running_sandbox.start(owned_environment, scheduler="local")
    marked = processes.marked_processes(MARK, started.mark)
    assert started.pid in marked
    (keeper,) = marked - {started.pid}
    for pid in {"server": [started.pid], "keeper": [keeper], "both": [keeper, started.pid]}[killed]:
        os.kill(pid, signal.SIGKILL)
    assert running_sandbox.stop(owned_environment) == started
    until(lambda: remnants(owned_environment) == [])
    assert not running_sandbox.folder_of(owned_environment).exists()
    assert running_sandbox.stop(owned_environment) is None


def test_end_of_an_older_sandbox_keeps_the_file_of_the_newer(owned_environment):
    older = running_sandbox.start(owned_environment, scheduler="local")
    running_sandbox.folder_of(owned_environment).unlink()
    living = running_sandbox.start(owned_environment, scheduler="local")
    os.kill(older.pid, signal.SIGTERM)
    until(lambda: not Path(older.folder).exists())
    assert running_sandbox.find(owned_environment) == living
