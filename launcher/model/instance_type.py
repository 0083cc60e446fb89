"""Static facts of chips and of the machines that carry them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Accelerator:
    """One chip: dense peak rates in TFLOP/s, memory in GiB, memory bandwidth in GB/s.

    A chip, not a core, is the counting unit: a trn1.32xlarge has 16, a trn2.48xlarge has 16, a p5.48xlarge has 8.
    """

    name: str
    family: str
    """"nvidia" or "neuron"."""
    peak_bf16_tflops: float
    peak_fp8_tflops: float | None
    memory_gib: float
    memory_gb_per_s: float
    source: str
    confirmed: bool = True
    """False where the sources conflict or are second-hand only; `source` says which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceType:
    """One EC2 instance type, or an UltraServer that is bought whole; `accelerator` is None for the head-node types."""

    name: str
    family: str
    vcpus: int
    memory_gib: float
    accelerator: str | None
    accelerators: int
    network_cards: int
    efa_interfaces: int
    network_gbps: float
    enis_per_card: tuple[int, ...]
    nvme_gb: int
    usage_classes: tuple[str, ...]
    """Of "on-demand", "spot", "capacity-block": what EC2 accepts, not what can be had."""
    targets: tuple[str, ...]
    """Of TargetKind: what can be built from it; empty: priced as an alternative, never deployed."""
    ml: bool
    """Whether HyperPod takes it as `ml.<name>`."""
    training_plans: bool
    az_ids: tuple[str, ...]
    """Availability zone ids known to offer it; indicative, empty when not known."""
    block_counts: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64)
    """Instances that one Capacity Block can have; empty where EC2 sells none."""
    note: str = ""
    source: str = ""
    confirmed: bool = True
    unknown: tuple[str, ...] = ()
    """Fields that no source gives; they hold zero or nothing, and nothing may be computed from them."""
