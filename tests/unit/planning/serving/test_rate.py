"""Step times, the resulting rate, and the allowed ranges of the fit."""

from dataclasses import replace

import pytest

from launcher.catalog.serving import facts_from
from launcher.model.errors import SlipwayError
from launcher.model.serving import Copy
from launcher.model.workload import ModelDimensions
from launcher.planning.serving import gpu, neuron
from launcher.planning.serving.model import from_dimensions
from launcher.planning.serving.neuron import Times
from launcher.planning.serving.rate import rate, rate_of
from launcher.planning.serving.software import VLLM, VLLM_NEURON


def copy(model, chip, **changes):
    base = {
        "model": model,
        "accelerator": chip,
        "tensor_parallel": 8,
        "software": VLLM_NEURON if chip.family == "neuron" else VLLM,
        "weight_bytes": 2.0,
        "cache_bytes": 2.0,
        "batch": 32,
        "sequence": 4096,
        "input_tokens": 1500.0,
        "output_tokens": 250.0,
    }
    return Copy(**{**base, **changes})


def test_neuron_times_equal_formula(catalog, model):
    terms = {**neuron.TERMS, "layer_s": 1e-4, "weight_rate": 0.5, "cache_rate": 0.25, "prompt_layer_s": 1e-3}
    chip, small = catalog.accelerators["Inferentia2"], model("llama-3.1-8b")
    times = neuron.times(copy(small, chip), terms)
    bandwidth = 4 * chip.memory_gb_per_s * 1e9
    weights = small.params_b * 1e9 * 2 / (0.5 * bandwidth)
    cache = 32 * 4096 * 131_072 / (0.25 * bandwidth)
    assert times.decode_s == pytest.approx(32e-4 + weights + cache)
    prompt = 2 * small.params_b * 1e9 * 1500 / (0.10 * 4 * 190e12)
    assert times.prefill_s == pytest.approx(32e-3 + prompt)


def test_neuron_cache_repeats_with_more_cores_than_heads(catalog, model):
    chip, small = catalog.accelerators["Inferentia2"], model("llama-3.1-8b")
    assert neuron.cache_bytes_per_token(copy(small, chip, tensor_parallel=8)) == 131_072
    assert neuron.cache_bytes_per_token(copy(small, chip, tensor_parallel=24)) == 3 * 131_072


def test_larger_batch_has_higher_latency_and_throughput(catalog, facts, model):
    chip, small = catalog.accelerators["H100"], model("llama-3.1-8b")
    rates = [rate(copy(small, chip, tensor_parallel=1, batch=batch), facts) for batch in (2, 8, 32, 128)]
    assert [serving_rate.tpot_ms for serving_rate in rates] == sorted(serving_rate.tpot_ms for serving_rate in rates)
    assert [serving_rate.ttft_ms for serving_rate in rates] == sorted(serving_rate.ttft_ms for serving_rate in rates)
    assert [serving_rate.tokens_per_s for serving_rate in rates] == sorted(
        serving_rate.tokens_per_s for serving_rate in rates
    )


def test_batch_rate_includes_prefill_of_every_prompt():
    replica = copy(from_dimensions(ModelDimensions(params_b=8)), _chip(), batch=4, output_tokens=100.0)
    serving_rate = rate_of(replica, Times(decode_s=0.01, prefill_s=0.1), 1.0)
    assert serving_rate.tokens_per_s == pytest.approx(4 * 100 / (4 * 0.1 + 100 * 0.01))


def test_embedding_rate_counts_input_tokens():
    replica = copy(
        from_dimensions(ModelDimensions(params_b=0.3)), _chip(), batch=1, output_tokens=0.0, input_tokens=256.0
    )
    serving_rate = rate_of(replica, Times(decode_s=0.0, prefill_s=0.004), 1.0)
    assert serving_rate.tokens_per_s == pytest.approx(256 / 0.004)
    assert (serving_rate.ttft_ms, serving_rate.tpot_ms) == (4.0, 0.0)


def test_pcie_gpus_scale_less_than_nvlink(catalog, facts, model):
    small = model("llama-2-13b")
    times = {
        name: [gpu.times(copy(small, catalog.accelerators[name], tensor_parallel=n), facts.gpu) for n in (1, 8)]
        for name in ("A10G", "A100-40GB")
    }
    gain = {name: one.prefill_s / eight.prefill_s for name, (one, eight) in times.items()}
    assert gain["A10G"] < gain["A100-40GB"] < 8


def test_fit_with_negative_term_refused(facts):
    broken = {
        "neuron": {**facts.neuron, "layer_s": -1.0},
        "gpu": facts.gpu,
        "spread": facts.spread,
        "rows_by_chip": {},
        "fitted_on": "2026-11-20",
    }
    with pytest.raises(SlipwayError, match=r"neuron\.layer_s"):
        facts_from(broken)


def _chip():
    from launcher.catalog.load import load

    return replace(load().accelerators["H100"])
