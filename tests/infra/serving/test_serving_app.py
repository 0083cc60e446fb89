"""Endpoints through the CDK CLI: a plan file in, an assembly or one screen of text out."""

import pytest

from tests.infra.serving.conftest import FILES


def test_serving_plan_synthesises_one_stack_without_credentials(run_app):
    answer = run_app(FILES["llama31-8b-g6e"])
    assert answer.code == 0, answer.err
    assert [path.name for path in answer.out.glob("*.template.json")] == [
        "slipway-llama31-8b-g6e-serving.template.json"
    ]


NEWER = "763104351884.dkr.ecr.us-east-1.amazonaws.com/vllm-neuronx:0.16.0-neuronx-py312-sdk2.29.0-ubuntu24.04"


@pytest.mark.parametrize(
    "name, changes, message",
    [
        (
            "llama31-8b-inf2",
            {"tensor_parallel: 8": "tensor_parallel: 12"},
            "12 is not a supported degree of tensor parallelism",
        ),
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
def test_invalid_serving_plan_refused_with_short_message(run_app, tmp_path, name, changes, message):
    text = FILES[name].read_text(encoding="utf-8")
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    path = tmp_path / "plan.yaml"
    path.write_text(text, encoding="utf-8")
    answer = run_app(path)
    assert answer.code == 5
    assert message in answer.err
    assert "Traceback" not in answer.err
    assert not list(answer.out.glob("*"))
