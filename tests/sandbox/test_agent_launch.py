"""An agent launches what a person approved in a terminal, once, by the SDK's own client, in the sandbox."""

import json
import os
import sys
import time
from datetime import UTC, datetime

import pytest

from launcher.records.approval import open_approvals
from tests.agent_client import ask
from tests.terminal import terminal, until
from tests.warm_app import WITHOUT_VALIDATION

pytestmark = [pytest.mark.cdk, pytest.mark.server, pytest.mark.xdist_group("training-job")]

PLAN = """
slipway: 1
name: jobbed
workload: {train: {model: {params_b: 0.0002}, method: pretrain, hours: 0.5}}
target: {kind: sagemaker-training, region: us-east-2, instance_type: g5.xlarge, nodes: 1}
purchase: {option: on-demand}
checkpoint: {mode: none}
run: {command: [python3, train.py], workdir: work}
"""


def approve(folder, environment):
    """The id of an approval that a person makes by typing the plan's name."""
    command = [sys.executable, "-m", "launcher", "approve", "plan.yaml", "--max-usd", "50", "--sandbox"]
    with terminal(command, environment, folder) as file:
        until(file, "approve this launch: ", patience_s=60)
        os.write(file, b"jobbed\n")
        until(file, "--approval ", patience_s=60)
    (approval,) = open_approvals(environment, datetime.now(UTC))
    return approval.id


def test_approved_quote_launches_once_through_mcp(tmp_path):
    (tmp_path / "plan.yaml").write_text(PLAN)
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "train.py").write_text('print("trained", flush=True)\n')
    environment = {**os.environ, **WITHOUT_VALIDATION, "XDG_STATE_HOME": str(tmp_path / "state"), "COLUMNS": "300"}
    approval = approve(tmp_path, environment)
    calls = [("approvals", {}), ("launch", {"approval": approval})]
    calls += [("result", {"id": approval}), ("launch", {"approval": approval})]
    listed, started, _, again = ask(calls, tmp_path, environment)
    assert [known["id"] for known in listed.structured_content["approvals"]] == [approval]
    assert started.structured_content["schema"] == "slipway.started/1"
    assert again.is_error
    assert "is in use" in json.dumps(again.structured_content) or "is used" in json.dumps(again.structured_content)
    # The launch goes on after its server has ended with the session.
    end = time.monotonic() + 300
    report = tmp_path / ".slipway" / "runs" / "jobbed" / "latest" / "report.json"
    while not report.is_file() or json.loads(report.read_text())["status"] == "running":
        assert time.monotonic() < end, min(tmp_path.rglob("*.err")).read_text()
        time.sleep(0.5)
    assert json.loads(report.read_text())["status"] == "succeeded"
    reported, logs, once_more = ask(
        [("report", {"name": "jobbed"}), ("logs", {"name": "jobbed"}), ("launch", {"approval": approval})],
        tmp_path,
        environment,
    )
    assert reported.structured_content["status"] == "succeeded"
    assert "trained" in logs.content[0].text
    assert "is used" in once_more.structured_content["message"]
