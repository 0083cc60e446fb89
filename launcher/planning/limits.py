"""Checks against limits of chips and offerings: precisions, methods, peak rates, and the sizes of Capacity Blocks."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from launcher.catalog.load import Catalog
from launcher.model.enums import Level, Method, Optimizer, Precision, PurchaseOption
from launcher.model.finding import Finding, error, warning
from launcher.model.instance_type import Accelerator, InstanceType
from launcher.model.request import PlanRequest
from launcher.model.workload import TrainingWorkload
from launcher.planning import flops
from launcher.planning.work import Estimator

QUANTISED = "bitsandbytes runs on CUDA, ROCm, XPU and Gaudi, and Neuron's trainers have LoRA in 16 bits alone"
"""bitsandbytes 0.50, installation guide; optimum-neuron, training guides; read 2026-11-29."""


def limits(request: PlanRequest, catalog: Catalog, estimator: Estimator) -> Iterator[Finding]:
    """Findings for limits of the pinned types; types that the catalog does not know are skipped."""
    types = [catalog.instance_types[name] for name in request.target.instance_type or () if _is_known(name, catalog)]
    train = request.workload.train
    if train is not None:
        yield from _lacking(train, types, catalog)
        yield from _measured_findings(train, types, catalog, estimator)
    yield from _block_counts(request, types)


def lack(chip: Accelerator, train: TrainingWorkload) -> Finding | None:
    """What a chip lacks for a job, in words that follow its name; None if it can run it.

    Args:
        chip: the accelerator; no FP8 peak means no FP8.
        train: the job, of which precision, method and optimizer are looked at.
    """
    neuron = chip.family == "neuron"
    if train.precision is Precision.FP8 and chip.peak_fp8_tflops is None:
        hint = "set precision to bf16, or take a chip with fp8 such as H100 or Trainium2"
        return error("no-such-precision", "workload.train.precision", "has no fp8, allowed: bf16", hint)
    if neuron and train.method is Method.QLORA:
        message, hint = f"has no QLoRA: {QUANTISED}", "set method to lora, or take a GPU"
        return error("no-such-method", "workload.train.method", message, hint)
    if neuron and train.optimizer is Optimizer.ADAMW_8BIT:
        message, hint = f"has no 8-bit AdamW: {QUANTISED}", "set optimizer to adamw-bf16"
        return error("no-such-optimizer", "workload.train.optimizer", message, hint)
    return None


def _is_known(name: str, catalog: Catalog) -> bool:
    return name in catalog.instance_types and catalog.instance_types[name].accelerator is not None


def _lacking(train: TrainingWorkload, types: Sequence[InstanceType], catalog: Catalog) -> Iterator[Finding]:
    lacking = [(facts, lack(catalog.accelerators[facts.accelerator or ""], train)) for facts in types]
    level = Level.ERROR if all(missing is not None for _, missing in lacking) else Level.WARNING
    for facts, missing in lacking:
        if missing is not None:
            message = f"the {facts.accelerator} of {facts.name} {missing.message}"
            yield replace(missing, level=level, message=message)


def _measured_findings(
    train: TrainingWorkload, types: Sequence[InstanceType], catalog: Catalog, estimator: Estimator
) -> Iterator[Finding]:
    known = train.model is not None and not (isinstance(train.model, str) and catalog.find_model(train.model) is None)
    if train.throughput_tokens_per_s is None or len(types) != 1 or not known:
        return
    (facts,) = types
    shape = estimator.shape(train, facts, 1)
    chip = shape.accelerator
    peak_tflops = (chip.peak_fp8_tflops or chip.peak_bf16_tflops) if train.precision is Precision.FP8 else None
    peak = shape.chips * (peak_tflops or chip.peak_bf16_tflops) * 1e12 / flops.per_token(shape)
    if train.throughput_tokens_per_s > peak:
        yield error(
            "throughput-above-peak",
            "workload.train.throughput_tokens_per_s",
            f"{train.throughput_tokens_per_s:,.0f} tokens/s is {train.throughput_tokens_per_s / peak:.3g} times what "
            f"one {facts.name} can compute of this model at its peak, {peak:,.0f}",
            "give what one node of the pinned type was measured at, in tokens per second",
        )


def _block_counts(request: PlanRequest, types: Sequence[InstanceType]) -> Iterator[Finding]:
    nodes, options = request.target.nodes, request.purchase.option or ()
    if nodes is None or PurchaseOption.CAPACITY_BLOCK not in options or request.purchase.reservation is not None:
        return
    none = [
        type_
        for type_ in types
        if type_.block_counts and not any(nodes.minimum <= count <= nodes.maximum for count in type_.block_counts)
    ]
    say = error if len(none) == len(types) and options == (PurchaseOption.CAPACITY_BLOCK,) else warning
    for facts in none:
        allowed = ", ".join(str(block_count) for block_count in facts.block_counts)
        message = f"Capacity Blocks of {facts.name} have {allowed} instances, got {nodes.minimum}"
        yield say("block-size", "target.nodes", message, "set target.nodes to one of these numbers")
