"""The app as the CDK CLI runs it: one plan in, an assembly or one screen of text out."""

import json
import os
import subprocess
import sys

import pytest

from launcher import plan_file
from launcher.catalog.hyperpod_chart import chart_pins
from launcher.cdk.chart import NAMED
from launcher.model.document import document
from launcher.planning.pin import pinned_plan
from launcher.sandbox.aws.stacks import broken_rules
from tests.plans import ROOT
from tests.warm_app import WITHOUT_VALIDATION


def test_app_in_folder_with_foreign_infra_package_synthesises_without_credentials(tmp_path, context):
    """As the CDK CLI starts it, in a folder that has an `infra` of its own."""
    (tmp_path / "infra").mkdir()
    (tmp_path / "infra/__init__.py").write_text("raise SystemExit('the wrong infra')\n")
    given = json.dumps({**context, "plan": str(ROOT / "examples/p5-spot.yaml")})
    variables = {"CDK_CONTEXT_JSON": given, "CDK_OUTDIR": str(tmp_path / "cdk.out"), "PYTHONPATH": str(ROOT)}
    variables |= {"CDK_DEFAULT_ACCOUNT": "123456789012", **WITHOUT_VALIDATION}
    command = [sys.executable, "-P", "-m", "infra.app"]
    answer = subprocess.run(
        command, env={**os.environ, **variables}, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stderr
    artifacts = json.loads((tmp_path / "cdk.out/manifest.json").read_text())["artifacts"]
    assert artifacts["slipway-p5-spot-training"]["environment"] == "aws://123456789012/us-east-2"
    stacks = [path.name for path in (tmp_path / "cdk.out").glob("*.template.json")]
    assert sorted(stacks) == [
        f"slipway-p5-spot-{part}.template.json" for part in ("checkpoints", "network", "training")
    ]


@pytest.mark.slow  # the refusal in this process, and a program that ends in test_warm_app.py, prove the same
def test_app_without_plan_file_ends_with_2(tmp_path):
    answer = subprocess.run(
        [sys.executable, "-P", "-m", "infra.app"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (answer.returncode, answer.stderr.splitlines()[0]) == (2, "error: the context names no plan file")


@pytest.mark.parametrize(
    "text, code, message",
    [
        (None, 2, "the context names no plan file"),
        ("slipway: 1\nname: open\n", 5, "target.instance_type: must be one value, got any"),
        ("slipway: 1\nname: x\ntarget: {regoin: us-east-2}\n", 2, "did you mean region?"),
        ("slipway: [", 2, "is not valid YAML"),
    ],
)
def test_invalid_plan_refused_with_short_message_and_without_output(run_app, tmp_path, text, code, message):
    path = None
    if text is not None:
        path = tmp_path / "plan.yaml"
        path.write_text(text)
    answer = run_app(path)
    assert answer.code == code
    assert message in answer.err
    assert "Traceback" not in answer.err
    assert len(answer.err.splitlines()) < 25
    assert list(answer.out.glob("*")) == []


def test_resolved_plan_builds_stacks_with_equal_digest(run_app, tmp_path, catalog):
    plan = pinned_plan(plan_file.load(ROOT / "examples/trn2-capacity-block.yaml"), catalog)
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(document(plan.request)))
    answer = run_app(path)
    assert answer.code == 0, answer.err
    outputs = json.loads((answer.out / "slipway-trn2-block-training.template.json").read_text())["Outputs"]
    assert outputs["PlanDigest"]["Value"] == plan.digest


def test_default_example_synthesises_and_refuses_deployment(run_app, monkeypatch):
    monkeypatch.chdir(ROOT)
    answer = run_app(None, example="examples/tiny-gpt.yaml")
    assert answer.code == 0
    templates = [json.loads(path.read_text()) for path in answer.out.glob("slipway-*.template.json")]
    assert len(templates) == 3
    for template in templates:
        (message,) = broken_rules(template, {"BootstrapVersion": "21"})
        assert message.endswith("is an example and cannot be deployed: cdk deploy --all -c plan=FILE")
    assert run_app(ROOT / "examples/p5-spot.yaml").code == 0
    assert all(
        broken_rules(json.loads(path.read_text()), {"BootstrapVersion": "21"}) == []
        for path in answer.out.glob("slipway-p5-spot-*.template.json")
    )


def test_plan_for_existing_cluster_refused(run_app, tmp_path):
    path = tmp_path / "plan.yaml"
    path.write_text((ROOT / "examples/p5-spot.yaml").read_text().replace("target:\n", "target:\n  cluster: shared\n"))
    answer = run_app(path)
    assert answer.code == 5
    assert "target.cluster: shared exists; its jobs go there and nothing is provisioned" in answer.err


def test_chart_of_an_earlier_plan_in_the_folder_is_not_asked_for(run_app, monkeypatch):
    monkeypatch.delenv(NAMED, raising=False)
    out = run_app(ROOT / "examples/p5-spot.yaml").out
    (out / "slipway-other-training.assets.json").write_text(json.dumps({"files": {chart_pins().chart_name: {}}}))
    answer = run_app(ROOT / "examples/p5-spot.yaml")
    assert answer.out == out
    assert "HyperPod's chart" not in answer.err


def test_hyperpod_chart_without_folder_named_with_fetch_command(run_app, monkeypatch):
    monkeypatch.delenv(NAMED, raising=False)
    answer = run_app(ROOT / "examples/hyperpod-eks/p5en-spot.yaml")
    assert answer.code == 0
    assert "cdk deploy needs HyperPod's chart" in answer.err
    assert all(file.url in answer.err for file in chart_pins().files)
    assert f"{NAMED}=hyperpod-chart slipway cdk -- deploy --all -c plan=" in answer.err
    # What else to type for the removal: the CLI prints no annotation of level info.
    assert "aws logs delete-log-group --region us-west-2" in answer.err


def test_hyperpod_chart_in_incomplete_folder_named_with_missing_files(run_app, monkeypatch, tmp_path):
    first, *others = chart_pins().files
    (tmp_path / first.name).write_bytes(b"")
    monkeypatch.setenv(NAMED, str(tmp_path))
    answer = run_app(ROOT / "examples/hyperpod-eks/p5en-spot.yaml")
    (line,) = [line for line in answer.err.splitlines() if "lacks" in line]
    assert all(file.name in line for file in others)
    assert first.name not in line.partition("lacks")[2]


class TestGate:
    """The message of `cdk deploy -c plan=FILE` about the gate that it does not check."""

    @pytest.fixture
    def folder(self, tmp_path, catalog):
        """A run folder's plan and its quote, as far as the app asks for it."""
        plan = pinned_plan(plan_file.load(ROOT / "examples/trn2-capacity-block.yaml"), catalog)
        path = tmp_path / "run"
        path.mkdir()
        (path / "plan.json").write_text(json.dumps(document(plan.request)))

        def quote(**changes):
            gate = {"verdict": "allow", "exit_code": 0, "reason": None}
            quote_json = {
                "schema": "slipway.quote/1",
                "digest": plan.digest,
                "gate": gate,
                "expires_at": None,
                **changes,
            }
            (path / "quote.json").write_text(json.dumps(quote_json))
            return path / "plan.json"

        return quote

    @staticmethod
    def gate_entry(answer):
        artifacts = json.loads((answer.out / "manifest.json").read_text())["artifacts"]
        gate_entries = {}
        for name, artifact in artifacts.items():
            if artifact["type"] == "aws:cloudformation:stack":
                metadata = artifact.get("metadata", {})
                if "additionalMetadataFile" in artifact:
                    metadata = json.loads((answer.out / artifact["additionalMetadataFile"]).read_text())
                entries = [
                    (entry["type"].removeprefix("aws:cdk:"), entry["data"])
                    for path, entries in metadata.items()
                    for entry in entries
                    if path == f"/{name}" and entry["type"] in ("aws:cdk:info", "aws:cdk:warning")
                ]
                gate_entries[name] = [entry for entry in entries if "gate" in str(entry[1])]
        (word,) = gate_entries.pop("slipway-trn2-block-training")
        assert not any(gate_entries.values())
        return word

    def test_run_folder_plan_annotation_reports_gate_decision(self, run_app, folder):
        answer = run_app(folder(expires_at="2999-01-01T00:00:00+00:00"), gate="1")
        assert answer.code == 0, answer.err
        level, message = self.gate_entry(answer)
        assert level == "info"
        assert "the gate allowed this plan, on prices good until 2999-01-01" in message

    def test_plan_without_quote_annotation_warns_of_missing_gate(self, run_app):
        answer = run_app(ROOT / "examples/trn2-capacity-block.yaml")
        assert answer.code == 0, answer.err
        level, message = self.gate_entry(answer)
        assert level == "warning"
        assert "passed no gate" in message

    def test_refused_quote_with_gate_context_builds_no_stacks(self, run_app, folder):
        answer = run_app(folder(gate={"verdict": "refuse", "exit_code": 3, "reason": "too dear"}), gate="1")
        assert (answer.code, list(answer.out.glob("*"))) == (3, [])
        assert "error: too dear" in answer.err

    def test_gate_context_other_than_0_or_1_refused(self, run_app, folder):
        answer = run_app(folder(), gate="maybe")
        assert answer.code == 2
        assert "context gate must be 1 or 0, got maybe" in answer.err
