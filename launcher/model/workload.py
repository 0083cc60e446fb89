"""What is asked for: a training job or a serving load, as a plan file states it."""

from dataclasses import MISSING
from decimal import Decimal

from launcher.model.enums import (
    BedrockMode,
    BedrockProfile,
    CustomKernels,
    Method,
    Precision,
    Recompute,
    Rollout,
    ServingPrecision,
    ServingTask,
    Stack,
    Trait,
)
from launcher.model.kinds import (
    AnyOf,
    Auto,
    Choice,
    Flag,
    Many,
    NameOr,
    Nullable,
    Number,
    Section,
    Text,
    Usd,
    Whole,
    setting,
)
from launcher.model.record import record

HOURS_A_DAY = 24


SHARED_SHARE = 0.03
"""Of a mixture's parameters, what every token passes through. From the published totals, active parameters, experts and
top-k of Mixtral 8x7B (46.7, 12.9, 8, 2), Qwen3-30B-A3B (30.5, 3.3, 128, 8), DeepSeek-V3 (671, 37, 256, 8) and
gpt-oss-120b (116.8, 5.1, 128, 4): 3.5, 4.9, 2.5 and 1.3 %."""


@record
class ModelDimensions:
    """A model given by its dimensions; `params_b` (billions of parameters) is enough."""

    params_b: float = setting(MISSING, Number(above=0, maximum=100_000), "billions of parameters, all of them")
    active_params_b: float | None = setting(
        None, Nullable(item=Number(above=0)), "billions of parameters a token passes through (mixture of experts)"
    )
    experts: int | None = setting(
        None, Nullable(item=Whole(minimum=2)), "experts in a layer (mixture of experts), with top_k"
    )
    top_k: int | None = setting(None, Nullable(item=Whole(minimum=1)), "experts that a token passes through")
    layers: int | None = setting(None, Nullable(item=Whole(minimum=1)), "layers with attention")
    hidden: int | None = setting(None, Nullable(item=Whole(minimum=1)), "width of the residual stream")
    heads: int | None = setting(None, Nullable(item=Whole(minimum=1)), "attention heads")
    kv_heads: int | None = setting(None, Nullable(item=Whole(minimum=1)), "key and value heads")
    vocab: int | None = setting(None, Nullable(item=Whole(minimum=1)), "tokens in the vocabulary")

    @property
    def active_b(self) -> float:
        """Billions of parameters that a token passes through: as given, else by the experts.

        >>> round(ModelDimensions(params_b=46.7, experts=8, top_k=2).active_b, 1)
        12.7
        """
        if self.active_params_b is not None or self.experts is None or self.top_k is None:
            return self.params_b if self.active_params_b is None else self.active_params_b
        return self.params_b * (SHARED_SHARE + (1 - SHARED_SHARE) * min(1.0, self.top_k / self.experts))


@record
class TrainingData:
    """Where the training data lie, for the bill of moving them."""

    uri: str | None = setting(None, Nullable(item=Text(pattern=r"s3://.+", form="s3://bucket/prefix")), "s3:// address")
    gib: float = setting(0, Number(minimum=0), "size in GiB")
    region: str | None = setting(None, Nullable(item=Text()), "region the data lie in, when not the cluster's")


@record
class TrainingWorkload:
    """A training job: a model and tokens, or plain hours of progress."""

    model: str | ModelDimensions | None = setting(
        None,
        Nullable(item=NameOr(of=ModelDimensions)),
        "a known name, or {params_b, experts, top_k, layers, hidden, ...}",
    )
    method: Method = setting(Method.FULL, Choice(words=Method), "how the weights are trained")
    tokens_b: float | None = setting(
        None, Nullable(item=Number(above=0, maximum=1e6, unit="billions of tokens")), "billions of tokens to train on"
    )
    hours: float | None = setting(
        None, Nullable(item=Number(above=0)), "hours of progress instead of tokens; needs type and nodes"
    )
    sequence_length: int = setting(4096, Whole(minimum=1, maximum=16_777_216), "tokens in a sequence")
    global_batch_tokens: int | None = setting(
        None, Nullable(item=Whole(minimum=1)), "tokens in a step, all chips together"
    )
    precision: Precision = setting(Precision.BF16, Choice(words=Precision), "number format of the matrix products")
    micro_batch: int | None = setting(
        None, Nullable(item=Whole(minimum=1, maximum=65_536)), "sequences of one chip in a micro-step"
    )
    recompute: Recompute | None = setting(
        None,
        Auto(item=Choice(words=Recompute)),
        "activations computed again; auto: full with stack huggingface, else selective",
    )
    stack: Stack | None = setting(
        None,
        Auto(item=Choice(words=Stack)),
        "tuned (Megatron, NeMo, MLPerf-like), framework (FSDP, torchtitan, NxD), huggingface (Trainer, PEFT, TRL, "
        "axolotl) or untuned; auto: from the job's imports and command, else huggingface for LoRA and QLoRA, framework "
        "for the rest",
    )
    throughput_tokens_per_s: float | None = setting(
        None, Nullable(item=Number(above=0)), "measured on one node of the pinned type; replaces the estimate"
    )
    custom_kernels: CustomKernels = setting(
        CustomKernels.NONE, Choice(words=CustomKernels), "hand-written CUDA or Triton in the model"
    )
    runs: int = setting(1, Whole(minimum=1, maximum=1_000_000), "how often the job is run in all")
    runs_per_month: float = setting(1, Number(above=0), "how often in a month")
    port_weeks: float | None = setting(
        None, Auto(item=Number(minimum=0)), "engineer-weeks to port to Neuron; auto follows custom_kernels"
    )
    engineer_usd_per_week: Decimal = setting(Decimal(5000), Usd(), "what an engineer-week costs")
    traits: tuple[Trait, ...] = setting(
        (), Many(item=Choice(words=Trait)), "circumstances that decide beside the price"
    )
    data: TrainingData = setting(TrainingData, Section(of=TrainingData), "training data")


@record
class BedrockRequest:
    """How Bedrock may be used instead of machines."""

    model: str | None = setting(
        None, Nullable(item=Text()), "Bedrock model id; none: the one with the same weights, or of the same name"
    )
    mode: BedrockMode | None = setting(
        None,
        AnyOf(item=Choice(words=BedrockMode)),
        "how it is paid; any: by the token, in a batch where asynchronous, and the others where their price is known",
    )
    profile: BedrockProfile | None = setting(
        None,
        Auto(item=Choice(words=BedrockProfile)),
        "inference profile; none: the region alone; auto: the region, else its part of the world, else global",
    )
    provisioned_usd_per_hour: Decimal | None = setting(
        None, Nullable(item=Usd()), "your price of one model unit; none is public for current models"
    )
    provisioned_units: int = setting(1, Whole(minimum=1, maximum=10_000), "model units the load needs, as AWS told you")
    import_copies: int | None = setting(
        None,
        Nullable(item=Whole(minimum=1, maximum=10_000)),
        "copies of imported weights that run while there are requests (CloudWatch's ModelCopy); offers custom-import",
    )
    import_units: int | None = setting(
        None, Auto(item=Whole(minimum=1, maximum=10_000)), "custom model units of a copy, as GetImportedModel tells"
    )
    import_usd_per_unit_minute: Decimal | None = setting(
        None, Nullable(item=Usd()), "your price of a custom model unit; none: the one that is known of the region"
    )


@record
class ServingWorkload:
    """A serving load: a model, traffic and latency limits."""

    model: str | ModelDimensions | None = setting(
        None, Nullable(item=NameOr(of=ModelDimensions)), "a known name, or its dimensions"
    )
    model_uri: str | None = setting(None, Nullable(item=Text(pattern=r"s3://.+", form="s3://...")), "weights in S3")
    artifacts_uri: str | None = setting(
        None, Nullable(item=Text(pattern=r"s3://.+", form="s3://...")), "compiled model"
    )
    task: ServingTask = setting(ServingTask.CHAT, Choice(words=ServingTask), "kind of request")
    precision: ServingPrecision = setting(
        ServingPrecision.BF16, Choice(words=ServingPrecision), "format of the weights"
    )
    input_tokens: int = setting(1000, Whole(minimum=1), "tokens in a request")
    cached_input_fraction: float = setting(
        0.0, Number(minimum=0, maximum=1), "share of a request that all have in common, read from a prompt cache"
    )
    output_tokens: int = setting(250, Whole(minimum=0), "tokens in an answer")
    requests_per_s: float | None = setting(None, Nullable(item=Number(minimum=0)), "requests per second, all day")
    hourly_requests_per_s: tuple[float, ...] | None = setting(
        None,
        Nullable(item=Many(item=Number(minimum=0), exactly=24)),
        "requests per second by hour of the day, in the time zone of schedule",
    )
    max_ttft_ms: float | None = setting(None, Nullable(item=Number(above=0)), "limit on the time to the first token")
    max_tpot_ms: float | None = setting(None, Nullable(item=Number(above=0)), "limit on the time per output token")
    streaming: bool = setting(True, Flag(), "answers arrive token by token")
    asynchronous: bool = setting(False, Flag(), "requests may wait in a queue")
    min_instances: int = setting(1, Whole(minimum=0), "instances always there")
    max_instances: int | None = setting(None, Nullable(item=Whole(minimum=1)), "instances at most")
    zones: int = setting(1, Whole(minimum=1, maximum=6), "availability zones")
    tensor_parallel: int | None = setting(None, Auto(item=Whole(minimum=1)), "chips or cores that share a copy")
    batch_size: int | None = setting(None, Auto(item=Whole(minimum=1)), "requests decoded together")
    sequence_length: int | None = setting(None, Auto(item=Whole(minimum=1)), "longest request with its answer")
    image: str | None = setting(None, Auto(item=Text()), "container image")
    deployment: Rollout = setting(Rollout.AUTO, Choice(words=Rollout), "how a new version replaces the old")
    schedule: tuple[str, ...] = setting(
        (), Many(item=Text()), "ranges of instances by the clock: cron(0 7 ? * MON-FRI *) 2-6 Europe/Berlin"
    )
    data_capture: bool = setting(False, Flag(), "keep requests and answers in S3")
    bedrock: BedrockRequest = setting(BedrockRequest, Section(of=BedrockRequest), "Bedrock instead of machines")
    port_weeks: float | None = setting(None, Nullable(item=Number(minimum=0)), "engineer-weeks to port to Neuron")
    operations_usd_per_month: Decimal | None = setting(None, Nullable(item=Usd()), "what running it costs in people")

    @property
    def hourly(self) -> tuple[float, ...]:
        """Requests per second in each hour of the day."""
        if self.hourly_requests_per_s is not None:
            return self.hourly_requests_per_s
        return (self.requests_per_s or 0.0,) * HOURS_A_DAY

    @property
    def answer_tokens(self) -> int:
        """Tokens of an answer; an embedding has none."""
        return 0 if self.task is ServingTask.EMBEDDING else self.output_tokens


@record
class Workload:
    """One of the two, or neither: a cluster only."""

    train: TrainingWorkload | None = setting(None, Nullable(item=Section(of=TrainingWorkload)), "a training job")
    serve: ServingWorkload | None = setting(None, Nullable(item=Section(of=ServingWorkload)), "a serving load")
