"""A serving estimate in words: every input, with its calculation and its source."""

from launcher.catalog.load import Catalog
from launcher.model.instance_type import Accelerator, InstanceType
from launcher.model.money import Assumption
from launcher.model.serving import ServedModel, ServingEstimate, ServingFacts
from launcher.model.workload import ServingWorkload
from launcher.planning.serving import footprint
from launcher.planning.serving.layout import copy_of
from launcher.planning.serving.measured import longest
from launcher.planning.serving.rate import rate, times

ROOFLINE = "coefficients fitted by benchmarks/fit_serving.py, errors in docs/accuracy.md; Pope et al., arXiv:2211.05102"


def estimate_lines(
    serve: ServingWorkload,
    model: ServedModel,
    estimate: ServingEstimate,
    facts: InstanceType,
    *,
    catalog: Catalog,
    known: ServingFacts,
) -> tuple[Assumption, ...]:
    """The throughput of one instance, with its calculation."""
    chip = catalog.accelerators[facts.accelerator or ""]
    layout = estimate.layout
    unit = "output tokens/s of one full instance" if serve.answer_tokens else "input tokens/s of one full instance"
    low, high = estimate.tokens_per_s.low, estimate.tokens_per_s.high
    parts = "cores" if chip.family == "neuron" else "GPUs"
    steps = [
        f"{facts.accelerators} x {facts.accelerator}: copies on {layout.tensor_parallel} {parts} each: {layout.copies}",
        f"concurrent requests of a copy: {layout.batch}, {serve.input_tokens} tokens in, {serve.answer_tokens} out",
        *(() if estimate.measured else _steps(serve, model, chip, known, estimate)),
    ]
    if estimate.tpot_ms is not None and estimate.ttft_ms is not None:
        steps.append(f"first token after {estimate.ttft_ms:.0f} ms, {estimate.tpot_ms:.1f} ms a token when it is full")
    lines = [
        Assumption(
            name="measured throughput" if estimate.measured else "estimated throughput",
            value=f"{estimate.tokens_per_s.mid:.0f} ({low:.0f} to {high:.0f})",
            unit=unit,
            source=estimate.source or ROOFLINE,
            steps=tuple(steps),
        )
    ]
    if chip.family == "neuron":
        lines.append(
            Assumption(
                name="compiled shape",
                value=f"batch {layout.batch}, {longest(serve, chip)} tokens",
                unit="",
                source="static shapes: a step costs the whole compiled batch and length",
            )
        )
    return tuple(lines)


def _steps(
    workload: ServingWorkload, model: ServedModel, chip: Accelerator, known: ServingFacts, estimate: ServingEstimate
) -> tuple[str, ...]:
    layout = estimate.layout
    copy = copy_of(workload, model, chip, layout.tensor_parallel, layout.batch)
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
    efficiency = one.requests_per_s * whole / batch
    lines.append(f"x {efficiency:.3f} that the scheduler keeps: {one.requests_per_s:.4g} requests/s a copy")
    lines.append(f"x {layout.copies} copies = {one.requests_per_s * layout.copies:.4g} requests/s of the instance")
    if estimate.requests_per_s < one.requests_per_s * layout.copies * 0.999:
        lines.append(f"held to a measured row of the same lengths: {estimate.requests_per_s:.4g} requests/s")
    return tuple(lines)
