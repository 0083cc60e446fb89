"""status, cancel, logs and checkpoints on run folders, without a request to a cluster."""

import json
import os
from datetime import UTC, datetime
from pathlib import Path

import boto3
import pytest
from moto import mock_aws

from launcher import plan_file
from launcher.answers.checkpoints import page
from launcher.answers.status import page as status_page
from launcher.model.document import document
from launcher.model.errors import DeploymentFailedError
from launcher.records import run_folder
from launcher.records.checkpoints import Checkpoint
from launcher.records.command_record import recorded_command
from launcher.workflow.history.attempts import record_unstarted
from launcher.workflow.run.status import ended_state, with_job_data
from tests.plans import ROOT
from tests.unit.cli.reports import QUOTE, REPORT
from tests.unit.records.submissions import NODE, submission


@pytest.fixture
def empty_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return run_folder.create("tiny", datetime(2026, 11, 20, 12, tzinfo=UTC), tmp_path)


def test_status_of_sandbox_run_equals_report(empty_run, slipway):
    empty_run.write_json("report.json", REPORT)
    code, out, _ = slipway("status", "tiny", "--json")
    status = json.loads(out)
    assert (code, status["schema"], status["run"], status["status"]) == (
        0,
        "slipway.status/1",
        "20261120T120000Z",
        "succeeded",
    )
    assert (status["simulated"], status["job"], status["step"], len(status["attempts"])) == (True, None, 60, 1)
    code, out, _ = slipway("status", "tiny")
    assert (code, "tiny: succeeded" in out, "completed" in out) == (0, True, True)


@pytest.mark.parametrize("damaged", ["report.json", "submission.json"])
def test_damaged_older_run_does_not_hide_newest(empty_run, slipway, tmp_path, damaged):
    empty_run.write_json("report.json", REPORT)
    submission(NODE, job="7").write(empty_run)
    (empty_run.path / damaged).write_text("{")
    newest = run_folder.create("tiny", datetime(2026, 11, 21, 12, tzinfo=UTC), tmp_path)
    newest.write_json("report.json", REPORT)
    code, out, err = slipway("status", "tiny", "--json")
    assert (code, json.loads(out)["run"]) == (0, newest.path.name)
    assert "whether run 20261120T120000Z of this plan still runs is unknown" in err


def test_status_of_deployed_folder_is_not_submitted_and_cancel_refused(empty_run, slipway):
    code, out, _ = slipway("status", "tiny", "--json")
    assert (code, json.loads(out)["status"]) == (0, "not-submitted")
    code, _, err = slipway("cancel", "tiny", "--yes")
    assert (code, "no job on a cluster" in err) == (5, True)
    served = plan_file.load(ROOT / "examples" / "serve" / "pinned" / "embedding-inf2.yaml")
    empty_run.write_json("plan.json", document(served))
    code, _, err = slipway("cancel", "tiny", "--yes")
    assert (code, "is an endpoint without a job: nothing is cancelled" in err, "slipway down tiny" in err) == (
        5,
        True,
        True,
    )
    code, _, err = slipway("logs", "tiny", "-f")
    assert (code, "no job on a cluster to follow" in err) == (2, True)


def test_logs_of_run_without_attempt_name_status_which_has_the_reason(empty_run, slipway):
    empty_run.write_json("report.json", {**REPORT, "attempts": []})
    code, _, err = slipway("logs", "tiny")
    assert code == 2
    assert "tiny has no log: no attempt has started here" in err
    assert "fix: slipway status tiny shows its state" in err


def test_logs_print_progress_bar_once_and_long_and_unfinished_lines_whole(empty_run, slipway):
    empty_run.logs.mkdir(exist_ok=True)
    bars, long = "".join(f"\r{number} %" for number in range(101)), "x" * 3_000_000
    (empty_run.logs / "attempt-1.log").write_text(f"{bars}\n{long}\nlast", newline="")
    (empty_run.logs / "attempt-2.log").write_text("second\n")
    code, out, _ = slipway("logs", "tiny")
    assert (code, out) == (0, f"100 %\n{long}\nlast\nsecond\n")


TEMPLATE = json.dumps({"Resources": {"Nothing": {"Type": "AWS::SNS::Topic"}}})


@pytest.fixture
def cut_deployment(tmp_path, monkeypatch):
    """A deployment of tiny-gpt was cut short: one stack was made, the folder names another, and there is no output."""
    monkeypatch.chdir(tmp_path)
    folder = run_folder.create("tiny-gpt", datetime(2026, 11, 20, 12, tzinfo=UTC), tmp_path)
    request = plan_file.load(ROOT / "examples" / "tiny-gpt.yaml")
    folder.write_json("plan.json", document(request))
    folder.write_json("outputs.json", {"slipway-tiny-gpt-network": {}})
    return request.target.region[0]


def test_status_of_interrupted_deployment_lists_existing_stacks(cut_deployment, slipway, monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    with mock_aws():
        client = boto3.client("cloudformation", region_name=cut_deployment)
        client.create_stack(StackName="slipway-tiny-gpt-training", TemplateBody=TEMPLATE)
        _, out, _ = slipway("status", "tiny-gpt", "--json")
        status = json.loads(out)
        assert status["stacks"] == ["slipway-tiny-gpt-training"]
        assert status["stack_states"] == {"slipway-tiny-gpt-training": "CREATE_COMPLETE"}
        _, out, _ = slipway("status", "tiny-gpt")
        assert "slipway-tiny-gpt-training CREATE_COMPLETE" in " ".join(out.split())
        assert "slipway down tiny-gpt removes them" in out
        client.delete_stack(StackName="slipway-tiny-gpt-training")
        _, out, _ = slipway("status", "tiny-gpt")
        assert "billed" not in out


def test_status_with_retained_checkpoints_names_down_checkpoints(cut_deployment, slipway, monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    with mock_aws():
        client = boto3.client("cloudformation", region_name=cut_deployment)
        client.create_stack(StackName="slipway-tiny-gpt-checkpoints", TemplateBody=TEMPLATE)
        _, out, _ = slipway("status", "tiny-gpt")
    assert "slipway down tiny-gpt --checkpoints removes them" in out


def test_status_of_failed_launch_names_existing_stacks_and_down(cut_deployment, slipway, tmp_path, monkeypatch):
    folder = run_folder.latest("tiny-gpt", tmp_path)
    stack = {"name": "slipway-tiny-gpt-training", "status": "CREATE_IN_PROGRESS"}
    folder.write_json(
        "report.json", {**REPORT, "status": "failed", "simulated": False, "attempts": [], "stacks": [stack]}
    )
    status_text = " ".join(slipway("status", "tiny-gpt")[1].split())
    assert "slipway-tiny-gpt-network, slipway-tiny-gpt-training (their state could not be read)" in status_text
    assert "slipway down tiny-gpt removes them" in status_text
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    with mock_aws():
        assert "billed" not in slipway("status", "tiny-gpt")[1]
        client = boto3.client("cloudformation", region_name=cut_deployment)
        client.create_stack(StackName="slipway-tiny-gpt-training", TemplateBody=TEMPLATE)
        status_text = " ".join(slipway("status", "tiny-gpt")[1].split())
        assert "billed while they exist: slipway-tiny-gpt-training CREATE_COMPLETE" in status_text


def test_status_without_credentials_lists_stacks_of_folder(cut_deployment, slipway):
    _, out, _ = slipway("status", "tiny-gpt", "--json")
    status = json.loads(out)
    assert (status["stacks"], status["stack_states"]) == (["slipway-tiny-gpt-network"], None)
    _, out, _ = slipway("status", "tiny-gpt")
    assert "their state could not be read" in " ".join(out.split())


def test_status_of_failed_deployment_names_its_reason_with_last_lines(empty_run, slipway):
    message = "the endpoint did not start\nthe last lines of what did not start:\n  ERROR no such model"
    with pytest.raises(DeploymentFailedError), recorded_command(empty_run, "launch", done="done"):
        raise DeploymentFailedError(message)
    empty_run.write_json("report.json", {**REPORT, "status": "failed", "attempts": []})
    code, out, _ = slipway("status", "tiny", "--json")
    status = json.loads(out)
    assert (code, status["status"], status["reason"]) == (0, "failed", message)
    code, out, _ = slipway("status", "tiny")
    shown = "\n    ".join(f"  reason: {message}".splitlines())
    assert (code, shown in out) == (0, True)


def test_status_of_job_that_never_started_names_its_reason_with_last_lines(empty_run, slipway):
    reason = "3 instances could not start the job; the last:\nKeyError: 'RETRIES'"
    record_unstarted(empty_run, reason)
    with pytest.raises(DeploymentFailedError), recorded_command(empty_run, "launch --sandbox", done="done"):
        raise DeploymentFailedError("the job failed")
    empty_run.write_json("report.json", {**REPORT, "status": "failed", "attempts": []})
    _, out, _ = slipway("status", "tiny", "--json")
    assert json.loads(out)["reason"] == f"the job failed: {reason}"
    assert "    KeyError: 'RETRIES'" in slipway("status", "tiny")[1]


def test_status_shows_the_guards_reason_once(empty_run, slipway):
    reason = "3 workers failed to start; each try is billed"
    with pytest.raises(DeploymentFailedError), recorded_command(empty_run, "launch --sandbox", done="done"):
        raise DeploymentFailedError(f"the guard stopped the nodes, and job tiny-1 was cancelled: {reason}")
    empty_run.write_json("report.json", {**REPORT, "status": "cancelled", "attempts": [], "guard_reason": reason})
    assert " ".join(slipway("status", "tiny")[1].split()).count(reason) == 1


@pytest.mark.parametrize("text", ["{", "[]", '{"schema": "other/1"}', '{"schema": "slipway.submission/1"}'])
def test_damaged_submission_record_is_reported(empty_run, slipway, text):
    (empty_run.path / "submission.json").write_text(text)
    code, out, err = slipway("status", "tiny")
    assert (code, out, "submission.json" in err) == (2, "", True)
    assert "internal" not in err


@pytest.mark.parametrize("command", ["status", "report"])
def test_pipe_in_the_place_of_a_report_is_reported(empty_run, slipway, command):
    os.mkfifo(empty_run.path / "report.json")
    code, out, err = slipway(command, "tiny")
    assert (code, out) == (2, "")
    assert "report.json: " in err


def test_cancel_without_terminal_requires_yes(empty_run, slipway):
    code, _, err = slipway("cancel", "tiny")
    assert (code, "add --yes" in err) == (2, True)


def test_checkpoints_of_ended_sandbox_launch_make_no_aws_calls(empty_run, slipway):
    empty_run.write_json("quote.json", QUOTE)
    empty_run.rendered_folder.mkdir()
    policy = {"checkpoint": {"uri": "s3://of-the-sandbox/jobs/tiny"}}
    empty_run.write_json("plan.json", {"slipway": 1, "name": "tiny", **policy})
    empty_run.write_json("rendered/job.json", policy)
    for command, message in (
        ("launch", "no AWS credentials"),
        ("launch --sandbox", "the sandbox of this run has ended"),
    ):
        facts = {"schema": "slipway.command/1", "command": command, "pid": 1, "started_at": "2026-11-20T12:00:00+00:00"}
        empty_run.write_json("command.json", {**facts, "ended": "done"})
        code, _, err = slipway("checkpoints", "list", "tiny")
        assert (code, message in err) == (1, True)


def test_checkpoints_of_unknown_run_refused(empty_run, slipway):
    code, _, err = slipway("checkpoints", "list", "other")
    assert (code, "no run of other" in err) == (2, True)
    Path("tiny.yaml").write_text("slipway: 1\nname: tiny\n", encoding="utf-8")
    for command in (("checkpoints", "list"), ("checkpoints", "verify"), ("outputs",)):
        for named in ("tiny", "tiny.yaml"):
            code, _, err = slipway(*command, named)
            assert (code, Path("quote.json").name in err) == (2, True)
    Path("other.yaml").write_text("slipway: 1\nname: other\n", encoding="utf-8")
    code, _, err = slipway("endpoint", "url", "other.yaml")
    assert (code, "no run of other in this folder" in err) == (2, True)


@pytest.mark.parametrize("uri", ["s3://", "s3:///runs", "s3://No_Bucket/x", "s3://a"])
def test_checkpoints_of_invalid_bucket_name_refused(tmp_path, slipway, uri):
    for arguments in (["list"], ["verify"], ["prune", "--yes"], ["restore"]):
        code, out, err = slipway("checkpoints", arguments[0], uri, *arguments[1:])
        assert (code, out, f"no bucket can have this name: {uri}" in err, "s3://bucket/prefix" in err) == (
            2,
            "",
            True,
            True,
        )


def test_checkpoints_step_with_all_refused(empty_run, slipway):
    code, _, err = slipway("checkpoints", "verify", "tiny", "--step", "1", "--all")
    assert (code, "--step and --all" in err) == (2, True)


@pytest.mark.parametrize("superseded", [False, True])
@pytest.mark.parametrize("width", [60, 80, 120])
def test_checkpoint_table_fits_width_and_names_run_from_80_columns(width, superseded):
    run = "llama31-8b-sft-20261120t203048z-089799cd"
    checkpoints = [
        Checkpoint(
            step=step,
            folder=f"step-{step}",
            form="agent",
            files=(),
            bytes=43_000_000,
            reason=None,
            run=run,
            attempt=2,
            written_at="2026-11-20T20:29:38+00:00",
            layout="huggingface",
            superseded=superseded and step == 90_000,
        )
        for step in (120_000, 90_000)
    ]
    lines = page("s3://bucket/runs", tuple(checkpoints), width)
    assert max(map(len, lines)) <= width
    assert [("120000" in line, "41.0 MiB" in line, "20:29:38" in line) for line in lines].count((True, True, True)) == 1
    assert (run.removeprefix("llama31-8b-sft-") in "".join(lines)) == (width >= 80)
    assert ("expires" in lines[3].split()) == superseded


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("expiring", [3, 140])
def test_many_expiring_checkpoints_counted_in_one_line(width: int, expiring: int) -> None:
    stored = tuple(
        Checkpoint(
            step=step,
            folder=f"step-{step}",
            form="agent",
            files=(),
            bytes=1 << 20,
            reason=None,
            superseded=step <= expiring,
        )
        for step in range(expiring + 2, 0, -1)
    )
    lines = page("s3://bucket/runs", stored, width)
    rows = [int(line.split()[0]) for line in lines if line.split()[:1] and line.split()[0].isdecimal()]
    assert max(map(len, lines)) <= width
    if expiring == 3:
        assert rows == [5, 4, 3, 2, 1]
    else:
        assert rows == [142, 141, 140]  # 140: the line that counts
        assert lines[-1] == "  140 more checkpoints, expiring (steps 1 to 140, 140.0 MiB): --json lists them"


def test_status_names_idle_chips_of_newest_attempt(empty_run, slipway):
    empty_run.write_json("report.json", REPORT)
    folder = empty_run.path / "job"
    folder.mkdir()
    reason = "chips 1 to 7 of 8 were used by no process in the first 10 minutes"
    lines = [
        {"event": "attempt-started", "attempt": 1, "node": "a1", "time": "2026-11-20T12:00:00Z"},
        {"event": "chips-idle", "attempt": 1, "node": "a1", "reason": "chips 0 of 8 were used by no process"},
        {"event": "attempt-started", "attempt": 2, "node": "a2", "time": "2026-11-20T13:00:00Z"},
        {"event": "chips-idle", "attempt": 2, "node": "a2", "reason": reason},
    ]
    (folder / "events.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    state = with_job_data(ended_state("tiny", empty_run), empty_run)
    assert state.idle_chips == f"a2: {reason}"
    assert f"  warning: a2: {reason}" in status_page(state, 100)


def test_status_of_failed_job_shows_last_output_of_newest_attempt(empty_run, slipway):
    attempt = {**REPORT["attempts"][0], "exit_code": 3, "ended_by": "failure"}
    empty_run.write_json("report.json", {**REPORT, "status": "failed", "attempts": [attempt, attempt]})
    empty_run.logs.mkdir(exist_ok=True)
    (empty_run.logs / "attempt-1.log").write_text("of the first\n")
    (empty_run.logs / "attempt-2.log").write_text("preparing\n[slipway] of the agent\nE: no package flash-attn-9\n")
    _, out, _ = slipway("status", "tiny")
    assert "  last output of attempt 2\n    preparing\n    E: no package flash-attn-9\n" in out
    _, out, _ = slipway("status", "tiny", "--json")
    assert json.loads(out)["last_output"] == ["preparing", "E: no package flash-attn-9"]
    empty_run.write_json("report.json", {**REPORT, "attempts": [attempt]})
    _, out, _ = slipway("status", "tiny")
    assert "last output" not in out
