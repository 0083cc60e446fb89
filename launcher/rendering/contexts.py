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
    security_group_ids: tuple[str, ...]
    node_policy_arn: str
    session_log_policy_arn: str | None
    head_role_arn: str | None
    login_role_arn: str | None
    node_role_arn: str | None
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
class GroupContext:
    """An instance group of HyperPod.

    `node_type` is Slurm's part as SageMaker names it (Controller, Login, Compute), `partition` the queue of a Compute
    group. `health_checks` run before its instances take jobs. `interface_type` is the kind of its EFA interfaces, None
    for the service's own choice.
    """

    name: str
    node_type: str
    instance_type: str
    count: int
    partition: str | None
    health_checks: tuple[str, ...]
    training_plan_arn: str | None
    spot: bool
    interface_type: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HyperPodContext:
    """A request that makes a HyperPod cluster with Slurm (templates/hyperpod/cluster.yaml.j2).

    `continuous` has HyperPod provide instances one by one and try again. `lifecycle_uri` is a folder in S3 that holds
    the scripts, `entry_point` the one that is run. Ids, ARNs and names may be CDK tokens.
    """

    cluster_name: str
    groups: tuple[GroupContext, ...]
    continuous: bool
    ami: str | None
    role_arn: str
    subnet_id: str
    security_group_ids: tuple[str, ...]
    lifecycle_uri: str
    entry_point: str
    lustre_dns_name: str
    lustre_mount_name: str
    mount_path: str
    volume_key_arn: str | None
    tags: tuple[Tag, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LifecycleContext:
    """What HyperPod runs on every machine that it makes (templates/hyperpod/on_create.sh.j2).

    `controller`, `login` and `workers` are instance groups. `family` is the workers' accelerators, "nvidia", "neuron"
    or None; `accelerators` and `efa_interfaces` are the numbers that every worker must show, and `efa_check` the shell
    function that counts the second; `nvme` says whether it has disks. `node_setup` holds the arguments of node.sh,
    empty when workers need none.
    """

    cluster: str
    region: str
    controller: str
    login: str
    workers: str
    instance_type: str
    family: str | None
    accelerators: int
    efa_interfaces: int
    efa_check: str
    nvme: bool
    mount_path: str
    user: str
    node_setup: tuple[str, ...]


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
class KubernetesJobContext:
    """A job's objects (templates/kubernetes/namespace.yaml.j2, job.yaml.j2 and what they include).

    `operator` is one of the words of `run.operator`; `service` gives the pods of a Job their names. `selector` are the
    labels of the nodes it runs on, `tolerated` the taints that it passes. `resource` is what a node's device plugin
    calls its chips, of which a pod takes all `chips`, with all `efa` interfaces and `hugepages_mib` of huge pages
    where there are any. `topology` is the level of the network that Kueue keeps pods together on, or a preference among
    nodes where there is no `queue`; None on one node. `archive_uri`, `archive_sha256` and `archive_bytes` are the job
    folder's; `fetch_script` is what fetches it. `backoff` counts pods that may fail, `restarts` the times that a whole
    job may begin again; memory in GiB and MiB, times in seconds. `auto_resume` has HyperPod start a job again on a node
    that it has replaced; `log_pattern` is how a line of progress looks, which must come every `hung_s`, None: never.
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
    archive_uri: str
    archive_sha256: str
    archive_bytes: str
    fetch_script: tuple[str, ...]
    time_limit_s: int | None
    backoff: int
    restarts: int
    auto_resume: bool
    log_pattern: str
    hung_s: int | None
