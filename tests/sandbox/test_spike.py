"""A spike in the sandbox: the demo trainer runs until enough is measured, and is cancelled."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def slipway(folder, *words, **more):
    """A command in a folder, beside the demo."""
    command = [sys.executable, "-m", "launcher", *words]
    environment = os.environ | {"PYTHONPATH": str(EXAMPLES.parent)} | more
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def demo(tmp_path):
    shutil.copytree(EXAMPLES / "tiny_gpt", tmp_path / "tiny_gpt")
    shutil.copy(EXAMPLES / "tiny-gpt.yaml", tmp_path)
    return tmp_path


@pytest.mark.slow
def test_in_a_sandbox_that_stays_it_leaves_nothing(demo):
    own = {"XDG_CACHE_HOME": str(demo / "cache")}
    started = slipway(demo, "sandbox", "start", "--scheduler", "local", **own)
    assert started.returncode == 0, started.stderr
    try:
        done = slipway(demo, "spike", "tiny-gpt.yaml", "--sandbox", "--yes", **own)
        assert done.returncode == 0, done.stderr
        assert "removed what the spike made in us-east-2" in done.stderr
        assert "spike-p5" not in slipway(demo, "sandbox", "status", **own).stdout
    finally:
        slipway(demo, "sandbox", "stop", **own)


@pytest.mark.slow
def test_the_demo_is_measured(demo):
    done = slipway(demo, "spike", "tiny-gpt.yaml", "--sandbox", "--yes", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    (only,) = found["measurements"]
    assert (found["schema"], only["schema"], found["unmeasured"]) == ("slipway.spike/1", "slipway.measurement/1", [])
    assert 0 < only["tokens_per_s"]["low"] <= only["tokens_per_s"]["mid"] <= only["tokens_per_s"]["high"]
    assert (only["restore_s"] > 0, only["checkpoint_write_s"] > 0) == (True, True)
    assert (only["simulated"], only["global_batch_tokens"], only["step_s"] > 0) == (True, 1024.0, True)
    assert 0 < only["mfu"]["low"] <= only["mfu"]["mid"] <= only["mfu"]["high"]
    assert (only["parallelism"], sorted(only["software"])) == ({"data": 1}, ["numpy", "python"])
    assert len((demo / "measurements.jsonl").read_text().splitlines()) == 1
    # It was ended early: the demo has 900 steps.
    report = json.loads((demo / ".slipway" / "runs" / "tiny-gpt-spike-p5" / "latest" / "report.json").read_text())
    assert report["status"] == "cancelled"
    assert 100 <= report["attempts"][0]["last_step"] < 900
