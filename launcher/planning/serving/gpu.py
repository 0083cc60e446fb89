"""NVIDIA GPUs: seconds of one decoding step and of one prompt, for continuous batching.

    decode  = layer_s x layers + weights read / (weight_rate x bandwidth) + live cache / (cache_rate x bandwidth)
              + live requests x (2 x parameters / (step_rate x peak) + exchange + request_s)
    prefill = prompt x (2 x parameters / (prompt_rate x peak) + exchange) + attention
    exchange = 4 x layers x hidden bytes x (GPUs - 1) / link

In a mixture of experts a step reads the experts that its tokens choose (`ServedModel.touched_b`) and multiplies by
those that one token uses; expert products reach `expert_rate` of the rates of dense ones, since each is small, and
each layer with experts adds `expert_layer_s` for routing. With attention in data parallel a token travels to its
experts and back instead of through all-reduces.

Prefill is bound by arithmetic, decoding by memory bandwidth, as in every roofline model of transformer inference
(Pope et al. 2022, arXiv:2211.05102). `layer_s` is the launch latency of a layer, `request_s` the scheduler's time for
each live request; both differ by engine. `link` is PCIe on A10G, L4 and L40S instances, NVLink on the others.
"""

from collections.abc import Mapping

from launcher.model.serving import Copy
from launcher.planning.serving.neuron import Times
from launcher.planning.serving.software import TGI, TUNED, VLLM, VLLM_EARLY

TERMS = {
    "weight_rate": 0.85,
    "cache_rate": 0.80,
    "prompt_rate": 0.55,
    "step_rate": 0.65,
    "packed_rate": 0.05,
    "layer_s_tuned": 0.08e-3,
    "layer_s_vllm": 0.10e-3,
    "layer_s_tgi": 0.20e-3,
    "sync_s_tgi": 0.25e-3,
    "request_s_tuned": 0.01e-3,
    "request_s_vllm": 0.05e-3,
    "request_s_vllm_early": 0.25e-3,
    "request_s_tgi": 0.30e-3,
    "pcie_bytes_per_s": 6e9,
    "nvlink_bytes_per_s": 300e9,
    "scheduling": 0.90,
}
"""Coefficients with their expected values, round numbers: the prior knowledge of each part."""
EXPERT_TERMS = {"expert_rate": 0.5, "expert_read_rate": 0.7, "expert_layer_s": 0.05e-3}
"""The further coefficients of mixtures of experts; dense models have the values that change nothing."""
DENSE = {"expert_rate": 1.0, "expert_read_rate": 1.0, "expert_layer_s": 0.0}
UPPER_BOUNDS = {"weight_rate": 0.92, "cache_rate": 0.92, "prompt_rate": 0.75, "step_rate": 0.75, "scheduling": 1.0}
UPPER_BOUNDS |= {"expert_rate": 1.0, "expert_read_rate": 1.0}
"""Upper bounds: nothing reads memory or multiplies faster than the chip."""
LAYER = {TUNED: "layer_s_tuned", VLLM: "layer_s_vllm", VLLM_EARLY: "layer_s_vllm", TGI: "layer_s_tgi"}
REQUEST = {TUNED: "request_s_tuned", VLLM: "request_s_vllm", VLLM_EARLY: "request_s_vllm_early", TGI: "request_s_tgi"}


def times(copy: Copy, facts: Mapping[str, float]) -> Times:
    """The times of a copy on GPUs; `copy.batch` requests are live."""
    chip, model, group = copy.accelerator, copy.model, copy.tensor_parallel
    bandwidth = group * chip.memory_gb_per_s * 1e9
    fast = chip.peak_fp8_tflops if copy.fp8_arithmetic and chip.peak_fp8_tflops else chip.peak_bf16_tflops
    peak = group * fast * 1e12
    experts = facts if model.mixture else DENSE
    layer = facts[LAYER[copy.software]]
    if copy.software == TGI and group > 1:
        layer += facts["sync_s_tgi"]
    layers_s = layer * model.layers + experts["expert_layer_s"] * model.moe_layers
    step_rate = facts["packed_rate" if copy.packed_weights else "step_rate"]
    exchange = _exchange_s(copy, facts)
    # Parameters of one token's products, experts counted by what their small products take.
    arithmetic = 1e9 * (model.dense_b + model.active_expert_b / experts["expert_rate"])
    experts_read = model.touched_b(copy.batch) * (copy.weight_bytes if copy.expert_bytes is None else copy.expert_bytes)
    dense_read = model.dense_b * copy.weight_bytes * (group if copy.attention_parallel else 1)
    context = copy.input_tokens + copy.output_tokens / 2
    decode = (
        layers_s
        + 1e9 * (dense_read + experts_read / experts["expert_read_rate"]) / (facts["weight_rate"] * bandwidth)
        + copy.batch * context * cache_bytes_per_token(copy) / (facts["cache_rate"] * bandwidth)
        + copy.batch * (2.0 * arithmetic / (step_rate * peak) + exchange + facts[REQUEST[copy.software]])
    )
    rate = facts["prompt_rate"] * (0.5 if copy.packed_weights else 1.0)
    attention = 2.0 * model.layers * model.hidden * copy.input_tokens**2 / (facts["prompt_rate"] * peak)
    prefill = copy.input_tokens * (2.0 * arithmetic / (rate * peak) + exchange) + attention
    if not copy.output_tokens:
        # An embedding is one pass: what a decoding step pays for launches and the scheduler, it pays for its prompt.
        prefill += layers_s + facts[REQUEST[copy.software]]
    return Times(decode, prefill)


def _exchange_s(copy: Copy, facts: Mapping[str, float]) -> float:
    """Seconds of the all-reduces of one token: two a layer, of the hidden width in 16 bits, all through one link."""
    if copy.tensor_parallel == 1:
        return 0.0
    link = facts["pcie_bytes_per_s" if copy.accelerator.pcie_only else "nvlink_bytes_per_s"]
    if copy.attention_parallel:
        others = min(copy.model.experts_per_token, copy.tensor_parallel - 1)
        return 4.0 * copy.model.moe_layers * copy.model.hidden * others / (link * copy.tensor_parallel)
    return 4.0 * copy.model.layers * copy.model.hidden * (copy.tensor_parallel - 1) / link


def cache_bytes_per_token(copy: Copy) -> float:
    """Bytes of one token's keys and values over all the GPUs that hold them."""
    heads = 1 if copy.model.latent else copy.model.kv_heads
    repeated = 1.0 if copy.attention_parallel else max(1.0, copy.tensor_parallel / heads)
    return copy.model.kv_values_per_token * copy.cache_bytes * repeated
