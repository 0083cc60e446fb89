"""Static facts about chips and instance types."""

from launcher.model.record import record


@record
class TrainingStack:
    """The training software of a Neuron chip: one SDK release, as packages of the nodes and of a Python environment."""

    name: str
    title: str
    release: str
    # False if a cluster's jobs share a cache of compiled programs.
    compiles_in_process: bool
    # The template that creates the environment.
    template: str
    node_packages: tuple[str, ...]
    """Packages with their versions, as `name=version`."""
    python_packages: tuple[str, ...]
    """Packages in pip's format."""
    # The caveat of the software in a verdict, and the change that would remove it.
    caveat: str
    remedy: str
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
    """False if the sources conflict or are only second-hand; `source` names them."""
    cores: int = 1
    """NeuronCores of a chip, over which models are split; a GPU counts as one."""
    trains: bool = True
    """Whether any training software supports the chip."""
    workers: int = 1
    """Training processes per chip; 0 if unknown."""
    training_stack: TrainingStack | None = None
    """The training software; None if nodes and users provide it."""
    serving_groups: tuple[int, ...] = ()
    """Numbers of cores or GPUs that can share a served model: the degrees of tensor parallelism."""
    pcie_only: bool = False
    """Whether the chips of an instance communicate only over PCIe."""
    serves: bool = False
    """Whether the serving estimate is valid for the chip."""
    compiler_target: str = ""
    """Neuron's name of the generation for which served models are compiled; empty if none is compiled."""


@record
class InstanceType:
    """One EC2 instance type, or an UltraServer sold as a unit; `accelerator` is None for the head-node types."""

    name: str
    family: str
    vcpus: int
    memory_gib: float
    accelerator: str | None
    """The name of the chip."""
    accelerators: int
    network_cards: int
    efa_interfaces: int
    network_gbps: float
    """The highest rate: small types keep it for minutes, as long as their credits last."""
    network_baseline_gbps: float
    """The rate that the type keeps for hours."""
    enis_per_card: tuple[int, ...]
    nvme_gb: int
    usage_classes: tuple[str, ...]
    """Subset of "on-demand", "spot", "capacity-block": accepted by EC2, not necessarily available."""
    targets: tuple[str, ...]
    """TargetKinds that can be built with the type; empty: priced as an alternative, never deployed."""
    ml: bool
    """Whether HyperPod supports the type as `ml.<name>`."""
    training_plans: bool
    az_ids: tuple[str, ...]
    """Availability zone ids known to offer the type; indicative, empty if unknown."""
    block_counts: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64)
    """Allowed instance counts of one Capacity Block; empty if EC2 sells none."""
    note: str = ""
    source: str = ""
    confirmed: bool = True
    unknown: tuple[str, ...] = ()
    """Fields that no source gives; they are zero or empty and must not be used in calculations."""
    chip: Accelerator | None = None
    """The facts of the accelerator; None without one."""
    sockets: tuple[int, int] | None = None
    """Sockets and cores of each, if AWS publishes them: a wrong guess would make Slurm drain the nodes."""

    @property
    def training_workers(self) -> int:
        """Training processes of a node: one a GPU or a NeuronCore; 0 if unknown."""
        return self.accelerators * self.chip.workers if self.chip is not None else self.accelerators

    def required_efa(self, nodes: int) -> int:
        """The EFA interfaces that a job needs on each of its nodes: none on a single node, which uses no network."""
        return self.efa_interfaces if nodes > 1 else 0

    @property
    def neuron(self) -> bool:
        """Whether the type has Trainium or Inferentia chips."""
        return self.chip is not None and self.chip.family == "neuron"
