"""Inputs and results of serving estimates: a served model, coefficients, measured rows, estimates."""

from collections.abc import Mapping
from decimal import Decimal

from launcher.model.bedrock import BedrockTerms
from launcher.model.candidate_group import CandidateGroup
from launcher.model.enums import BedrockMode, ServingPrecision
from launcher.model.instance_type import Accelerator
from launcher.model.money import Range, UsdRange
from launcher.model.record import record
from launcher.model.workload import ServingWorkload

WITHOUT_URI, UNNAMED_PLAN = "model-without-uri", "plan-without-arn"
UNTIL_DEPLOYED = (WITHOUT_URI, UNNAMED_PLAN)
"""The codes of findings on what a deployment needs and a quote does without: the weights in S3, a training plan."""


@record
class ServedModel:
    """A model as an engine sees it: sizes in 1e9 parameters, widths in elements."""

    name: str
    # all parameters; of them `expert_b` in routed experts, none in a dense model
    params_b: float
    layers: float
    hidden: float
    heads: int
    kv_heads: int
    # cached elements of one token over all layers
    kv_values_per_token: float
    architecture: str = "decoder"
    expert_b: float = 0.0
    # routed experts of a layer, how many of them a token uses, and the layers that have experts
    experts: int = 0
    experts_per_token: int = 0
    moe_layers: float = 0.0
    # parameters of the embeddings and of the output head, which most 4-bit formats keep in 16 bits
    embedding_b: float = 0.0
    # multi-head latent attention: the cache is one latent vector, which tensor parallelism cannot split
    latent: bool = False
    # names of the dimensions that were not given and are estimated
    assumed: tuple[str, ...] = ()

    @property
    def mixture(self) -> bool:
        """Whether the model is a mixture of experts."""
        return self.expert_b > 0

    @property
    def dense_b(self) -> float:
        """Parameters that every token uses."""
        return self.params_b - self.expert_b

    @property
    def active_expert_b(self) -> float:
        """Parameters of routed experts that one token uses."""
        return self.expert_b * self.experts_per_token / self.experts if self.experts else 0.0

    def touched_b(self, tokens: float) -> float:
        """Parameters of routed experts that a step of so many tokens reads, if each token chooses at random.

        >>> sizes = {"params_b": 48, "layers": 32, "hidden": 4096, "heads": 32, "kv_heads": 8}
        >>> experts = {"expert_b": 45, "experts": 8, "experts_per_token": 2}
        >>> model = ServedModel(name="m", **sizes, kv_values_per_token=65536, **experts)
        >>> round(model.touched_b(1), 2), round(model.touched_b(64), 2)
        (11.25, 45.0)
        """
        if not self.experts:
            return 0.0
        missed: float = (1.0 - self.experts_per_token / self.experts) ** tokens
        return self.expert_b * (1.0 - missed)


@record
class Copy:
    """One copy of a model on the chips that share it, with its load."""

    model: ServedModel
    accelerator: Accelerator
    # NeuronCores, two a chip, or GPUs.
    tensor_parallel: int
    # A constant of launcher.planning.serving.software.
    software: str
    # Bytes per parameter, and per cached element.
    weight_bytes: float
    cache_bytes: float
    # Requests decoded together: on Neuron the compiled batch, whose cost does not depend on how full it is; on GPUs the
    # live requests.
    batch: int
    # The longest request with its answer, tokens; on Neuron it is compiled too.
    sequence: int
    input_tokens: float
    output_tokens: float
    packed_weights: bool = False
    """Weights of 4 bits, which every step unpacks."""
    fp8_arithmetic: bool = False
    # Bytes per parameter of a routed expert; None: the same.
    expert_bytes: float | None = None
    attention_parallel: bool = False
    """Every GPU holds the whole attention for requests of its own, and a share of the experts."""

    @property
    def weight_gb(self) -> float:
        """Bytes of the weights over all chips, 1e9."""
        experts = self.weight_bytes if self.expert_bytes is None else self.expert_bytes
        repeated = self.tensor_parallel if self.attention_parallel else 1
        return self.model.dense_b * self.weight_bytes * repeated + self.model.expert_b * experts


@record(eq=False)
class ServingFacts:
    """The fitted numbers behind every serving estimate, and the measured rows that take precedence over them."""

    # Coefficients by name (`launcher.planning.serving.neuron`, `.gpu`); `mixture`: mixtures of experts on GPUs.
    neuron: Mapping[str, float]
    gpu: Mapping[str, float]
    mixture: Mapping[str, float]
    # By the same families: the distance of eight in ten measured rows from an estimate made without their model or
    # source, as a logarithm.
    spread: Mapping[str, float]
    # The number of rows behind each accelerator.
    rows_by_chip: Mapping[str, int]
    measured: tuple["MeasuredServing", ...]
    formats: Mapping[str, ServingPrecision]
    fitted_on: str


@record
class MeasuredServing:
    """One measurement that a plan can match."""

    model: str
    # Empty for a load test of the user's own endpoint, which applies only to its instance type.
    accelerator: str
    tensor_parallel: int
    copies: int
    precision: ServingPrecision
    batch: int
    concurrency: int
    input_tokens: int
    output_tokens: int
    # Output tokens of all `copies` of an instance together; input tokens of an embedding model.
    tokens_per_s: float
    ttft_ms: float
    tpot_ms: float
    date: str
    source: str
    instance_type: str = ""
    # 0 if unknown.
    sequence: int = 0

    @property
    def is_own(self) -> bool:
        """Whether the row is a load test of the user's own endpoint."""
        return bool(self.instance_type)


@record
class Layout:
    """How copies fill an instance: `copies` of the model, each on `tensor_parallel` cores or GPUs with `batch`."""

    tensor_parallel: int
    copies: int
    batch: int
    sequence: int


@record
class ServingEstimate:
    """The throughput of one full instance."""

    layout: Layout
    # Output tokens of all its copies; input tokens of an embedding model.
    tokens_per_s: Range
    # The middle value in requests.
    requests_per_s: float
    # Expected at that load; None if not applicable.
    ttft_ms: float | None
    tpot_ms: float | None
    measured: bool
    source: str = ""
    """The source of a measured row."""

    @property
    def basis(self) -> str:
        """The basis of the estimate, in a word."""
        return "measured" if self.measured else "estimated"


@record
class ServingChoices:
    """The options that can serve a plan: ways to buy instances, the estimates of each type, and Bedrock."""

    serve: ServingWorkload
    groups: tuple[CandidateGroup, ...]
    # Those of every layout that may be the cheapest, the fastest first, by the name of the type.
    estimates: Mapping[str, tuple[ServingEstimate, ...]]
    # 1e9 bytes; 0 for a model whose weights only Bedrock has.
    weights_gb: float
    # None if Bedrock does not have the model, or the plan excludes Bedrock.
    bedrock_id: str | None
    bedrock_modes: tuple[BedrockMode, ...]


@record
class Instances:
    """Instances over a day: the lowest and highest number, and the mean that is billed."""

    least: float
    mean: float
    most: int


@record
class ServingOutlook:
    """A candidate's month of serving.

    `tokens_per_s` is the maximum output of one instance; `utilisation` the used share of the paid capacity; both
    are None on Bedrock. `idle_usd_per_month` is the cost of the unused share.
    """

    tokens_per_s: float | None
    utilisation: float | None
    usd_per_month: UsdRange | None
    usd_per_million_output_tokens: Decimal | None
    usd_per_million_tokens: Decimal | None
    ttft_ms: float | None
    tpot_ms: float | None
    requests_per_month: float
    idle_usd_per_month: Decimal | None
    estimate: ServingEstimate | None
    instances: Instances | None
    bedrock: BedrockTerms | None
