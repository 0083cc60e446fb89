"""A session of Systems Manager, through a stand-in for the AWS CLI that runs the command on this machine."""

import json
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

from launcher.model.job import Submitted
from launcher.submit.jobs import SchedulerError, UnreachableError
from launcher.submit.session import DOCUMENT, PLUGIN, SessionShell
from launcher.submit.slurm import Slurm

TARGET = "sagemaker-cluster:abcdefghijkl_controller-i-0123456789abcdef0"
AWS = f"""#!{sys.executable}
# The plug-in as its source has it (aws/session-manager-plugin 1.2, shellsession_unix.go): handleKeyboardInput reads
# standard input for as long as the session lives, and the end of it ends the session with nothing more printed.
import json, os, select, subprocess, sys, threading, time
words = sys.argv[1:]
if words[:2] == ["s3", "cp"]:
    sys.stdout.buffer.write(open(os.environ["STAGED"], "rb").read())
    sys.exit()
options = dict(zip(words[2::2], words[3::2]))
assert words[:2] == ["ssm", "start-session"], words
assert options["--target"] == {TARGET!r} and options["--document-name"] == {DOCUMENT!r}
(command,) = json.loads(options["--parameters"])["command"]
def keyboard():
    while os.read(0, 1024):
        pass
    print("Unable read from Stdin: EOF", file=sys.stderr, flush=True)
    os._exit(0)
print("Starting session with SessionId: someone-0123", flush=True)
if select.select([0], [], [], 0.2)[0]:
    keyboard()
threading.Thread(target=keyboard, daemon=True).start()
done = subprocess.run(["/bin/sh", "-c", command], stdin=subprocess.DEVNULL, capture_output=True, text=True)
sys.stderr.write(done.stderr)
sys.stderr.flush()
once = os.environ.get("CUT_ONCE")
cut = os.environ.get("CUT") is not None or once is not None and not os.path.exists(once)
if once is not None:
    open(once, "w").close()
sys.stdout.write((done.stdout[:40] if cut else done.stdout).replace("\\n", "\\r\\n"))
sys.stdout.flush()
time.sleep(float(os.environ.get("LINGERS", "0")))
print("Exiting session with sessionId: someone-0123.")
"""
RUNUSER = '#!/bin/bash\n[[ "$1 $2 $3" == "-l ubuntu -c" ]] || exit 9\nexec bash -c "$4"\n'


@pytest.fixture
def session_shell(tmp_path):
    """A shell whose home is a folder of the test."""

    def make(**environment):
        programs = tmp_path / "bin"
        programs.mkdir(exist_ok=True)
        for name, text in (("aws", AWS), ("runuser", RUNUSER), (PLUGIN, "#!/bin/sh\n")):
            (programs / name).write_text(text)
            (programs / name).chmod(0o755)
        home = tmp_path / "fsx/ubuntu"
        home.mkdir(parents=True, exist_ok=True)
        # A login shell sets its own path.
        (home / ".bash_profile").write_text(f'PATH="{programs}:$PATH"\n')
        return SessionShell(
            name="session controller",
            target=TARGET,
            region="us-east-2",
            user="ubuntu",
            home=str(home),
            environment={"PATH": f"{programs}:/usr/bin:/bin", "STAGED": str(tmp_path / "job.tar.gz"), **environment},
            stage=lambda path: f"s3://bucket/{path.name}",
        )

    return make


def test_script_runs_as_the_user_with_the_shared_home(session_shell, tmp_path):
    answer = session_shell().run('echo "it\'s in $HOME"; echo no >&2; exit 3')
    assert (answer.code, answer.out) == (3, f"it's in {tmp_path / 'fsx/ubuntu'}\n")
    assert "no" in answer.err


def test_truncated_answer_of_a_session_is_unreachable(session_shell):
    with pytest.raises(UnreachableError):
        session_shell(CUT="1").run("echo done")


def test_read_only_query_is_repeated_once_after_a_lost_session(session_shell, tmp_path):
    (tmp_path / "log.txt").write_text("step 7")
    job = Submitted(job="1", key="small-20261123t120000z-0a1b2c3d", folder=str(tmp_path))
    chunks = Slurm(shell=session_shell(CUT_ONCE=str(tmp_path / "cut"))).read(job, {"log.txt": 0})
    assert chunks["log.txt"].data == b"step 7"
    with pytest.raises(UnreachableError, match=r"no answer|answer was incomplete"):
        Slurm(shell=session_shell(CUT="1")).read(job, {"log.txt": 0})


def test_session_is_closed_after_the_answer(session_shell):
    """Its input ends, and with it the session."""
    assert session_shell(LINGERS="60").run("echo done", timeout_s=30).out == "done\n"


def test_session_over_the_timeout_leaves_no_process(session_shell, tmp_path):
    with pytest.raises(UnreachableError, match="within 3 s"):
        session_shell().run(f"echo $BASHPID > {tmp_path / 'id'}; exec sleep 60", timeout_s=3)
    (process,) = (tmp_path / "id").read_text().split()
    deadline = time.monotonic() + 20
    while runs(process) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not runs(process)


def runs(process):
    stat = Path(f"/proc/{process}/stat")
    try:
        return stat.read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_answer_larger_than_a_pipe_is_complete(session_shell):
    assert len(session_shell().run("head -c 300000 /dev/zero | tr '\\0' x").out) == 300_000


def test_job_folder_is_put_below_the_shared_home_once(session_shell, tmp_path):
    (tmp_path / "job.sbatch").write_text("#!/bin/bash\n")
    with tarfile.open(tmp_path / "job.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "job.sbatch", arcname="job.sbatch")
    reached = session_shell()
    for _ in range(2):
        assert reached.put(tmp_path / "job.tar.gz", "slipway/key") == str(tmp_path / "fsx/ubuntu/slipway/key")
    assert (tmp_path / "fsx/ubuntu/slipway/key/job.sbatch").read_text() == "#!/bin/bash\n"


def test_missing_session_plugin_is_refused_with_the_command(session_shell, tmp_path):
    session_shell()
    (tmp_path / "bin" / PLUGIN).unlink()
    with pytest.raises(SchedulerError, match=PLUGIN) as refusal:
        SessionShell(
            name="x",
            target=TARGET,
            region="us-east-2",
            user="ubuntu",
            home="/fsx/ubuntu",
            environment={"PATH": str(tmp_path / "bin")},
            stage=str,
        )
    assert "session-manager-working-with-install-plugin.html" in refusal.value.hint
    assert f"aws ssm start-session --region us-east-2 --target {TARGET}" in refusal.value.hint


def test_terminal_session_runs_as_the_user_and_forwards_local_ports(session_shell):
    there = session_shell()
    command = there.terminal("srun --pty bash")
    assert command[:7] == ["aws", "ssm", "start-session", "--region", "us-east-2", "--target", TARGET]
    assert command[7:9] == ["--document-name", "AWS-StartInteractiveCommand"]
    (line,) = json.loads(command[10])["command"]
    assert subprocess.run(["sh", "-c", line.replace("srun --pty bash", "echo $HOME")], capture_output=True, text=True,
        env=there.environment, check=True).stdout == f"{there.home}\n"  # fmt: skip
    assert there.direct("true") is None
    forwarding = there.forwarding("node-2", 6006, 6007)
    assert forwarding[8] == "AWS-StartPortForwardingSessionToRemoteHost"
    expected = {"host": ["node-2"], "portNumber": ["6006"], "localPortNumber": ["6007"]}
    assert json.loads(forwarding[10]) == expected
