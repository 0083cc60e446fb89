"""Processes that outlive their attempt: in sessions of their own, from a daemon, or children of those."""

import os
import signal
import subprocess
import sys
import time

import pytest

from launcher.agent.checkpoint.scratch import Scratch
from launcher.agent.errors import OccupiedNodeError
from launcher.agent.node import leftover_processes
from launcher.agent.node.process import Command
from launcher.agent.node.process_table import find_processes, send

RANK = "import os, time\nopen('rank', 'w').write(str(os.getpid()))\ntime.sleep(600)\n"
TORCHRUN = f"import subprocess, sys, time\nsubprocess.Popen([sys.executable, '-c', {RANK!r}], start_new_session=True)\n"
DAEMON = f"""import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        exec({RANK!r})
    os._exit(0)
"""
DEAF = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + RANK


def claim(tmp_path, job="tiny", **options):
    return Scratch(tmp_path / "scratch", job=job, run="r1", **options)


@pytest.fixture
def started(tmp_path):
    """Starts a command in a job's folder; returns it and its process in another session, once that runs."""
    commands = []

    def start(scratch, code):
        environment = {"SLIPWAY_CHECKPOINT_INTERVAL_FILE": str(scratch.interval_file)}
        command = Command([sys.executable, "-c", code], workdir=tmp_path, environment=environment)
        commands.append(command)
        patience = time.monotonic() + 20
        while not (tmp_path / "rank").exists() or not (tmp_path / "rank").read_text():
            assert time.monotonic() < patience
            time.sleep(0.02)
        return command, int((tmp_path / "rank").read_text())

    yield start
    for command in commands:
        command.signal(signal.SIGKILL)
        command._process.wait()


def lives(pid):
    return any(process.pid == pid for process in find_processes(pid, {}))


@pytest.mark.parametrize("code", [TORCHRUN, DAEMON, TORCHRUN + "time.sleep(600)"])
@pytest.mark.parametrize("job", ["tiny", "other"])
def test_next_agent_after_a_killed_one_ends_processes_in_other_sessions(tmp_path, started, code, job):
    """The next one may be of another job: the processes of an ended one occupy its accelerators."""
    reports = []
    first = claim(tmp_path).__enter__()
    command, pid = started(first, code)
    first.record_command(command.pid)
    os.close(first._lock)  # killed: it cleans nothing up
    assert lives(pid)
    with claim(tmp_path, job=job, on_ended=reports.append):
        assert not lives(pid)
    assert len(reports) == 1
    assert f"(process {pid})" in str(reports)


@pytest.mark.parametrize("code", [TORCHRUN, DAEMON, TORCHRUN.replace(repr(RANK), repr(DEAF))])
def test_end_of_an_attempt_ends_a_daemon_of_the_command(tmp_path, started, code, monkeypatch):
    monkeypatch.setattr(leftover_processes, "_TERM_WAIT_S", 0.5)
    reports = []
    with claim(tmp_path, on_ended=reports.append) as scratch:
        _, pid = started(scratch, code)
    assert not lives(pid)
    assert len(reports) == 1


def test_processes_of_a_running_job_are_left_alone(tmp_path, started):
    with claim(tmp_path, job="running") as running:
        _, pid = started(running, TORCHRUN)
        with claim(tmp_path):
            assert lives(pid)
    assert not lives(pid)


def test_unkillable_processes_refuse_the_node(tmp_path, monkeypatch):
    monkeypatch.setattr(leftover_processes, "_KILL_WAIT_S", 0.3)
    monkeypatch.setattr(leftover_processes, "send", lambda processes, number: None)  # as in an uninterruptible read
    file = tmp_path / "interval"
    stuck = subprocess.Popen(
        ["sleep", "600"], env={"SLIPWAY_CHECKPOINT_INTERVAL_FILE": str(file), "PATH": "/bin:/usr/bin"}
    )
    try:
        with pytest.raises(OccupiedNodeError, match=rf"sleep \(process {stuck.pid}\).*reboot or replace this node"):
            leftover_processes.end_leftovers(file)
    finally:
        send(find_processes(stuck.pid, {}), signal.SIGKILL)
        stuck.wait()
