"""The software of an estimate: the one that a plan deploys, and the older engines of measured rows."""

import re

VLLM_NEURON = "vllm-neuron"
"""The Optimum-Neuron vLLM image, static shapes on Neuron 2.26: the software of Inferentia2 and Trainium endpoints."""
NEURON_STATIC = "neuron-static"
"""transformers-neuronx and other engines that run one compiled batch to its end."""
NEURON_FIRST = "neuron-first"
"""optimum-neuron pipelines of 2023."""
VLLM = "vllm"
"""vLLM from 0.6 on, continuous batching with CUDA graphs: the software of GPU endpoints; also SGLang and the like."""
VLLM_EARLY = "vllm-early"
"""vLLM before 0.6 (September 2024), whose scheduler costs time for every request in every step."""
TUNED = "tuned"
"""TensorRT-LLM, saturated from files, without a limit on latency."""
TGI = "tgi"
"""Text Generation Inference 1.0 of 2023, kernels launched one by one."""

NEURON_SOFTWARE = (VLLM_NEURON, NEURON_STATIC, NEURON_FIRST)
SCHEDULED = (VLLM_NEURON, VLLM, VLLM_EARLY)
"""Engines that admit and finish requests one by one."""


def software_of(engine: str, *, neuron: bool) -> str:
    """The software that a row's engine column names.

    >>> software_of("vLLM 0.5.4", neuron=False), software_of("vLLM 0.23.0", neuron=False)
    ('vllm-early', 'vllm')
    >>> software_of("vLLM + optimum-neuron", neuron=True), software_of("TensorRT-LLM 1.0", neuron=False)
    ('vllm-neuron', 'tuned')
    """
    name = engine.lower()
    if neuron:
        if "vllm" in name:
            return VLLM_NEURON
        return NEURON_FIRST if "optimum" in name else NEURON_STATIC
    if "tensorrt" in name or "trt" in name:
        return TUNED
    if re.search(r"(tgi|text generation)\D*[01]\.", name):
        return TGI
    version = re.search(r"vllm\D*0\.(\d+)", name)
    if version is not None and int(version[1]) < 6:  # noqa: PLR2004 - see VLLM_EARLY
        return VLLM_EARLY
    return VLLM
