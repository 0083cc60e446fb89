"""The inputs of a training estimate: a model, its training method, and the chips."""

import math

from launcher.model.enums import Method, Optimizer, Precision, Recompute, Stack
from launcher.model.instance_type import Accelerator
from launcher.model.record import record

REFERENCE_PARAMS_B = 6.7
"""Llama 2 7B (config.json: 32 layers, hidden 4096, 32 heads): unknown dimensions are scaled from it."""
REFERENCE_LAYERS = 32
REFERENCE_HIDDEN = 4096
REFERENCE_VOCAB = 32_000
ADAPTER_FRACTION = 0.01
"""Trained share of all parameters with LoRA: rank 16 on every linear layer of a 7 B model is 40 M, 0.6 %
(arXiv:2106.09685, section 4); rounded up, because higher ranks are common."""
MOE_ACTIVE_FRACTION = 0.95
"""A model whose tokens use less than this share of its parameters counts as a mixture of experts ..."""
MOE_WHOLLY_FRACTION = 0.7
"""... and below this share counts fully as one: all mixtures in the fit use less than half. Between the two limits
the terms are interpolated, so that no estimate jumps; the form is a judgement."""


ADAPTERS = frozenset({Method.LORA, Method.QLORA})
"""Methods that train a few weights in addition to frozen ones."""
WITH_REFERENCE = frozenset({Method.DPO, Method.KTO})
"""Methods with a frozen reference model (Rafailov 2023, arXiv:2305.18290; Ethayarajh 2024, arXiv:2402.01306); ORPO has
none (Hong 2024, arXiv:2403.07691)."""
PAIRED = frozenset({Method.DPO, Method.ORPO})
"""Methods that train on pairs of a chosen and a rejected answer."""
GENERATING = frozenset({Method.GRPO, Method.PPO, Method.RFT})
"""Methods that also spend time on generation, which no estimate of this project covers."""


@record
class TrainingShape:
    """One way to train one model on one number of chips."""

    # Billions of parameters: all, and those that a token uses.
    params_b: float
    active_params_b: float
    # Layers, hidden size, heads and vocabulary: None scales them from a 7B model.
    layers: int | None = None
    # The layers with full attention (None: all); the others have a `window` of tokens, 0 for none.
    attention_layers: int | None = None
    window: int = 0
    hidden: int | None = None
    heads: int | None = None
    kv_heads: int | None = None
    vocab: int | None = None
    sequence_length: int = 4096
    # None if the plan leaves the batch open: it grows with the chips up to `max_batch_tokens` (None: no limit).
    global_batch_tokens: float | None = None
    max_batch_tokens: float | None = None
    precision: Precision = Precision.BF16
    recompute: Recompute = Recompute.SELECTIVE
    # In sequences of one chip.
    micro_batch: int | None = None
    method: Method = Method.FULL
    stack: Stack = Stack.FRAMEWORK
    # False if the trainer is only assumed.
    stack_known: bool = True
    # The number of chips that share one set of experts (None: unknown).
    expert_parallel: int | None = None
    # The number of chips that share each matrix (None: left to the stack).
    tensor_parallel: int | None = None
    # Experts per token, and the layers that have experts (None: all).
    top_k: int | None = None
    expert_layers: int | None = None
    # Whether the nodes exchange over EFA.
    efa: bool = False
    # What the network of one AWS node carries all the time; None for the clusters of published rows.
    node_gbps: float | None = None
    # The AWS family ("p5"), None for the clusters of published rows.
    instance_family: str | None = None
    # None if the plan leaves it to the trainer.
    optimizer: Optimizer | None = None
    accelerator: Accelerator
    # All chips of the job.
    chips: int
    chips_per_node: int
    # Measured on one node of `chips_per_node` chips; replaces the estimate.
    measured_tokens_per_s: float | None = None

    def __post_init__(self) -> None:
        """Reject sizes that allow no estimate."""
        sizes = (self.params_b, self.active_params_b, float(self.sequence_length), self.accelerator.peak_bf16_tflops)
        if not all(0.0 < size < math.inf for size in sizes) or self.chips < 1 or self.chips_per_node < 1:
            raise ValueError(f"sizes must be finite and above 0, got {sizes} on {self.chips} chips")
        if self.active_params_b > self.params_b:
            raise ValueError(f"active_params_b {self.active_params_b} is above params_b {self.params_b}")
        for optional in (self.global_batch_tokens, self.measured_tokens_per_s):
            if optional is not None and not 0.0 < optional < math.inf:
                raise ValueError(f"a batch or a throughput must be finite and above 0, got {optional}")

    @property
    def moe(self) -> bool:
        """Whether the model is a mixture of experts."""
        return self.active_params_b < MOE_ACTIVE_FRACTION * self.params_b

    @property
    def moe_share(self) -> float:
        """The degree to which the model counts as a mixture of experts: 0 for a dense model, 1 for a full mixture."""
        fraction = self.active_params_b / self.params_b
        return min(1.0, max(0.0, (MOE_ACTIVE_FRACTION - fraction) / (MOE_ACTIVE_FRACTION - MOE_WHOLLY_FRACTION)))

    @property
    def nodes(self) -> int:
        """Nodes; the last one may be partly used."""
        return -(-self.chips // self.chips_per_node)

    @property
    def trains_adapters(self) -> bool:
        """Whether the base weights stay frozen."""
        return self.method in ADAPTERS

    @property
    def reference_model(self) -> bool:
        """Whether a frozen copy of the model runs forward next to the trained one: DPO and KTO compare with it."""
        return self.method in WITH_REFERENCE

    @property
    def trained_params(self) -> float:
        """Parameters that get a gradient and optimizer states; adapters only with LoRA and QLoRA."""
        return self.params_b * 1e9 * (ADAPTER_FRACTION if self.trains_adapters else 1.0)

    @property
    def attended_positions(self) -> float:
        """Positions times hidden width over all layers, for one token.

        Attention is counted over the whole square of the sequence (`launcher.planning.flops`), so a window counts
        twice its tokens, at most the sequence.
        """
        sequence = float(self.sequence_length)
        if self.attention_layers is None or self.layers is None or self.hidden is None:
            return self._attention_width * sequence
        others = max(0, self.layers - self.attention_layers) * min(2.0 * self.window, sequence)
        return self.hidden * (self.attention_layers * sequence + others)

    @property
    def _attention_width(self) -> float:
        """Layers times hidden width; scaled with the two-thirds power of the active parameters when one is unknown."""
        if self.layers is not None and self.hidden is not None:
            return float(self.layers * self.hidden)
        return REFERENCE_LAYERS * REFERENCE_HIDDEN * math.pow(self.active_params_b / REFERENCE_PARAMS_B, 2.0 / 3.0)

    @property
    def fp8_counts(self) -> bool:
        """Whether the plan requests FP8, the chip has FP8, and its fitted gain applies: on NVIDIA chips."""
        peak = self.accelerator.peak_fp8_tflops
        return (
            self.precision is Precision.FP8
            and self.accelerator.family == "nvidia"
            and peak is not None
            and peak > self.accelerator.peak_bf16_tflops
        )


def stack_of(method: Method) -> Stack:
    """The stack if the plan leaves it open: Hugging Face trainers for adapters, a framework for the rest."""
    return Stack.HUGGINGFACE if method in ADAPTERS else Stack.FRAMEWORK


def recompute_of(stack: Stack) -> Recompute:
    """The recomputation if the plan leaves it open: examples of the Hugging Face trainers checkpoint all layers."""
    return Recompute.FULL if stack is Stack.HUGGINGFACE else Recompute.SELECTIVE


def known_layers(shape: TrainingShape) -> float:
    """Transformer layers, or a cube-root estimate from a 7B model.

    Depth and width of the published families both grow with the cube root of the parameters (12 L h^2 of them).
    """
    return shape.layers or max(1.0, REFERENCE_LAYERS * (shape.active_params_b / REFERENCE_PARAMS_B) ** (1.0 / 3.0))


def known_hidden(shape: TrainingShape) -> float:
    """Hidden width, or a cube-root estimate from a 7B model."""
    return shape.hidden or max(64.0, REFERENCE_HIDDEN * (shape.active_params_b / REFERENCE_PARAMS_B) ** (1.0 / 3.0))
