"""Inputs and results of serving estimates: a served model, coefficients, measured rows, estimates."""

from collections.abc import Mapping
from dataclasses import field
from datetime import date
from decimal import Decimal

from launcher.model.announced_end import AnnouncedEnd
from launcher.model.candidate_group import CandidateGroup
from launcher.model.enums import Basis, BedrockMode, ServingPrecision
from launcher.model.instance_type import Accelerator
from launcher.model.money import Range, UsdRange
from launcher.model.record import record
from launcher.model.workload import ServingWorkload


@record
class ServedModel:
    """A model as an engine sees it; `params_b` in 1e9, `kv_values_per_token` cached elements over all layers.

    `assumed` names the dimensions that were not given and are estimated.
    """

    name: str
    params_b: float
    layers: float
    hidden: float
    heads: int
    kv_heads: int
    kv_values_per_token: float
    architecture: str = "decoder"
    mixture: bool = False
    latent: bool = False
    assumed: tuple[str, ...] = ()


@record
class Copy:
    """One copy of a model on the chips that share it, with its load.

    `tensor_parallel` counts NeuronCores, two a chip, or GPUs. `batch` is the number of requests decoded together: on
    Neuron the compiled batch, which costs the same when it is not full; on GPUs the live requests. `sequence` is the
    longest request with its answer, tokens; on Neuron it is compiled too. `software` is a constant of
    launcher.planning.serving.software. `weight_bytes` are per parameter, `cache_bytes` per cached element.
    """

    model: ServedModel
    accelerator: Accelerator
    tensor_parallel: int
    software: str
    weight_bytes: float
    cache_bytes: float
    batch: int
    sequence: int
    input_tokens: float
    output_tokens: float
    packed_weights: bool = False
    """Weights of 4 bits, which every step unpacks."""
    fp8_arithmetic: bool = False


@record(eq=False)
class ServingFacts:
    """The fitted numbers behind every serving estimate, and the measured rows that take precedence over them.

    `neuron` and `gpu` are coefficients by name (`launcher.planning.serving.neuron`, `.gpu`). `spread` is by the same
    two families: the distance of eight in ten measured rows from an estimate made without their model, as a logarithm.
    `rows_by_chip` counts the rows behind each accelerator.
    """

    neuron: Mapping[str, float]
    gpu: Mapping[str, float]
    spread: Mapping[str, float]
    rows_by_chip: Mapping[str, int]
    measured: tuple["MeasuredServing", ...]
    fitted_on: str


@record
class MeasuredServing:
    """One measurement that a plan can match: `tokens_per_s` are output tokens of all `copies` of an instance together.

    They are input tokens of an embedding model. `is_own` is a load test of the user's own endpoint, which applies only
    to its instance type; `accelerator` is empty then. `sequence` is 0 if unknown.
    """

    model: str
    accelerator: str
    tensor_parallel: int
    copies: int
    precision: ServingPrecision
    batch: int
    concurrency: int
    input_tokens: int
    output_tokens: int
    tokens_per_s: float
    ttft_ms: float
    tpot_ms: float
    date: str
    source: str
    instance_type: str = ""
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
    """The throughput of one full instance.

    `tokens_per_s` are output tokens of all its copies (input tokens for an embedding model), `requests_per_s` the
    middle value in requests. `ttft_ms` and `tpot_ms` are expected at that load, None if not applicable.
    """

    layout: Layout
    tokens_per_s: Range
    requests_per_s: float
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
    """The options that can serve a plan: ways to buy instances, the estimates of each type, and Bedrock.

    `estimates` are those of every layout that may be the cheapest, the fastest first, by the name of the type.
    `weights_gb` (1e9 bytes) are 0 for a model whose weights only Bedrock has. `bedrock_id` is None if Bedrock does not
    have the model, or the plan excludes Bedrock.
    """

    serve: ServingWorkload
    groups: tuple[CandidateGroup, ...]
    estimates: Mapping[str, tuple[ServingEstimate, ...]]
    weights_gb: float
    bedrock_id: str | None
    bedrock_modes: tuple[BedrockMode, ...]


@record
class BedrockPrice:
    """Bedrock's price of a model, dollars per million tokens; None if no price is known.

    `profile` is the inference profile ("us", "eu", "global") or empty; `region` is empty if one price holds for all
    regions of the model. `deprecation` is the day after which AWS no longer offers it. `parts` are the prices
    of tokens that are read from or written to a prompt cache, and of long requests, by the names of the data file.
    """

    model_id: str
    profile: str
    region: str
    embedding: bool
    input_usd: Decimal
    output_usd: Decimal
    batch_input_usd: Decimal | None
    batch_output_usd: Decimal | None
    deprecation: date | None
    source: str
    basis: Basis
    as_of: date
    parts: Mapping[str, Decimal] = field(default_factory=dict, hash=False)

    @property
    def end(self) -> AnnouncedEnd | None:
        """The announced end of the model; None without one."""
        if self.deprecation is None:
            return None
        return AnnouncedEnd(
            key=f"bedrock-model/{self.model_id}",
            what=f"{self.model_id} on Bedrock",
            ends=self.deprecation,
            then="AWS withdraws the model",
            withdrawn=True,
            path="workload.serve.model",
            hint="use another model, or your own instances, before then",
            basis=self.basis,
            source=self.source,
            as_of=self.as_of,
        )


@record
class ImportPrice:
    """The cost of imported weights in a region, dollars a custom model unit: a minute that a copy runs, and a month."""

    region: str
    usd_per_unit_minute: Decimal
    usd_per_unit_month: Decimal
    source: str
    basis: Basis
    as_of: date


@record
class BedrockTerms:
    """The terms of a Bedrock candidate."""

    model_id: str
    profile: str
    mode: BedrockMode
    same_weights: str
    """The open model with these weights; empty for a closed model."""
    input_usd_per_million: Decimal | None
    output_usd_per_million: Decimal | None
    region_seen: bool = True
    """Whether any Bedrock price names the region."""
    cached_usd_per_million: Decimal | None = None
    """Price of input read from a prompt cache; None if no price is known, or the plan uses no cache."""
    cheaper: str = ""
    """A cheaper profile that the plan leaves open, in words."""
    end: AnnouncedEnd | None = None
    """The announced end of the model, if any."""

    @property
    def inference_id(self) -> str:
        """The name in a request: the model, or its inference profile."""
        return f"{self.profile}.{self.model_id}" if self.profile else self.model_id


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
