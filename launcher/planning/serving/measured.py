"""Measured rows that replace a plan's estimate: published ones, and load tests of the user's own endpoints."""

import math
from collections.abc import Iterator

from launcher.model.instance_type import Accelerator, InstanceType
from launcher.model.money import Range
from launcher.model.serving import Copy, Layout, MeasuredServing, ServedModel, ServingEstimate, ServingFacts
from launcher.model.workload import ServingWorkload
from launcher.planning.serving.rate import rate

MIN_SEQUENCE = 256
MEASURED_SPREAD = 0.1
"""The range of a measured row, as a logarithm: two measurements of one setting differ by 3 to 10 %."""


def parts(facts: InstanceType, accelerator: Accelerator) -> int:
    """NeuronCores or GPUs of an instance."""
    return facts.accelerators * accelerator.cores


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
    return max(MIN_SEQUENCE, 1 << (needed - 1).bit_length())


def matching(
    workload: ServingWorkload, model: ServedModel, facts: InstanceType, chip: Accelerator, known: ServingFacts
) -> MeasuredServing | None:
    """The measured row of exactly this setting: the newest of the user's load tests, else the newest published one.

    Of several published rows of the same day, the slowest.
    """
    rows = [serving for serving in known.measured if not any(_differences(serving, workload, model, facts, chip))]
    newest = max((_age(serving) for serving in rows), default=None)
    return min(
        (serving for serving in rows if _age(serving) == newest), key=lambda serving: serving.tokens_per_s, default=None
    )


def _age(row: MeasuredServing) -> tuple[bool, str]:
    """The sort key of rows; the row with the highest key is used."""
    return (row.is_own, row.date)


def _differences(
    row: MeasuredServing, workload: ServingWorkload, model: ServedModel, facts: InstanceType, chip: Accelerator
) -> Iterator[str]:
    """The differences between a row and the setting; empty for exactly this setting."""
    if row.model != model.name:
        yield f"it was of {row.model}"
    if (row.instance_type or facts.name, row.accelerator or chip.name) != (facts.name, chip.name):
        yield f"it was on {row.instance_type or row.accelerator}"
    if row.precision is not workload.weight_format:
        yield f"its weights were {row.precision}, the plan's are {workload.weight_format}"
    lengths = (row.input_tokens, row.output_tokens)
    if lengths != (workload.input_tokens, workload.answer_tokens):
        requested = f"{workload.input_tokens} in and {workload.answer_tokens} out"
        yield f"it had {lengths[0]} tokens in and {lengths[1]} out, the plan has {requested}"
    if row.copies != parts(facts, chip) // row.tensor_parallel or workload.tensor_parallel not in (
        None,
        row.tensor_parallel,
    ):
        yield f"it ran {row.copies} copies with tensor parallel {row.tensor_parallel}"
    if workload.batch_size not in (None, row.batch):
        yield f"its batch was {row.batch}, the plan's is {workload.batch_size}"
    if row.sequence not in (0, longest(workload, chip)):
        yield f"its longest request was {row.sequence} tokens, the plan's is {longest(workload, chip)}"
    if row.concurrency < row.batch * row.copies:
        full = row.batch * row.copies
        yield f"it had {row.concurrency} concurrent requests on an instance, a full one takes {full}"


def why_unused(
    row: MeasuredServing, workload: ServingWorkload, model: ServedModel, facts: InstanceType, chip: Accelerator
) -> str:
    """Why a row does not replace a plan's estimate on a type; empty if only another layout is cheaper."""
    differences = list(_differences(row, workload, model, facts, chip))
    if not differences and not meets_latency(workload, as_measured(row, workload, facts, chip)):
        differences.append(
            f"its first token came after {row.ttft_ms:.0f} ms and the others after {row.tpot_ms:.1f} ms each"
        )
    return "; ".join(differences)


def meets_latency(workload: ServingWorkload, estimate: ServingEstimate) -> bool:
    """Whether an estimate keeps the latency limits."""
    first = workload.max_ttft_ms is None or (estimate.ttft_ms or 0.0) <= workload.max_ttft_ms
    return first and (workload.max_tpot_ms is None or (estimate.tpot_ms or 0.0) <= workload.max_tpot_ms)


def correction(row: MeasuredServing, same: Copy, known: ServingFacts) -> float:
    """Measured over estimated for the row's own setting, at most 1: the factor for the other layouts."""
    return min(1.0, row.tokens_per_s / (rate(same, known).tokens_per_s * row.copies))


def as_measured(
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
        tpot_ms=row.tpot_ms if row.output_tokens else None,
        measured=True,
        source=row.source if row.is_own else f"{row.source}, {row.date}",
    )
