"""Refusals of planning show numbers and names as the plan file has them."""

from datetime import UTC, datetime

import pytest

from launcher.model.enums import Level
from launcher.model.errors import SlipwayError
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import price

NOW = datetime(2026, 11, 29, tzinfo=UTC)
PLAN = """
slipway: 1
name: a
workload: {train: {model: llama-3.1-8b, tokens_b: 1, SETTINGS}}
target: {kind: KIND, region: us-east-1, instance_type: TYPE, nodes: NODES}
"""


def refusals(tmp_path, *settings, train="micro_batch: 1", kind="parallelcluster", types="p5.48xlarge", nodes="2"):
    """The messages and hints of a plan that is refused when it is priced."""
    path = tmp_path / "plan.yaml"
    text = PLAN.replace("SETTINGS", train).replace("KIND", kind).replace("TYPE", types).replace("NODES", nodes)
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SlipwayError) as caught:
        price(path, NOW, PriceOptions(settings=settings))
    return [(finding.message, finding.hint) for finding in caught.value.findings if finding.level is Level.ERROR]


@pytest.mark.parametrize("number", ["1_000", "0x3e8", "1e+3", "1000.0", "+1000", "1,000", "01000"])
def test_number_that_does_not_fit_is_shown_as_the_file_has_it(tmp_path, number):
    messages = refusals(tmp_path, train=f"global_batch_tokens: {number}, sequence_length: 0x2000")
    shown = "000" if number == "1,000" else number
    assert shown in messages[0][0]
    if number in {"1_000", "0x3e8", "+1000"}:
        assert messages[0][0] == f"a batch of {number} tokens is less than one sequence of 0x2000"


def test_numbers_of_the_command_line_and_below_a_key_are_shown_as_typed(tmp_path):
    ((message, _),) = refusals(tmp_path, "workload.train.global_batch_tokens=1_000")
    assert message == "a batch of 1_000 tokens is less than one sequence of 4096; the value is from --set"
    ((message, _),) = refusals(tmp_path, nodes="{min: 4_0, max: 0x10}")
    assert message == "min 4_0 is above max 0x10"


def test_number_that_only_equals_a_plain_value_is_left_as_it_is(tmp_path):
    ((message, _),) = refusals(tmp_path, train="global_batch_tokens: 1000, sequence_length: 8192")
    assert message == "a batch of 1000 tokens is less than one sequence of 8192"


@pytest.mark.parametrize(
    "kind, types, expected",
    [
        ("hyperpod-slurm", "ml.p5.48xlarg", [("ml.p5.48xlarg", "did you mean ml.p5.48xlarge?")]),
        (
            "sagemaker-training",
            "[ml.p5.48xlarg, ml.g6.xlrage]",
            [("ml.p5.48xlarg", "did you mean ml.p5.48xlarge?"), ("ml.g6.xlrage", "did you mean ml.g6.xlarge?")],
        ),
        ("hyperpod-eks", "ml.p5.50xlarge", [("ml.p5.50xlarge", None)]),
        ("hyperpod-slurm", "p5.48xlarg", [("p5.48xlarg", "did you mean p5.48xlarge?")]),
        ("parallelcluster", "ml.p5.48xlarg", [("ml.p5.48xlarg", "did you mean p5.48xlarge?")]),
    ],
)
def test_name_of_sagemaker_keeps_its_prefix_in_message_and_fix(tmp_path, kind, types, expected):
    found = refusals(tmp_path, kind=kind, types=types)
    for (message, hint), (name, fix) in zip(found, expected, strict=True):
        assert message == f"the catalog has no instance type {name}"
        assert fix is None or hint == fix
        assert kind == "parallelcluster" or name[:3] != "ml." or " p5." not in hint


VALUES = ("3.10", "1_000_000_000_000", "-0x10", "1e-3", "NO", "on", ".inf", "[1_0, NO]", "{a: 1_0, b: on}")
ALLOWED = {
    "checkpoint.keep": {"1_000_000_000_000"},
    "guardrails.ttl_h": {"3.10", "1e-3"},
    "run.retries": {"1_000_000_000_000"},
    "throughput_tokens_per_s": {"3.10", "1e-3"},
}
"""Values that their keys allow."""


def values_of(*keys):
    """Each key with each value that it refuses."""
    return [(key, text) for key in keys for text in VALUES if text not in ALLOWED.get(key, set())]


@pytest.mark.parametrize(
    "key, text",
    values_of(
        *("checkpoint.keep", "guardrails.ttl_h", "micro_batch", "purchase.term_years", "run.retries"),
        *("storage.lustre_gib", "target.nodes", "workload.train.custom_kernels"),
    ),
)
def test_refused_value_of_the_command_line_is_shown_as_it_was_typed(tmp_path, key, text):
    found = refusals(tmp_path, f"{key}={text}")
    assert any(text in message or '"a"' in message for message, _ in found), found


@pytest.mark.parametrize("key, text", values_of("micro_batch", "runs", "custom_kernels", "throughput_tokens_per_s"))
def test_refused_value_of_the_file_is_shown_as_it_is_written(tmp_path, key, text):
    found = refusals(tmp_path, train=f"{key}: {text}")
    assert any(text in message for message, _ in found), found


def test_fix_of_a_list_has_the_text_of_the_file(tmp_path):
    path = tmp_path / "plan.yaml"
    path.write_text("slipway: 1\nname: a\npurchase: {credits: {pool: a, usd: 1_0}}\n", encoding="utf-8")
    with pytest.raises(SlipwayError) as caught:
        price(path, NOW, PriceOptions())
    assert [finding.hint for finding in caught.value.findings] == ["write [{pool: a, usd: 1_0}]"]


@pytest.mark.parametrize("nodes", ["2", "0x2"])
def test_refused_value_of_the_command_line_has_no_line_of_the_file(tmp_path, nodes):
    path = tmp_path / "plan.yaml"
    path.write_text(f"slipway: 1\nname: a\ntarget: {{nodes: {nodes}}}\n", encoding="utf-8")
    with pytest.raises(SlipwayError) as caught:
        price(path, NOW, PriceOptions(settings=("target.nodes=3.10",)))
    ((message, line),) = {(finding.message, finding.line) for finding in caught.value.findings}
    assert (message, line) == ("must be a whole number, got 3.10", None)


def test_bounds_of_a_value_are_not_replaced_by_its_digits(tmp_path):
    ((message, _),) = refusals(tmp_path, nodes="2}\nsecurity: {qualifier: {a: 1_0}")
    assert message == "must be 1 to 10 letters, digits, _ and -, got {a: 1_0}"


def test_short_key_of_the_command_line_is_shown_as_it_was_typed(tmp_path):
    ((message, _),) = refusals(tmp_path, "global_batch_tokens=1_000")
    assert message.startswith("a batch of 1_000 tokens")
