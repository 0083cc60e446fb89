"""How copies of a model fill an instance, and the throughput of the instance within the latency limits."""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from launcher.model.endpoint import LARGEST_QUEUE
from launcher.model.enums import ServingPrecision
from launcher.model.instance_type import Accelerator, InstanceType
from launcher.model.money import Range
from launcher.model.serving import Copy, Layout, MeasuredServing, ServedModel, ServingEstimate, ServingFacts
from launcher.model.workload import ServingWorkload
from launcher.planning.serving import footprint
from launcher.planning.serving.measured import as_measured, correction, longest, matching, meets_latency, parts
from launcher.planning.serving.rate import CopyRate, family, rate
from launcher.planning.serving.software import VLLM, VLLM_NEURON

NEURON_BATCHES = (1, 2, 4, 8, 16, 32, 64)
GPU_BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
WEIGHT_BYTES = {
    ServingPrecision.BF16: 2.0,
    ServingPrecision.FP8: 1.0,
    ServingPrecision.INT8: 1.0,
    ServingPrecision.INT4: 2.0,
    ServingPrecision.MXFP4: 2.0,
}
EXPERT_BYTES = {ServingPrecision.MXFP4: 4.25 / 8, ServingPrecision.INT4: 4.5 / 8}
"""Bytes of a parameter in a routed expert, where they differ: MXFP4 keeps all but the experts in 16 bits (gpt-oss model
card, arXiv:2508.10925: 4.25 bits for a parameter of the experts), and so does Kimi K2.5's INT4, with a scale of 16 bits
for 32 parameters (ROCm/ATOM, recipes/Kimi-K2.5.md)."""
PACKED_BYTES = 4.25 / 8
"""Bytes of a parameter of a dense model in 4 bits, embeddings and output head apart: a scale of 16 bits and a zero of
up to 16 bits for 128 parameters, as GPTQ and AWQ write by default."""
FEW_ROWS = 5
WIDER = 1.5
"""Factor that widens the range on a chip with fewer measured rows than FEW_ROWS, or of a format without one."""


class LayoutChoice(NamedTuple):
    """The layouts of one instance type: their estimates, the fastest first, or the reason why there are none.

    `fastest` is the shortest time to the first token and between tokens of any fitting layout, for a hint.
    """

    estimates: tuple[ServingEstimate, ...]
    reason: str
    fastest: tuple[float, float] | None = None

    @property
    def estimate(self) -> ServingEstimate | None:
        """The layout with the most tokens a second."""
        return self.estimates[0] if self.estimates else None


def layouts(
    workload: ServingWorkload, model: ServedModel, facts: InstanceType, chip: Accelerator, known: ServingFacts
) -> LayoutChoice:
    """The layouts of an instance that fit, keep the latency limits and may be the cheapest to run.

    Among layouts with equal copies the fastest is the cheapest for any traffic. Only the bill can decide between
    numbers of copies, because one copy and several copies are deployed differently. A measured row of the same model,
    chip, lengths and copies takes precedence over the estimate: its own layout uses its figures, and other layouts
    are scaled by the row, never above it. Layouts with more copies, whose deployments would use finer steps, are then
    left out, so that the measured layout is the cheapest within the limits. A plan with another layout is estimated.
    """
    probe = copy_of(workload, model, chip, min(chip.serving_groups), 1)
    reason = footprint.host_misfit(probe, facts.memory_gib)
    if reason is not None:
        return LayoutChoice((), reason)
    measured = matching(workload, model, facts, chip, known)
    factor = 1.0
    if measured is not None:
        same = copy_of(workload, model, chip, measured.tensor_parallel, measured.batch)
        factor = correction(measured, same, known)
    estimates = [] if measured is None else [as_measured(measured, workload, facts, chip)]
    reason = ""
    for group in _groups(workload, facts, chip):
        if measured is not None and parts(facts, chip) // group > measured.copies:
            continue
        for batch in _batches(workload, chip):
            copy = copy_of(workload, model, chip, group, batch)
            missing = _misfit(copy, group)
            if missing is not None:
                reason = reason or missing
            elif measured is None or (group, batch) != (measured.tensor_parallel, measured.batch):
                packed = workload.weight_format is ServingPrecision.INT4
                one = _estimate(copy, parts(facts, chip) // group, known, factor, measured, unmeasured=packed)
                estimates.append(_with_slow_kernels(one, copy, known) if packed else one)
    quickest = min(estimates, key=lambda estimate: _latency(workload, estimate), default=None)
    fastest = None if quickest is None else (quickest.ttft_ms or 0.0, quickest.tpot_ms or 0.0)
    feasible = tuple(_leading(workload, [estimate for estimate in estimates if meets_latency(workload, estimate)]))
    if feasible:
        return LayoutChoice(feasible, "", fastest)
    return LayoutChoice((), _why(workload, fastest) if fastest else reason or _no_group(workload, facts, chip), fastest)


def _leading(workload: ServingWorkload, estimates: list[ServingEstimate]) -> Iterator[ServingEstimate]:
    """The fastest layout for each number of copies, and the fastest that a SageMaker queue can fill; fastest first.

    Among equal layouts a measured one comes first, then the smaller batch.
    """
    ordered = sorted(
        estimates, key=lambda estimate: (-estimate.tokens_per_s.mid, not estimate.measured, estimate.layout.batch)
    )
    covered: set[tuple[int, bool]] = set()
    for estimate in ordered:
        copies, within = estimate.layout.copies, _within(workload, estimate)
        if (copies, True) not in covered and (copies, within) not in covered:
            covered.add((copies, within))
            yield estimate


def _latency(workload: ServingWorkload, estimate: ServingEstimate) -> tuple[float, float]:
    """The sort key for the layout that a hint names if no layout keeps the limits: the limited time, then the other."""
    first, next_ms = estimate.ttft_ms or 0.0, estimate.tpot_ms or 0.0
    return (next_ms, first) if workload.max_ttft_ms is None and workload.max_tpot_ms is not None else (first, next_ms)


def _within(workload: ServingWorkload, estimate: ServingEstimate) -> bool:
    """Whether the queue of an asynchronous endpoint can send an instance as many requests as its layout holds."""
    return not workload.asynchronous or estimate.layout.batch * estimate.layout.copies <= LARGEST_QUEUE


def _groups(workload: ServingWorkload, facts: InstanceType, chip: Accelerator) -> Iterator[int]:
    """Tensor parallel degrees to try, the largest first, so that a misfit message shows the most memory.

    A container gets full chips, so a single core is tried only if the plan requests it.
    """
    degree = workload.tensor_parallel
    least = chip.cores if degree is None else 1
    for group in reversed(chip.serving_groups):
        if least <= group <= parts(facts, chip) and degree in (None, group):
            yield group


def _batches(workload: ServingWorkload, chip: Accelerator) -> tuple[int, ...]:
    """Batches to try, the smallest first, so that a misfit message shows the smallest cache."""
    if workload.batch_size is not None:
        return (workload.batch_size,)
    # Without an answer nothing is decoded, and a batch gains nothing.
    if not workload.answer_tokens:
        return (1,)
    return NEURON_BATCHES if chip.family == "neuron" else GPU_BATCHES


def weights_gb(model: ServedModel, precision: ServingPrecision) -> float:
    """Bytes of a model's weights in a format, 1e9."""
    outside = outside_bytes(model, precision)
    return model.dense_b * outside + model.expert_b * EXPERT_BYTES.get(precision, outside)


def outside_bytes(model: ServedModel, precision: ServingPrecision) -> float:
    """Mean bytes of a parameter outside the routed experts.

    >>> sizes = {"params_b": 8, "layers": 32, "hidden": 4096, "heads": 32, "kv_heads": 8, "kv_values_per_token": 65536}
    >>> outside_bytes(ServedModel(name="m", **sizes, embedding_b=1.0), ServingPrecision.INT4)
    0.71484375
    """
    if precision is not ServingPrecision.INT4 or model.mixture:
        return WEIGHT_BYTES[precision]
    kept = min(1.0, model.embedding_b / model.params_b)
    return kept * WEIGHT_BYTES[precision] + (1 - kept) * PACKED_BYTES


def copy_of(workload: ServingWorkload, model: ServedModel, chip: Accelerator, group: int, batch: int) -> Copy:
    """A copy of a model on so many cores or GPUs, with the plan's load."""
    neuron = chip.family == "neuron"
    return Copy(
        model=model,
        accelerator=chip,
        tensor_parallel=group,
        software=VLLM_NEURON if neuron else VLLM,
        weight_bytes=outside_bytes(model, workload.weight_format),
        cache_bytes=2.0 if workload.answer_tokens else 0.0,
        batch=batch,
        sequence=longest(workload, chip),
        input_tokens=workload.input_tokens,
        output_tokens=workload.answer_tokens,
        fp8_arithmetic=workload.weight_format is ServingPrecision.FP8,
        expert_bytes=EXPERT_BYTES.get(workload.weight_format),
    )


def _misfit(copy: Copy, group: int) -> str | None:
    """Why a copy does not fit its chips: Neuron reserves the compiled length for each request, a GPU only live ones."""
    if family(copy) == "neuron":
        return footprint.misfit(copy)
    # vLLM gives each GPU as many attention heads as the others.
    if copy.model.heads % group:
        return f"{copy.model.heads} attention heads cannot be split over {group} GPUs"
    one = footprint.misfit(replace(copy, batch=1))
    if one is not None or not copy.output_tokens:
        return one
    # On average, half of the answer is in the cache.
    length = copy.input_tokens + copy.output_tokens / 2
    capacity = footprint.max_live(copy, length=length, limit=copy.batch)
    return (
        None if capacity >= copy.batch else f"{copy.batch} concurrent requests do not fit: the cache holds {capacity}"
    )


def _estimate(
    copy: Copy,
    copies: int,
    known: ServingFacts,
    factor: float,
    measured: MeasuredServing | None,
    *,
    unmeasured: bool = False,
) -> ServingEstimate:
    """The throughput of the instance with copies of this kind on all of its cores or GPUs."""
    one = rate(copy, known)
    tokens = one.tokens_per_s * copies * factor
    if measured is not None:
        # Another layout than the measured one is never expected to be faster.
        tokens = min(tokens, measured.tokens_per_s)
    spread = known.spread[family(copy)]
    if unmeasured or known.rows_by_chip.get(copy.accelerator.name, 0) < FEW_ROWS:
        spread *= WIDER
    return _serving_estimate(copy, copies, one, tokens, spread)


def _with_slow_kernels(estimate: ServingEstimate, copy: Copy, known: ServingFacts) -> ServingEstimate:
    """The estimate of 4-bit integers with a slow end for kernels that unpack them at a cost.

    The fitted rows of such weights are of kernels of 2023, whose cost grows with the batch. Kernels of today unpack
    while they wait for memory: with vLLM 0.16, Mistral 7B on an L4 runs 3.3 times as fast as in 16 bits
    (bench.bereketlemma.com, 2026-04-05); with a batch of 8 the estimate has 2.4 without that cost, and 1.3 with it.
    """
    slow = rate(replace(copy, packed_weights=True), known).tokens_per_s / rate(copy, known).tokens_per_s
    tokens = estimate.tokens_per_s
    return replace(estimate, tokens_per_s=Range(low=tokens.low * min(1.0, slow), mid=tokens.mid, high=tokens.high))


def _serving_estimate(copy: Copy, copies: int, one: CopyRate, tokens: float, spread: float) -> ServingEstimate:
    per_request = copy.output_tokens or copy.input_tokens
    return ServingEstimate(
        layout=Layout(tensor_parallel=copy.tensor_parallel, copies=copies, batch=copy.batch, sequence=copy.sequence),
        tokens_per_s=Range(low=tokens * math.exp(-spread), mid=tokens, high=tokens * math.exp(spread)),
        requests_per_s=tokens / per_request,
        ttft_ms=one.ttft_ms,
        tpot_ms=one.tpot_ms if copy.output_tokens else None,
        measured=False,
    )


def _why(workload: ServingWorkload, fastest: tuple[float, float]) -> str:
    limits = []
    if workload.max_ttft_ms is not None:
        limits.append(f"first token after {workload.max_ttft_ms:g} ms at most, {fastest[0]:.0f} ms is the fastest here")
    if workload.max_tpot_ms is not None:
        goes = "is the fastest here" if workload.max_ttft_ms is None else "goes with that"
        limits.append(f"{workload.max_tpot_ms:g} ms a token at most, {fastest[1]:.1f} ms {goes}")
    return "; ".join(limits) or "no layout fits"


def _no_group(workload: ServingWorkload, facts: InstanceType, chip: Accelerator) -> str:
    """Why no degree of tensor parallelism is left."""
    allowed = ", ".join(str(group) for group in chip.serving_groups if group <= parts(facts, chip))
    return f"tensor_parallel {workload.tensor_parallel} is not one of {allowed} on {facts.name}"
