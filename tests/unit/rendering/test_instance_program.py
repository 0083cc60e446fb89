"""The program on a plain instance: the job's instances end also when the agent dies or S3 is not reachable."""

import importlib.util
import json
import os

import boto3
import pytest
from botocore.config import Config

from tests.plans import ROOT

INSTANCE, GROUP = "i-00000000000000001", "slipway-lora"
MEMBERS = {
    "Reservations": [
        {
            "Instances": [
                {
                    "InstanceId": INSTANCE,
                    "InstanceType": "g6e.8xlarge",
                    "LaunchTime": "2026-11-28T12:00:00Z",
                    "Placement": {"AvailabilityZone": "us-east-2a"},
                    "PrivateIpAddress": "127.0.0.1",
                },
            ]
        }
    ]
}
AWS = """#!/bin/sh
echo "$@" >>{calls}
case "$1 $2" in "ec2 describe-instances") cat {members} ;; esac
"""


class Staying:
    """The metadata service of an instance that nobody takes back, until its group has no size any more."""

    def __init__(self, calls):
        self.calls = calls

    reclaimed = False

    @property
    def leaving(self):
        return "set-desired-capacity" in self.calls.read_text()


@pytest.fixture
def program(monkeypatch):
    monkeypatch.setenv("SLIPWAY_SANDBOX", "1")  # short pauses
    spec = importlib.util.spec_from_file_location("instance", ROOT / "templates" / "ec2" / "instance.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "PAUSE_S", 0.0)
    return module


@pytest.fixture
def job(program, tmp_path, monkeypatch):
    """Makes a job on one instance whose agent is a script, with an S3 where nothing listens."""
    folder, calls = tmp_path / "job", tmp_path / "calls"
    (folder / "kubernetes").mkdir(parents=True)
    calls.touch()
    (tmp_path / "members").write_text(json.dumps(MEMBERS))
    (tmp_path / "aws").write_text(AWS.format(calls=calls, members=tmp_path / "members"))
    (tmp_path / "aws").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    s3 = boto3.client(
        "s3",
        region_name="us-east-2",
        endpoint_url="http://127.0.0.1:1",
        aws_access_key_id="a",
        aws_secret_access_key="b",
        config=Config(retries={"total_max_attempts": 1}),
    )

    def make(agent, retries):
        (folder / "kubernetes" / "start.py").write_text(f"open('starts', 'a').write('x')\n{agent}")
        (folder / "job.json").write_text(json.dumps({"retries": retries} if retries else {}))
        environment = {
            "SLIPWAY_INSTANCE": INSTANCE,
            "SLIPWAY_GROUP": GROUP,
            "SLIPWAY_JOB_NAME": "lora-1",
            "SLIPWAY_PARTS": "1",
            "SLIPWAY_CHANNEL": "s3://a-bucket/jobs/lora-1",
            "SLIPWAY_ROOT": str(tmp_path),
            "SLIPWAY_WAIT_MINUTES": "1",
            "SLIPWAY_TAIL_MINUTES": "0",
            "PATH": os.environ["PATH"],
        }
        return program.Job(environment, s3, Staying(calls))

    return make


@pytest.mark.parametrize(
    "agent, expected",
    [
        ("raise SystemExit(74)", (0, 4, "4 failures in a row: the agent ended with 74")),
        ("import os; os.kill(os.getpid(), 9)", (1, 5, "5 failures in a row: the agent ended with 137")),
        ("import missing", (0, 4, "4 failures in a row: the agent ended with 1")),
        ("", (2, 1, "with exit code 0")),
        ("raise SystemExit(78)", (2, 1, "with exit code 78")),
    ],
)
def test_instances_end_without_store_after_bounded_failures(program, job, capsys, agent, expected):
    retries, starts, reason = expected
    given = job(agent, retries)
    program.run_job(given)
    assert len((given.folder / "starts").read_text()) == starts
    calls = given.metadata.calls.read_text().splitlines()
    stop = f"autoscaling set-desired-capacity --auto-scaling-group-name {GROUP} --desired-capacity 0 --output json"
    assert calls.count(stop) == 1
    out = capsys.readouterr().out
    assert "S3 is not reachable: the instances end without their last files" in out
    assert reason in out


def test_interruptions_are_no_failures(program, job):
    given = job("raise SystemExit(75 if len(open('starts').read()) < 12 else 0)", 0)
    program.run_job(given)
    assert len((given.folder / "starts").read_text()) == 12
