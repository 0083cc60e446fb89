"""The front page of the command line: the text of --help, and what it imports."""

import json
import os
import subprocess
import sys

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from launcher.cli.app import SUMMARIES, application, front
from launcher.cli.completion import VARIABLE

LOADED = """
import json, sys
from launcher.cli.app import main
sys.argv = ["slipway", *json.loads({words!r})]
try:
    main()
finally:
    print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""


def run(code: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env={**os.environ, **more}
    )


def test_every_summary_equals_first_sentence_of_command_help():
    commands = get_command(application()).commands  # type: ignore[attr-defined]
    assert list(commands) == list(SUMMARIES)
    for name, command in commands.items():
        assert " ".join(command.help.split("\n\n")[0].split()) == SUMMARIES[name]


@pytest.mark.parametrize("width", ["80", "120"])
def test_help_with_and_without_loaded_commands_is_equal(width: str):
    shown = [CliRunner().invoke(build(), ["--help"], env={"COLUMNS": width}).output for build in (front, application)]
    assert shown[0] == shown[1]
    assert "launch" in shown[0]


@pytest.mark.parametrize("words", [["--help"], ["--version"], []])
def test_help_and_version_load_no_command_or_pricing_modules(words: list[str]):
    answer = run(LOADED.format(words=json.dumps(words)))
    loaded = set(json.loads(answer.stderr.splitlines()[-1]))
    assert "launcher.cli.app" in loaded
    launcher_modules = {module for module in loaded if module.startswith("launcher.")} - {
        "launcher.answers",
        "launcher.answers.lines",
    }
    assert not {module for module in launcher_modules if module.split(".")[1] not in ("cli", "model")}
    assert not {f"launcher.cli.{name}" for name in SUMMARIES} & launcher_modules
    assert not {module for module in launcher_modules if module.endswith("_page")}
    assert "rich" not in loaded


def test_unknown_command_refused_with_suggestion():
    answer = run("import sys; from launcher.cli.app import main; sys.argv = ['slipway', 'plam']; main()")
    assert answer.returncode == 2
    assert "plan" in answer.stderr


def test_completion_in_shell_lists_option_of_command():
    variables = {VARIABLE: "complete_bash", "COMP_WORDS": "slipway plan --exp", "COMP_CWORD": "2"}
    answer = run("import sys; from launcher.cli.app import main; sys.argv = ['slipway']; main()", **variables)
    assert "--explain" in answer.stdout
