"""The amount of work in the user's units: examples and epochs, tokens per parameter, examples per second."""

import pytest

from launcher.model.document import plan_at
from launcher.model.errors import ImpossibleError
from launcher.model.workload import TrainingWorkload
from launcher.planning.amounts import amount_findings
from launcher.planning.pin import pinned_plan
from tests.plans import request_of
from tests.unit.pricing.conftest import price_over

ONE_NODE = {"instance_type": "p5.48xlarge", "nodes": 1, "region": "us-east-1"}
ONE_GPU = {"instance_type": "g6e.xlarge", "nodes": 1, "region": "us-east-1"}
IMAGES = {"model": {"params_b": 0.3}, "examples": 1_281_167, "epochs": 90}
PER_SECOND = IMAGES | {"throughput_samples_per_s": 400.0}


def price(target=ONE_NODE, **train):
    return price_over({"workload": {"train": {"hours": None, **train}}, "target": target})


@pytest.mark.parametrize(
    "train, tokens_b, words",
    [
        ({"examples": 1_000_000, "tokens_per_example": 500, "epochs": 2}, 1.0, "1,000,000 examples × 500 × 2 epochs"),
        ({"examples": 2_000_000, "tokens_per_example": 750.5}, 1.501, "2,000,000 examples × 750.5 × 1 epoch"),
        ({"examples": 40_000, "tokens_per_example": 900, "epochs": 0.5}, 0.018, "40,000 examples × 900 × 0.5 epochs"),
        ({"tokens_per_parameter": 20}, 160.6, "20 per parameter"),
        ({"tokens_per_parameter": 0.5, "method": "full"}, 4.015, "0.5 per parameter"),
    ],
)
def test_tokens_from_examples_or_ratio_cost_and_show_as_tokens(train, tokens_b, words):
    from launcher.answers.headline import headline

    mine = price(model="llama-3.1-8b", **train)
    plain = price(model="llama-3.1-8b", tokens_b=tokens_b, **{"method": train["method"]} if "method" in train else {})
    assert mine.quote(1).hours.mid == pytest.approx(plain.quote(1).hours.mid, rel=1e-3)
    assert words in headline(mine)
    (line,) = [entry for entry in mine.quote(1).assumptions if entry.name == "tokens of the job"]
    assert float(line.value) == pytest.approx(tokens_b, rel=1e-3)


def test_tokens_per_parameter_counts_every_expert():
    mixture = {"params_b": 30, "active_params_b": 3, "layers": 48, "hidden": 2048}
    assert price(model=mixture, tokens_per_parameter=2).quote(1).hours.mid == pytest.approx(
        price(model=mixture, tokens_b=60).quote(1).hours.mid
    )


@pytest.mark.parametrize(
    "train, code, path",
    [
        ({}, "no-amount", "workload.train"),
        ({"tokens_b": 1, "hours": 2}, "tokens-and-hours", "hours"),
        ({"tokens_b": 1, "examples": 5, "tokens_per_example": 9}, "two-amounts", "examples"),
        ({"tokens_per_parameter": 20, "tokens_b": 1}, "two-amounts", "tokens_per_parameter"),
        ({"hours": 3, "examples": 5, "throughput_samples_per_s": 2}, "two-amounts", "hours"),
        ({"tokens_b": 1, "epochs": 2}, "no-examples", "epochs"),
        ({"tokens_per_example": 700}, "no-examples", "tokens_per_example"),
        ({"examples": 500}, "examples-alone", "examples"),
        ({"examples": 5, "tokens_per_example": 9, "throughput_samples_per_s": 2}, "two-rates", "throughput_samples"),
        ({"examples": 10**14, "tokens_per_example": 1e6}, "too-long", "examples"),
    ],
)
def test_invalid_amount_of_work_refused_with_key_and_fix(train, code, path):
    findings = list(amount_findings(TrainingWorkload(model="llama-3.1-8b", **train), 8.03, "workload.train"))
    assert code in [finding.code for finding in findings]
    (finding,) = [each for each in findings if each.code == code]
    assert path in finding.path
    assert code == "too-long" or finding.hint


def test_examples_longer_than_sequence_are_named():
    train = TrainingWorkload(model="llama-3.1-8b", examples=10, tokens_per_example=9000, sequence_length=4096)
    (finding,) = amount_findings(train, 8.03, "workload.train")
    assert finding.code == "examples-above-sequence"
    assert "9000 tokens on average, a sequence 4,096" in finding.message


@pytest.mark.parametrize(
    "target, hours",
    [(ONE_GPU, 1_281_167 * 90 / 400 / 3600), (ONE_GPU | {"nodes": 4}, 1_281_167 * 90 / 1600 / 3600)],
)
def test_measured_examples_rate_gives_hours(target, hours):
    from launcher.answers.headline import headline

    found = price(target, **PER_SECOND)
    quote = found.quote(1)
    assert quote.work.hours.low == pytest.approx(hours)
    assert quote.work.training is None
    assert "115,305,030 examples at 400 a second and node" in headline(found)
    lines = {entry.name: entry for entry in quote.assumptions}
    assert "without a loss of scaling" in lines["hours of progress at the measured rate"].source or hours > 50
    assert "activations are not estimated" in lines["memory of a chip"].source


def test_examples_rate_without_model_says_memory_not_checked():
    quote = price(ONE_GPU, model=None, examples=1_000_000, throughput_samples_per_s=100.0).quote(1)
    (line,) = [entry for entry in quote.assumptions if entry.name == "memory of a chip"]
    assert (line.value, line.source) == ("unknown", "not checked: the plan names no model")


@pytest.mark.parametrize("model", [{"params_b": 12.0}, {"params_b": 40.0}])
def test_model_states_above_chip_memory_refused(model):
    with pytest.raises(ImpossibleError) as refused:
        price(ONE_GPU, **(PER_SECOND | {"model": model}))
    assert "weights, gradients and optimizer need" in str([each.message for each in refused.value.findings])


@pytest.mark.parametrize(
    "target", [{"instance_type": "any", "nodes": 1}, {"instance_type": "g6e.xlarge", "nodes": "any"}]
)
def test_examples_rate_requires_pinned_type_and_nodes(target):
    with pytest.raises(ImpossibleError) as refused:
        price(target, **PER_SECOND)
    (finding,) = [each for each in refused.value.findings if each.code == "hours-not-pinned"]
    assert finding.path == "workload.train.throughput_samples_per_s"
    assert "target.instance_type and target.nodes must be pinned" in finding.message


BASE = {"model": "llama-3.1-8b", "tokens_b": 2.0}
CHANGES = [
    {"tokens_b": 3.0},
    {"optimizer": "adamw-8bit"},
    {"optimizer": "adamw"},
    {"expert_parallel": 8},
    {"tensor_parallel": 2},
    {"tokens_b": None, "examples": 10, "tokens_per_example": 5},
    {"tokens_b": None, "examples": 10, "tokens_per_example": 5, "epochs": 2},
    {"tokens_b": None, "examples": 10, "tokens_per_example": 6},
    {"tokens_b": None, "tokens_per_parameter": 20},
    {"tokens_b": None, "examples": 10, "throughput_samples_per_s": 5},
    {"tokens_b": None, "examples": 10, "throughput_samples_per_s": 6},
]


def test_every_training_key_changes_digest(catalog):
    """The digest leaves out the default of a newer key, so that an older plan keeps its digest, and no other value."""
    plans = [{"workload": {"train": BASE | change}} for change in ({}, *CHANGES)]
    base = {"slipway": 1, "name": "p", "target": ONE_NODE, "purchase": {"option": "on-demand"}}
    digests = [pinned_plan(request_of(base | plan), catalog).digest for plan in plans]
    assert len(set(digests)) == len(digests)


def test_written_default_of_newer_key_keeps_digest(catalog):
    base = {"slipway": 1, "name": "p", "target": ONE_NODE, "purchase": {"option": "on-demand"}}
    written = BASE | {
        "optimizer": None,
        "expert_parallel": "auto",
        "tensor_parallel": "auto",
        "examples": None,
        "epochs": None,
    }
    old, new = (
        pinned_plan(request_of(base | {"workload": {"train": train}}), catalog).digest for train in (BASE, written)
    )
    assert old == new
    plan = pinned_plan(request_of(base | {"workload": {"train": BASE}}), catalog)
    assert plan_at(plan.request, plan.place).digest == old


@pytest.mark.parametrize(
    "model, length, warned", [("bert-large", 4096, True), ("bert-large", 512, False), ("llama-3.1-8b", 400_000, False)]
)
def test_sequence_beyond_learned_positions_is_warning_with_the_longest(model, length, warned):
    train = {"model": model, "tokens_b": 1, "sequence_length": length, "hours": None}
    findings = [found for found in price_over({"workload": {"train": train}}).findings if "positions" in found.message]
    assert [found.hint for found in findings] == ["set sequence_length to 512 or less"] * warned
    assert all((found.level, found.path) == ("warning", "workload.train.sequence_length") for found in findings)
