"""The plan file as read: the user's request, with open decisions."""

from collections.abc import Mapping
from dataclasses import MISSING
from datetime import datetime
from decimal import Decimal

from launcher.model.enums import (
    CheckpointLayout,
    CheckpointMode,
    EfaLayout,
    NatMode,
    OperatingSystem,
    Payment,
    PurchaseOption,
    Restart,
    SaveSignal,
    SavingsPlanKind,
    TargetKind,
)
from launcher.model.kinds import (
    FILLED,
    S3_FORM,
    AnyOf,
    Auto,
    Choice,
    Flag,
    Instant,
    Integer,
    Many,
    NodeCount,
    Nullable,
    Number,
    Open,
    Section,
    Table,
    Text,
    Usd,
    name_fix,
    s3_fix,
    setting,
)
from launcher.model.record import record
from launcher.model.run_spec import ABSOLUTE, KEY_ARN, RunSpec
from launcher.model.workload import Workload

TAG_KEY = r"(?!(?:aws|AWS|slipway|parallelcluster):)[A-Za-z0-9 _.:/=+@-]{1,128}"
TAG_VALUE = Text(pattern=r"[A-Za-z0-9 _.:/=+@-]{0,256}", form="at most 256 letters, digits, spaces and _.:/=+-@")
"""The tag format that every service accepts (AWS Tagging user guide, tag naming limits); keys that begin with aws: or
with Slipway's and ParallelCluster's own prefixes are reserved."""
MAX_TAGS = 40
"""A resource has at most 50 tags (same source); the rest is for Slipway, ParallelCluster and CloudFormation."""
NAME = Text(pattern=r"[a-z0-9-]{1,40}", form="1 to 40 of a-z, 0-9 and -", fix=name_fix)
PLACE = Text(
    pattern=f"{S3_FORM}|{ABSOLUTE}/?",
    form="s3://bucket/prefix; with checkpoint.mode own also an absolute path",
    fix=s3_fix,
)
SUBNET_ID = Text(pattern=r"subnet-[0-9a-f]{8,17}", form="subnet-...")
SECURITY_GROUP_ID = Text(pattern=r"sg-[0-9a-f]{8,17}", form="sg-...")
ROLE_ARN = Text(
    pattern=r"arn:aws[a-z-]*:iam::\d{12}:role/[A-Za-z0-9_+=,.@/-]{1,576}",
    form="the ARN of a role (arn:aws:iam::ACCOUNT:role/NAME)",
)
PRINCIPAL_ARN = Text(
    pattern=r"arn:aws[a-z-]*:iam::\d{12}:(role|user)/[A-Za-z0-9_+=,.@/-]{1,576}",
    form="the ARN of a role or a user (arn:aws:iam::ACCOUNT:role/NAME)",
)
ENDPOINT = Text(
    pattern="autoscaling|ec2|ec2messages|ecr.api|ecr.dkr|kms|logs|monitoring|secretsmanager|sns|ssm|ssmmessages|sts",
    form="a service such as ssm, ssmmessages, ec2 or logs",
)
KUBERNETES_NAME = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
"""The format of a DNS label in Kubernetes: names of namespaces, and of Kueue's queues and priorities."""
SSH_HOST = Text(
    pattern=r"(?!-)[A-Za-z0-9._:@%-]{1,255}",
    form="a host name, an address, or a Host of ~/.ssh/config, of letters, digits and . _ : @ % -",
)
CONTEXT = Text(
    pattern=r"(?!-)[A-Za-z0-9._:@/+=,~-]{1,255}",
    form="a context of the kubeconfig, of letters, digits and . _ : @ / + = , ~ -",
)
RESERVATION_ID = Text(pattern=r"cr-[0-9a-f]{8,17}", form="cr- and 8 to 17 hexadecimal digits")
OWN_QUALIFIER = "slipway"
"""The qualifier of a CDK bootstrap for Slipway alone, which `slipway policies` prints by default."""
DEFAULT_QUALIFIER = "hnb659fds"
"""The value of `security.qualifier` if it is null (aws-cdk-lib 2.275.0,
core/lib/stack-synthesizers/default-synthesizer.js, DEFAULT_QUALIFIER)."""


@record
class NodeRange:
    """A number of nodes, from `minimum` to `maximum`, both included."""

    minimum: int
    maximum: int


@record
class TargetRequest:
    """The deployment target."""

    kind: tuple[TargetKind, ...] | None = setting(
        None, Open(item=Choice(options=TargetKind)), "AWS service to deploy on"
    )
    region: tuple[str, ...] | None = setting(None, Open(item=FILLED), "AWS region; any: every region except GovCloud")
    az_id: str | None = setting(None, Nullable(item=FILLED), "availability zone id, such as use2-az1")
    instance_type: tuple[str, ...] | None = setting(None, Open(item=FILLED), "EC2 instance type")
    nodes: NodeRange | None = setting(None, NodeCount(), "number of nodes")
    cluster: str | None = setting(None, Nullable(item=NAME), "existing cluster that runs the job")
    context: str | None = setting(None, Nullable(item=CONTEXT), "kubeconfig context of an existing Kubernetes cluster")
    queue: str | None = setting(
        None,
        Nullable(
            item=Text(
                pattern=f"({KUBERNETES_NAME}/)?{KUBERNETES_NAME}",
                form="a local queue of Kueue, with or without its namespace: team-a/gpus",
            )
        ),
        "local queue of Kueue",
    )
    priority: str | None = setting(
        None, Nullable(item=Text(pattern=KUBERNETES_NAME, form="a priority class of Kueue")), "priority class of Kueue"
    )
    fallback_types: tuple[str, ...] = setting(
        (), Many(item=FILLED), "further instance types, each with its own queue in the cluster"
    )
    os: OperatingSystem = setting(
        OperatingSystem.UBUNTU2404, Choice(options=OperatingSystem), "operating system of the nodes"
    )
    ami: str | None = setting(
        None,
        Nullable(item=Text(pattern=r"ami-[0-9a-f]{8,17}", form="ami- and 8 to 17 hexadecimal digits")),
        "machine image (AMI) of the nodes; null: the default image of the service",
    )
    placement_group: bool | None = setting(
        None, Auto(item=Flag()), "whether the nodes are in a cluster placement group"
    )
    efa_layout: EfaLayout = setting(
        EfaLayout.AUTO, Choice(options=EfaLayout), "network interfaces; auto: EFA only; classic: EFA with ENA"
    )
    ssh_host: str | None = setting(
        None, Nullable(item=SSH_HOST), "head node of an existing Slurm cluster, reached over ssh; local: this computer"
    )


@record
class SubnetFacts:
    """The facts about an existing subnet that Slipway read; Slipway does not query them again."""

    id: str = setting(MISSING, SUBNET_ID, "subnet id")
    az_id: str = setting(MISSING, FILLED, "availability zone id of the subnet")
    free_addresses: int = setting(MISSING, Integer(minimum=0), "free IP addresses")
    public_addresses: bool = setting(False, Flag(), "whether instances in the subnet get public addresses")


@record
class NetworkRequest:
    """The network: a new one, one that clusters share, or an existing one."""

    name: str | None = setting(
        None, Nullable(item=NAME), "name of a network that several clusters share; null: a network of this cluster only"
    )
    az_ids: tuple[str, ...] = setting(
        (),
        Many(item=Text()),
        "availability zone ids of a shared network; the NAT gateway is in the first; empty: those of the plan's region",
    )
    shared_by: tuple[str, ...] = setting(
        (), Many(item=Text()), "stacks that use the shared network already, written by Slipway"
    )
    vpc_id: str | None = setting(
        None, Nullable(item=Text(pattern=r"vpc-[0-9a-f]{8,17}", form="vpc-...")), "existing VPC"
    )
    subnet_ids: tuple[str, ...] = setting((), Many(item=SUBNET_ID), "existing private subnets")
    security_group_ids: tuple[str, ...] = setting(
        (), Many(item=SECURITY_GROUP_ID), "existing security groups, added to every instance"
    )
    subnets: tuple[SubnetFacts, ...] = setting(
        (), Many(item=Section(of=SubnetFacts)), "facts about subnet_ids, written by Slipway"
    )
    cidr: str = setting("10.0.0.0/16", Text(pattern=r"[0-9.]+/[0-9]+", form="a.b.c.d/n"), "address range of a new VPC")
    nat: NatMode | None = setting(
        None,
        Auto(item=Choice(options=NatMode)),
        "way to the internet of a new network: gateway, instance (a NAT instance), or none: public addresses without "
        "inbound rules, or private nodes with the endpoints that they need; auto: the cheapest one that works",
    )
    private: bool = setting(False, Flag(), "nodes of a new network never have public addresses")
    endpoints: tuple[str, ...] = setting(
        (), Many(item=ENDPOINT), "services with an interface endpoint, each billed per hour"
    )
    api_cidrs: tuple[str, ...] = setting(
        (),
        Many(item=Text(pattern=r"[0-9.]+/[0-9]+", form="a.b.c.d/n")),
        "address ranges that may reach the Kubernetes API from the internet; empty: the API is private",
    )

    @property
    def is_closed(self) -> bool:
        """Whether the plan asks for a new network without a way to the internet."""
        return self.nat is NatMode.NONE and self.private and self.vpc_id is None


@record
class StorageRequest:
    """Disks, file systems and login nodes."""

    lustre_gib: int = setting(0, Integer(minimum=0), "size of FSx for Lustre in GiB; 0: no file system")
    lustre_mb_s_per_tib: int = setting(
        250, Integer(minimum=1), "throughput of FSx for Lustre in MB/s per TiB: 125, 250, 500 or 1000"
    )
    head_node: str | None = setting(None, Auto(item=FILLED), "instance type of the head node")
    login_nodes: int = setting(0, Integer(minimum=0, maximum=10), "number of login nodes")
    login_pool: bool = setting(False, Flag(), "keep ParallelCluster's pool of login nodes when login_nodes is 0")
    kms_key_arn: str | None = setting(
        None,
        Nullable(item=Text(pattern=r"arn:.+", form="an ARN")),
        "KMS key of volumes, buckets, logs and secrets; null: AWS's default encryption",
    )
    access_log: bool = setting(False, Flag(), "log every request to the checkpoint bucket")

    @property
    def has_login_pool(self) -> bool:
        """Whether the cluster has a pool of login nodes, which may be empty."""
        return self.login_pool or self.login_nodes > 0


@record
class RoleRequest:
    """Existing roles that replace those which the stacks would create; null: the stack's own role."""

    nodes: str | None = setting(
        None,
        Nullable(item=ROLE_ARN),
        "role of the job's nodes, of all HyperPod instances, or of an endpoint's containers",
    )
    head_node: str | None = setting(None, Nullable(item=ROLE_ARN), "role of ParallelCluster's head node")
    login_nodes: str | None = setting(None, Nullable(item=ROLE_ARN), "role of ParallelCluster's login nodes")
    control_plane: str | None = setting(None, Nullable(item=ROLE_ARN), "role of the EKS control plane")
    pods: str | None = setting(None, Nullable(item=ROLE_ARN), "role of the job's pods on Kubernetes")


@record
class SecurityRequest:
    """The account's requirements for every role and stack."""

    permissions_boundary_arn: str | None = setting(
        None, Nullable(item=Text(pattern=r"arn:.+", form="an ARN")), "permissions boundary of every role"
    )
    qualifier: str | None = setting(
        None,
        Nullable(item=Text(pattern=r"[A-Za-z0-9_-]{1,10}", form="1 to 10 letters, digits, _ and -")),
        "qualifier of the CDK bootstrap",
    )
    session_log: bool = setting(False, Flag(), "log Session Manager's shells in a log group of the stack")
    encrypt_traffic: bool = setting(False, Flag(), "encrypt the traffic between the nodes of SageMaker training jobs")
    roles: RoleRequest = setting(RoleRequest, Section(of=RoleRequest), "existing IAM roles, used instead of new ones")
    kubernetes_access: tuple[str, ...] = setting(
        (),
        Many(item=PRINCIPAL_ARN),
        "IAM roles and users that may submit jobs to an EKS cluster; empty: those that the account's IAM allows",
    )


@record
class Reservation:
    """An existing Capacity Block or on-demand capacity reservation."""

    id: str = setting(MISSING, RESERVATION_ID, "capacity reservation id")
    starts_at: datetime | None = setting(None, Nullable(item=Instant()), "start time")
    ends_at: datetime | None = setting(None, Nullable(item=Instant()), "end time")
    count: int | None = setting(None, Nullable(item=Integer(minimum=1)), "number of instances")
    fee_usd: Decimal | None = setting(None, Nullable(item=Usd()), "upfront fee in dollars")


@record
class TrainingPlanReference:
    """An existing SageMaker training plan."""

    arn: str = setting(
        MISSING,
        Text(
            pattern=r"arn:aws[a-z-]*:sagemaker:[a-z0-9-]+:\d{12}:training-plan/.+",
            form="the ARN of a training plan (arn:aws:sagemaker:REGION:ACCOUNT:training-plan/NAME)",
        ),
        "ARN of the training plan",
    )
    starts_at: datetime | None = setting(None, Nullable(item=Instant()), "start time")
    ends_at: datetime | None = setting(None, Nullable(item=Instant()), "end time")
    count: int | None = setting(None, Nullable(item=Integer(minimum=1)), "number of instances")
    fee_usd: Decimal | None = setting(None, Nullable(item=Usd()), "upfront fee in dollars")

    @property
    def region(self) -> str:
        """Its region, from the ARN."""
        return self.arn.split(":")[3]


@record
class Credit:
    """Promotional credit, used before cash."""

    pool: str = setting(MISSING, FILLED, "name of the credit")
    usd: Decimal = setting(MISSING, Usd(), "remaining dollars")
    expires: datetime | None = setting(None, Nullable(item=Instant()), "last valid day")


@record
class PurchaseRequest:
    """The allowed purchase options of the compute."""

    option: tuple[PurchaseOption, ...] | None = setting(
        None, Open(item=Choice(options=PurchaseOption)), "purchase option"
    )
    plan_kind: SavingsPlanKind | None = setting(
        None, AnyOf(item=Choice(options=SavingsPlanKind)), "kind of Savings Plan"
    )
    term_years: int | None = setting(
        None, AnyOf(item=Integer(minimum=1, maximum=3)), "term of a commitment in years: 1 or 3"
    )
    payment: Payment = setting(Payment.NO_UPFRONT, Choice(options=Payment), "payment of a commitment")
    owned: bool = setting(False, Flag(), "whether the commitment is already bought")
    reservation: Reservation | None = setting(
        None, Nullable(item=Section(of=Reservation)), "existing Capacity Block or on-demand capacity reservation (ODCR)"
    )
    training_plan: TrainingPlanReference | None = setting(
        None, Nullable(item=Section(of=TrainingPlanReference)), "existing SageMaker training plan"
    )
    deadline_h: float | None = setting(None, Nullable(item=Number(above=0)), "hours until the job must be finished")
    wait_for_capacity_minutes: float = setting(30, Number(minimum=0), "minutes to wait for capacity")
    interruptions_per_node_hour: float | None = setting(
        None, Nullable(item=Number(minimum=0)), "spot interruptions per node-hour; replaces the estimate"
    )
    price_overrides: Mapping[str, Decimal] = setting(
        dict,
        Table(
            item=Usd(),
            keys=r"[a-z0-9.-]+/[a-z-]+(/[a-z0-9-]+){0,2}",
            form="type/option, type/option/region, type/option/target or type/option/region/target",
        ),
        "your own prices, in dollars per instance-hour",
    )
    discount_percent: float = setting(0, Number(minimum=0, maximum=100), "discount in percent on every compute price")
    credits: tuple[Credit, ...] = setting((), Many(item=Section(of=Credit)), "promotional credits, used before cash")
    support_percent: float | None = setting(
        None, Nullable(item=Number(minimum=0, maximum=100)), "AWS Support in percent of the account's bill"
    )


@record
class Tracker:
    """A file next to the checkpoints that names the newest complete one, as some frameworks write it."""

    file: str = setting(MISSING, Text(pattern=r"[^/]+", form="a file name"), "name of the tracker file")
    text: str = setting("{step}", Text(), "content of the tracker file, with {step} or {name}")


@record
class CheckpointPolicy:
    """How a job's progress is stored."""

    uri: str | None = setting(
        None, Auto(item=PLACE), "location of the checkpoints; auto: the cluster's checkpoint bucket"
    )
    mode: CheckpointMode = setting(
        CheckpointMode.AGENT,
        Choice(options=CheckpointMode),
        "agent: Slipway uploads checkpoints; dcp: PyTorch DCP writes them to S3; own: the trainer stores them"
        " itself; none: no checkpoints",
    )
    layout: CheckpointLayout = setting(
        CheckpointLayout.AUTO,
        Choice(options=CheckpointLayout),
        "checkpoint layout of the framework; auto: recognized from the files",
    )
    pattern: str | None = setting(
        None,
        Nullable(item=Text(form="a regular expression with one group, the step, or none for fixed names")),
        "regular expression for checkpoint names that no layout matches; its group is the step",
    )
    tracker: Tracker | None = setting(
        None, Nullable(item=Section(of=Tracker)), "with pattern: the file that names the newest complete checkpoint"
    )
    interval: float | None = setting(None, Auto(item=Number(above=0)), "seconds between checkpoints")
    keep: int = setting(3, Integer(minimum=1), "number of complete checkpoints to keep")
    signal: SaveSignal = setting(
        SaveSignal.AUTO,
        Choice(options=SaveSignal),
        "signal that asks the ranks to save; auto: a signal that they catch",
    )
    grace_seconds: float = setting(90, Number(above=0), "seconds that the ranks have to save before they are ended")
    max_mb_s: float | None = setting(None, Nullable(item=Number(above=0)), "limit of the upload bandwidth in MB/s")
    restart: Restart = setting(
        Restart.AUTO,
        Choice(options=Restart),
        "if no checkpoint can be read; auto: the job stops; fresh: it starts at step 0",
    )
    kms_key_arn: str | None = setting(None, Nullable(item=KEY_ARN), "with mode own: KMS key of the bucket in uri")

    @property
    def store_uri(self) -> str | None:
        """The location of a job's files and checkpoints that Slipway stores; None: the cluster's own store."""
        return None if self.mode is CheckpointMode.OWN else self.uri

    @property
    def own_uri(self) -> str | None:
        """The location of checkpoints that the trainer stores itself (mode own); None with any other mode."""
        return self.uri if self.mode is CheckpointMode.OWN else None

    @property
    def foreign_store_uri(self) -> str | None:
        """The location of a job's files on a cluster that Slipway did not deploy; None: the plan names no S3 URI."""
        own_uri = self.own_uri
        if own_uri is None:
            return self.uri
        return f"{own_uri.rstrip('/')}/.slipway" if own_uri.startswith("s3://") else None


@record
class Budget:
    """The spending limits; checked against the high estimate."""

    max_usd: Decimal | None = setting(
        None,
        Nullable(item=Usd()),
        "spending limit of the job in dollars; compared with the high estimate before a launch",
    )
    max_usd_per_hour: Decimal | None = setting(
        None, Nullable(item=Usd()), "spending limit of all nodes in dollars per hour"
    )
    stop_at_usd: Decimal | None = setting(
        None, Nullable(item=Usd()), "dollars at which the guard lets the job save and ends the nodes"
    )


@record
class Guardrails:
    """The guardrails that limit spending in the account."""

    ttl_h: float | None = setting(
        None, Nullable(item=Number(above=0)), "hours after a deployment until the guard stops the cluster"
    )
    idle_minutes: float | None = setting(None, Auto(item=Number(minimum=0)), "idle minutes until nodes stop; 0: never")
    hung_minutes: float = setting(30, Number(minimum=0), "minutes without progress until a job is stopped; 0: never")
    notify: tuple[str, ...] = setting(
        (),
        Many(item=Text(pattern=r"[^@\s]+@[^@\s]+|arn:.+|https://.+", form="an email address, an ARN or an https URL")),
        "email addresses, ARNs and https URLs that get notifications",
    )


@record
class PlanRequest:
    """A complete plan file."""

    slipway: int = setting(MISSING, Integer(minimum=1, maximum=1), "version of the format: 1")
    name: str = setting(MISSING, NAME, "name of the plan")
    workload: Workload = setting(
        Workload, Section(of=Workload), "a training job or a serving load; neither: a cluster only"
    )
    target: TargetRequest = setting(TargetRequest, Section(of=TargetRequest), "where the job runs")
    network: NetworkRequest = setting(
        NetworkRequest, Section(of=NetworkRequest), "a new network, a shared one, or your own VPC"
    )
    storage: StorageRequest = setting(
        StorageRequest, Section(of=StorageRequest), "file systems, head node, login nodes"
    )
    security: SecurityRequest = setting(SecurityRequest, Section(of=SecurityRequest), "roles, permissions and logs")
    purchase: PurchaseRequest = setting(PurchaseRequest, Section(of=PurchaseRequest), "how compute is paid for")
    checkpoint: CheckpointPolicy = setting(CheckpointPolicy, Section(of=CheckpointPolicy), "how progress is stored")
    budget: Budget = setting(Budget, Section(of=Budget), "spending limits")
    guardrails: Guardrails = setting(Guardrails, Section(of=Guardrails), "automatic stops and notifications")
    run: RunSpec = setting(RunSpec, Section(of=RunSpec), "the command and what it needs")
    tags: Mapping[str, str] = setting(
        dict,
        Table(
            item=TAG_VALUE,
            keys=TAG_KEY,
            form="a tag key without the prefixes aws:, slipway: and parallelcluster:",
            max_entries=MAX_TAGS,
        ),
        "tags of every resource, in addition to Slipway's own",
    )
