"""The closed vocabularies of a plan: the same lower-kebab words in the file, in JSON and on the command line."""

from enum import StrEnum


class PurchaseOption(StrEnum):
    """How compute is paid for."""

    ON_DEMAND = "on-demand"
    SPOT = "spot"
    CAPACITY_BLOCK = "capacity-block"
    TRAINING_PLAN = "training-plan"
    SAVINGS_PLAN = "savings-plan"
    RESERVED = "reserved"
    BEDROCK = "bedrock"


COMMITTED = (PurchaseOption.SAVINGS_PLAN, PurchaseOption.RESERVED)
"""Commitments of several years, billed whether or not instances run."""
PREPAID = (PurchaseOption.CAPACITY_BLOCK, PurchaseOption.TRAINING_PLAN)
"""Prepaid windows of instances: a stopped node costs the same, so nothing stops it."""


class TargetKind(StrEnum):
    """The kind of deployment that runs the workload; by default the first that supports the purchase option."""

    PARALLELCLUSTER = "parallelcluster"
    HYPERPOD_SLURM = "hyperpod-slurm"
    SAGEMAKER_ENDPOINT = "sagemaker-endpoint"
    EKS = "eks"
    HYPERPOD_EKS = "hyperpod-eks"
    SAGEMAKER_TRAINING = "sagemaker-training"
    PCS = "pcs"
    EC2 = "ec2"


class Method(StrEnum):
    """How the weights are trained."""

    PRETRAIN = "pretrain"
    FULL = "full"
    SFT = "sft"
    LORA = "lora"
    QLORA = "qlora"
    DPO = "dpo"
    ORPO = "orpo"
    KTO = "kto"
    GRPO = "grpo"
    PPO = "ppo"
    RFT = "rft"


class Precision(StrEnum):
    """The number format of the matrix products."""

    BF16 = "bf16"
    FP16 = "fp16"
    FP8 = "fp8"


class Recompute(StrEnum):
    """The part of the forward pass that is computed again in the backward pass."""

    NONE = "none"
    SELECTIVE = "selective"
    FULL = "full"


class Optimizer(StrEnum):
    """The optimizer and the number formats of its states."""

    ADAMW = "adamw"
    ADAMW_BF16 = "adamw-bf16"
    ADAMW_8BIT = "adamw-8bit"
    ADAFACTOR = "adafactor"
    SGD = "sgd"
    LION = "lion"
    MUON = "muon"


class Stack(StrEnum):
    """How well tuned the training software is."""

    TUNED = "tuned"
    FRAMEWORK = "framework"
    HUGGINGFACE = "huggingface"
    UNTUNED = "untuned"


class CustomKernels(StrEnum):
    """How much hand-written CUDA or Triton the model depends on."""

    NONE = "none"
    SOME = "some"
    HEAVY = "heavy"


class Trait(StrEnum):
    """Circumstances other than price that decide between GPU and Trainium."""

    CHANGING_ARCHITECTURE = "changing-architecture"
    REINFORCEMENT_LEARNING = "reinforcement-learning"
    PORTABILITY = "portability"
    CUDA_TEAM = "cuda-team"
    LATENCY_CRITICAL = "latency-critical"


class ServingTask(StrEnum):
    """The kind of request an endpoint answers."""

    CHAT = "chat"
    EMBEDDING = "embedding"


class ServingPrecision(StrEnum):
    """The number format of served weights."""

    BF16 = "bf16"
    FP8 = "fp8"
    INT8 = "int8"
    INT4 = "int4"
    MXFP4 = "mxfp4"


class Rollout(StrEnum):
    """How a new version of an endpoint replaces the old one."""

    AUTO = "auto"
    ALL_AT_ONCE = "all-at-once"
    ROLLING = "rolling"
    CANARY = "canary"


class BedrockMode(StrEnum):
    """How Bedrock is billed: by the token, by the token within a day, or by time for a share of its capacity.

    This capacity serves one of Bedrock's models (provisioned), or a copy of the user's weights (custom-import).
    """

    ON_DEMAND = "on-demand"
    BATCH = "batch"
    PROVISIONED = "provisioned"
    CUSTOM_IMPORT = "custom-import"


class BedrockProfile(StrEnum):
    """The regions that may answer: those of a cross-region inference profile, or only the requested region."""

    US = "us"
    EU = "eu"
    APAC = "apac"
    AU = "au"
    JP = "jp"
    GLOBAL = "global"
    NONE = "none"


class SavingsPlanKind(StrEnum):
    """The kinds of Savings Plan."""

    COMPUTE = "compute"
    EC2_INSTANCE = "ec2-instance"
    SAGEMAKER = "sagemaker"


class Payment(StrEnum):
    """When a commitment is paid."""

    NO_UPFRONT = "no-upfront"
    PARTIAL_UPFRONT = "partial-upfront"
    ALL_UPFRONT = "all-upfront"


class CheckpointMode(StrEnum):
    """Who writes checkpoints, and where; own: the trainer, to its own location."""

    AGENT = "agent"
    DCP = "dcp"
    OWN = "own"
    NONE = "none"


class Restart(StrEnum):
    """The behavior of a job that finds checkpoints but can use none of them."""

    AUTO = "auto"
    FRESH = "fresh"


class StepNodes(StrEnum):
    """The nodes that run a step before or after the command."""

    FIRST = "first"
    ALL = "all"


class CheckpointLayout(StrEnum):
    """How a framework names its checkpoints; the table is the agent's (launcher/agent/checkpoint/layouts.csv)."""

    AUTO = "auto"
    HF = "hf"
    DCP = "dcp"
    SLIPWAY = "slipway"
    MEGATRON = "megatron"
    DEEPSPEED = "deepspeed"
    OPENRLHF = "openrlhf"
    VERL = "verl"
    AWS_FSDP = "aws-fsdp"
    NXD = "nxd"
    NANOTRON = "nanotron"
    ORBAX = "orbax"
    TORCHTUNE = "torchtune"
    NEMO = "nemo"
    LIGHTNING = "lightning"
    COMPOSER = "composer"
    ACCELERATE = "accelerate"


class SaveSignal(StrEnum):
    """The signal that requests the training processes to save when an interruption is announced."""

    AUTO = "auto"
    SIGUSR1 = "SIGUSR1"
    SIGTERM = "SIGTERM"
    NONE = "none"


class NatMode(StrEnum):
    """What a plan asks of a new network: a NAT gateway, a NAT instance, or neither."""

    GATEWAY = "gateway"
    INSTANCE = "instance"
    NONE = "none"


class Egress(StrEnum):
    """How the nodes of a new network reach what is outside it; with endpoints they reach AWS's services alone."""

    NAT_GATEWAY = "NAT gateway"
    NAT_INSTANCE = "NAT instance"
    PUBLIC_ADDRESSES = "public addresses"
    ENDPOINTS = "interface endpoints"


class EfaLayout(StrEnum):
    """Which network interfaces ParallelCluster attaches."""

    AUTO = "auto"
    CLASSIC = "classic"


class OperatingSystem(StrEnum):
    """The operating systems that ParallelCluster 3.16.1 supports."""

    ALINUX2023 = "alinux2023"
    UBUNTU2204 = "ubuntu2204"
    UBUNTU2404 = "ubuntu2404"
    RHEL8 = "rhel8"
    RHEL9 = "rhel9"
    ROCKY8 = "rocky8"
    ROCKY9 = "rocky9"


class Level(StrEnum):
    """The severity of a finding."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Basis(StrEnum):
    """The evidence for a number from an external source."""

    LISTED = "listed"
    DERIVED = "derived"
    MEMORY = "memory"
    UNVERIFIED = "unverified"
    USER = "user"


class Market(StrEnum):
    """The market state in a spot row.

    A row equal to on demand means no spare capacity; one at exactly 10 % of it is the floor. Neither is an offer.
    """

    OPEN = "open"
    FLOOR = "floor"
    NONE = "none"


class Availability(StrEnum):
    """The known availability of an instance."""

    OFFERED = "offered"
    NO_MARKET = "no-market"
    LEAD_TIME = "lead-time"
    UNKNOWN = "unknown"


class Operator(StrEnum):
    """The operator of a job's pods on Kubernetes: HyperPod's training operator, Kubeflow's, or Kubernetes' own Job."""

    HYPERPOD_PYTORCHJOB = "hyperpod-pytorchjob"
    PYTORCHJOB = "pytorchjob"
    JOB = "job"
