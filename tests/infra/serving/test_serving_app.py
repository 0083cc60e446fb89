"""Endpoints as the CDK CLI makes them: a plan file in, an assembly or one screen of text out."""

import json
import os
import subprocess
import sys

import pytest

from tests.infra.conftest import ROOT
from tests.infra.serving.conftest import FILES


@pytest.fixture
def run(tmp_path, context):
    """Run the app with a plan in its context."""

    def start(path):
        variables = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "CDK_CONTEXT_JSON": json.dumps({**context, "plan": str(path)}),
            "CDK_OUTDIR": str(tmp_path / "cdk.out"),
        }
        words = [sys.executable, "-P", "-m", "infra.app"]
        return subprocess.run(words, env=variables, cwd=tmp_path, capture_output=True, text=True, check=False)

    return start


def test_a_plan_becomes_one_stack_without_credentials(run, tmp_path):
    answer = run(FILES["llama31-8b-g6e"])
    assert answer.returncode == 0, answer.stderr
    assert [path.name for path in (tmp_path / "cdk.out").glob("*.template.json")] == [
        "slipway-llama31-8b-g6e-serving.template.json"
    ]


NEWER = "763104351884.dkr.ecr.us-east-1.amazonaws.com/vllm-neuronx:0.16.0-neuronx-py312-sdk2.29.0-ubuntu24.04"


@pytest.mark.parametrize(
    "name, changes, said",
    [
        ("llama31-8b-inf2", {"tensor_parallel: 8": "tensor_parallel: 12"}, "12 is no degree of tensor parallelism"),
        ("llama31-8b-g6e", {"max_instances: 1": "deployment: canary"}, "canary replaces a part of the instances"),
        ("llama31-8b-g6e", {"option: on-demand": "option: any"}, "purchase.option: must be one value, got any"),
        ("asynchronous-inf2", {"region: us-east-2": "region: eu-north-1"}, "target"),
        ("llama31-8b-inf2", {"max_instances: 5": f"max_instances: 5\n    image: {NEWER}"}, "Neuron SDK 2.29 no longer"),
        ("llama31-8b-inf2", {"model: llama-3.1-8b": "model: gemma-3-12b"}, "gemma-3-12b is of the family gemma-3"),
        (
            "llama31-8b-inf2",
            {"region: us-east-1": "region: eu-west-3", "max_instances: 5": "max_instances: 5\n    min_instances: 0"},
            "eu-west-3 refuses components without an instance, got 0",
        ),
        (
            "llama31-8b-g6e",
            {"output_tokens: 250": "output_tokens: 6000\n    streaming: false"},
            "an answer that is not streamed has 60 s",
        ),
    ],
)
def test_what_is_wrong_is_said_in_one_screen(run, tmp_path, name, changes, said):
    text = FILES[name].read_text(encoding="utf-8")
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    path = tmp_path / "plan.yaml"
    path.write_text(text, encoding="utf-8")
    answer = run(path)
    assert answer.returncode == 5
    assert said in answer.stderr
    assert "Traceback" not in answer.stderr
    assert not list(tmp_path.glob("cdk.out/*"))
