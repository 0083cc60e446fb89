"""Ctrl-C during a job: exit 130, a report that says so, nothing left running, and the next run works."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
PLAN = f"""
slipway: 1
name: tiny
workload: {{train: {{model: {{params_b: 0.0002}}, method: pretrain, hours: 0.5}}}}
target: {{kind: parallelcluster, region: us-east-2, instance_type: p5.48xlarge, nodes: 1}}
purchase: {{option: spot}}
checkpoint: {{interval: 30, keep: 3, grace_seconds: 20}}
run: {{command: {json.dumps([sys.executable, "train.py", "--steps", "9000", "--every", "30"])},
       workdir: {json.dumps(str(EXAMPLES / "tiny_gpt"))}}}
"""
PATIENCE_S = 120


def servers_of(pid: int) -> set[str]:
    """The process ids of the sandbox servers that a process has started."""
    words = ["pgrep", "-P", str(pid), "-f", "launcher.sandbox"]
    return set(subprocess.run(words, capture_output=True, text=True, check=False).stdout.split())


def running(pid: str) -> bool:
    """Whether a process is there and more than a dead entry in the table."""
    status = Path(f"/proc/{pid}/stat")
    return status.exists() and status.read_text().rpartition(")")[2].split()[0] != "Z"


def wait_for(what: str, log: Path, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while what not in log.read_text():
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.2)


@pytest.mark.parametrize("moment", ["synthesising", "attempt 1 started"])
def test_ctrl_c_ends_the_launch_and_leaves_nothing(moment: str, tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text(PLAN)
    command = [sys.executable, "-m", "launcher", "launch", "plan.yaml", "--sandbox", "--yes"]
    log = tmp_path / "log"
    with log.open("wb") as stream:
        process = subprocess.Popen(
            command, cwd=tmp_path, env=dict(os.environ), stdin=subprocess.DEVNULL, stdout=stream, stderr=stream
        )
        try:
            wait_for(moment, log, process)
            servers = servers_of(process.pid)
            process.send_signal(signal.SIGINT)
            code = process.wait(PATIENCE_S)
        finally:
            process.kill()
    assert code == 130, log.read_text()
    assert "Traceback" not in log.read_text()
    assert servers
    assert not [pid for pid in servers if running(pid)]
    folder = tmp_path / ".slipway" / "runs" / "tiny" / "latest"
    report = json.loads((folder / "report.json").read_text())
    assert report["status"] == "cancelled"
    assert not [each for each in folder.rglob(".*.*") if each.name.startswith(".") and each.is_file()]
