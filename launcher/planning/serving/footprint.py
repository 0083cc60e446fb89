"""Memory checks: weights and cache in the chips' memory, heads on the cores, weights in the host while they load."""

import math

from launcher.model.instance_type import Accelerator
from launcher.model.serving import Copy, ServedModel
from launcher.planning.serving import gpu, neuron
from launcher.planning.serving.rate import family

GIB = 2.0**30
USABLE = 0.9
"""Share of the chips' memory for weights and cache: vLLM's gpu_memory_utilization, and the rule of the Neuron notes."""
RUNTIME_GIB = 2.0
"""GiB of each GPU for activations and captured graphs: an assumption, not measured."""
HOST_GIB = 4.0
"""GiB of the host for the system and the runtime while the weights load: an assumption that agrees with Hugging
Face's choice of inf2.8xlarge for models of 8 B, whose 15 GiB do not load in the 16 GiB of an inf2.xlarge."""
COMPILER_TIMES = 2.0
"""Host memory of Neuron's compiler as a multiple of the weights, besides HOST_GIB: an estimate from reports of
Llama 3.1 8 B, whose compilation is killed in the 32 GiB of a trn1.2xlarge (aws-neuron-sdk issue 1222, nki-samples issue
87, neuronx-distributed-inference issue 26, read 2026-11-28)."""
MAX_LIVE, MAX_LIVE_LARGE = 256, 1024
"""vLLM's default limits on requests that are decoded together (max_num_seqs): the larger one applies to GPUs of 70 GiB
or more that are not A100s (vllm/engine/arg_utils.py, get_batch_defaults, 0.9 and later, read 2026-11-28)."""
LARGE_GIB = 70.0
MAX_LIVE_TUNED = 2048
"""TensorRT-LLM's default limit (max_batch_size)."""


def padded_heads(model: ServedModel, tensor_parallel: int) -> int:
    """Attention heads after padding to a whole number for each core.

    >>> from launcher.model.serving import ServedModel
    >>> padded_heads(
    ...     ServedModel(
    ...         name="70b", params_b=70.6, layers=80, hidden=8192, heads=64, kv_heads=8, kv_values_per_token=163840
    ...     ),
    ...     24,
    ... )
    72
    """
    return math.ceil(model.heads / tensor_parallel) * tensor_parallel


def weight_gib(copy: Copy) -> float:
    """GiB of the weights over all chips; on Neuron including the heads that padding adds."""
    bytes_ = 1e9 * copy.weight_gb
    if family(copy) == "neuron":
        model = copy.model
        attention = 2.0 * model.layers * model.hidden**2 * (1 + model.kv_heads / model.heads)
        extra = padded_heads(model, copy.tensor_parallel) / model.heads - 1
        bytes_ += extra * attention * copy.weight_bytes
    return bytes_ / GIB


def cache_gib(copy: Copy) -> float:
    """GiB of the cache when every request of the batch has the maximum length."""
    per_token = neuron.cache_bytes_per_token(copy) if family(copy) == "neuron" else gpu.cache_bytes_per_token(copy)
    return copy.batch * copy.sequence * per_token / GIB


def room_gib(copy: Copy) -> float:
    """GiB that weights and cache may use of the chips that share the model."""
    if family(copy) == "neuron":
        return USABLE * copy.tensor_parallel / copy.accelerator.cores * copy.accelerator.memory_gib
    return copy.tensor_parallel * (USABLE * copy.accelerator.memory_gib - RUNTIME_GIB)


def misfit(copy: Copy) -> str | None:
    """Why weights and cache do not fit the chips, or None."""
    weights, cache, room = weight_gib(copy), cache_gib(copy), room_gib(copy)
    if weights + cache <= room:
        return None
    parts = "cores" if family(copy) == "neuron" else "GPUs"
    need = f"weights of {weights:.1f} GiB and a cache of {cache:.1f} GiB ({copy.batch} x {copy.sequence} tokens)"
    return f"{need} do not fit the {room:.1f} GiB of {copy.tensor_parallel} {parts}"


def host_misfit(copy: Copy, host_gib: float) -> str | None:
    """Why the host cannot load the model for its Neuron cores, or None; GPU engines read weights in parts."""
    if family(copy) != "neuron":
        return None
    loaded = 1e9 * copy.weight_gb / GIB
    if loaded + HOST_GIB <= host_gib:
        return None
    return f"its host of {host_gib:g} GiB cannot load weights of {loaded:.1f} GiB and {HOST_GIB:g} GiB of the system"


def compiler_gib(weights_gb: float) -> float:
    """GiB of the host that compiling a model of some GB of weights needs.

    >>> round(compiler_gib(16.06))
    34
    """
    return COMPILER_TIMES * 1e9 * weights_gb / GIB + HOST_GIB


def default_live(chip: Accelerator) -> int:
    """The requests that vLLM decodes together on a GPU by default."""
    return MAX_LIVE_LARGE if chip.memory_gib >= LARGE_GIB and not chip.name.startswith("A100") else MAX_LIVE


def max_live(copy: Copy, *, length: float, limit: int) -> int:
    """Requests of a mean length that the cache can hold, at most `limit`; 0 when not even one fits."""
    per_token = gpu.cache_bytes_per_token(copy) / GIB
    room = room_gib(copy) - weight_gib(copy)
    return max(0, min(limit, int(room / (per_token * length)))) if per_token > 0 else limit
