"""How an instance is filled with copies of a model, and what it then serves: the best that the latency limits allow."""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from launcher.model.enums import ServingPrecision
from launcher.model.instance_type import Accelerator, InstanceType
from launcher.model.money import Range
from launcher.model.serving import Copy, Layout, MeasuredServing, ServedModel, ServingEstimate, ServingFacts
from launcher.model.workload import ServingWorkload
from launcher.planning.serving import footprint
from launcher.planning.serving.neuron import CORES_PER_CHIP
from launcher.planning.serving.rate import Rate, family, rate, times
from launcher.planning.serving.software import VLLM, VLLM_NEURON

GROUPS = {"Inferentia2": (1, 2, 4, 8, 24), "Trainium1": (1, 2, 8, 32)}
"""NeuronCores that can share a model: on Inferentia2 by the NxD Inference API guide, on Trainium1 one core, one chip,
and the 8 and 32 of its published rows."""
GPU_GROUPS = (1, 2, 4, 8)
NEURON_BATCHES = (1, 2, 4, 8, 16, 32, 64)
GPU_BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
LEAST_SEQUENCE = 256
WEIGHT_BYTES = {ServingPrecision.BF16: 2.0, ServingPrecision.FP8: 1.0, ServingPrecision.INT8: 1.0}
FEW_ROWS = 5
WIDER = 1.5
"""How much wider the range is on a chip with fewer measured rows than FEW_ROWS."""
MEASURED_SPREAD = 0.1
"""A measured row's own range, as a logarithm: two measurements of one setting differ by 3 to 10 %."""


class Choice(NamedTuple):
    """What can be said of one instance type: an estimate, or why there is none.

    `fastest` is the shortest time to the first token and between tokens of any layout that fits, for a hint.
    """

    estimate: ServingEstimate | None
    reason: str
    fastest: tuple[float, float] | None = None


def groups(accelerator: Accelerator) -> tuple[int, ...]:
    """Tensor parallel degrees that a chip's software takes."""
    return GROUPS.get(accelerator.name, GPU_GROUPS)


def parts(facts: InstanceType, accelerator: Accelerator) -> int:
    """NeuronCores or GPUs of an instance."""
    return facts.accelerators * (CORES_PER_CHIP if accelerator.family == "neuron" else 1)


def longest(workload: ServingWorkload, accelerator: Accelerator) -> int:
    """Tokens of the longest request with its answer: the plan's, or on Neuron the power of two that holds the mean.

    >>> from launcher.model.instance_type import Accelerator
    >>> chip = Accelerator(
    ...     name="Inferentia2",
    ...     family="neuron",
    ...     peak_bf16_tflops=190,
    ...     peak_fp8_tflops=None,
    ...     memory_gib=32,
    ...     memory_gb_per_s=880,
    ...     source="",
    ... )
    >>> longest(ServingWorkload(input_tokens=1500, output_tokens=250), chip)
    2048
    """
    if workload.sequence_length is not None:
        return workload.sequence_length
    needed = workload.input_tokens + workload.answer_tokens
    if accelerator.family != "neuron":
        return needed
    return max(LEAST_SEQUENCE, 1 << (needed - 1).bit_length())


def best(
    workload: ServingWorkload, model: ServedModel, facts: InstanceType, chip: Accelerator, known: ServingFacts
) -> Choice:
    """The layout with the most tokens per second that fits and keeps the latency limits.

    A measured row of the same model, chip, lengths and number of copies goes before the estimate: its own layout has
    its figures, and the others are scaled as the row says and never above it.
    """
    probe = _copy(workload, model, chip, min(groups(chip)), 1)
    reason = footprint.host_misfit(probe, facts.memory_gib)
    if reason is not None:
        return Choice(None, reason)
    measured = _matching(workload, model, facts, chip, known)
    factor = _correction(workload, model, chip, known, measured) if measured is not None else 1.0
    found: list[tuple[float, int, ServingEstimate]] = []
    fastest: tuple[float, float] | None = None
    reason = ""
    for group in _groups(workload, facts, chip):
        for batch in _batches(workload, chip):
            copy = _copy(workload, model, chip, group, batch)
            missing = _misfit(copy, group)
            if missing is not None:
                reason = reason or missing
                continue
            told = _estimate(copy, parts(facts, chip) // group, known, factor, measured)
            if fastest is None or (told.ttft_ms or 0.0) < fastest[0]:
                fastest = (told.ttft_ms or 0.0, told.tpot_ms or 0.0)
            if _keeps(workload, told):
                found.append((told.tokens_per_s.mid, -batch, told))
    if measured is not None and _allows(workload, measured):
        return Choice(_as_measured(measured, workload, facts, chip), "")
    if found:
        told = max(found, key=lambda each: each[:2])[2]
        return Choice(replace(told, steps=_steps(workload, model, chip, known, told)), "")
    return Choice(None, _why(workload, fastest) if fastest else reason or _no_group(workload, facts, chip), fastest)


def _groups(workload: ServingWorkload, facts: InstanceType, chip: Accelerator) -> Iterator[int]:
    """Tensor parallel degrees to try, the largest first, so that a misfit is told of the most memory.

    Containers are given whole chips, so one core is tried where the plan asks for it alone.
    """
    wanted = workload.tensor_parallel
    least = CORES_PER_CHIP if chip.family == "neuron" and wanted is None else 1
    for group in reversed(groups(chip)):
        if least <= group <= parts(facts, chip) and wanted in (None, group):
            yield group


def _batches(workload: ServingWorkload, chip: Accelerator) -> tuple[int, ...]:
    """Batches to try, the smallest first, so that a misfit is told of the least cache."""
    if workload.batch_size is not None:
        return (workload.batch_size,)
    if not workload.answer_tokens:
        return (1,)
    return NEURON_BATCHES if chip.family == "neuron" else GPU_BATCHES


def _copy(workload: ServingWorkload, model: ServedModel, chip: Accelerator, group: int, batch: int) -> Copy:
    neuron = chip.family == "neuron"
    return Copy(
        model=model,
        accelerator=chip,
        tensor_parallel=group,
        software=VLLM_NEURON if neuron else VLLM,
        weight_bytes=WEIGHT_BYTES[workload.precision],
        cache_bytes=2.0 if workload.answer_tokens else 0.0,
        batch=batch,
        sequence=longest(workload, chip),
        input_tokens=workload.input_tokens,
        output_tokens=workload.answer_tokens,
        fp8_arithmetic=workload.precision is ServingPrecision.FP8,
    )


def _misfit(copy: Copy, group: int) -> str | None:
    """Why a copy does not run on its chips: Neuron holds every request at its compiled length, a GPU what is live."""
    if family(copy) == "neuron":
        return footprint.misfit(copy)
    if copy.model.heads % group:
        return f"{copy.model.heads} attention heads cannot be split over {group} GPUs"
    one = footprint.misfit(replace(copy, batch=1))
    if one is not None or not copy.output_tokens:
        return one
    length = copy.input_tokens + copy.output_tokens / 2
    held = footprint.most_live(copy, length=length, limit=copy.batch)
    return None if held >= copy.batch else f"{copy.batch} requests at once do not fit: the cache holds {held}"


def _estimate(
    copy: Copy, copies: int, known: ServingFacts, factor: float, measured: MeasuredServing | None
) -> ServingEstimate:
    """What the instance serves with this copy on all of its cores or GPUs."""
    one = rate(copy, known)
    tokens = one.tokens_per_s * copies * factor
    if measured is not None:
        tokens = min(tokens, measured.tokens_per_s)
    spread = known.spread[family(copy)]
    if known.rows_by_chip.get(copy.accelerator.name, 0) < FEW_ROWS:
        spread *= WIDER
    return _told(copy, copies, one, tokens, spread)


def _told(copy: Copy, copies: int, one: Rate, tokens: float, spread: float) -> ServingEstimate:
    per_request = copy.output_tokens or copy.input_tokens
    return ServingEstimate(
        layout=Layout(tensor_parallel=copy.tensor_parallel, copies=copies, batch=copy.batch, sequence=copy.sequence),
        tokens_per_s=Range(low=tokens * math.exp(-spread), mid=tokens, high=tokens * math.exp(spread)),
        requests_per_s=tokens / per_request,
        ttft_ms=one.ttft_ms,
        tpot_ms=one.tpot_ms if copy.output_tokens else None,
        measured=False,
    )


def _steps(
    workload: ServingWorkload, model: ServedModel, chip: Accelerator, known: ServingFacts, told: ServingEstimate
) -> tuple[str, ...]:
    """The arithmetic of an estimate, one line a step."""
    layout = told.layout
    copy = _copy(workload, model, chip, layout.tensor_parallel, layout.batch)
    step, one = times(copy, known), rate(copy, known)
    batch, outputs = layout.batch, copy.output_tokens
    lines = [
        f"weights {footprint.weight_gib(copy):.1f} GiB of the {footprint.room_gib(copy):.1f} GiB that a copy may use",
        f"one prompt of {workload.input_tokens} tokens: {1000 * (step.prefill_s + step.shared_prefill_s):.4g} ms",
    ]
    whole = batch * step.prefill_s + step.shared_prefill_s + outputs * step.decode_s
    if outputs:
        lines += [
            f"one decoding step of {batch} requests: {1000 * step.decode_s:.4g} ms",
            f"{batch} requests: {batch} prompts and {outputs:g} steps = {whole:.4g} s",
        ]
    kept = one.requests_per_s * whole / batch
    lines.append(f"x {kept:.3f} that the scheduler keeps: {one.requests_per_s:.4g} requests/s a copy")
    lines.append(f"x {layout.copies} copies = {one.requests_per_s * layout.copies:.4g} requests/s of the instance")
    if told.requests_per_s < one.requests_per_s * layout.copies * 0.999:
        lines.append(f"held to a measured row of the same lengths: {told.requests_per_s:.4g} requests/s")
    return tuple(lines)


def _keeps(workload: ServingWorkload, told: ServingEstimate) -> bool:
    """Whether the latency limits hold."""
    first = workload.max_ttft_ms is None or (told.ttft_ms or 0.0) <= workload.max_ttft_ms
    return first and (workload.max_tpot_ms is None or (told.tpot_ms or 0.0) <= workload.max_tpot_ms)


def _why(workload: ServingWorkload, fastest: tuple[float, float]) -> str:
    """Why no layout keeps the limits."""
    asked = []
    if workload.max_ttft_ms is not None:
        asked.append(f"first token after {workload.max_ttft_ms:g} ms at most, {fastest[0]:.0f} ms is the fastest here")
    if workload.max_tpot_ms is not None:
        asked.append(f"{workload.max_tpot_ms:g} ms a token at most, {fastest[1]:.1f} ms goes with that")
    return "; ".join(asked) or "no layout fits"


def _no_group(workload: ServingWorkload, facts: InstanceType, chip: Accelerator) -> str:
    """Why no degree of tensor parallelism is left."""
    allowed = ", ".join(str(each) for each in groups(chip) if each <= parts(facts, chip))
    return f"tensor_parallel {workload.tensor_parallel} is not one of {allowed} on {facts.name}"


# ------------------------------------------------------------------------------------------------------- measured rows


def _matching(
    workload: ServingWorkload, model: ServedModel, facts: InstanceType, chip: Accelerator, known: ServingFacts
) -> MeasuredServing | None:
    """The measured row that is this very setting; of several the newest, then the slowest."""
    found = [
        each
        for each in known.measured
        if each.model == model.name
        and each.accelerator == chip.name
        and each.precision is workload.precision
        and (each.input_tokens, each.output_tokens) == (workload.input_tokens, workload.answer_tokens)
        and each.copies == parts(facts, chip) // each.tensor_parallel
        and each.concurrency >= each.batch * each.copies
        and workload.tensor_parallel in (None, each.tensor_parallel)
        and workload.batch_size in (None, each.batch)
    ]
    newest = max((each.date for each in found), default="")
    return min((each for each in found if each.date == newest), key=lambda each: each.tokens_per_s, default=None)


def _correction(
    workload: ServingWorkload, model: ServedModel, chip: Accelerator, known: ServingFacts, row: MeasuredServing
) -> float:
    """Measured over estimated for the row's own setting, at most 1: what the other layouts are scaled by."""
    copy = _copy(workload, model, chip, row.tensor_parallel, row.batch)
    return min(1.0, row.tokens_per_s / (rate(copy, known).tokens_per_s * row.copies))


def _allows(workload: ServingWorkload, row: MeasuredServing) -> bool:
    """Whether a measured row keeps the latency limits."""
    first = workload.max_ttft_ms is None or row.ttft_ms <= workload.max_ttft_ms
    return first and (workload.max_tpot_ms is None or row.tpot_ms <= workload.max_tpot_ms)


def _as_measured(
    row: MeasuredServing, workload: ServingWorkload, facts: InstanceType, chip: Accelerator
) -> ServingEstimate:
    """A measured row as the estimate of an instance."""
    tokens = row.tokens_per_s
    span = Range(low=tokens * math.exp(-MEASURED_SPREAD), mid=tokens, high=tokens * math.exp(MEASURED_SPREAD))
    return ServingEstimate(
        layout=Layout(
            tensor_parallel=row.tensor_parallel,
            copies=parts(facts, chip) // row.tensor_parallel,
            batch=row.batch,
            sequence=longest(workload, chip),
        ),
        tokens_per_s=span,
        requests_per_s=tokens / (row.output_tokens or row.input_tokens),
        ttft_ms=row.ttft_ms,
        tpot_ms=row.tpot_ms,
        measured=True,
        source=f"{row.source}, {row.date}",
    )
