"""The app as the CDK CLI runs it: one plan in, an assembly or one screen of text out."""

import json
import os
import subprocess
import sys

import pytest

from launcher import plan_file
from launcher.model.document import document
from launcher.planning.pin import pinned_plan
from tests.plans import ROOT


@pytest.fixture
def run(tmp_path, context):
    """Run the app with a plan in its context, from a folder that has an `infra` of its own."""
    (tmp_path / "infra").mkdir()
    (tmp_path / "infra/__init__.py").write_text("raise SystemExit('the wrong infra')\n")

    def start(plan, gate=None, **environ):
        values = {**context, "plan": str(plan)} if plan is not None else {}
        values |= {"gate": gate} if gate is not None else {}
        variables = {**os.environ, "PYTHONPATH": str(ROOT), "CDK_CONTEXT_JSON": json.dumps(values)}
        variables |= {"CDK_OUTDIR": str(tmp_path / "cdk.out"), **environ}
        words = [sys.executable, "-P", "-m", "infra.app"]
        return subprocess.run(words, env=variables, cwd=tmp_path, capture_output=True, text=True, check=False)

    start.out = tmp_path / "cdk.out"  # type: ignore[attr-defined]
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


class TestGate:
    """What `cdk deploy -c plan=FILE` says of a gate that it does not ask."""

    @pytest.fixture
    def folder(self, tmp_path, catalog):
        """A run folder's plan and its quote, as far as the app asks for it."""
        plan = pinned_plan(plan_file.load(ROOT / "examples/trn2-capacity-block.yaml"), catalog)
        path = tmp_path / "run"
        path.mkdir()
        (path / "plan.json").write_text(json.dumps(document(plan.request)))

        def quote(**changes):
            gate = {"verdict": "allow", "exit_code": 0, "reason": None}
            found = {"schema": "slipway.quote/1", "digest": plan.digest, "gate": gate, "expires_at": None, **changes}
            (path / "quote.json").write_text(json.dumps(found))
            return path / "plan.json"

        return quote

    @staticmethod
    def said(run):
        artifacts = json.loads((run.out / "manifest.json").read_text())["artifacts"]
        found = {}
        for name, each in artifacts.items():
            if each["type"] == "aws:cloudformation:stack":
                metadata = each.get("metadata", {})
                if "additionalMetadataFile" in each:
                    metadata = json.loads((run.out / each["additionalMetadataFile"]).read_text())
                entries = [
                    (entry["type"].removeprefix("aws:cdk:"), entry["data"])
                    for path, entries in metadata.items()
                    for entry in entries
                    if path == f"/{name}" and entry["type"] in ("aws:cdk:info", "aws:cdk:warning")
                ]
                found[name] = [each for each in entries if "gate" in str(each[1])]
        (word,) = found.pop("slipway-trn2-block-training")
        assert not any(found.values())
        return word

    def test_a_run_folders_plan_says_what_the_gate_said(self, run, folder):
        assert run(folder(expires_at="2999-01-01T00:00:00+00:00"), gate="1").returncode == 0
        level, words = self.said(run)
        assert level == "info"
        assert "the gate allowed this plan, on prices good until 2999-01-01" in words

    def test_a_bare_plan_passed_no_gate(self, run):
        answer = run(ROOT / "examples/trn2-capacity-block.yaml")
        assert answer.returncode == 0, answer.stderr
        level, words = self.said(run)
        assert level == "warning"
        assert "passed no gate" in words

    def test_where_the_gate_is_asked_for_only_what_passed_it_is_built(self, run, folder):
        answer = run(folder(gate={"verdict": "refuse", "exit_code": 3, "reason": "too dear"}), gate="1")
        assert (answer.returncode, list(run.out.glob("*"))) == (3, [])
        assert "error: too dear" in answer.stderr

    def test_the_context_is_one_or_nought(self, run, folder):
        answer = run(folder(), gate="maybe")
        assert answer.returncode == 2
        assert "context gate must be 1 or 0, got maybe" in answer.stderr
