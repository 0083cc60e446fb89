"""Inferentia2 and Trainium1: seconds of one decoding step and of one prompt, for compiled (static) shapes.

    decode  = layer_s x layers + weights / (weight_rate x bandwidth) + cache / (cache_rate x bandwidth)
    cache   = compiled batch x compiled sequence x bytes of a token, repeated if cores outnumber key-value heads
    prefill = prompt_layer_s x layers + 2 x parameters x prompt / (prompt_rate x peak)

Shapes are compiled, so a step reads the full compiled cache for any number of live requests. The form is that of the
calibration notes on the 42 rows of the Neuron SDK's benchmark page: per-layer latency of collectives and launches
dominates small models. Bandwidth and peak are those of the chips that share the model.
"""

from collections.abc import Mapping
from typing import NamedTuple

from launcher.model.serving import Copy
from launcher.planning.serving.software import NEURON_FIRST, VLLM_NEURON

TERMS = {
    "layer_s": 0.15e-3,
    "weight_rate": 0.65,
    "first_weight_rate": 0.30,
    "cache_rate": 0.35,
    "prompt_layer_s": 0.3e-3,
    "prompt_rate": 0.125,
    "vllm_prompt_rate": 0.10,
    "scheduling": 0.83,
}
"""Coefficients with their expected values: from the notes on the same rows, rounded."""


class Times(NamedTuple):
    """Seconds of one decoding step of the full batch, of one prompt, and of the prompt work that a batch pays once."""

    decode_s: float
    prefill_s: float
    shared_prefill_s: float = 0.0


def times(copy: Copy, facts: Mapping[str, float]) -> Times:
    """The times of a copy on Neuron cores."""
    chips = copy.tensor_parallel / copy.accelerator.cores
    bandwidth = chips * copy.accelerator.memory_gb_per_s * 1e9
    peak = chips * copy.accelerator.peak_bf16_tflops * 1e12
    model = copy.model
    parameters = model.params_b * 1e9
    weight_rate = facts["first_weight_rate" if copy.software == NEURON_FIRST else "weight_rate"]
    cache = copy.batch * copy.sequence * cache_bytes_per_token(copy)
    decode = (
        facts["layer_s"] * model.layers
        + parameters * copy.weight_bytes / (weight_rate * bandwidth)
        + cache / (facts["cache_rate"] * bandwidth)
    )
    rate = facts["vllm_prompt_rate" if copy.software == VLLM_NEURON else "prompt_rate"]
    launch = facts["prompt_layer_s"] * model.layers
    prompt = 2.0 * parameters * copy.input_tokens / (rate * peak)
    if copy.software == VLLM_NEURON:
        return Times(decode, launch + prompt)
    return Times(decode, prompt, launch)


def cache_bytes_per_token(copy: Copy) -> float:
    """Bytes of one token's keys and values over all cores, including heads that several cores copy."""
    repeated = max(1.0, copy.tensor_parallel / copy.model.kv_heads)
    return copy.model.kv_values_per_token * copy.cache_bytes * repeated
