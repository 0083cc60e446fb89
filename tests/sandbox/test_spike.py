"""A spike in the sandbox: the demo trainer runs until enough is measured, and is cancelled."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.mark.slow
def test_the_demo_is_measured(tmp_path):
    shutil.copytree(EXAMPLES / "tiny_gpt", tmp_path / "tiny_gpt")
    shutil.copy(EXAMPLES / "tiny-gpt.yaml", tmp_path)
    command = [sys.executable, "-m", "launcher", "spike", "tiny-gpt.yaml", "--sandbox", "--yes", "--json"]
    environment = os.environ | {"PYTHONPATH": str(EXAMPLES.parent)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    (only,) = found["measurements"]
    assert (found["schema"], only["schema"], found["unmeasured"]) == ("slipway.spike/1", "slipway.measurement/1", [])
    assert 0 < only["tokens_per_s"]["low"] <= only["tokens_per_s"]["mid"] <= only["tokens_per_s"]["high"]
    assert (only["simulated"], only["global_batch_tokens"], only["step_s"] > 0) == (True, 1024.0, True)
    assert len((tmp_path / "measurements.jsonl").read_text().splitlines()) == 1
    # It was ended early: the demo has 900 steps.
    report = json.loads((tmp_path / ".slipway" / "runs" / "tiny-gpt-spike-p5" / "latest" / "report.json").read_text())
    assert report["status"] == "cancelled"
    assert 100 <= report["attempts"][0]["last_step"] < 900
