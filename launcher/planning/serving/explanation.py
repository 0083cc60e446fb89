"""A serving estimate in words: every number it rests on, with its arithmetic and its source."""

from launcher.catalog.load import Catalog
from launcher.model.money import Assumption
from launcher.model.serving import ServingEstimate
from launcher.model.workload import ServingWorkload
from launcher.planning.serving.layout import longest

ROOFLINE = "coefficients fitted by benchmarks/fit_serving.py, errors in docs/accuracy.md; Pope et al., arXiv:2211.05102"


def estimate_lines(
    serve: ServingWorkload, told: ServingEstimate, catalog: Catalog, instance_type: str
) -> tuple[Assumption, ...]:
    """What one instance serves, and how that comes about."""
    facts = catalog.instance_types[instance_type]
    layout = told.layout
    unit = "output tokens/s of one full instance" if serve.answer_tokens else "input tokens/s of one full instance"
    low, high = told.tokens_per_s.low, told.tokens_per_s.high
    parts = "cores" if catalog.accelerators[facts.accelerator or ""].family == "neuron" else "GPUs"
    steps = [
        f"{facts.accelerators} x {facts.accelerator}: copies on {layout.tensor_parallel} {parts} each: {layout.copies}",
        f"requests at once in a copy: {layout.batch}, {serve.input_tokens} tokens in, {serve.answer_tokens} out",
        *told.steps,
    ]
    if told.tpot_ms is not None and told.ttft_ms is not None:
        steps.append(f"first token after {told.ttft_ms:.0f} ms, {told.tpot_ms:.1f} ms a token when it is full")
    found = [
        Assumption(
            name="measured throughput" if told.measured else "estimated throughput",
            value=f"{told.tokens_per_s.mid:.0f} ({low:.0f} to {high:.0f})",
            unit=unit,
            source=told.source or ROOFLINE,
            steps=tuple(steps),
        )
    ]
    if catalog.accelerators[facts.accelerator or ""].family == "neuron":
        found.append(
            Assumption(
                name="compiled shape",
                value=f"batch {layout.batch}, {longest(serve, catalog.accelerators[facts.accelerator or ''])} tokens",
                unit="",
                source="static shapes: a step costs the whole compiled batch and length",
            )
        )
    return tuple(found)
