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
from launcher.agent.node.folder_users import find_folder_users
from launcher.agent.node.process import Command, boot_id, start_ticks
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


WRITER = """import os, time
file = open({path!r}, "w")
open({pid!r}, "w").write(str(os.getpid()))
time.sleep(600)
"""
MAPPER = """import mmap, os, time
with open({path!r}, "w+b") as file:
    file.write(bytes(4096)); file.flush(); memory = mmap.mmap(file.fileno(), 4096)
os.closerange(3, 100)  # Python's mapping has a descriptor of its own
open({pid!r}, "w").write(str(os.getpid()))
time.sleep(600)
"""
WORKER = WRITER.replace('file = open({path!r}, "w")', "os.chdir({folder!r})")
READER = WRITER.replace('"w")\nopen', '"a").close(); file = open({path!r})\nopen')
TWICE = """import os
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        exec({code!r})
    os._exit(0)
"""
CHILD = "import subprocess, sys\nsubprocess.run([sys.executable, '-c', {code!r}])\n"
CLEARED = 'env -i {environment} setsid "$0" -c "$1" </dev/null & exec true'
ON_TERMINAL = """setsid script -qc "env -i '$0' '$2'" /dev/null >/dev/null </dev/null & exec true"""


@pytest.fixture
def folder(tmp_path):
    """The folder of a job whose agent has ended."""
    with claim(tmp_path) as scratch:
        return scratch.root


@pytest.fixture
def without_mark(tmp_path, folder):
    """Starts an orphan in its own session that uses the folder, with an empty environment; returns its id."""
    pids = []

    def start(code, *, within="", environment="", shell=CLEARED):
        pid_file, script = tmp_path / f"pid{len(pids)}", tmp_path / f"script{len(pids)}.py"
        (folder / "checkpoints").mkdir(exist_ok=True)
        values = {"path": str(folder / "checkpoints" / "weights"), "pid": str(pid_file)}
        code = code.format(folder=str(folder / "checkpoints"), **values)
        script.write_text(within.format(code=code) if within else code)
        command = shell.format(environment=environment)
        subprocess.run(["sh", "-c", command, sys.executable, script.read_text(), script], check=True)
        patience = time.monotonic() + 20
        while not pid_file.exists() or not pid_file.read_text():
            assert time.monotonic() < patience
            time.sleep(0.02)
        pids.append(int(pid_file.read_text()))
        return pids[-1]

    yield start
    for pid in pids:
        send(find_processes(pid, {}), signal.SIGKILL)


class TestUnmarkedProcesses:
    @pytest.mark.parametrize(
        "code,within",
        [(WRITER, ""), (MAPPER, ""), (WORKER, ""), (WRITER, TWICE), (WRITER, CHILD)],
        ids=["file", "map", "cwd", "daemon", "child"],
    )
    def test_next_agent_ends_a_process_without_environment_and_session(self, tmp_path, without_mark, code, within):
        reports = []
        pid = without_mark(code, within=within)
        with claim(tmp_path, job="other", on_ended=reports.append):
            assert not lives(pid)
        assert f"(process {pid})" in str(reports)

    @pytest.mark.parametrize(
        "code,options",
        [
            (READER, {}),
            (WRITER, {"environment": "SSH_CONNECTION=10.0.0.1"}),
            (WORKER, {"environment": "SSH_CLIENT=10.0.0.1"}),
            (WRITER, {"environment": f"{leftover_processes.INTERVAL_VARIABLE}=/other/interval"}),
            (WORKER, {"shell": ON_TERMINAL}),
            (WRITER, {"shell": ON_TERMINAL}),
            (WORKER, {"within": CHILD}),
        ],
        ids=["reader", "sftp", "ssh", "another-job", "shell", "editor", "notebook"],
    )
    def test_processes_of_people_and_other_jobs_are_left_alone(self, folder, without_mark, code, options):
        pid = without_mark(code, **options)
        assert leftover_processes.end_leftovers(folder / "interval") == []
        assert lives(pid)

    def test_agents_and_other_users_are_left_alone(self, tmp_path, folder, without_mark, monkeypatch):
        with claim(tmp_path, job="second") as second:
            holds_lock = f"lock = open({str(second.root / 'lock')!r})\ntime.sleep"
            agent = without_mark(WRITER.replace("time.sleep", holds_lock))
            other = without_mark(WRITER)
            with monkeypatch.context() as patch:
                patch.setattr(os, "geteuid", lambda: 12345)
                assert leftover_processes.end_leftovers(folder / "interval") == []
            assert lives(other)
            assert len(leftover_processes.end_leftovers(folder / "interval")) == 1
            assert (lives(agent), lives(other)) == (True, False)


class TestFirstUse:
    """No process older than the first agent of a folder has mapped a file of it."""

    def test_mappings_of_older_processes_are_not_read(self, folder, without_mark):
        pid = without_mark(MAPPER)
        names = {"lock_name": leftover_processes.LOCK_NAME, "mark": leftover_processes.INTERVAL_VARIABLE}
        users = find_folder_users(folder, **names, first_use=start_ticks(pid))
        assert [process.pid for process in users] == [pid]
        assert find_folder_users(folder, **names, first_use=start_ticks(pid) + 1) == ()

    def test_open_files_of_older_processes_are_read(self, folder, without_mark):
        pid = without_mark(WRITER)
        (folder / "lock").write_text(f"{boot_id()} {start_ticks(pid) + 1}\n")
        assert leftover_processes.end_leftovers(folder / "interval") != []
        assert not lives(pid)

    def test_lock_names_the_start_of_the_first_agent(self, tmp_path, folder):
        first = leftover_processes.first_use(folder)
        assert first == start_ticks(os.getpid())
        (folder / "lock").write_text(f"{boot_id()} {first - 1}\n")
        with claim(tmp_path):
            assert leftover_processes.first_use(folder) == first - 1

    @pytest.mark.parametrize("text", ["", "{boot} 5", "{boot} None\n", "another-boot 5\n", "\xe9 5\n"])
    def test_incomplete_record_and_one_of_another_boot_are_unknown(self, folder, text):
        (folder / "lock").write_text(text.format(boot=boot_id()))
        assert leftover_processes.first_use(folder) == 0


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
