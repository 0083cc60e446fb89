"""What templates are written over: one frozen type a template, every decision already made."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Tag:
    """A tag of the cluster and everything it starts."""

    key: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueContext:
    """One Slurm queue of one instance type.

    `capacity_type` is ParallelCluster's word (ONDEMAND, SPOT, CAPACITY_BLOCK). `reservation_id` is a capacity
    reservation or None. `scratch` says whether there is NVMe to mount. `sockets` and `cores_per_socket` correct what
    ParallelCluster assumes of a type, None where it is right or not known. `node_setup` holds the arguments of the
    set-up script (node.sh), empty when the nodes need none.
    """

    name: str
    compute_resource: str
    capacity_type: str
    instance_type: str
    min_count: int
    max_count: int
    efa: bool
    placement_group: bool
    reservation_id: str | None
    scratch: bool
    gpu_health_check: bool
    sockets: int | None
    cores_per_socket: int | None
    node_setup: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LustreContext:
    """An FSx for Lustre file system: capacity in GiB, throughput in MB/s per TiB; `data_uri` is linked to /data."""

    capacity_gib: int
    mb_s_per_tib: int
    kms_key_arn: str | None
    data_uri: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterContext:
    """A ParallelCluster configuration (templates/parallelcluster/cluster.yaml.j2).

    Sizes in GiB, times in minutes and days. Ids and ARNs may be CDK tokens.
    """

    region: str
    os: str
    ami: str | None
    subnet_id: str
    security_group_id: str
    node_policy_arn: str
    node_setup_uri: str | None
    head_node_type: str
    head_root_gib: int
    compute_root_gib: int
    idle_minutes: int
    queues: tuple[QueueContext, ...]
    lustre: LustreContext | None
    login_nodes: int
    login_node_type: str
    permissions_boundary_arn: str | None
    combined_efa: bool
    log_retention_days: int
    tags: tuple[Tag, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretContext:
    """A variable whose value the job fetches: from "secretsmanager" or "ssm", by ARN."""

    variable: str
    service: str
    arn: str
    region: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchContext:
    """A batch script (templates/slurm/job.sbatch.j2).

    `family` is the accelerator's, "nvidia" or "neuron", None without one. `efa_interfaces` is the number every node
    must show, `efa_check` the shell function that looks. `old_kernel` says that the operating system's kernel is older
    than 5.15. `time_limit` is in sbatch's form, None for no limit. `scratch` is a folder as a double-quoted shell
    string takes it. `agent_file` and `work_folder` are names in the job folder.
    """

    job_name: str
    partition: str
    region: str
    nodes: int
    time_limit: str | None
    agent_file: str
    work_folder: str
    python: str
    scratch: str
    instance_type: str
    family: str | None
    efa_interfaces: int
    efa_check: str
    old_kernel: bool
    compile_cache_uri: str | None
    secrets: tuple[SecretContext, ...]
    retries: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PreflightContext:
    """A collective over all chips (templates/slurm/preflight.sbatch.j2).

    `family` is "nvidia" or "neuron"; `workers_per_node` counts GPUs or logical NeuronCores; `minimum_gb_s` is the bus
    bandwidth in GB/s below which it fails; `setup` holds shell lines that come first.
    """

    job_name: str
    partition: str
    nodes: int
    instance_type: str
    family: str
    efa_interfaces: int
    efa_check: str
    workers_per_node: int
    minimum_gb_s: int
    setup: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NeuronContext:
    """A Python environment for Neuron (templates/neuron/): the SDK's release, an interpreter, packages and versions."""

    release: str
    python: str
    packages: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageContext:
    """An image for compute nodes (templates/parallelcluster/image.yaml.j2 and image-component.yaml.j2).

    `component` names the image and its component, `component_arn` with ACCOUNT in the place of the account. `version`
    is ParallelCluster's. `native_torch` says that the nodes are for TorchNeuron. `script` holds the lines of node.sh,
    indented.
    """

    region: str
    component: str
    component_arn: str
    version: str
    instance_type: str
    native_torch: bool
    parent_image: str
    subnet_id: str | None
    permissions_boundary_arn: str | None
    packages: tuple[str, ...]
    script: tuple[str, ...]
