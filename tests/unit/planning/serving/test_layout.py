"""The best layout under latency limits; a measured row takes precedence over the estimate."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from launcher.catalog.load import load
from launcher.catalog.serving import load_serving
from launcher.model.workload import ServingWorkload
from launcher.planning.serving.layout import layouts
from launcher.planning.serving.model import served_model
from launcher.planning.serving.reach import beyond

CATALOG, FACTS = load(), load_serving()
CHAT = {"input_tokens": 1500, "output_tokens": 250}
TYPES = ("inf2.24xlarge", "inf2.48xlarge", "trn1.32xlarge", "g6e.12xlarge", "p5.48xlarge")


def test_measured_row_is_used_unchanged(choose):
    estimate = choose("inf2.48xlarge", "llama-3.1-8b", **CHAT).estimate
    assert estimate.measured
    assert estimate.tokens_per_s.mid == 1226.1
    assert (estimate.layout.tensor_parallel, estimate.layout.copies, estimate.layout.batch) == (8, 3, 32)
    assert estimate.tpot_ms == 49.5
    assert "optimum-neuron" in estimate.source


def test_other_lengths_are_estimated(choose):
    assert not choose("inf2.48xlarge", "llama-3.1-8b", input_tokens=1400, output_tokens=250).estimate.measured


def test_measured_rate_bounds_other_layouts(choose):
    fast = choose("inf2.48xlarge", "llama-3.1-8b", **CHAT, max_tpot_ms=30).estimate
    assert not fast.measured
    assert fast.tokens_per_s.mid <= 1226.1
    assert fast.tpot_ms <= 30


def test_latency_limits_are_kept(choose):
    estimate = choose("p5.48xlarge", "llama-3.1-8b", **CHAT, max_tpot_ms=25, max_ttft_ms=100).estimate
    assert estimate.tpot_ms <= 25
    assert estimate.ttft_ms <= 100


def test_unachievable_latency_limit_names_fastest(choose):
    choice = choose("p5.48xlarge", "llama-3.1-8b", **CHAT, max_ttft_ms=1)
    assert choice.estimate is None
    assert choice.fastest is not None
    assert choice.fastest[0] > 1
    assert "is the fastest here" in choice.reason


@settings(max_examples=60)
@given(
    instance_type=st.sampled_from(TYPES),
    tight=st.floats(5, 400),
    more=st.floats(0, 400),
    inputs=st.sampled_from((200, 1500, 4000)),
    first=st.booleans(),
)
def test_tighter_latency_limit_never_gives_more_tokens(instance_type, tight, more, inputs, first):
    limit = "max_ttft_ms" if first else "max_tpot_ms"
    scale = 10 if first else 1

    def tokens(limit_ms: float) -> float:
        serve = ServingWorkload(
            model="llama-3.1-8b", requests_per_s=1, input_tokens=inputs, output_tokens=250, **{limit: limit_ms * scale}
        )
        known = CATALOG.instance_types[instance_type]
        spec = served_model(CATALOG.find_model("llama-3.1-8b"))
        estimate = layouts(serve, spec, known, CATALOG.accelerators[known.accelerator], FACTS).estimate
        return 0.0 if estimate is None else estimate.tokens_per_s.mid

    assert tokens(tight) <= tokens(tight + more) * (1 + 1e-9)


@pytest.mark.parametrize(
    "name, chip, reason",
    [
        ("mixtral-8x7b", "Inferentia2", "mixture of experts: the estimate on Neuron"),
        ("llama-3.1-8b", "Trainium2", "no serving estimate on Trainium2"),
        ("llama-3.1-8b", "B200", "no published serving row on B200"),
        ("deepseek-v2-lite", "Trainium1", "mixture of experts"),
        ("bert-base", "A10G", "generates no text"),
    ],
)
def test_unsupported_model_or_chip_refused_with_reason(catalog, model, name, chip, reason):
    assert reason in (beyond(model(name), catalog.accelerators[chip]) or "")


def test_range_is_wider_with_fewer_measured_rows(choose):
    few, many = (choose(name, "llama-3.1-8b", **CHAT).estimate for name in ("g6.xlarge", "g5.xlarge"))
    assert few.tokens_per_s.high / few.tokens_per_s.low > many.tokens_per_s.high / many.tokens_per_s.low
