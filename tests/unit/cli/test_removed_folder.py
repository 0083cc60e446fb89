"""A command in a folder that was removed under the terminal."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    "words",
    [("runs",), ("plan", "plan.yaml"), ("status", "x"), ("ledger",), ("config", "show", "plan.yaml"), ("init",)],
)
def test_command_in_removed_folder_refused_with_folder_name(tmp_path, words):
    place = tmp_path / "work"
    place.mkdir()
    line = 'cd "$1" && rmdir "$1" && shift && exec "$@"'
    command = ["bash", "-c", line, "removed", str(place), sys.executable, "-m", "launcher", *words]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    text = done.stderr.replace("\n", " ")
    assert done.returncode == 2, done.stderr
    assert f"the folder that this terminal is in was removed ({place})" in " ".join(text.split())
    assert "internal error" not in text
