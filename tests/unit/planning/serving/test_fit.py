"""Which models fit which instances: memory, heads, hosts, and supported degrees of tensor parallelism."""

from dataclasses import replace

import pytest

from launcher.model.enums import ServingPrecision, ServingTask
from launcher.model.serving import Copy
from launcher.planning.serving import footprint
from launcher.planning.serving.footprint import padded_heads, weight_gib
from launcher.planning.serving.software import VLLM, VLLM_NEURON

CHAT = {"input_tokens": 1500, "output_tokens": 250}


def copy(model, chip, group, batch=1, sequence=2048):
    neuron = chip.family == "neuron"
    return Copy(
        model=model,
        accelerator=chip,
        tensor_parallel=group,
        software=VLLM_NEURON if neuron else VLLM,
        weight_bytes=2.0,
        cache_bytes=2.0,
        batch=batch,
        sequence=sequence,
        input_tokens=1500,
        output_tokens=250,
    )


def test_llama_70b_needs_24_cores(catalog, model):
    chip, large = catalog.accelerators["Inferentia2"], model("llama-3.3-70b")
    assert [group for group in chip.serving_groups if footprint.misfit(copy(large, chip, group)) is None] == [24]


def test_llama_70b_does_not_fit_inf2_24xlarge(choose):
    choice = choose("inf2.24xlarge", "llama-3.3-70b", **CHAT)
    assert choice.estimate is None
    assert "do not fit the 115.2 GiB of 8 cores" in choice.reason


def test_heads_are_padded_to_multiple_of_cores(catalog, model):
    chip, large = catalog.accelerators["Inferentia2"], model("llama-3.3-70b")
    assert padded_heads(large, 24) == 72
    whole = replace(large, heads=72)
    assert weight_gib(copy(large, chip, 24)) > weight_gib(copy(whole, chip, 24))
    assert weight_gib(copy(large, chip, 8)) == weight_gib(copy(replace(large), chip, 8))


def test_llama_8b_does_not_load_in_host_memory_of_inf2_xlarge(choose):
    choice = choose("inf2.xlarge", "llama-3.1-8b", **CHAT)
    assert choice.estimate is None
    assert choice.reason.startswith("its host of 16 GiB cannot load weights of 15.0 GiB")
    assert choose("inf2.8xlarge", "llama-3.1-8b", **CHAT).estimate is not None


def test_llama_8b_in_int8_loads_on_inf2_xlarge(choose):
    assert choose("inf2.xlarge", "llama-3.1-8b", precision=ServingPrecision.INT8, **CHAT).estimate is not None


def test_small_embedding_model_runs_on_inf2_xlarge(choose):
    estimate = choose("inf2.xlarge", "bge-base-en-v1.5", task=ServingTask.EMBEDDING, input_tokens=256).estimate
    assert estimate is not None
    assert estimate.tpot_ms is None
    # Containers are given whole chips: a copy on each core only where the plan asks for it.
    assert (estimate.layout.tensor_parallel, estimate.layout.copies) == (2, 1)
    pinned = choose("inf2.xlarge", "bge-base-en-v1.5", task=ServingTask.EMBEDDING, input_tokens=256, tensor_parallel=1)
    assert pinned.estimate.layout.copies == 2


@pytest.mark.parametrize("chip, allowed", [("Inferentia2", (1, 2, 4, 8, 24)), ("H100", (1, 2, 4, 8))])
def test_tensor_parallel_degrees_of_chip(catalog, chip, allowed):
    assert catalog.accelerators[chip].serving_groups == allowed


def test_inf2_24xlarge_runs_one_copy_on_8_of_12_cores(choose):
    estimate = choose("inf2.24xlarge", "llama-3.1-8b", tensor_parallel=8, **CHAT).estimate
    assert (estimate.layout.tensor_parallel, estimate.layout.copies) == (8, 1)
    assert choose("inf2.24xlarge", "llama-3.1-8b", tensor_parallel=4, **CHAT).estimate.layout.copies == 3


def test_gpu_heads_must_divide_by_tensor_parallel(choose, catalog):
    assert choose("g5.12xlarge", "qwen2.5-1.5b", tensor_parallel=8, **CHAT).estimate is None
    odd = choose("p5.48xlarge", "phi-3-medium", tensor_parallel=4, input_tokens=500, output_tokens=100)
    assert catalog.find_model("phi-3-medium").heads % 4 == 0
    assert odd.estimate is not None


def test_gpu_cache_limits_batch(choose):
    assert choose("g5.xlarge", "llama-3.1-8b", **CHAT).estimate.layout.batch < 64
    assert "the cache holds" in choose("g5.xlarge", "llama-3.1-8b", batch_size=256, **CHAT).reason


def test_static_shapes_pay_for_compiled_length(choose):
    short = choose("inf2.48xlarge", "llama-3.1-8b", tensor_parallel=8, batch_size=16, **CHAT, sequence_length=2048)
    long = choose("inf2.48xlarge", "llama-3.1-8b", tensor_parallel=8, batch_size=16, **CHAT, sequence_length=8192)
    assert long.estimate.tokens_per_s.mid < short.estimate.tokens_per_s.mid
