"""One small job or endpoint a target in a real account: launched under a limit, looked at, removed, and written down.

Needs credentials and a bootstrapped region: `make live` shows what it costs and asks first.
"""

import json
import subprocess
import sys
from datetime import UTC, datetime

import pytest

from tests.live.cases import CASES, PAGE, recorded


def slipway(*words, where):
    """A command as a person would type it; what it prints goes to the terminal."""
    return subprocess.run(
        [sys.executable, "-P", "-m", "launcher", *words], cwd=where, check=False, stdout=subprocess.PIPE
    )


@pytest.mark.parametrize("case", CASES, ids=lambda each: each.plan)
def test_live_run_succeeds_and_leaves_no_stacks(case, tmp_path):
    outcome = "failed"
    try:
        done = slipway("launch", str(case.path), "--yes", "--max-usd", case.most_usd, "--json", where=tmp_path)
        assert done.returncode == 0, done.stdout.decode()
        report = json.loads(done.stdout)
        assert report["status"] == "succeeded"
        assert not report["simulated"]
        if not case.serves:
            assert [attempt["ended_by"] for attempt in report["attempts"]][-1] == "completed"
        outcome = "ran"
    finally:
        gone = slipway(
            "down", case.name, "--region", "us-east-2", "--yes", "--checkpoints", "--confirm", case.name, where=tmp_path
        )
        removed = "removed" if gone.returncode == 0 else f"NOT REMOVED: slipway down {case.name}"
        result = f"{datetime.now(UTC):%Y-%m-%d}: {outcome}, {removed}"
        PAGE.write_text(recorded(PAGE.read_text(encoding="utf-8"), case.thing, result), encoding="utf-8")
    assert gone.returncode == 0
    left = json.loads(slipway("cost", "--region", "us-east-2", "--json", where=tmp_path).stdout)
    assert case.name not in " ".join(stack["name"] for stack in left["stacks"])
