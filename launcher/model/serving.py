"""What serving is computed from and what comes out: a model as it is served, coefficients, measured rows, estimates."""

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

    `assumed` says which dimensions stand in for ones that were not given.
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
    """One copy of a model on the chips that share it, with the load it is under.

    `tensor_parallel` counts NeuronCores, two a chip, or GPUs. `batch` is how many requests are decoded together: on
    Neuron what is compiled, which costs the same when it is not full; on GPUs what is live. `sequence` is the longest
    request with its answer, tokens; on Neuron it is compiled too. `software` is one of those in
    launcher.planning.serving.software. `weight_bytes` are a parameter's, `cache_bytes` a cached element's.
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
    """The fitted numbers behind every serving estimate, and the measured rows that go before them.

    `neuron` and `gpu` are coefficients by name (`launcher.planning.serving.neuron`, `.gpu`). `spread` is by the same
    two families: how far eight in ten measured rows lie from an estimate made without their model, as a logarithm.
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

    They are input tokens of an embedding model. `own` is a load test of one's own endpoint, which stands for its
    instance type and no other; `accelerator` is empty then. `sequence` is 0 where it is not known.
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
    def own(self) -> bool:
        """Whether it is a load test of one's own endpoint."""
        return bool(self.instance_type)


@record
class Layout:
    """How an instance is filled: `copies` of the model, each on `tensor_parallel` cores or GPUs, `batch` at once."""

    tensor_parallel: int
    copies: int
    batch: int
    sequence: int


@record
class ServingEstimate:
    """What one instance serves when it is full.

    `tokens_per_s` are output tokens of all its copies (input tokens for an embedding model), `requests_per_s` the
    middle of the same in requests. `ttft_ms` and `tpot_ms` are expected at that load, None where there is none.
    """

    layout: Layout
    tokens_per_s: Range
    requests_per_s: float
    ttft_ms: float | None
    tpot_ms: float | None
    measured: bool
    source: str = ""
    """Of a measured row."""

    @property
    def basis(self) -> str:
        """What it rests on, in a word."""
        return "measured" if self.measured else "estimated"


@record
class ServingChoices:
    """What can carry a serving plan: ways to buy machines, what one of each type serves, and Bedrock.

    `estimates` are those of every layout that may be the cheapest, the fastest first, by the name of the type.
    `weights_gb` (1e9 bytes) are 0 for a model whose weights nobody has but Bedrock. `bedrock_id` is None where Bedrock
    does not have the model, or the plan leaves it out.
    """

    serve: ServingWorkload
    groups: tuple[CandidateGroup, ...]
    estimates: Mapping[str, tuple[ServingEstimate, ...]]
    weights_gb: float
    bedrock_id: str | None
    bedrock_modes: tuple[BedrockMode, ...]


@record
class BedrockPrice:
    """What Bedrock charges for a model, dollars per million tokens; None where no price is known.

    `profile` is the inference profile ("us", "eu", "global") or nothing; `region` is empty where one price holds
    wherever the model is offered. `deprecation` is the day after which AWS no longer offers it. `parts` are the prices
    of tokens that come from a prompt cache or are written to it, and of long requests, by the names of the data file.
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
    """What imported weights cost in a region, dollars a custom model unit: a minute that a copy runs, and a month."""

    region: str
    usd_per_unit_minute: Decimal
    usd_per_unit_month: Decimal
    source: str
    basis: Basis
    as_of: date


@record
class BedrockTerms:
    """How a candidate is bought from Bedrock."""

    model_id: str
    profile: str
    mode: BedrockMode
    same_weights: str
    """The open model whose weights these are; empty for a closed model."""
    input_usd_per_million: Decimal | None
    output_usd_per_million: Decimal | None
    region_seen: bool = True
    """Whether some price of Bedrock names the region."""
    cached_usd_per_million: Decimal | None = None
    """Of input that a prompt cache holds; None where no price of it is known, or none is asked for."""
    cheaper: str = ""
    """A profile at a lower price that the plan leaves open, in words."""
    end: AnnouncedEnd | None = None
    """The model's, where AWS has announced one."""

    @property
    def inference_id(self) -> str:
        """What a request names: the model, or its inference profile."""
        return f"{self.profile}.{self.model_id}" if self.profile else self.model_id


@record
class Instances:
    """Instances over a day: the fewest and the most at once, and the mean that is paid for."""

    least: float
    mean: float
    most: int


@record
class ServingOutlook:
    """A candidate's month of serving.

    `tokens_per_s` is what one instance can put out; `utilisation` the share of the paid capacity that is used; both are
    None on Bedrock. `idle_usd_per_month` is what the unused share costs.
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
