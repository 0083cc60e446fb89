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


@pytest.mark.parametrize(
    "name, change, said",
    [
        ("llama31-8b-inf2", ("tensor_parallel: 8", "tensor_parallel: 12"), "12 is no degree of tensor parallelism"),
        ("llama31-8b-g6e", ("max_instances: 1", "deployment: canary"), "canary replaces a part of the instances"),
        ("llama31-8b-g6e", ("option: on-demand", "option: any"), "purchase.option: must be one value, got any"),
        ("asynchronous-inf2", ("region: us-east-2", "region: eu-north-1"), "target"),
    ],
)
def test_what_is_wrong_is_said_in_one_screen(run, tmp_path, name, change, said):
    text = FILES[name].read_text(encoding="utf-8")
    assert change[0] in text
    path = tmp_path / "plan.yaml"
    path.write_text(text.replace(*change), encoding="utf-8")
    answer = run(path)
    assert answer.returncode == 5
    assert said in answer.stderr
    assert "Traceback" not in answer.stderr
    assert not list(tmp_path.glob("cdk.out/*"))
