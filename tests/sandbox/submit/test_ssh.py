"""Submitting over a real sshd on loopback, with keys made for the test."""

import subprocess
from pathlib import Path

import pytest

from launcher.model.job import JobState
from launcher.submit.jobs import SchedulerError, UnreachableError
from launcher.submit.ssh import SshShell
from tests.sandbox.submit.archives import archive_of
from tests.waiting import until

pytestmark = [pytest.mark.slurm, pytest.mark.xdist_group("slurm-submit")]

CUT = """{real} "$@" >/dev/null
if [ ! -e "$HOME/cut" ]; then
    touch "$HOME/cut"
    # The connection goes, and with it the shell that waits for this.
    kill -9 $(cat "$HOME/connection") $PPID
fi
exit 1
"""


def sessions(sshd):
    """The processes that sshd has made for connections."""
    printed = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(sshd.daemon.pid)], capture_output=True, text=True, check=False
    ).stdout
    return printed.split()


class TestShell:
    def test_login_output_is_not_part_of_answer(self, shell):
        answer = shell.run("echo one; echo two >&2; exit 7")
        assert (answer.code, answer.out, answer.err.strip()) == (7, "one\n", "two")

    def test_one_connection_serves_all_commands(self, shell, sshd):
        for _ in range(3):
            shell.run("true")
        assert len(sessions(sshd)) == 1

    def test_closed_shell_leaves_no_connection(self, sshd):
        shell = SshShell("gpu1", sshd.environment)
        shell.run("true")
        sockets = shell._sockets
        shell.close()
        until(lambda: not sessions(sshd))
        assert not sockets.exists()

    def test_unknown_host_key_refused(self, sshd):
        sshd.known.write_text("")
        shell = SshShell("gpu1", sshd.environment)
        with pytest.raises(SchedulerError, match="Host key verification failed") as refused:
            shell.run("touch $HOME/ran")
        shell.close()
        assert "accept it once" in refused.value.hint
        assert not (sshd.head.home / "ran").exists()

    def test_unauthorised_key_refused_without_password_prompt(self, sshd):
        (sshd.folder / "authorized_keys").write_text("")
        shell = SshShell("gpu1", sshd.environment)
        with pytest.raises(SchedulerError, match="Permission denied") as refused:
            shell.run("true")
        shell.close()
        assert "ssh-agent" in refused.value.hint

    def test_ssh_configuration_cannot_disable_host_key_check(self, sshd):
        text = sshd.configuration.read_text()
        sshd.configuration.write_text(f"{text}  StrictHostKeyChecking no\n")
        sshd.known.write_text("")
        shell = SshShell("gpu1", sshd.environment)
        with pytest.raises(SchedulerError, match="Host key verification failed"):
            shell.run("true")
        shell.close()

    def test_host_name_like_an_option_runs_no_command(self, sshd):
        shell = SshShell("-oProxyCommand=touch x", sshd.environment)
        with pytest.raises(SchedulerError):
            shell.run("true")
        shell.close()
        assert not Path("x").exists()

    def test_stopped_ssh_server_reported_as_unreachable(self, sshd):
        sshd.stop()
        shell = SshShell("gpu1", sshd.environment)
        with pytest.raises(UnreachableError, match=r"there was no answer: .*Connection refused"):
            shell.run("true")
        shell.close()

    def test_truncated_answer_reported_as_unreachable(self, sshd, shell):
        with pytest.raises(UnreachableError, match="the answer was incomplete"):
            shell.run("echo half; sleep 1; kill -9 $(ps -o ppid= $PPID) $PPID")


class TestPut:
    def test_folder_is_uploaded_whole_and_once(self, sshd, shell, tmp_path):
        folder = tmp_path / "folder"
        (folder / "deep").mkdir(parents=True)
        (folder / "deep" / "data").write_bytes(bytes(range(256)) * 4000)
        (folder / "run").write_text("#!/bin/sh\n")
        (folder / "run").chmod(0o755)
        archive = archive_of(folder, tmp_path / "folder.tar.gz")
        place = Path(shell.put(archive, "slipway/it's one"))
        assert place == sshd.head.home.resolve() / "slipway" / "it's one"
        assert (place / "deep" / "data").read_bytes() == (folder / "deep" / "data").read_bytes()
        assert (place / "run").stat().st_mode & 0o111
        (place / "deep" / "data").write_text("in use")
        assert Path(shell.put(archive, "slipway/it's one")) == place
        assert (place / "deep" / "data").read_text() == "in use"

    def test_truncated_archive_leaves_no_folder(self, sshd, shell, tmp_path):
        folder = tmp_path / "folder"
        folder.mkdir()
        (folder / "data").write_bytes(bytes(range(256)) * 4000)
        archive = archive_of(folder, tmp_path / "folder.tar.gz")
        archive.write_bytes(archive.read_bytes()[:-200])
        with pytest.raises(SchedulerError, match="cannot create the job folder"):
            shell.put(archive, "slipway/half")
        assert list((sshd.head.home / "slipway").iterdir()) == []


class TestSubmit:
    def test_job_runs_over_ssh(self, head, remote):
        job = remote.submit("far-1", head.folder_with("echo $SLURM_JOB_NAME"), "job.sbatch")
        until(lambda: remote.facts(job).state is JobState.COMPLETED)
        assert remote.read(job, {f"slurm-{job.job}.out": 0})[f"slurm-{job.job}.out"].data == b"far-1\n"

    def test_connection_cut_after_sbatch_finds_one_job(self, head, remote, sshd):
        remote.shell.run("true")
        (head.home / "connection").write_text("\n".join(sessions(sshd)))
        head.shadow_program("sbatch", CUT)
        job = remote.submit("far-2", head.folder_with("sleep 60"), "job.sbatch")
        assert (head.home / "cut").exists()
        assert [job[:2] for job in head.jobs("--name=far-2")] == [["far-2", job.job]]

    def test_long_outage_leaves_submission_unknown(self, head, remote, sshd):
        sshd.stop()
        with pytest.raises(UnreachableError, match="after 5 tries it is unknown whether Slurm accepted the job"):
            remote.submit("far-3", head.folder_with("true"), "job.sbatch")
        assert head.jobs("--name=far-3") == []
