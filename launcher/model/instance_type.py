"""Static facts about chips and instance types."""

from launcher.model.record import record


@record
class TrainingStack:
    """What a Neuron chip is trained with: one release of its SDK, as packages of the nodes and of a Python environment.

    `template` makes the environment; `compiles_in_process` is False where compiled programs are kept in a cache that
    the jobs of a cluster share. `caveat` is what is to be said of it in a verdict, `way_out` what would take it back.
    """

    name: str
    title: str
    release: str
    compiles_in_process: bool
    template: str
    node_packages: tuple[str, ...]
    """With their versions, as `name=version`."""
    python_packages: tuple[str, ...]
    """As pip takes them."""
    caveat: str
    way_out: str
    source: str


@record
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
    cores: int = 1
    """NeuronCores of a chip, which models are split over; a GPU is one."""
    trains: bool = True
    """Whether any training software supports it."""
    workers: int = 1
    """Processes that train on one chip; 0 where that is not known."""
    training_stack: TrainingStack | None = None
    """What it is trained with; None where nodes and users bring it themselves."""
    serving_groups: tuple[int, ...] = ()
    """Cores or GPUs that can share a model which is served: the degrees of tensor parallelism."""
    pcie_only: bool = False
    """Whether chips of a machine speak with each other over PCIe alone."""
    serves: bool = False
    """Whether the serving estimate holds for it."""
    compiler_target: str = ""
    """Neuron's name of the generation that served models are compiled for; empty where none is compiled."""


@record
class InstanceType:
    """One EC2 instance type, or an UltraServer that is bought whole; `accelerator` is None for the head-node types."""

    name: str
    family: str
    vcpus: int
    memory_gib: float
    accelerator: str | None
    """The name of its chip."""
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
    chip: Accelerator | None = None
    """The facts of its accelerator; None without one."""
    sockets: tuple[int, int] | None = None
    """Sockets and cores of each, where AWS publishes them: a guess would make Slurm drain the nodes."""

    @property
    def neuron(self) -> bool:
        """Whether it carries Trainium or Inferentia."""
        return self.chip is not None and self.chip.family == "neuron"
