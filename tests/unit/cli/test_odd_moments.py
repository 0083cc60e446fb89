"""Commands on a full disk, with a closed pipe, killed, or in a folder with unrelated files."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from launcher.answers.report import attempt_rows
from launcher.records import run_folder
from launcher.records.command_record import recorded_command
from tests.unit.records.reports import FINISHED

ROOT = Path(__file__).resolve().parents[3]
PLAN = """
slipway: 1
name: x
workload: {train: {hours: 1}}
target: {instance_type: p5.48xlarge, nodes: 1, region: us-east-1}
purchase: {option: on-demand}
"""
LAUNCHER = "import sys; sys.argv = ['slipway', *{words!r}]; {before}from launcher.cli.app import main; main()"


def run(folder, *arguments, before="", **kwargs):
    code = LAUNCHER.format(words=list(arguments), before=before)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env=environment,
        text=True,
        check=False,
        **{"capture_output": True} | kwargs,
    )


@pytest.fixture
def current_folder(tmp_path, monkeypatch):
    (tmp_path / "plan.yaml").write_text(PLAN, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


SMALL_FILES = (
    "import resource, sys; sys.dont_write_bytecode = True; resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500)); "
)


@pytest.mark.parametrize("words", [("init", "new.yaml"), ("render", "plan.yaml", "-o", "out")])
def test_full_disk_leaves_no_partial_file(current_folder, words):
    answer = run(current_folder, *words, before=SMALL_FILES)
    assert answer.returncode in (1, 5)
    assert "cannot write" in answer.stderr
    assert "\n  fix: " in answer.stderr
    assert "internal error" not in answer.stderr
    assert not (current_folder / "new.yaml").exists()
    assert [path for path in current_folder.rglob(".*") if path.is_file()] == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_full_output_device_is_reported(current_folder):
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        answer = run(current_folder, "plan", "plan.yaml", capture_output=False, stdout=full, stderr=subprocess.PIPE)
    assert answer.returncode == 1
    assert answer.stderr.startswith("error: cannot write the output: No space left")
    assert "Traceback" not in answer.stderr


def test_closed_pipe_reader_ends_with_0(current_folder):
    inside, outside = os.pipe()
    os.close(inside)
    with os.fdopen(outside, "wb") as pipe:
        answer = run(current_folder, "plan", "plan.yaml", capture_output=False, stdout=pipe, stderr=subprocess.PIPE)
    assert (answer.returncode, answer.stderr) == (0, "")


@pytest.mark.parametrize("words", [["plan"], ["plan", "--json"], ["quote"]])
def test_closed_standard_output_is_error(current_folder, words):
    words = [sys.executable, "-m", "launcher", *words, str(current_folder / "plan.yaml")]
    answer = subprocess.run(["sh", "-c", 'exec "$@" >&-', "sh", *words], stderr=subprocess.PIPE, text=True, check=False)
    assert answer.returncode == 1
    assert answer.stderr.startswith("error: write error: Bad file descriptor: standard output is closed\n")


def test_render_into_folder_with_other_files_requires_yes(current_folder, slipway):
    code, _, _ = slipway("render", "plan.yaml", "-o", "out")
    assert code == 0
    assert slipway("render", "plan.yaml", "-o", "out")[0] == 0, "its own files are no others"
    (current_folder / "out" / "thesis.tex").touch()
    code, _, err = slipway("render", "plan.yaml", "-o", "out")
    assert code == 2
    assert "which holds others (thesis.tex)" in err
    assert slipway("render", "plan.yaml", "-o", "out", "--yes")[0] == 0


def kill(here):
    """A run whose launch died without a word, with what it had written until then."""
    from datetime import UTC, datetime

    folder = run_folder.create("x", datetime(2026, 11, 20, 12, tzinfo=UTC), here)
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    facts = {"command": "launch", "pid": process.pid, "started_at": "2026-11-20T12:00:00+00:00", "ended": None}
    folder.write_json("command.json", facts)
    return folder


REPORT = {
    "schema": "slipway.report/1",
    "name": "x",
    "status": "running",
    "scheduler": "slurm",
    "simulated": False,
    "attempts": [],
    "quoted": {"usd": "12.5", "hours": 0.5, "usd_per_hour": "25", "prices_as_of": "2026-11-20"},
    "actual": {"hours": 0.0, "usd_at_quoted_rate": "0"},
    "stacks": [],
    "verified_resources": [],
    "not_emulated": [],
}


def test_status_report_and_runs_of_killed_launch_show_known_facts(current_folder, slipway):
    folder = kill(current_folder)
    folder.write_json("report.json", REPORT)
    folder.write_json("outputs.json", {"slipway-x-network": {}})
    code, out, _ = slipway("status", "plan.yaml")
    assert code == 0
    for text in ("x: killed", "may still exist and be billed: slipway-x-network", "slipway down x"):
        assert text in out
    assert json.loads(slipway("status", "x", "--json")[1])["status"] == "killed"
    code, out, err = slipway("report", "plan.yaml")
    assert (code, "quoted $12.50" in out, "was killed" in err) == (0, True, True)
    assert " killed" in slipway("runs")[1]


def test_runs_lists_valid_runs_beside_broken_report(current_folder, slipway):
    from datetime import UTC, datetime

    whole = kill(current_folder)
    broken = run_folder.create("x", datetime(2026, 11, 20, 13, tzinfo=UTC), current_folder)
    broken.write_json("report.json", {"schema": "slipway.report/1"})
    code, out, err = slipway("runs")
    assert (code, whole.path.name in out, " unreadable" in out) == (2, True, True)
    assert f"cannot read {broken.path / 'report.json'}: " in err


def test_deployment_without_job_listed_by_command_and_end(current_folder, slipway):
    from datetime import UTC, datetime

    folder = run_folder.create("x", datetime.now(UTC), current_folder)
    with recorded_command(folder, "deploy", sandbox=True, done="deployed in the sandbox, which has ended"):
        assert "deploy --sandbox running" in slipway("runs")[1]
    assert "deployed in the sandbox, which has ended" in slipway("runs")[1]
    code, _, err = slipway("report", "x")
    assert code == 2
    assert "no report: its newest run is a deploy --sandbox" in err
    folder.write_json("outputs.json", {"slipway-x-network": {}})
    status_text = " ".join(slipway("status", "x")[1].split())
    assert "no job: a deploy --sandbox, deployed in the sandbox, which has ended; slipway sandbox status" in status_text
    assert "billed" not in status_text


@pytest.mark.parametrize("command", ["status", "logs", "report"])
def test_plan_file_argument_resolves_to_plan_name(current_folder, slipway, command):
    code, _, err = slipway(command, "plan.yaml")
    assert code == 2
    assert "no run of x" in err


def test_report_without_attempts_has_sentence_instead_of_table():
    assert attempt_rows((), 80, "running") == ["  no attempt has started"]


@pytest.mark.parametrize(
    "status,took", [("running", "running"), ("cancelled", "running"), ("interrupted", "not known")]
)
def test_attempt_without_end_runs_only_in_a_run_that_goes_on(status, took):
    rows = attempt_rows([replace(FINISHED, ended_at=None, ended_by=None)], 80, status)
    assert took in "\n".join(rows)
    assert ("running" in "\n".join(rows)) == (took == "running")
