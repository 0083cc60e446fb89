"""`slipway render` of serving plans: an endpoint's request, Kubernetes files, and nothing for Bedrock."""

import json
from pathlib import Path

import yaml

from tests.plans import ROOT

PINNED = ROOT / "examples/serve/pinned"


def test_render_endpoint_writes_endpoint_json(tmp_path: Path, slipway) -> None:
    assert slipway("render", str(PINNED / "llama31-8b-inf2.yaml"), "-o", str(tmp_path)).code == 0
    described = (tmp_path / "endpoint.json").read_text(encoding="utf-8")
    assert "ml.inf2.48xlarge" in described
    assert isinstance(json.loads(described), dict)


def test_render_kubernetes_serving_writes_deployment_daemonset_and_service(tmp_path: Path, slipway) -> None:
    assert slipway("render", str(PINNED / "llama31-8b-eks.yaml"), "-o", str(tmp_path)).code == 0
    objects = [
        manifest
        for path in (tmp_path / "kubernetes").iterdir()
        for manifest in yaml.safe_load_all(path.read_text("utf-8"))
    ]
    assert {"Deployment", "DaemonSet", "Service"} <= {object_["kind"] for object_ in objects}


def test_render_bedrock_plan_refused_without_files(tmp_path: Path, slipway) -> None:
    plan = (PINNED.parent / "llama31-8b.yaml").resolve()
    code, _, err = slipway("render", str(plan), "-o", str(tmp_path / "out"))
    assert code == 5
    assert "nothing is deployed" in err
    assert not (tmp_path / "out").exists()
