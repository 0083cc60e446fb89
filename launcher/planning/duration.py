"""The duration of a training job: steady hours from utilisation, expected hours with all losses of the run.

    tokens/s       = MFU x chips x bf16 peak / FLOPs per token
    steady hours   = tokens / (tokens/s) / 3600
    expected hours = steady hours x run factor x (1 + overhead of checkpoints, failures and restarts) + first
    compilation

The run factor is fitted: the slowdown of complete published runs against their steady rate (evaluation, data, logging,
slow nodes). Independent causes widen a range by the root of the sum of their squares, in logarithms.
"""

import dataclasses
import math
from collections.abc import Iterator

from launcher.model.enums import Method, Precision, Recompute
from launcher.model.money import Assumption, Range
from launcher.model.training import Constant, TrainingEstimate, TrainingFacts
from launcher.planning import flops, goodput, throughput, utilisation
from launcher.planning.goodput import MINUTE_S, SECONDS_PER_HOUR
from launcher.planning.shape import ADAPTER_FRACTION, TrainingShape, known_hidden, known_layers

FEW_ROWS = 5
PALM = "PaLM, arXiv:2204.02311, appendix B; Kaplan 2020, arXiv:2001.08361"


def assumptions(
    shape: TrainingShape, tokens: float, facts: TrainingFacts, estimate: TrainingEstimate
) -> tuple[Assumption, ...]:
    """The assumptions of an estimate, in the order of the calculation.

    Args:
        shape: the job.
        tokens: tokens to train on.
        facts: the facts the estimate was made from.
        estimate: the estimate; its numbers are repeated, not computed again.
    """
    lines = [_flops(shape)]
    lines.extend(_gaps(shape, facts))
    lines.extend(_few_sources(shape, facts))
    lines.append(
        _utilisation(shape, facts)
        if shape.measured_tokens_per_s is None
        else _measured_assumption(shape, facts, estimate)
    )
    if utilisation.cuts_matrices(shape) and shape.measured_tokens_per_s is None:
        lines.append(_constant("tensor parallelism", facts.constants["tensor_parallel_factor"]))
    lines.extend(_own_runs(shape, facts))
    lines.append(_rate(shape, estimate))
    lines.append(_steady(tokens, estimate))
    lines.append(_checkpoint(shape, facts, estimate))
    lines.extend(_failures(shape, facts))
    lines.append(_expected_assumption(shape, facts, estimate))
    return tuple(lines)


def _flops(shape: TrainingShape) -> Assumption:
    factor = flops.FROZEN if shape.trains_adapters else flops.TRAINED
    weights = factor * shape.active_params_b * 1e9
    attention = flops.attention_per_token(shape)
    steps = [
        f"weights: {factor:.0f} x {shape.active_params_b:g} billion active parameters = {weights / 1e9:,.4g} GFLOP",
        (
            f"attention: 12 x {shape.attended_positions:,.4g}, the {_attending(shape)} x {known_hidden(shape):.4g} wide"
            f" x {shape.sequence_length} tokens = {attention / 1e9:,.4g} GFLOP"
        ),
        f"together {flops.per_token(shape) / 1e9:,.4g} GFLOP per token",
    ]
    if shape.recompute is Recompute.FULL:
        done = flops.hardware_per_token(shape) / 1e9
        steps.append(f"the chips do {done:,.4g} GFLOP: the forward pass is computed again")
    return Assumption(
        name="FLOPs per token",
        value=f"{flops.per_token(shape) / 1e9:.4g}",
        unit="GFLOP",
        source=PALM,
        steps=tuple(steps),
    )


def _attending(shape: TrainingShape) -> str:
    if shape.attention_layers is None or shape.layers is None or shape.attention_layers == shape.layers:
        return f"{known_layers(shape):.3g} layers"
    others = shape.layers - shape.attention_layers
    seen = f"see {shape.window} tokens" if shape.window else "have no attention"
    return f"{shape.attention_layers} layers with full attention ({others} {seen})"


def _gaps(shape: TrainingShape, facts: TrainingFacts) -> Iterator[Assumption]:
    """The inputs that the plan or the data leave open, and their substitutes."""
    chip = shape.accelerator
    if shape.layers is None or shape.hidden is None:
        yield Assumption(
            name="dimensions",
            value=f"{known_layers(shape):.0f} layers of {known_hidden(shape):.0f}",
            unit="",
            source="not given: scaled from a 7 B model with the cube root of the active parameters",
        )
    if shape.global_batch_tokens is None:
        most = shape.max_batch_tokens
        bound = "" if most is None else f", at most the {most / 1e6:.3g} million of published runs"
        yield Assumption(
            name="batch",
            value=f"{utilisation.step_tokens(shape, shape.chips) * shape.chips:.0f}",
            unit="tokens per step",
            source=f"not given: 4 million tokens, or 8,192 per chip if that is more{bound}",
        )
    if not shape.stack_known:
        source = "not given: huggingface for LoRA and QLoRA, framework for the rest; " + (
            "the range is wider for it" if shape.method is not Method.PRETRAIN else "name the stack if it is another"
        )
        yield Assumption(name="stack", value=shape.stack.value, unit="", source=source)
    if shape.micro_batch is None and utilisation.has_micro_steps(shape):
        source = f"not given: the range holds 1 to {utilisation.MAX_MICRO_BATCH}"
        value, unit = str(utilisation.DEFAULT_MICRO_BATCH), "sequences a chip"
        yield Assumption(name="micro-batch", value=value, unit=unit, source=source)
    traits = utilisation.chip_traits(chip, facts)
    rows = sum(traits.rows.get(name, 0) for name in utilisation.spread_classes(shape))
    if traits.name == utilisation.UNKNOWN_CHIP.name or not traits.rows:
        source = f"no published run on {chip.name} is known: its family, peak and bandwidth stand in; the range is wide"
        yield Assumption(name="chip", value=chip.name, unit="", source=source)
    elif rows < FEW_ROWS:
        published = "1 published row" if rows == 1 else f"{rows} published rows"
        source = f"{published} of this kind of job on {traits.name}; the range is wider for it"
        yield Assumption(name="chip", value=chip.name, unit="", source=source)
    if utilisation.rows_on_instance(shape, facts) == 0:
        source = "no published run of this kind of job on these instances is known; the range is wider for it"
        yield Assumption(name="instance", value=shape.instance_family or "", unit="", source=source)
    yield from _gathering_assumptions(shape, facts)
    if utilisation.assumes_exchange(shape):
        spread = min(utilisation.DEFAULT_EXPERT_PARALLEL, shape.chips)
        source = (
            "not given: AWS's published layouts spread the experts over 16 and 32 chips; the range holds both these and"
            f" {shape.chips_per_node}, within a node"
        )
        yield Assumption(name="expert parallel", value=str(spread), unit="chips share the experts", source=source)
    if shape.precision is Precision.FP8 and not shape.fp8_counts:
        source = "no published run shows a gain from FP8 here: estimated as bf16; the range is wider for it"
        yield Assumption(name="precision", value="fp8", unit="", source=source)


def _gathering_assumptions(shape: TrainingShape, facts: TrainingFacts) -> Iterator[Assumption]:
    """The wait for weights of other nodes, on a network slower than that of published runs."""
    factors = throughput.gather_factors(shape, facts, utilisation.estimate(shape, facts).mid)
    if factors is not None and shape.node_gbps is not None:
        low, mid, high = (1.0 / factor for factor in reversed(factors))
        seconds = throughput.gather_seconds(shape, shape.node_gbps)
        source = (
            f"the states do not fit in one node: its {shape.node_gbps:g} Gbit/s need {seconds:.1f} s a micro-step for"
            " the weights of the others (FSDP); a type with all chips in one node has no such wait"
        )
        unit = f"times the hours ({low:.1f} to {high:.1f})"
        yield Assumption(name="network between nodes", value=f"{mid:.1f}", unit=unit, source=source)


def _few_sources(shape: TrainingShape, facts: TrainingFacts) -> Iterator[Assumption]:
    """The reason of a range that few sources make wide."""
    sources = utilisation.few_sources(shape, facts)
    if sources is not None:
        wide = "as wide as the spread between them" if sources > 1 else "as wide as that of a class with more of them"
        if utilisation.on_neuron_adapters(shape):
            wide = "as wide as the distance of that one from the estimate"
        source = f"few: the range is at least {wide}"
        yield Assumption(name="published sources of this kind of job", value=str(sources), unit="", source=source)


def _utilisation(shape: TrainingShape, facts: TrainingFacts) -> Assumption:
    mfu = utilisation.estimate(shape, facts)
    values = dict(zip(utilisation.TERMS, utilisation.terms(shape, facts), strict=True))
    steps = []
    for name, value in values.items():
        factor = math.exp(facts.coefficients[name] * value)
        if name == "base":
            steps.append(f"start at {factor:.3f}: {utilisation.MEANINGS[name]}")
        elif value and abs(factor - 1.0) >= 0.0005:  # noqa: PLR2004 what three decimals would print as 1.000
            steps.append(f"times {factor:.3f}: {utilisation.MEANINGS[name]}")
    cut = utilisation.tensor_factor(shape, facts)
    if cut != 1.0:
        steps.append(f"times {cut:.3f}: matrices shared by {shape.tensor_parallel} chips, which wait in every layer")
    steps.append(f"together {mfu.mid:.3f} of the dense bf16 peak")
    steps.append(
        f"range: a spread of {mfu.scale:.2f} in logarithms, {facts.quantile:.2f} of it down to {mfu.low:.3f}"
        f" and up to {mfu.high:.3f}"
    )
    source = f"fitted to {facts.fitted_rows} published rows of {facts.fitted_families} sources on {facts.fitted_on}"
    if mfu.high > utilisation.HIGHEST_PUBLISHED and not shape.fp8_counts:
        source += f"; the highest published is {utilisation.HIGHEST_PUBLISHED}, above it is the spread of the fit"
    return Assumption(
        name="model FLOPs utilisation",
        value=_three(Range(low=mfu.low, mid=mfu.mid, high=mfu.high), 3),
        unit="of the bf16 peak",
        source=source,
        steps=tuple(steps),
    )


def _measured_assumption(shape: TrainingShape, facts: TrainingFacts, estimate: TrainingEstimate) -> Assumption:
    measured = shape.measured_tokens_per_s or 0.0
    nodes = max(1.0, shape.chips / shape.chips_per_node)
    scaling = estimate.tokens_per_s.mid / (measured * nodes)
    steps = (
        f"measured on one node: {measured:.6g} tokens/s",
        f"times {_nodes(nodes)}, times {scaling:.3f} that scaling leaves = {estimate.tokens_per_s.mid:.6g} tokens/s",
        f"that is {estimate.mfu.mid:.3f} of the bf16 peak",
        f"range: a spread of {throughput.rate(shape, facts).scale:.2f} in logarithms",
    )
    return Assumption(
        name="measured throughput", value=f"{measured:.6g}", unit="tokens/s on one node", source="user", steps=steps
    )


def _own_runs(shape: TrainingShape, facts: TrainingFacts) -> Iterator[Assumption]:
    if shape.measured_tokens_per_s is not None or not facts.measured:
        return
    from launcher.planning.posterior import posterior

    prior = utilisation.estimate(shape, facts)
    learned = posterior(shape, facts, prior.scale)
    if learned is None:
        return
    steps = [f"the estimate alone: {prior.mid:.3f} of the peak, a spread of {prior.scale:.2f} in logarithms"]
    for cell in learned.cells:
        count = f"{len(cell.runs)} runs" if len(cell.runs) > 1 else cell.runs[0]
        measurement = f"measured {math.exp(cell.error):.2f} times its estimate, spread {math.sqrt(cell.variance):.3f}"
        steps.append(f"{cell.description} ({count}): {measurement}; discounted by {cell.discount:.3f} for what differs")
    if learned.contradiction:
        steps.append("they contradict each other by more than their spreads: the range is wider for it")
    steps.append(f"together {math.exp(learned.shift):.3f} times the estimate, a spread of {learned.scale:.3f}")
    yield Assumption(
        name="own measurements",
        value=f"{math.exp(learned.shift):.3f}",
        unit="times the estimate",
        source="runs of this folder, weighted by the inverse of their variances",
        steps=tuple(steps),
    )


def _rate(shape: TrainingShape, estimate: TrainingEstimate) -> Assumption:
    chip = shape.accelerator
    peak = shape.chips * chip.peak_bf16_tflops
    steps = (
        f"{shape.chips} chips x {chip.peak_bf16_tflops:g} TFLOP/s bf16 = {peak:.6g} TFLOP/s",
        (
            f"x {estimate.mfu.mid:.3f} utilisation / {flops.per_token(shape):.4g} FLOP per token"
            f" = {estimate.tokens_per_s.mid:.6g} tokens/s"
        ),
    )
    return Assumption(
        name="tokens per second",
        value=_three(estimate.tokens_per_s, 0),
        unit="tokens/s",
        source=chip.source,
        steps=steps,
    )


def _steady(tokens: float, estimate: TrainingEstimate) -> Assumption:
    steps = (
        f"{tokens:.6g} tokens / {estimate.tokens_per_s.mid:.6g} tokens/s / 3600 = {estimate.steady_hours.mid:.4g} h",
    )
    return Assumption(
        name="steady hours", value=_three(estimate.steady_hours, 2), unit="h", source="tokens over rate", steps=steps
    )


def _checkpoint(shape: TrainingShape, facts: TrainingFacts, estimate: TrainingEstimate) -> Assumption:
    per_parameter = facts.constants["checkpoint_bytes_per_parameter"]
    trained = f"{shape.params_b:g} billion parameters"
    if shape.trains_adapters:
        trained = f"adapters of {ADAPTER_FRACTION:g} of {trained}"
    write, fixed = estimate.checkpoint_write_s, facts.constants["checkpoint_fixed_s"].mid
    speed = facts.constants["checkpoint_gb_per_s_per_node"].mid
    steps = (
        f"{trained} x {per_parameter.mid:g} bytes = {estimate.checkpoint_gb:.4g} GB",
        f"over {_nodes(shape.nodes)} at {speed:g} GB/s each, and {fixed:g} s to begin and end",
        f"written in {write.mid:.3g} s ({write.low:.3g} to {write.high:.3g}), during which the job waits",
    )
    return Assumption(
        name="checkpoint size",
        value=f"{estimate.checkpoint_gb:.4g}",
        unit="GB",
        source=per_parameter.source,
        steps=steps,
    )


def _failures(shape: TrainingShape, facts: TrainingFacts) -> Iterator[Assumption]:
    per_chip = facts.constants["failures_per_accelerator_hour"]
    software = facts.constants[f"software_failures_per_hour_{shape.stack.value}"]
    lost = goodput.overhead(shape, facts)
    steps = (
        f"{shape.chips} chips x {per_chip.mid:g} + {software.mid:g} of software = {lost.failures_per_h:.4g} failures/h",
        f"that is one in {1.0 / lost.failures_per_h:.4g} h",
        f"a checkpoint of {lost.checkpoint_s:.3g} s every {lost.interval_s:.4g} s is best against that (Daly)",
        f"with restarts that is {100.0 * lost.fraction:.2f} % more time",
    )
    yield Assumption(
        name="failures",
        value=f"{lost.failures_per_h:.4g}",
        unit="per hour of the job",
        source=f"{per_chip.source}; software: {software.source}",
        steps=steps,
    )
    yield _constant("restart", facts.constants["restart_minutes"])


def _expected_assumption(shape: TrainingShape, facts: TrainingFacts, estimate: TrainingEstimate) -> Assumption:
    factor = goodput.run_factor(shape, facts)
    lost = goodput.overhead(shape, facts)
    steps = [
        (
            f"{estimate.steady_hours.mid:.4g} h x {factor:.3f} of complete runs over their steady rate"
            f" x {1.0 + lost.fraction:.4f} for checkpoints, failures and restarts"
        )
    ]
    source = f"complete published runs against steady rates, fitted on {facts.fitted_on}; Daly 2006 for the overhead"
    if shape.accelerator.family == "neuron":
        first = facts.constants["neuron_compile_minutes"]
        steps.append(
            f"plus {first.mid:g} min ({first.low:g} to {first.high:g}) to compile once; a cache spares it later"
        )
        source += f"; compilation: {first.source}"
    steps.append(f"= {estimate.expected_hours.mid:.4g} h, without spot interruptions")
    return Assumption(
        name="expected hours", value=_three(estimate.expected_hours, 2), unit="h", source=source, steps=tuple(steps)
    )


def _constant(name: str, constant: Constant) -> Assumption:
    return Assumption(
        name=name,
        value=_three(constant.range, 4),
        unit=constant.unit,
        source=f"{constant.source} (read {constant.as_of})",
    )


def _nodes(count: float) -> str:
    return "1 node" if count == 1 else f"{count:g} nodes"


def _three(values: Range, decimals: int) -> str:
    """A range as "mid (low to high)", without trailing zeros.

    >>> _three(Range(low=5.0, mid=10.0, high=30.0), 2), _three(Range(low=0.301, mid=0.402, high=0.503), 3)
    ('10 (5 to 30)', '0.402 (0.301 to 0.503)')
    """
    low, mid, high = (f"{value:.{decimals}f}" for value in (values.low, values.mid, values.high))
    if decimals:
        low, mid, high = (text.rstrip("0").rstrip(".") for text in (low, mid, high))
    return f"{mid} ({low} to {high})"


def estimate(shape: TrainingShape, tokens: float, facts: TrainingFacts) -> TrainingEstimate:
    """The estimate with its assumptions, each with its calculation.

    Args:
        shape: the job.
        tokens: tokens to train on, above 0.
        facts: coefficients, spreads and constants.

    Raises:
        ValueError: tokens is not finite or not above zero.
    """
    bare = numbers(shape, tokens, facts)
    return dataclasses.replace(bare, assumptions=assumptions(shape, tokens, facts, bare))


def numbers(shape: TrainingShape, tokens: float, facts: TrainingFacts) -> TrainingEstimate:
    """The estimate without explanations, for the many candidates that are only ranked; arguments as of `estimate`.

    Raises:
        ValueError: tokens is not finite or not above zero.
    """
    if not 0.0 < tokens < math.inf:
        raise ValueError(f"tokens is {tokens}; it must be finite and above 0")
    speed = throughput.rate(shape, facts)
    lost = goodput.overhead(shape, facts)
    mid_h = tokens / speed.tokens_mid / SECONDS_PER_HOUR
    steady = Range(
        low=tokens / speed.tokens_high / SECONDS_PER_HOUR, mid=mid_h, high=tokens / speed.tokens_low / SECONDS_PER_HOUR
    )
    run_scale = facts.run_scale
    # The widths are independent of each other: they add as squares, in logarithms.
    slower = math.hypot(math.log(speed.tokens_mid / speed.tokens_low), facts.quantile * run_scale, lost.half_width)
    faster = math.hypot(math.log(speed.tokens_high / speed.tokens_mid), facts.quantile * run_scale)
    expected_mid = mid_h * goodput.run_factor(shape, facts) * (1.0 + lost.fraction)
    # No run is faster than its steady rate.
    expected_low = max(expected_mid * math.exp(-faster), steady.low)
    expected_high = max(expected_mid * math.exp(slower), steady.high)
    compiled = facts.constants["neuron_compile_minutes"] if shape.accelerator.family == "neuron" else None
    first = compiled.range.scale(1.0 / MINUTE_S) if compiled else Range(low=0.0, mid=0.0, high=0.0)
    return TrainingEstimate(
        tokens_per_s=Range(low=speed.tokens_low, mid=speed.tokens_mid, high=speed.tokens_high),
        mfu=Range(low=speed.mfu_low, mid=speed.mfu_mid, high=speed.mfu_high),
        steady_hours=steady,
        expected_hours=Range(
            low=expected_low + first.low, mid=expected_mid + first.mid, high=expected_high + first.high
        ),
        checkpoint_gb=goodput.checkpoint_bytes(shape, facts) / 1e9,
        checkpoint_write_s=goodput.checkpoint_write_s(shape, facts),
    )
