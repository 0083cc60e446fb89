"""The emulated AWS CLI as a program: exit codes, streams, folder and environment are those of its caller."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from launcher.sandbox.instances import aws_cli_client, aws_cli_server
from launcher.sandbox.processes import with_descendants
from tests.sandbox.clients import client
from tests.waiting import until

REGION = "us-east-1"


@pytest.fixture(scope="module")
def aws(sandbox):
    """The words that start the program, and the process that runs its commands."""
    with tempfile.TemporaryDirectory(prefix="slw-", dir="/tmp") as folder:
        address = Path(folder, "aws-cli")
        with aws_cli_server.start(address, sandbox.process_environment(os.environ)) as server:
            yield [sys.executable, "-I", "-S", aws_cli_client.__file__, str(address)], server
            server.stdin.close()


@pytest.fixture
def run(aws, sandbox, tmp_path):
    """Runs the program in the test's folder."""
    command, _ = aws

    def run(*words, **changes):
        environment = {**sandbox.process_environment(os.environ), **changes}
        return subprocess.run(
            [*command, *words], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )

    return run


def test_unknown_command_and_option_are_refused_with_codes_of_the_cli(run):
    unknown = run("ec2", "run-instances")
    assert (unknown.returncode, unknown.stdout) == (252, "")
    assert "has no command ec2 run-instances" in unknown.stderr
    option = run("ec2", "describe-instances", "--instance-id", "i-1")
    assert (option.returncode, option.stderr) == (252, "aws: error: Unknown options: --instance-id\n")
    words = run("s3", "cp", "--sparse", "a", "b")
    assert (words.returncode, "unrecognized arguments: --sparse" in words.stderr) == (2, True)


def test_answer_of_a_service_and_its_refusal_arrive_at_the_caller(run):
    answer = run("ec2", "describe-instances", "--output", "json")
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, '{"Reservations": []}', "")
    refused = run("logs", "create-log-stream", "--log-group-name", "none", "--log-stream-name", "a")
    assert (refused.returncode, "ResourceNotFoundException" in refused.stderr) == (254, True)
    unsigned = run("ec2", "describe-instances", AWS_SECRET_ACCESS_KEY="another")  # the caller's keys
    assert (unsigned.returncode, unsigned.stdout) == (254, "")


def test_files_are_copied_from_and_to_the_folder_of_the_caller(run, sandbox, tmp_path):
    client(sandbox, "s3").create_bucket(Bucket="cli")
    (tmp_path / "note").write_bytes(b"\xff\x00")
    assert run("s3", "cp", "note", "s3://cli/a/note").returncode == 0
    assert run("s3", "ls", "s3://cli/a/").stdout == "note\n"
    assert run("s3", "ls", "s3://cli/b/").returncode == 1
    assert run("s3", "cp", "--recursive", "s3://cli/a/", "there").returncode == 0
    assert (tmp_path / "there" / "note").read_bytes() == b"\xff\x00"


def test_command_ends_with_its_caller_and_the_sandbox(aws, sandbox, tmp_path):
    command, server = aws
    os.mkfifo(tmp_path / "pipe")
    environment = sandbox.process_environment(os.environ)
    caller = subprocess.Popen([*command, "s3", "cp", "pipe", "s3://cli/pipe"], cwd=tmp_path, env=environment)
    until(lambda: len(with_descendants({server.pid})) == 2)
    caller.send_signal(signal.SIGKILL)
    caller.wait()
    until(lambda: with_descendants({server.pid}) == {server.pid})
    server.communicate()
    ended = subprocess.run([*command, "s3", "ls", "s3://cli"], env=environment, capture_output=True, check=False)
    assert (ended.returncode, ended.stderr) == (255, b"aws: the sandbox has ended: Connection refused\n")
