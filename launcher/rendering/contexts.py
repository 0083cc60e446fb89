"""What templates are written over: one frozen type a template, every decision already made."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Tag:
    """A tag of the cluster and everything it starts."""

    key: str
    value: str


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
    must show, `efa_check` the shell function that looks. `old_kernel` says that the operating system's kernel is
    older than 5.15. `time_limit` is in sbatch's form, None for no limit, and `warning_s` how long before it the job
    is told. `scratch` is a folder as a double-quoted shell string takes it. `agent_file`, `work_folder` and
    `fetch_file` (what fetches that folder, where it is not shipped with the rest) are names in the job folder.
    `workers_per_node` counts GPUs or logical NeuronCores, 0 where none are known; `shutdown_s` is how long torchrun
    waits for workers that it has told to save. `docker` says that the command runs in a container of Docker's.
    """

    job_name: str
    partition: str
    region: str
    nodes: int
    time_limit: str | None
    warning_s: int | None
    agent_file: str
    work_folder: str
    fetch_file: str
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
    workers_per_node: int
    shutdown_s: int
    docker: bool
    auto_resume: bool = False


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


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileContext:
    """The job that compiles a model for its shape (templates/serving/compile.sh.j2).

    `source` is a folder in S3, or the model's name on the hub where `from_hub`; `destination` the folder in S3 that an
    endpoint is given. `target` is Neuron's name of the chip's generation; `disk_gib` must be free.
    """

    name: str
    model: str
    source: str
    from_hub: bool
    destination: str
    image: str
    registry: str
    region: str
    task: str
    target: str
    tensor_parallel: int
    batch_size: int
    sequence_length: int
    cores: int
    disk_gib: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentVariable:
    """One variable of a container."""

    name: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceContext:
    """A model served by pods of an EKS cluster (templates/kubernetes/*.yaml.j2).

    `resource` is what a node's device plugin calls its chips, `chips` how many of them a pod has; `device_plugin` is
    its image where the cluster's nodes need one, and `neuron_types` are the nodes it runs on: every type with Neuron
    chips, since a cluster has one plugin for the pods of all plans. `scheduler` is who places pods that take several
    chips of a node, None where that is Kubernetes' own. Zones may differ by `zone_skew` pods. `bucket` holds the model,
    None where it comes from the hub. Callers in other namespaces need `caller_label`; `isolated` pods reach no network.
    `surge` and `unavailable` are the pods that a rollout adds and takes away. Memory in GiB, times in seconds.
    """

    name: str
    namespace: str
    caller_label: str
    region: str
    az_id: str | None
    instance_type: str
    zones: int
    zone_skew: int
    replicas: int
    image: str
    registry: str
    environment: tuple[EnvironmentVariable, ...]
    arguments: tuple[str, ...]
    port: int
    resource: str
    chips: int
    cpus: int
    memory_gib: int
    shared_memory_gib: int
    device_plugin: str | None
    neuron_types: tuple[str, ...]
    scheduler: str | None
    bucket: str | None
    mount_options: tuple[str, ...]
    model_gib: int
    model_folder: str
    isolated: bool
    start_up_s: int
    start_up_probes: int
    probe_every_s: int
    drain_s: int
    grace_s: int
    surge: int
    unavailable: int
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimContext:
    """A volume of a pod: its name there, the PersistentVolumeClaim, and where it is mounted."""

    name: str
    claim: str
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesJobContext:
    """A job's objects (templates/kubernetes/namespace.yaml.j2, job.yaml.j2 and what they include).

    `operator` is one of the words of `run.operator`; `service` gives the pods of a Job their names. `selector` are the
    labels of the nodes it runs on, `tolerated` the taints that it passes. `resource` is what a node's device plugin
    calls its chips, of which a pod takes all `chips`, with all `efa` interfaces and `hugepages_mib` of huge pages
    where there are any. `topology` is the level of the network that Kueue keeps pods together on, or a preference among
    nodes where there is no `queue`; None on one node. `archive_uri`, `archive_sha256` and `archive_bytes` are the job
    folder's; `fetch_script` is what fetches it. `retries` counts attempts that may fail, `backoff` pods, `restarts` the
    times that a whole job may begin again; memory in GiB and MiB, times in seconds. `auto_resume` has HyperPod start a
    job again on a node that it has replaced; `log_pattern` is how a line of progress looks, which must come every
    `hung_s`, None: never.
    """

    name: str
    namespace: str
    service: str
    service_account: str
    plan: str
    run: str
    digest: str
    operator: str
    nodes: int
    workers_per_node: int
    image: str
    selector: tuple[Tag, ...]
    tolerated: tuple[str, ...]
    resource: str | None
    chips: int
    efa: int
    hugepages_mib: int
    cpus: int
    memory_gib: int
    shared_memory_gib: int
    grace_s: int
    queue: str | None
    priority: str | None
    topology: str | None
    environment: tuple[EnvironmentVariable, ...]
    claims: tuple[ClaimContext, ...]
    archive_uri: str
    archive_sha256: str
    archive_bytes: str
    fetch_script: tuple[str, ...]
    time_limit_s: int | None
    retries: int
    backoff: int
    restarts: int
    auto_resume: bool
    log_pattern: str
    hung_s: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginsContext:
    """What shows chips and interfaces to Kubernetes (templates/kubernetes/plugins.yaml.j2, device-plugin.yaml.j2).

    `nvidia_plugin`, `efa_plugin` and `device_plugin` (Neuron's) are images, None where no node needs one;
    `instance_types` are the nodes with NVIDIA's chips or EFA, `neuron_types` those with Neuron's.
    """

    resource: str
    nvidia_plugin: str | None
    efa_plugin: str | None
    device_plugin: str | None
    instance_types: tuple[str, ...]
    neuron_types: tuple[str, ...]
