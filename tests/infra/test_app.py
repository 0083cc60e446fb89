"""The app as the CDK CLI runs it: one plan in, an assembly or one screen of text out."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from launcher import plan_file
from launcher.model.document import document
from launcher.planning.pin import pinned_plan

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def run(tmp_path, context):
    """Run the app with a plan in its context, from a folder that has an `infra` of its own."""
    (tmp_path / "infra").mkdir()
    (tmp_path / "infra/__init__.py").write_text("raise SystemExit('the wrong infra')\n")

    def start(plan, **environ):
        values = {**context, "plan": str(plan)} if plan is not None else {}
        variables = {**os.environ, "PYTHONPATH": str(ROOT), "CDK_CONTEXT_JSON": json.dumps(values)}
        variables |= {"CDK_OUTDIR": str(tmp_path / "cdk.out"), **environ}
        words = [sys.executable, "-P", "-m", "infra.app"]
        return subprocess.run(words, env=variables, cwd=tmp_path, capture_output=True, text=True, check=False)

    start.out = tmp_path / "cdk.out"
    return start


def test_a_plan_becomes_an_assembly_without_credentials(run):
    answer = run(ROOT / "examples/p5-spot.yaml")
    assert answer.returncode == 0, answer.stderr
    stacks = [path.name for path in run.out.glob("*.template.json")]
    assert sorted(stacks) == [
        f"slipway-p5-spot-{part}.template.json" for part in ("checkpoints", "network", "training")
    ]


def test_the_account_comes_from_the_cli(run):
    assert run(ROOT / "examples/p5-spot.yaml", CDK_DEFAULT_ACCOUNT="123456789012").returncode == 0
    artifacts = json.loads((run.out / "manifest.json").read_text())["artifacts"]
    assert artifacts["slipway-p5-spot-training"]["environment"] == "aws://123456789012/us-east-2"


@pytest.mark.parametrize(
    "text, code, said",
    [
        (None, 2, "the context names no plan file"),
        ("slipway: 1\nname: open\n", 5, "target.instance_type: must be one value, got any"),
        ("slipway: 1\nname: x\ntarget: {regoin: us-east-2}\n", 2, "did you mean region?"),
        ("slipway: [", 2, "is not valid YAML"),
    ],
)
def test_what_is_wrong_is_said_in_one_screen(run, tmp_path, text, code, said):
    path = None
    if text is not None:
        path = tmp_path / "plan.yaml"
        path.write_text(text)
    answer = run(path)
    assert answer.returncode == code
    assert said in answer.stderr
    assert "Traceback" not in answer.stderr
    assert len(answer.stderr.splitlines()) < 25
    assert list(run.out.glob("*")) == []


def test_a_plan_that_was_resolved_builds_the_same_stacks(run, tmp_path, catalog):
    plan = pinned_plan(plan_file.load(ROOT / "examples/trn2-capacity-block.yaml"), catalog)
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(document(plan.request)))
    assert run(path).returncode == 0
    outputs = json.loads((run.out / "slipway-trn2-block-training.template.json").read_text())["Outputs"]
    assert outputs["PlanDigest"]["Value"] == plan.digest


def test_a_cluster_that_exists_is_not_built_again(run, tmp_path):
    path = tmp_path / "plan.yaml"
    path.write_text((ROOT / "examples/p5-spot.yaml").read_text().replace("target:\n", "target:\n  cluster: shared\n"))
    answer = run(path)
    assert answer.returncode == 5
    assert "target.cluster: shared exists; its jobs go there and nothing is provisioned" in answer.stderr
