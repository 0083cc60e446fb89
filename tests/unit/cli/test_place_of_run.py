"""Commands that take a run name use the sandbox, or the account and region, of its newest run."""

import json
from datetime import UTC, datetime

import pytest

from launcher.cli.app import app
from launcher.records import run_folder
from launcher.records.recent_runs import FOUND, remember
from launcher.records.run_folder import COMMAND

COMMANDS = [
    ["down", "tiny", "--dry-run"],
    ["cost", "tiny"],
    *(["endpoint", subcommand, "tiny"] for subcommand in ("url", "test", "load", "token")),
]


@pytest.fixture
def ran(tmp_path, monkeypatch):
    """A run folder, and an account that does not answer."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name, value in (("ACCESS_KEY_ID", "x"), ("SECRET_ACCESS_KEY", "x"), ("ENDPOINT_URL", "http://127.0.0.1:9")):
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")

    def make(command):
        folder = run_folder.create("tiny", datetime(2026, 11, 20, 12, tzinfo=UTC), tmp_path)
        facts = {"schema": "slipway.command/1", "pid": 1, "started_at": "2026-11-20T12:00:00+00:00", "ended": "done"}
        folder.write_json(COMMAND, {**facts, "command": command})
        folder.write_json("plan.json", {"slipway": 1, "name": "tiny", "target": {"region": "us-east-2"}})
        return folder

    return make


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_commands_on_run_of_ended_sandbox_make_no_aws_calls(ran, slipway, words):
    ran("launch --sandbox")
    code, _, err = slipway(*words)
    assert code == 5
    assert "the sandbox of this run has ended" in err
    assert "--region uses your account instead" in err
    assert "127.0.0.1:9" not in err


@pytest.mark.parametrize("more", [[], ["--region", "us-east-2"]], ids=["by its run", "by its region"])
def test_down_of_aws_run_or_with_region_calls_aws(ran, slipway, more):
    ran("launch" if not more else "launch --sandbox")
    code, _, err = slipway("down", "tiny", "--dry-run", *more)
    assert (code, "127.0.0.1:9" in err) == (1, True), err


@pytest.mark.parametrize("words", [["cost", "tiny"], ["down", "tiny", "--dry-run"]], ids=" ".join)
def test_run_that_an_earlier_command_found_is_not_named_with_region(words, ran, tmp_path, monkeypatch, slipway):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    found = tmp_path / "state/slipway" / FOUND / "store"
    folder = run_folder.create("tiny", datetime(2026, 11, 20, 12, tzinfo=UTC), found)
    remember("tiny", folder.path, {"XDG_STATE_HOME": str(tmp_path / "state")})
    assert "slipway status tiny --region REGION looks for a newer one" in slipway(*words)[2]
    assert "found last" not in slipway(*words, "--region", "us-east-2")[2]


def test_fix_of_an_error_names_the_plan_of_its_command(ran, slipway):
    ran("launch --sandbox")
    _, _, err = slipway("exec", "tiny", "--", "true")
    assert "fix: slipway report tiny and slipway logs tiny" in err, err


def test_runs_of_other_folders_are_listed_with_all_and_counted_without(ran, tmp_path, monkeypatch, slipway):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    first = ran("launch")
    there = tmp_path / "there"
    there.mkdir()
    second = run_folder.create("later", datetime(2026, 11, 21, 12, tzinfo=UTC), there)
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.chdir(empty)
    assert "no runs in this folder: slipway runs --all lists 2 runs of other folders" in slipway("runs")[2]
    listed = json.loads(slipway("runs", "--all", "--json")[1])["runs"]
    assert [(run["name"], run["folder"]) for run in listed] == [("later", str(there)), ("tiny", str(tmp_path))]
    monkeypatch.chdir(there)
    # A run of this folder is listed once.
    assert [run["name"] for run in json.loads(slipway("runs", "--all", "--json")[1])["runs"]] == ["later", "tiny"]
    assert (first.root, second.root) == (tmp_path, there)


def test_run_of_another_computer_is_listed_once_and_so_named(ran, tmp_path, monkeypatch, slipway):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    found = tmp_path / "state/slipway" / FOUND / "store"
    folder = run_folder.create("tiny", datetime(2026, 11, 20, 12, tzinfo=UTC), found)
    remember("tiny", folder.path, {"XDG_STATE_HOME": str(tmp_path / "state")})
    listed = slipway("runs", "--all")[1]
    assert listed.count("20261120T120000Z") == 1
    assert "another computer" in listed


def test_every_command_on_a_run_finds_it_by_region():
    from typer.main import get_command

    commands = dict(getattr(get_command(app), "commands"))  # noqa: B009 - typer carries its own click
    commands |= {
        name: command for group in ("checkpoints", "endpoint") for name, command in commands[group].commands.items()
    }
    on_runs = {
        name: {option for parameter in command.params for option in parameter.opts}
        for name, command in commands.items()
        if any(str(parameter.metavar).startswith("NAME|FILE") for parameter in command.params)
    }
    assert {"ssh", "exec", "tunnel", "outputs", "status", "list"} <= on_runs.keys()
    assert [name for name, options in on_runs.items() if "--region" not in options] == []
    # A request to an endpoint finds it by its region's stacks, and reads no run.
    without_store = {name for name, options in on_runs.items() if "--store" not in options}
    assert without_store <= set(commands["endpoint"].commands)
