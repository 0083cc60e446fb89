"""`status` and `logs -f` while a launch with its own sandbox runs: they read its run folder."""

import json
import os
import subprocess
from datetime import UTC, datetime

import pytest

from launcher.model.emulator import MARK
from launcher.records import run_folder
from launcher.records.run_folder import COMMAND
from launcher.workflow.run.status_logs import follow_logs
from tests.unit.cli.reports import QUOTE, REPORT
from tests.waiting import replace_sleep

BEGUN = "2026-11-20T12:00:00+00:00"
EVENTS = [
    {"time": BEGUN, "event": "attempt-started", "attempt": 1, "node": "n1"},
    {"time": "2026-11-20T12:01:00+00:00", "event": "checkpoint-uploaded", "attempt": 1, "step": 40},
]
SUBMISSION = {
    "schema": "slipway.submission/1",
    "key": "k1",
    "job": "1",
    "target": "parallelcluster",
    "scheduler": "slurm",
    "cluster": "tiny",
    "head_node": {"via": "sandbox", "host": "tiny", "instance": None, "region": "us-east-2", "user": None},
    "folder": "/home/me/tiny",
    "store_uri": "s3://store",
    "checkpoint_uri": "s3://store/checkpoints/tiny",
    "work": {"files": 1, "git": None},
    "asked_at": BEGUN,
}
STEPS = [{"step": step, "steps": 900, "tokens": step * 1024, "loss": 2.5, "seconds": float(step)} for step in (20, 40)]


def lines(documents):
    return "".join(json.dumps(document) + "\n" for document in documents)


@pytest.fixture
def working_run(tmp_path, monkeypatch):
    """A launch that is this process, with a job that has begun."""
    monkeypatch.chdir(tmp_path)
    run = run_folder.create("tiny", datetime(2026, 11, 20, 12, tzinfo=UTC), tmp_path)
    state(run)
    run.write_json("quote.json", QUOTE)
    run.write_json("plan.json", {"budget": {"max_usd": "500"}})
    run.write_json("submission.json", SUBMISSION)
    (run.path / "job").mkdir()
    (run.path / "job" / "events.jsonl").write_text(lines(EVENTS))
    (run.path / "job" / "metrics.jsonl").write_text(lines(STEPS))
    return run


def state(folder, *, ended=None, status="running", command="launch --sandbox"):
    facts = {"schema": "slipway.command/1", "command": command, "pid": os.getpid(), "started_at": BEGUN}
    folder.write_json(COMMAND, {**facts, "ended": ended})
    folder.write_json("report.json", {**REPORT, "status": status, "attempts": []})


def test_status_during_sandbox_launch_shows_step_and_process(working_run, slipway):
    code, out, _ = slipway("status", "tiny", "--json")
    document = json.loads(out)
    assert (code, document["status"], document["step"], document["saved_step"]) == (0, "running", 40, 40)
    assert (document["meter"]["step"], document["meter"]["steps"], len(document["attempts"])) == (40, 900, 1)
    status_text = " ".join(slipway("status", "tiny")[1].split())
    assert f"launch --sandbox is running on this computer (process {os.getpid()}), in its own sandbox" in status_text
    assert "step 40 of 900 (4%)" in status_text
    assert "over" not in status_text


@pytest.mark.parametrize("command", ["status", "top"])
def test_launch_in_running_sandbox_that_is_not_found_names_no_own_sandbox(working_run, slipway, command):
    """The running sandbox is another user's, or was stopped: the launch does not end with it."""
    head_node = {**SUBMISSION["head_node"], "instance": "0123456789abcdef"}
    working_run.write_json("submission.json", {**SUBMISSION, "head_node": head_node})
    working_run.write_json("report.json", REPORT)
    text = " ".join(slipway(command, "tiny")[1].split())
    assert "its launch" not in text
    assert "own sandbox" not in text
    assert "not started" not in text


@pytest.mark.parametrize("command", ["status", "top"])
def test_launch_in_sandbox_of_another_home_is_shown_by_its_folder(working_run, slipway, command):
    mark = "0123456789abcdee"
    head_node = {**SUBMISSION["head_node"], "instance": mark}
    working_run.write_json("submission.json", {**SUBMISSION, "head_node": head_node})
    server = subprocess.Popen(["sleep", "60"], env={**os.environ, MARK: mark})
    try:
        _, out, err = slipway(command, "tiny")
    finally:
        server.kill()
        server.wait()
    text = " ".join(out.split())
    assert "tiny: running" in text
    assert "has not started" not in text
    assert "step 40 of 900" in text
    assert ("does not reach its nodes" in text) == (command == "top")
    assert "has ended" not in err
    assert ("was started with another HOME or XDG_CACHE_HOME" in err) == (command == "status")


@pytest.mark.parametrize("command", ["status", "top"])
def test_launch_before_its_job_starts_names_no_sandbox(working_run, slipway, command):
    (working_run.path / "job" / "events.jsonl").unlink()
    text = " ".join(slipway(command, "tiny")[1].split())
    assert "its job has not started" in text
    assert "sandbox of its launch" not in text
    assert "own sandbox" not in text


def test_status_during_deployment_is_running(working_run, slipway):
    state(working_run, command="launch")
    (working_run.path / "job" / "events.jsonl").unlink()
    (working_run.path / "submission.json").unlink()
    status_text = " ".join(slipway("status", "tiny")[1].split())
    assert f"tiny: running launch is running on this computer (process {os.getpid()})" in status_text
    assert "sandbox" not in status_text


def test_watch_ends_with_launch_and_reports_missing_meter_once(working_run, slipway, monkeypatch):
    begun = working_run.path / "job" / "events.jsonl"
    begun.rename(begun.with_suffix(".later"))
    calls = []

    def sleep(_):
        calls.append(1)
        if len(calls) == 3:
            begun.with_suffix(".later").rename(begun)
        if len(calls) == 4:
            state(working_run, ended="done", status="succeeded")

    replace_sleep(monkeypatch, "launcher.cli.status", sleep)
    code, out, err = slipway("status", "tiny", "--watch")
    assert (code, len(calls), err.count("tiny: running; its job has not started")) == (0, 4, 1)
    assert err.count("step 40 of 900 (4%)") == 1
    assert "tiny: succeeded" in out


def test_logs_followed_until_launch_ends(working_run):
    working_run.logs.mkdir(exist_ok=True)
    passed, messages = [], []

    def sleep(_):
        if len(passed) < 3:
            with (working_run.logs / "attempt-1.log").open("a") as stream:
                stream.write(f"line {len(passed)}\n")
            passed.append(b"")
        else:
            (working_run.logs / "attempt-2.log").write_text("again\n")
            state(working_run, ended="done", status="succeeded")

    log_lines = []
    follow_logs("tiny", working_run, {}, write=log_lines.append, notify=messages.append, sleep=sleep)
    assert b"".join(log_lines) == b"line 0\nline 1\nline 2\nagain\n"
    assert messages == ["tiny: succeeded"]


@pytest.mark.parametrize(
    "words",
    [
        ["nodes", "tiny"],
        ["exec", "tiny", "--", "hostname"],
        ["ssh", "tiny"],
        ["cancel", "tiny", "--yes"],
        ["down", "tiny", "--yes"],
    ],
)
def test_command_beside_sandbox_launch_does_not_say_that_its_sandbox_has_ended(working_run, slipway, words):
    code, _, err = slipway(*words)
    assert code != 0
    assert "tiny runs in the sandbox of its launch, which no other command reaches" in err
    assert "has ended" not in err
    state(working_run, ended="done", status="succeeded")
    assert "runs in the sandbox of its launch" not in slipway(*words)[2]


def test_top_beside_sandbox_launch_shows_meter_and_slow_node(working_run, slipway):
    slow = {"event": "straggler", "time": EVENTS[-1]["time"], "attempt": 1, "slow_node": "n2", "percent": 30}
    slow |= {"share": 0.2, "basis": "work", "reason": "n2 is 30 % slower than the other nodes for 20 minutes"}
    (working_run.path / "job" / "events.jsonl").write_text(lines([*EVENTS, slow]))
    text = " ".join(slipway("top", "tiny")[1].split())
    assert "no node runs it" not in text
    assert "its nodes are in the sandbox of its launch" in text
    assert "warning: n2 is 30 % slower than the other nodes" in text
