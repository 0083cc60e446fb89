"""The requested workload: a training job or a serving load, as in the plan file."""

from dataclasses import MISSING
from decimal import Decimal

from launcher.model.enums import (
    BedrockMode,
    BedrockProfile,
    CustomKernels,
    Method,
    Optimizer,
    Precision,
    Recompute,
    Rollout,
    ServingPrecision,
    ServingTask,
    Stack,
    Trait,
)
from launcher.model.kinds import (
    FILLED,
    IMAGE,
    S3_URI,
    AnyOf,
    Auto,
    Choice,
    Flag,
    Integer,
    Many,
    NameOr,
    Nullable,
    Number,
    Section,
    Text,
    Usd,
    setting,
)
from launcher.model.record import record

HOURS_A_DAY = 24


SHARED_SHARE = 0.03
"""Share of a mixture's parameters that every token uses. From the published totals, active parameters, experts and
top-k of Mixtral 8x7B (46.7, 12.9, 8, 2), Qwen3-30B-A3B (30.5, 3.3, 128, 8), DeepSeek-V3 (671, 37, 256, 8) and
gpt-oss-120b (116.8, 5.1, 128, 4): 3.5, 4.9, 2.5 and 1.3 %."""


@record
class ModelDimensions:
    """A model given by its dimensions; `params_b` (billions of parameters) is enough."""

    params_b: float = setting(MISSING, Number(above=0, maximum=100_000), "billions of parameters in total")
    active_params_b: float | None = setting(
        None, Nullable(item=Number(above=0)), "billions of parameters per token (mixture of experts)"
    )
    experts: int | None = setting(
        None, Nullable(item=Integer(minimum=2)), "experts per layer (mixture of experts), with top_k"
    )
    top_k: int | None = setting(None, Nullable(item=Integer(minimum=1)), "experts per token")
    layers: int | None = setting(None, Nullable(item=Integer(minimum=1)), "layers")
    attention_layers: int | None = setting(
        None, Nullable(item=Integer(minimum=0)), "layers with full attention; null: all (hybrid and windowed models)"
    )
    window: int = setting(0, Integer(minimum=0), "tokens that the other layers see; 0: they have no attention")
    hidden: int | None = setting(None, Nullable(item=Integer(minimum=1)), "hidden size")
    heads: int | None = setting(None, Nullable(item=Integer(minimum=1)), "attention heads")
    kv_heads: int | None = setting(None, Nullable(item=Integer(minimum=1)), "key-value heads")
    vocab: int | None = setting(None, Nullable(item=Integer(minimum=1)), "vocabulary size")
    published_format: str | None = setting(
        None, Nullable(item=Text()), "number format of the published weights, as config.json states it; null: 16 bits"
    )

    @property
    def active_b(self) -> float:
        """Billions of parameters that a token uses: as given, else estimated from the experts.

        >>> round(ModelDimensions(params_b=46.7, experts=8, top_k=2).active_b, 1)
        12.7
        """
        if self.active_params_b is not None or self.experts is None or self.top_k is None:
            return self.params_b if self.active_params_b is None else self.active_params_b
        return self.params_b * (SHARED_SHARE + (1 - SHARED_SHARE) * min(1.0, self.top_k / self.experts))


@record
class TrainingData:
    """The location of the training data, for the cost of transferring them."""

    uri: str | None = setting(None, Nullable(item=S3_URI), "location of the data in S3")
    gib: float = setting(0, Number(minimum=0), "size in GiB")
    region: str | None = setting(None, Nullable(item=FILLED), "region of the data, if not the cluster's")


@record
class TrainingWorkload:
    """A training job: a model and tokens, or plain hours of progress."""

    model: str | ModelDimensions | None = setting(
        None,
        Nullable(item=NameOr(of=ModelDimensions)),
        "model name, {config: PATH} of a Hugging Face config.json, or {params_b, experts, top_k, layers, ...}",
    )
    method: Method = setting(Method.FULL, Choice(options=Method), "training method")
    tokens_b: float | None = setting(
        None, Nullable(item=Number(above=0, maximum=1e6, unit="billions of tokens")), "billions of tokens to train on"
    )
    examples: int | None = setting(
        None,
        Nullable(item=Integer(minimum=1, maximum=10**15)),
        "training examples of one epoch, instead of tokens_b; with tokens_per_example or throughput_samples_per_s",
    )
    tokens_per_example: float | None = setting(
        None, Nullable(item=Number(above=0, maximum=16_777_216)), "mean tokens of an example, with its answer"
    )
    epochs: float | None = setting(
        None, Nullable(item=Number(above=0, maximum=1e6)), "passes over the examples; null: 1"
    )
    tokens_per_parameter: float | None = setting(
        None,
        Nullable(item=Number(above=0, maximum=1e9)),
        "tokens per parameter of the model, all experts included, instead of tokens_b",
    )
    hours: float | None = setting(
        None,
        Nullable(item=Number(above=0)),
        "hours of progress, instead of tokens_b; needs target.instance_type and target.nodes",
    )
    sequence_length: int = setting(4096, Integer(minimum=1, maximum=16_777_216), "tokens per sequence")
    global_batch_tokens: int | None = setting(
        None, Nullable(item=Integer(minimum=1)), "tokens per step, over all chips"
    )
    precision: Precision = setting(Precision.BF16, Choice(options=Precision), "number format of matrix multiplications")
    optimizer: Optimizer | None = setting(
        None,
        Nullable(item=Choice(options=Optimizer)),
        "optimizer and number formats of its states; null: adamw in mixed precision",
    )
    micro_batch: int | None = setting(
        None, Nullable(item=Integer(minimum=1, maximum=65_536)), "sequences per chip and micro-step"
    )
    expert_parallel: int | None = setting(
        None,
        Auto(item=Integer(minimum=1, maximum=65_536)),
        "chips that share one set of experts (mixture of experts); auto: up to 32, over several nodes",
    )
    tensor_parallel: int | None = setting(
        None,
        Auto(item=Integer(minimum=1, maximum=65_536)),
        "chips that share each matrix (tensor parallelism); auto: none on stacks of PyTorch",
    )
    recompute: Recompute | None = setting(
        None,
        Auto(item=Choice(options=Recompute)),
        "activation recomputation; auto: full with stack huggingface, otherwise selective",
    )
    stack: Stack | None = setting(
        None,
        Auto(item=Choice(options=Stack)),
        "training software: tuned (Megatron, NeMo, MLPerf-like), framework (FSDP, torchtitan, NxD), "
        "huggingface (Trainer, PEFT, TRL, axolotl) or untuned; auto: from the job's imports and command, "
        "otherwise huggingface for LoRA and QLoRA, framework for the rest",
    )
    throughput_tokens_per_s: float | None = setting(
        None,
        Nullable(item=Number(above=0)),
        "measured tokens per second of one node; replaces the estimate; needs target.instance_type",
    )
    throughput_samples_per_s: float | None = setting(
        None,
        Nullable(item=Number(above=0)),
        "measured examples per second of one node, for models that do not read text (images, video, speech); with"
        " examples; needs target.instance_type",
    )
    custom_kernels: CustomKernels = setting(
        CustomKernels.NONE, Choice(options=CustomKernels), "custom CUDA or Triton kernels in the model"
    )
    runs: int = setting(1, Integer(minimum=1, maximum=1_000_000), "total number of runs")
    runs_per_month: float = setting(1, Number(above=0), "runs per month")
    port_weeks: float | None = setting(
        None, Auto(item=Number(minimum=0)), "engineer-weeks to port the job to Neuron; auto: from custom_kernels"
    )
    engineer_usd_per_week: Decimal = setting(Decimal(5000), Usd(), "cost of an engineer-week in dollars")
    traits: tuple[Trait, ...] = setting(
        (), Many(item=Choice(options=Trait)), "reasons other than price for GPU or Trainium"
    )
    data: TrainingData = setting(TrainingData, Section(of=TrainingData), "training data")

    @property
    def by_tokens(self) -> bool:
        """Whether the plan gives the amount of work in tokens."""
        counted = self.examples is not None and self.tokens_per_example is not None
        return self.tokens_b is not None or counted or self.tokens_per_parameter is not None

    @property
    def by_samples(self) -> bool:
        """Whether the plan gives the amount of work in examples at a measured rate."""
        return self.examples is not None and self.throughput_samples_per_s is not None and not self.by_tokens

    @property
    def seen_examples(self) -> float | None:
        """Examples over all epochs; None if the plan counts no examples."""
        return None if self.examples is None else self.examples * (1.0 if self.epochs is None else self.epochs)

    def amount_b(self, params_b: float | None) -> float | None:
        """Billions of tokens of the job; None if the plan gives no amount in tokens.

        Args:
            params_b: billions of parameters of the model, None if unknown.
        """
        seen = self.seen_examples
        if self.tokens_b is not None:
            return self.tokens_b
        if seen is not None and self.tokens_per_example is not None:
            return seen * self.tokens_per_example / 1e9
        return None if self.tokens_per_parameter is None or params_b is None else self.tokens_per_parameter * params_b

    def progress_hours(self, nodes: int) -> float | None:
        """Hours of progress as given, or of the examples at the measured rate of so many nodes; None by tokens."""
        seen, rate = self.seen_examples, self.throughput_samples_per_s
        if self.hours is not None or seen is None or rate is None or self.by_tokens:
            return self.hours
        return seen / (rate * nodes) / 3600


@record
class BedrockRequest:
    """The allowed use of Bedrock instead of instances."""

    model: str | None = setting(
        None,
        Nullable(item=FILLED),
        "Bedrock model id; null: the Bedrock model with the same weights or the same name",
    )
    mode: BedrockMode | None = setting(
        None,
        AnyOf(item=Choice(options=BedrockMode)),
        "billing mode; any: on-demand, batch with asynchronous, and the other modes if their price is known",
    )
    profile: BedrockProfile | None = setting(
        None,
        Auto(item=Choice(options=BedrockProfile)),
        "inference profile; none: only the region; auto: the region's price, otherwise its geography's, "
        "otherwise the global price",
    )
    provisioned_usd_per_hour: Decimal | None = setting(
        None,
        Nullable(item=Usd()),
        "your price of a model unit in dollars per hour; AWS publishes none for current models",
    )
    provisioned_units: int = setting(1, Integer(minimum=1, maximum=10_000), "model units that the load needs, from AWS")
    import_copies: int | None = setting(
        None,
        Nullable(item=Integer(minimum=1, maximum=10_000)),
        "copies of imported weights that run while requests arrive (CloudWatch's ModelCopy); needed for custom-import",
    )
    import_units: int | None = setting(
        None, Auto(item=Integer(minimum=1, maximum=10_000)), "custom model units per copy, from GetImportedModel"
    )
    import_usd_per_unit_minute: Decimal | None = setting(
        None,
        Nullable(item=Usd()),
        "your price of a custom model unit in dollars per minute; null: the known price of the region",
    )


@record
class ServingWorkload:
    """A serving load: a model, traffic and latency limits."""

    model: str | ModelDimensions | None = setting(
        None, Nullable(item=NameOr(of=ModelDimensions)), "model name, or its dimensions"
    )
    model_uri: str | None = setting(None, Nullable(item=S3_URI), "weights in S3")
    artifacts_uri: str | None = setting(None, Nullable(item=S3_URI), "model compiled for Neuron, in S3")
    task: ServingTask = setting(ServingTask.CHAT, Choice(options=ServingTask), "kind of request")
    precision: ServingPrecision | None = setting(
        None,
        Auto(item=Choice(options=ServingPrecision)),
        "number format of the weights; auto: the one that the model was published in, else bf16",
    )
    input_tokens: int = setting(1000, Integer(minimum=1), "tokens per request")
    cached_input_fraction: float = setting(
        0.0,
        Number(minimum=0, maximum=1),
        "share of a request that all requests have in common, read from a prompt cache",
    )
    output_tokens: int = setting(250, Integer(minimum=0), "tokens per response")
    requests_per_s: float | None = setting(None, Nullable(item=Number(minimum=0)), "requests per second, all day")
    hourly_requests_per_s: tuple[float, ...] | None = setting(
        None,
        Nullable(item=Many(item=Number(minimum=0), exactly=24)),
        "requests per second in each hour of the day, in the time zone of schedule",
    )
    max_ttft_ms: float | None = setting(None, Nullable(item=Number(above=0)), "limit of the time to first token")
    max_tpot_ms: float | None = setting(None, Nullable(item=Number(above=0)), "limit of the time per output token")
    streaming: bool = setting(True, Flag(), "responses arrive token by token")
    asynchronous: bool = setting(False, Flag(), "requests may wait in a queue")
    min_instances: int = setting(1, Integer(minimum=0), "minimum number of instances")
    max_instances: int | None = setting(None, Nullable(item=Integer(minimum=1)), "maximum number of instances")
    zones: int = setting(1, Integer(minimum=1, maximum=6), "number of availability zones")
    tensor_parallel: int | None = setting(None, Auto(item=Integer(minimum=1)), "chips or cores per model copy")
    batch_size: int | None = setting(None, Auto(item=Integer(minimum=1)), "requests decoded together")
    sequence_length: int | None = setting(
        None, Auto(item=Integer(minimum=1)), "maximum tokens of a request with its response"
    )
    image: str | None = setting(None, Auto(item=IMAGE), "container image")
    deployment: Rollout = setting(Rollout.AUTO, Choice(options=Rollout), "how a new version replaces the old one")
    variant: str | None = setting(
        None,
        Auto(item=Text(pattern=r"[a-zA-Z0-9]([a-zA-Z0-9-]{0,62})", form="1 to 63 letters, digits and hyphens")),
        "name of the endpoint's variant, which an existing endpoint keeps; auto: after the instance type",
    )
    schedule: tuple[str, ...] = setting(
        (), Many(item=Text()), "ranges of instances by time of day: cron(0 7 ? * MON-FRI *) 2-6 Europe/Berlin"
    )
    data_capture: bool = setting(False, Flag(), "store requests and responses in S3")
    bedrock: BedrockRequest = setting(BedrockRequest, Section(of=BedrockRequest), "Bedrock instead of instances")
    port_weeks: float | None = setting(
        None, Nullable(item=Number(minimum=0)), "engineer-weeks to port the model to Neuron"
    )
    operations_usd_per_month: Decimal | None = setting(
        None,
        Nullable(item=Usd()),
        "staff cost of operating the instances in dollars per month; null: half a day of an engineer",
    )

    @property
    def weight_format(self) -> ServingPrecision:
        """The number format of the weights: `precision`, bf16 where neither the plan nor the catalog gives one."""
        return self.precision or ServingPrecision.BF16

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
    """A training job, a serving load, or neither: a cluster only."""

    train: TrainingWorkload | None = setting(None, Nullable(item=Section(of=TrainingWorkload)), "a training job")
    serve: ServingWorkload | None = setting(None, Nullable(item=Section(of=ServingWorkload)), "a serving load")
