"""Running the CDK CLI directly with Slipway's app."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from launcher.cdk.by_hand import complete_words
from launcher.model.errors import UnreadableInputError
from tests.plans import EXAMPLES
from tests.warm_app import WITHOUT_VALIDATION


@pytest.mark.parametrize(
    "words",
    [["-c", "plan=job.yaml"], ["--context", "plan=job.yaml"], ["--context=plan=job.yaml"], ["-c=plan=job.yaml"]],
)
def test_relative_plan_path_is_resolved_against_the_working_directory(words):
    result = complete_words(["synth", *words], Path("/home/ada"))
    assert any(word.endswith("plan=/home/ada/job.yaml") for word in result)
    assert result[result.index("--output") + 1] == "/home/ada/cdk.out"
    assert result[result.index("--app") + 1].endswith("-P -m infra.app")


def test_other_context_and_absolute_paths_are_unchanged():
    arguments = ["diff", "-c", "gate=1", "-c", "plan=/srv/job.yaml", "-o", "/srv/out", "-a", "mine"]
    assert complete_words(arguments, Path("/home/ada")) == arguments


@pytest.mark.parametrize("words", [["-o", "out"], ["--output", "out"], ["--output=out"]])
def test_relative_output_path_is_resolved_against_the_working_directory(words):
    """The CLI runs in Slipway's own folder, where nothing of a person's belongs."""
    result = complete_words(["synth", "-c", "plan=job.yaml", *words], Path("/home/ada"))
    assert "/home/ada/out" in " ".join(result).replace("=", " ").split()
    assert "/home/ada/cdk.out" not in result


def test_synthesis_without_a_plan_is_refused():
    with pytest.raises(UnreadableInputError, match="no plan is named"):
        complete_words(["deploy", "--all"], Path("/home/ada"))


def test_cdk_command_without_a_plan_shows_the_required_words(slipway):
    ended = slipway("cdk", "--", "diff")
    assert ended.code == 2
    assert "slipway cdk -- diff -c plan=plan.yaml" in ended.err


@pytest.mark.cdk
def test_cdk_ls_works_in_any_folder(tmp_path):
    (tmp_path / "job.yaml").write_text((EXAMPLES / "p5-spot.yaml").read_text(encoding="utf-8"), encoding="utf-8")
    command = [sys.executable, "-P", "-m", "launcher", "cdk", "--", "ls", "-c", "plan=job.yaml"]
    environment = os.environ | WITHOUT_VALIDATION
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert "slipway-p5-spot-training" in done.stdout
    assert (tmp_path / "cdk.out").is_dir()
