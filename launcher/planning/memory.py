"""The memory use of a training job on each accelerator, whether the job fits, and the minimum number of accelerators.

Weights, gradients and optimizer states are sharded over all chips (ZeRO-3, FSDP); activations of one sequence are
shared by a group of chips (tensor, sequence or context parallel) as small as possible, inside one node if that
is enough.

Sources: ZeRO 2020: S. Rajbhandari et al., arXiv:1910.02054, section 3.1: 2 + 2 + 12 bytes per parameter with Adam in
    mixed precision. Korthikanti 2022: V. Korthikanti et al., "Reducing Activation Recomputation in Large Transformer
    Models", arXiv:2205.05198, table 2: s b h (34 + 5 a s / h) bytes per layer; 34 s b h without the attention matrix;
    2 s b h with full recomputation. QLoRA 2023: T. Dettmers et al., arXiv:2305.14314, section 3: 4 bits and 0.127
    bits of constants per parameter.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from launcher.model.enums import Method, Optimizer, Recompute, Stack
from launcher.model.record import record
from launcher.planning.optimizers import DEFAULT, GRADIENT_BYTES, LEANER, leaner_on, recipe
from launcher.planning.shape import REFERENCE_VOCAB, TrainingShape, known_hidden, known_layers

GIB = float(2**30)
WEIGHT_BYTES = dict.fromkeys(Method, 2.0) | {Method.QLORA: 4.127 / 8.0}
ACTIVATION_BYTES = 34.0
"""Per token, hidden unit and layer (Korthikanti 2022, table 2). The term of the attention matrix, 5 a s / h, is left
out for `none` as for `selective`: fused attention kernels never store it, and every stack calibrated here uses
one."""
RECOMPUTED_BYTES = 2.0
LOGIT_BYTES = 6.0
"""Per token and vocabulary entry: fp32 logits and their gradient in bf16, in one piece."""
GATHERED_LAYERS = 2.0
"""Full layers in bf16 that sharded training holds at a time: the current and the next one (FSDP prefetch)."""
RESERVE = 0.10
"""Share of the memory kept free for the runtime, communication buffers and fragmentation. Published runs of torchtitan
peak at 84.9 of 95 GiB (benchmarks/llama3_h100_202412_torchtitan.md), 89 %."""
LARGEST_GROUP = 64
"""Maximum number of chips that share one sequence: beyond it the exchange between nodes dominates."""


@record
class Fit:
    """The memory use of one accelerator, in bytes by part, against its limit.

    `group` is the number of chips that share one sequence.
    """

    shape: TrainingShape
    weights: float
    gradients: float
    optimizer: float
    gathered: float
    activations: float
    logits: float
    group: int
    per_chip_gib: float
    limit_gib: float
    fits: bool

    @property
    def steps(self) -> tuple[str, ...]:
        """The calculation, one line a step."""
        shape = self.shape
        recompute_words = (
            "2 bytes per layer and one complete layer" if shape.recompute is Recompute.FULL else "34 bytes per layer"
        )
        name = (shape.optimizer or DEFAULT).value
        trained_bytes = GRADIENT_BYTES + recipe(shape.optimizer).state
        memory_gib = shape.accelerator.memory_gib
        sequences = "one sequence" if (shape.micro_batch or 1) == 1 else f"{shape.micro_batch} sequences"
        return (
            f"weights: {_weights(shape) / 1e9:.4g} GB over {shape.chips} chips = {self.weights / GIB:.2f} GiB",
            (
                f"gradients and {name}: {shape.trained_params / 1e9:.4g} billion x {trained_bytes:g} bytes"
                f" over {shape.chips} chips"
                f" = {(self.gradients + self.optimizer) / GIB:.2f} GiB"
            ),
            f"two layers gathered in bf16 by a group of {self.group} sharing a sequence: {self.gathered / GIB:.2f} GiB",
            (
                f"activations of {sequences} of {shape.sequence_length}, {recompute_words}:"
                f" {self.activations / GIB:.2f} GiB"
            ),
            f"logits: {self.logits / GIB:.2f} GiB",
            (
                f"together {self.per_chip_gib:.2f} of {self.limit_gib:.2f} GiB"
                f" ({memory_gib:g} less {RESERVE:.0%} for the runtime)"
            ),
        )


def fits(shape: TrainingShape) -> Fit:
    """Whether a job fits the memory of its chips, with the smallest sufficient group; if none is, with the largest.

    Args:
        shape: the job; its accelerator determines the available memory.
    """
    room = _limit_bytes(shape) - state_bytes(shape) / shape.chips
    groups = _groups(shape.chips)
    return _fit(shape, next((group for group in groups if _working_bytes(shape, group) <= room), groups[-1]))


class Fitting(NamedTuple):
    """A job as it fits its chips: with a leaner recipe where the plan leaves one open. `note` says which; None without.

    `fits` is False if no open recipe is enough, not even with the memory that is usually kept free.
    """

    shape: TrainingShape
    note: str | None
    fits: bool


def fitting(shape: TrainingShape, *, recompute_open: bool) -> Fitting:
    """The first way in which a job fits: as planned, by recomputation, with the last memory, with another optimizer.

    A fine-tuning may recompute its activations and keep its optimizer states in fewer bytes; a pretraining keeps the
    optimizer of the plan. The estimate itself is uncertain by about the share that it keeps free, so that a job within
    this share keeps its optimizer.

    Args:
        shape: the job.
        recompute_open: whether the plan leaves the recomputation open.
    """
    planned = fits(shape)
    if planned.fits:
        return Fitting(shape, None, fits=True)
    needed = f"needs {planned.per_chip_gib:.0f} GiB on each chip as planned, {planned.limit_gib:.0f} are free"
    options = ((leaner, words, fits(leaner)) for leaner, words in _leaner(shape, recompute_open=recompute_open))
    leaner, words, fit = next((option for option in options if option[2].fits), (shape, "", planned))
    instead = f"; with {words} it needs {fit.per_chip_gib:.0f}" if words else ""
    if leaner.optimizer is shape.optimizer and words:
        return Fitting(leaner, f"{needed}{instead}", fits=True)
    if planned.per_chip_gib <= shape.accelerator.memory_gib:
        reserve = f"it fits only if it uses the {RESERVE:.0%} that are kept for the runtime"
        return Fitting(shape, f"{needed}: {reserve}{instead}", fits=True)
    return Fitting(leaner, f"{needed}{instead}" if words else None, fits=bool(words))


def _leaner(shape: TrainingShape, *, recompute_open: bool) -> Iterator[tuple[TrainingShape, str]]:
    """Leaner ways to do a job that the plan leaves open, those that change least first, with the keys that say so."""
    again = recompute_open and shape.recompute is not Recompute.FULL
    optimizers: list[Optimizer | None] = [shape.optimizer]
    if shape.optimizer is None and shape.method is not Method.PRETRAIN and not shape.trains_adapters:
        optimizers += leaner_on(shape.accelerator)
    for optimizer in optimizers:
        for recompute in (shape.recompute, Recompute.FULL) if again else (shape.recompute,):
            keys = [f"optimizer {optimizer.value}"] if optimizer is not shape.optimizer and optimizer else []
            keys += [f"recompute {recompute.value}"] if recompute is not shape.recompute else []
            if keys:
                yield replace(shape, optimizer=optimizer, recompute=recompute), " and ".join(keys)


def fitting_optimizer(shape: TrainingShape) -> Optimizer | None:
    """The first leaner optimizer with which a full fine-tuning fits the memory of its chips; None without one."""
    tuned = shape.method is not Method.PRETRAIN and not shape.trains_adapters
    leaner = leaner_on(shape.accelerator) if tuned else ()
    return next((one for one in leaner if fits(replace(shape, optimizer=one)).fits), None)


def min_chips(shape: TrainingShape) -> int | None:
    """The smallest number of chips, in full nodes of `chips_per_node`, on which the job fits.

    Returns:
        A multiple of `chips_per_node`; None when no number is enough, because one sequence alone fills the memory.
    """
    limit = _limit_bytes(shape)
    counts = []
    for group in _groups(LARGEST_GROUP):
        room = limit - _working_bytes(shape, group)
        if room <= 0.0:
            continue
        chips = max(group, math.ceil(state_bytes(shape) / room))
        nodes = -(-chips // shape.chips_per_node)
        counts.append(nodes * shape.chips_per_node)
    return min(counts, default=None)


def _groups(chips: int) -> list[int]:
    most = min(chips, LARGEST_GROUP)
    return [2**power for power in range(most.bit_length()) if 2**power <= most]


def _limit_bytes(shape: TrainingShape) -> float:
    return shape.accelerator.memory_gib * GIB * (1.0 - RESERVE)


def _weights(shape: TrainingShape) -> float:
    """Bytes of all weights, including adapters next to frozen weights and a reference model."""
    adapters = 2.0 * shape.trained_params if shape.trains_adapters else 0.0
    copies = 2.0 if shape.reference_model else 1.0
    return WEIGHT_BYTES[shape.method] * copies * shape.params_b * 1e9 + adapters


def state_bytes(shape: TrainingShape) -> float:
    """Bytes of weights, gradients and optimizer states, which are sharded over all chips."""
    return _weights(shape) + (GRADIENT_BYTES + recipe(shape.optimizer).state) * shape.trained_params


def least_state_bytes(shape: TrainingShape) -> float:
    """State bytes of the leanest common recipe: the plan's optimizer, else AdamW with bf16 states for a fine-tuning."""
    if shape.optimizer is not None or shape.stack is not Stack.HUGGINGFACE:
        return state_bytes(shape)
    return state_bytes(replace(shape, optimizer=LEANER[0]))


def _gathered_bytes(shape: TrainingShape, group: int) -> float:
    return GATHERED_LAYERS * 2.0 * shape.params_b * 1e9 / known_layers(shape) / group


def _activations(shape: TrainingShape, group: int) -> float:
    """Bytes of a micro-step's activations on each chip of its group; recomputation holds one full layer at a time."""
    per_layer = _tokens_at_once(shape) * known_hidden(shape)
    if shape.recompute is Recompute.FULL:
        return (RECOMPUTED_BYTES * known_layers(shape) + ACTIVATION_BYTES) * per_layer / group
    return ACTIVATION_BYTES * known_layers(shape) * per_layer / group


def _logits(shape: TrainingShape, group: int) -> float:
    return LOGIT_BYTES * _tokens_at_once(shape) * (shape.vocab or REFERENCE_VOCAB) / group


def _tokens_at_once(shape: TrainingShape) -> int:
    """Tokens of the sequences that a chip, or a group that shares them, holds at a time."""
    return shape.sequence_length * (shape.micro_batch or 1)


def _working_bytes(shape: TrainingShape, group: int) -> float:
    """Bytes on each chip in addition to the sharded states."""
    return _gathered_bytes(shape, group) + _activations(shape, group) + _logits(shape, group)


def _fit(shape: TrainingShape, group: int) -> Fit:
    chips = shape.chips
    weights, trained = _weights(shape) / chips, shape.trained_params / chips
    gradients, optimizer = GRADIENT_BYTES * trained, recipe(shape.optimizer).state * trained
    gathered, activations, logits = _gathered_bytes(shape, group), _activations(shape, group), _logits(shape, group)
    total = weights + gradients + optimizer + gathered + activations + logits
    limit = _limit_bytes(shape)
    return Fit(
        shape=shape,
        weights=weights,
        gradients=gradients,
        optimizer=optimizer,
        gathered=gathered,
        activations=activations,
        logits=logits,
        group=group,
        per_chip_gib=total / GIB,
        limit_gib=limit / GIB,
        fits=total <= limit,
    )
