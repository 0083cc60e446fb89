"""`slipway render` of serving plans: an endpoint's request, Kubernetes files, and nothing for Bedrock."""

import json
from pathlib import Path

import pytest
import yaml

from launcher.cli.app import main

PINNED = Path(__file__).resolve().parents[3] / "examples/serve/pinned"


def slipway(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr("sys.argv", ["slipway", *words])
    with pytest.raises(SystemExit) as left:
        main()
    return int(left.value.code or 0)


def test_an_endpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert slipway(monkeypatch, "render", str(PINNED / "llama31-8b-inf2.yaml"), "-o", str(tmp_path)) == 0
    described = (tmp_path / "endpoint.json").read_text(encoding="utf-8")
    assert "ml.inf2.48xlarge" in described
    assert isinstance(json.loads(described), dict)


def test_kubernetes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert slipway(monkeypatch, "render", str(PINNED / "llama31-8b-eks.yaml"), "-o", str(tmp_path)) == 0
    objects = [
        each for path in (tmp_path / "kubernetes").iterdir() for each in yaml.safe_load_all(path.read_text("utf-8"))
    ]
    assert {"Deployment", "DaemonSet", "Service"} <= {each["kind"] for each in objects}


def test_bedrock_has_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = (PINNED.parent / "llama31-8b.yaml").resolve()
    assert slipway(monkeypatch, "render", str(plan), "-o", str(tmp_path / "out")) == 5
    assert "nothing is deployed" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
