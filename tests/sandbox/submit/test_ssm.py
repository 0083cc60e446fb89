"""Submitting over Systems Manager: real boto3, real scripts, a real Slurm; only the service is emulated."""

import time

import pytest

from launcher.aws.session import Session
from launcher.aws.ssm import InstanceCommands
from launcher.model.errors import AwsError
from launcher.model.job import JobState
from launcher.submit.jobs import SchedulerError, UnreachableError
from launcher.submit.session import UserSession
from launcher.submit.slurm import Slurm
from launcher.submit.ssm import SsmShell
from tests.emulators.run_command import Machine, served
from tests.sandbox.submit.archives import archive_of
from tests.sandbox.submit.conftest import RUNUSER
from tests.waiting import until

pytestmark = [pytest.mark.slurm, pytest.mark.xdist_group("slurm-submit")]
HEAD_NODE = "i-0123456789abcdef0"
AWS = """[ "$1 $2 $3 $5" = "s3 cp --only-show-errors -" ] || exit 64
cat "$HOME/bucket/${4##*/}"
"""
"""The AWS CLI as the head node has it, with a folder for S3."""


@pytest.fixture
def machine(head):
    head.shadow_program("runuser", RUNUSER)
    head.shadow_program("aws", AWS)
    (head.home / "bucket").mkdir()
    return Machine(HEAD_NODE, head.environment)


@pytest.fixture
def machine_session(machine):
    with served(machine) as endpoint:
        keys = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_ENDPOINT_URL_SSM": endpoint}
        session = Session(environment=keys, region="us-east-2")
        yield session
        session.client("ssm").close()


@pytest.fixture
def ssm_shell(machine_session, head):
    def stage(path):
        (head.home / "bucket" / path.name).write_bytes(path.read_bytes())
        return f"s3://bucket/{path.name}"

    return SsmShell(
        name=f"ssm {HEAD_NODE}",
        commands=InstanceCommands(session=machine_session, instance=HEAD_NODE),
        user="ubuntu",
        stage=stage,
        sessions=UserSession(target=HEAD_NODE, region="us-east-2", environment={}),
        environment={},
        sleep=lambda seconds: time.sleep(seconds / 8),
    )


def test_job_is_uploaded_submitted_followed_and_cancelled(head, ssm_shell, tmp_path):
    folder = tmp_path / "job"
    folder.mkdir()
    text = "#!/bin/bash\n#SBATCH --output=slurm-%j.out\n#SBATCH --exclusive\ncat data\nsleep 60\n"
    (folder / "job.sbatch").write_text(text)
    (folder / "data").write_text("shipped\n")
    slurm = Slurm(shell=ssm_shell)
    place = ssm_shell.put(archive_of(folder, tmp_path / "job.tar.gz"), "slipway/far-1")
    job = slurm.submit("far-ssm-1", place, "job.sbatch")
    log = f"slurm-{job.job}.out"
    until(lambda: (chunk := slurm.read(job, {log: 0})[log]) is not None and chunk.data == b"shipped\n")
    slurm.cancel(job)
    until(lambda: slurm.facts(job).state.final)
    assert slurm.facts(job).state is JobState.CANCELLED


def test_sent_command_has_document_and_timeout(machine, ssm_shell):
    assert ssm_shell.run("whoami; echo \"$0\" '$HOME'", timeout_s=77).code == 0
    (sent,) = machine.sent
    assert (sent["DocumentName"], sent["Parameters"]["executionTimeout"]) == ("AWS-RunShellScript", ["77"])


def test_long_file_is_read_in_pieces(head, ssm_shell):
    folder = head.folder_with("sleep 60")
    content = "".join(f"{number} äöü\n" for number in range(4000)).encode()
    (head.home / "job" / "log").write_bytes(content)
    slurm = Slurm(shell=ssm_shell)
    job = slurm.submit("far-ssm-2", folder, "job.sbatch")
    got = b""
    while len(got) < len(content):
        chunk = slurm.read(job, {"log": len(got)})["log"]
        assert chunk.data
        got += chunk.data
    assert got == content


@pytest.mark.parametrize("size", [23_970, 24_000, 90_000])
def test_truncated_ssm_output_refused(ssm_shell, size):
    with pytest.raises(UnreachableError, match="longer than 24,000 characters"):
        ssm_shell.run(f"head -c {size} /dev/zero | tr '\\0' x")


def test_command_timeout_leaves_outcome_unknown(ssm_shell):
    with pytest.raises(UnreachableError, match=r"is InProgress after 0\.5 s"):
        ssm_shell.run("sleep 2", timeout_s=0.5)


def test_silent_ssm_agent_reported_as_undelivered(machine, ssm_shell):
    machine.details = "DeliveryTimedOut"
    with pytest.raises(SchedulerError, match="did not arrive: DeliveryTimedOut"):
        ssm_shell.run("true")


def test_unknown_instance_refused(machine_session, ssm_shell):
    absent = InstanceCommands(session=machine_session, instance="i-00000000000000000")
    with pytest.raises(AwsError, match="InvalidInstanceId") as refused:
        absent.send(["true"], 60)
    assert "agent is not online" in refused.value.hint


@pytest.mark.parametrize("user", ["root;id", "-l", ""])
def test_invalid_linux_user_refused(user):
    with pytest.raises(SchedulerError, match="not a valid Linux user name"):
        SsmShell(name="x", commands=None, user=user, stage=str, sessions=None, environment={})
