"""Prices in review: the steps of action.yml run in a fresh repository, and the hooks for pre-commit."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from launcher.cli.app import COMMANDS
from tests.plans import ROOT

ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
STEPS = {step["name"]: step for step in ACTION["runs"]["steps"] if "name" in step}
HOOKS = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
PLAN = """slipway: 1
name: job
workload: {train: {model: llama-3.1-8b, tokens_b: 2.0}}
target: {kind: parallelcluster, instance_type: p5.48xlarge, nodes: 1, region: us-east-1}
purchase: {option: on-demand}
"""
TEMPLATE = {"Resources": {"N": {"Type": "AWS::EC2::Instance", "Properties": {"InstanceType": "p5.48xlarge"}}}}


def git(folder, *arguments):
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
    done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def origin(tmp_path):
    """A repository that has only a plan file, in its first commit, and a changed plan in its second."""
    folder = tmp_path / "origin"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    for text in (PLAN, PLAN.replace("nodes: 1", "nodes: 4")):
        (folder / "plan.yaml").write_text(text, encoding="utf-8")
        git(folder, "add", ".")
        git(folder, "commit", "-q", "-m", "plan")
    git(folder, "config", "uploadpack.allowAnySHA1InWant", "true")
    return folder


class Runner:
    """Runs steps as GitHub does: bash with -e and pipefail, one file for outputs, one for the summary."""

    def __init__(self, folder, temporary):
        self.folder, self.temporary = folder, temporary
        (temporary / "slipway/bin").mkdir(parents=True)
        program = temporary / "slipway/bin/slipway"
        program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -P -m launcher "$@"\n')
        program.chmod(0o755)
        self.outputs, self.summary = temporary / "outputs", temporary / "summary"

    def run(self, name, inputs, **variables):
        """The exit code and output of a step; `inputs` over the action's defaults."""
        values = {key: item.get("default", "") for key, item in ACTION["inputs"].items()} | inputs
        environment = {
            key: re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda match: values[match[1]], str(text))
            for key, text in STEPS[name]["env"].items()
        }
        own = {
            "GITHUB_OUTPUT": str(self.outputs),
            "GITHUB_STEP_SUMMARY": str(self.summary),
            "RUNNER_TEMP": str(self.temporary),
            "PYTHONPATH": str(ROOT),
        }
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", STEPS[name]["run"]]
        return subprocess.run(
            command,
            cwd=self.folder,
            env={**os.environ, **own, **environment, **variables},
            capture_output=True,
            text=True,
            check=False,
        )

    def output(self, name):
        return dict(line.partition("=")[::2] for line in self.outputs.read_text().splitlines())[name]


@pytest.fixture
def runner(origin, tmp_path):
    """A shallow checkout of the second commit, as actions/checkout makes it."""
    folder = tmp_path / "checkout"
    subprocess.run(["git", "clone", "-q", "--depth=1", f"file://{origin}", str(folder)], check=True)
    return Runner(folder, tmp_path / "temporary")


def test_repository_with_only_a_plan_file_gets_a_comment_without_a_policy(runner, origin):
    base = git(origin, "rev-parse", "HEAD~1")
    done = runner.run("Price", {"base": base})
    assert done.returncode == 0, done.stderr
    assert runner.output("exit-code") == "0"
    comment = Path(runner.output("comment-file")).read_text()
    assert comment.startswith("<!-- slipway diff -->")
    assert "target.nodes: 4, before 1" in comment
    assert runner.summary.read_text() == comment
    assert runner.run("Limits", {}, CODE=runner.output("exit-code")).returncode == 0


def test_increase_above_the_limit_fails_the_last_step_after_the_comment(runner, origin):
    done = runner.run("Price", {"base": git(origin, "rev-parse", "HEAD~1"), "max-increase-usd": "0"})
    assert (done.returncode, runner.output("exit-code")) == (0, "3")
    assert "**Refused:**" in Path(runner.output("comment-file")).read_text()
    assert runner.run("Limits", {}, CODE=runner.output("exit-code")).returncode == 3


def test_estimate_is_added_to_the_comment_with_a_limit(runner, origin):
    (runner.folder / "app.json").write_text(json.dumps(TEMPLATE))
    inputs = {"base": git(origin, "rev-parse", "HEAD~1"), "estimate": "app.json", "region": "us-east-1"}
    done = runner.run("Price", {**inputs, "max-usd-per-hour": "1"})
    assert (done.returncode, runner.output("exit-code")) == (0, "3"), done.stderr
    comment = Path(runner.output("comment-file")).read_text()
    assert comment.index("<!-- slipway diff -->") < comment.index("<!-- slipway estimate -->")


def test_broken_plan_fails_with_exit_code_2(runner, origin):
    (runner.folder / "plan.yaml").write_text(PLAN.replace("nodes", "nodez"))
    runner.run("Price", {"base": git(origin, "rev-parse", "HEAD~1")})
    assert runner.output("exit-code") == "2"
    comment = Path(runner.output("comment-file")).read_text()
    assert comment.startswith("<!-- slipway diff -->\n### Slipway could not price this change\n")
    assert "nodez" in comment.replace("\u200b", "")


def test_broken_template_has_a_comment_too(runner):
    (runner.folder / "app.json").write_text("{")
    runner.run("Price", {"diff": "false", "estimate": "app.json"})
    assert runner.output("exit-code") == "2"
    comment = Path(runner.output("comment-file")).read_text()
    assert comment.startswith("<!-- slipway estimate -->\n### Slipway could not price this change\n")


@pytest.mark.parametrize("known,verb", [("", "POST"), ("77", "PATCH")])
def test_review_comment_is_created_once_and_then_updated(runner, tmp_path, known, verb):
    calls, programs = tmp_path / "calls", tmp_path / "programs"
    programs.mkdir()
    gh = programs / "gh"
    gh.write_text(f'#!/bin/sh\necho "$@" >> {calls}\ncase "$*" in *--jq*) echo "{known}";; esac\n')
    gh.chmod(0o755)
    comment = tmp_path / "comment.md"
    comment.write_text("<!-- slipway diff -->\ntext\n")
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    variables = {"COMMENT": str(comment), "PULL": "5", "GITHUB_REPOSITORY": "a/b", "PATH": path}
    assert runner.run("Comment", {}, **variables).returncode == 0
    assert f"--method {verb}" in calls.read_text().splitlines()[-1]


def test_action_uses_every_input_and_names_a_shell_in_every_run_step():
    text = (ROOT / "action.yml").read_text(encoding="utf-8")
    assert {name for name in ACTION["inputs"] if f"inputs.{name} " not in text} == set()
    assert all(step.get("shell") == "bash" for step in ACTION["runs"]["steps"] if "run" in step)
    # An expression within a script would let a branch's name run commands.
    assert not [name for name, step in STEPS.items() if "${{" in step["run"]]
    assert all(re.search(r"@[0-9a-f]{40}$", step["uses"]) for step in ACTION["runs"]["steps"] if "uses" in step)


def test_documented_workflow_uses_only_inputs_of_the_action():
    workflow = yaml.safe_load((ROOT / "ci/github-diff.yml").read_text(encoding="utf-8"))
    steps = workflow["jobs"]["diff"]["steps"]
    assert set(steps[-1]["with"]) <= set(ACTION["inputs"])


@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: hook["id"])
def test_pre_commit_hook_has_the_required_keys_and_runs_a_command(hook):
    """Required are id, name, entry and language (pre-commit's documentation of .pre-commit-hooks.yaml)."""
    assert {"id", "name", "entry", "language"} <= set(hook)
    assert hook["language"] == "python"
    program, command, *_ = shlex.split(hook["entry"])
    assert program == "slipway"
    assert command in COMMANDS
    assert re.compile(hook.get("files", ""))


def test_pre_commit_hook_works_before_the_first_commit_and_names_a_broken_plan(slipway, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = shlex.split(HOOKS[0]["entry"])[1:]
    (tmp_path / "plan.yaml").write_text(PLAN)
    assert slipway(*words).code == 2  # no repository
    git(tmp_path, "init", "-q")
    result = slipway(*words)
    assert result.code == 0
    assert "the plan was added" in result.out
    (tmp_path / "plan.yaml").write_text(PLAN.replace("nodes", "nodez"))
    assert slipway(*words).code == 2
